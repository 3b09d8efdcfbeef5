/*
 * stored_json.h: facts as JSON and back: what binary_json.c, fatbin_json.c and
 * flash_json.c share. What is read back may have been damaged or written by
 * somebody else, so it is checked as a file would be. Private to this module.
 */
#ifndef AF_KIT_FORMATS_STORED_JSON_H
#define AF_KIT_FORMATS_STORED_JSON_H

#include "kit/base/json.h"

#define AF_STORED_JSON_TEXT_MAX 65535u

/* Reading. `bad` is sticky: something was not what we write. */
struct af_stored_json {
    struct af_arena *arena;
    bool bad;
};

/* Takes the item over; the list becomes NULL without memory. */
void af_stored_json_append(json_t **list, json_t *item);

/* The text, or null for NULL. */
json_t *af_stored_json_text(const char *text);

/* A copy that can be printed; names of symbols stay as they are. NULL for NULL. */
const char *af_stored_json_copy(struct af_arena *arena, const char *text);

/* As af_stored_json_copy(); NULL for null, which is bad unless `may_be_null`. */
const char *af_stored_json_take_text(struct af_stored_json *kept, const json_t *value,
                                     bool may_be_null);
bool af_stored_json_bool(struct af_stored_json *kept, const json_t *value);

/* A number within [min, max]; `min` for what is none. */
int64_t af_stored_json_number(struct af_stored_json *kept, const json_t *value, int64_t min,
                              int64_t max);

/* The list `name`, and zeroed room for its rows; NULL and no rows when it is bad. */
void *af_stored_json_rows(struct af_stored_json *kept, const json_t *json, const char *name,
                          size_t row_bytes, const json_t **list_out, size_t *count_out);

#endif
