/*
 * toml_scan.h: the tokens of TOML: blanks, comments, strings, keys, scalars.
 * Private to toml*.c.
 */
#ifndef AF_KIT_FORMATS_TOML_SCAN_H
#define AF_KIT_FORMATS_TOML_SCAN_H

#include "kit/formats/toml.h"

/* Where a reader stands. All functions give false once it has failed. */
struct af_toml_scan {
    struct af_arena *arena;
    const char *name;
    const char *data; /* NUL behind the last byte */
    size_t len;
    size_t at;
    struct anyflash_error *err;
    enum anyflash_status status;
};

/* Fails at the present place; always false. */
bool af_toml_scan_fail(struct af_toml_scan *scan, const char *what);

/* The byte here, or 0 at the end. */
char af_toml_peek(const struct af_toml_scan *scan);

/* Passes over `byte` if it is here. */
bool af_toml_take(struct af_toml_scan *scan, char byte);

/* Passes over spaces and tabs. */
void af_toml_space(struct af_toml_scan *scan);

/* Passes over spaces, line ends and comments. */
bool af_toml_blank(struct af_toml_scan *scan);

/* Passes over spaces, a comment and the line's end, or the end of the text. */
bool af_toml_line_end(struct af_toml_scan *scan);

/* A dotted key: at most AF_TOML_PARTS_MAX parts. */
bool af_toml_key(struct af_toml_scan *scan, const char **parts, size_t *count_out);

/* A string of any of the four kinds; its characters in the arena. */
bool af_toml_string(struct af_toml_scan *scan, const char **text_out);

/* A number, truth or time. */
bool af_toml_scalar(struct af_toml_scan *scan, enum af_toml_kind *kind_out);

#endif
