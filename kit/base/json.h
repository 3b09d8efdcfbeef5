/*
 * json.h: jansson with our limits: bounded size and depth, allocation through
 * memory.h, errors that name the file and the position.
 */
#ifndef AF_KIT_BASE_JSON_H
#define AF_KIT_BASE_JSON_H

#include <jansson.h>

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"

/*
 * Makes jansson allocate through memory.h. Call it once, before any other function
 * of this header. Not thread-safe.
 */
void af_json_start(void);

/*
 * Parses `bytes` (UTF-8, at most `max_bytes`, duplicate keys refused) as one
 * JSON object or array. Error messages name it "name:line:column". Fails with
 * LIMIT or DATA. The caller owns *json_out (json_decref).
 */
enum anyflash_status af_json_parse(struct af_span bytes, size_t max_bytes, const char *name,
                                   json_t **json_out, struct anyflash_error *err);

/*
 * Takes ownership of both and returns the list with the item appended; NULL if
 * either is NULL: jansson makes no string of text that is not UTF-8.
 */
json_t *af_json_append(json_t *list, json_t *item);

/* New values: a string or null; a number, or null if negative; "yes", "no" or "unknown". */
json_t *af_json_text(const char *text);
json_t *af_json_count(int64_t number);
json_t *af_json_answer(enum af_answer answer);

/* A new array of strings. */
json_t *af_json_texts(const char *const *texts, size_t count);

/*
 * Appends `json` and a newline to `out` in the format of every command's output:
 * one member per line, in insertion order. Takes ownership of `json`; fails with
 * INTERNAL if it is NULL.
 */
enum anyflash_status af_json_write_take(json_t *json, struct af_text *out,
                                        struct anyflash_error *err);

#endif
