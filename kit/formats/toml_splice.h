/*
 * toml_splice.h: places in the text of a TOML document, and replacing ranges of
 * it. Private to toml_*.c.
 */
#ifndef AF_KIT_FORMATS_TOML_SPLICE_H
#define AF_KIT_FORMATS_TOML_SPLICE_H

#include "kit/formats/toml.h"

/* `text` in place of the bytes from `at` to `end`. */
struct af_splice {
    size_t at;
    size_t end;
    const char *text;
};

/* The splices, in order and apart, make the new document, which must be TOML again. */
enum anyflash_status af_splice_apply(struct af_toml *toml, const struct af_splice *splices,
                                     size_t count, struct anyflash_error *err);

/* One of them. A NULL text is lack of memory. */
enum anyflash_status af_splice(struct af_toml *toml, size_t at, size_t end, const char *text,
                               struct anyflash_error *err);

/* A key as it is written: bare where it may be. NULL when memory fails. */
const char *af_toml_key_text(struct af_arena *arena, const char *key);

/* "a.b.c"; "" of none. NULL when memory fails. */
const char *af_toml_dotted(struct af_arena *arena, const char *const *keys, size_t count);

/* Fails with DATA: what is at `path` has a form that an edit cannot keep. */
enum anyflash_status af_toml_taken(const struct af_toml *toml, struct af_toml_path path,
                                   struct anyflash_error *err);

/* The byte there, 0 behind the end. */
char af_toml_byte(const struct af_toml *toml, size_t at);

/* From a place where no string is open: behind the line's end, before it, its start. */
size_t af_toml_line_after(const struct af_toml *toml, size_t at);
size_t af_toml_line_stop(const struct af_toml *toml, size_t at);
size_t af_toml_line_start(const struct af_toml *toml, size_t at);

size_t af_toml_skip_space(const struct af_toml *toml, size_t at);
bool af_toml_is_line_end(const struct af_toml *toml, size_t at);

/* From behind a value: the next ',' or bracket, past blanks and comments. */
size_t af_toml_separator(const struct af_toml *toml, size_t at);

#endif
