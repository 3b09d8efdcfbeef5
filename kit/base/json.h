/*
 * json.h: jansson with our limits: bounded size and depth, allocation through
 * mem.h, errors that name the file and the position.
 */
#ifndef AF_KIT_BASE_JSON_H
#define AF_KIT_BASE_JSON_H

#include <jansson.h>

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/base/text.h"

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

/*
 * Takes over both and returns the list with the item at its end; NULL when
 * either is NULL or memory runs out, so that a loop fails as a whole.
 */
json_t *af_json_append(json_t *list, json_t *item);

/* New values: a text or null; a number, null if it is negative; "yes", "no" or "unknown". */
json_t *af_json_text(const char *text);
json_t *af_json_count(int64_t number);
json_t *af_json_answer(enum af_answer answer);

/* A new array of texts; NULL when memory runs out. */
json_t *af_json_texts(const char *const *texts, size_t count);

/*
 * Appends `json` and a newline to `out`, as every command prints it: one member
 * per line, in the order in which members were added. Takes over `json`; NULL
 * fails with NO_MEMORY.
 */
enum anyflash_status af_json_write_take(json_t *json, struct af_text *out,
                                        struct anyflash_error *err);

#endif
