/*
 * json.h: jansson with our limits: bounded size and depth, allocation through
 * mem.h, errors that name the file and the position.
 */
#ifndef AF_KIT_BASE_JSON_H
#define AF_KIT_BASE_JSON_H

#include <jansson.h>

#include "engine/base/base.h"
#include "engine/base/mem.h"

/*
 * Lets jansson allocate through mem.h. Once, before the first other call of
 * this header; not thread-safe.
 */
void af_json_start(void);

/*
 * Parses `bytes` (UTF-8, at most `max_bytes`, duplicate keys refused) as one
 * JSON object or array. `name` is what errors call it, as "name:line:column".
 * Fails with LIMIT, DATA or NO_MEMORY. The caller owns *json_out (json_decref).
 */
enum anyflash_status af_json_parse(struct af_span bytes, size_t max_bytes, const char *name,
                                   json_t **json_out, struct anyflash_error *err);

#endif
