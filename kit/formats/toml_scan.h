/*
 * toml_scan.h: the tokens of TOML: blanks, comments, strings, keys, scalars.
 * Private to toml*.c.
 */
#ifndef AF_KIT_FORMATS_TOML_SCAN_H
#define AF_KIT_FORMATS_TOML_SCAN_H

#include "kit/formats/toml.h"

/* Position of a reader. All functions return false after a failure. */
struct af_toml_scan {
    struct af_arena *arena;
    const char *name;
    const char *data; /* followed by a NUL */
    size_t len;
    size_t at;
    struct anyflash_error *err;
    enum anyflash_status status;
};

/* Fails at the current position; always returns false. */
bool af_toml_scan_fail(struct af_toml_scan *scan, const char *what);

/* The byte here, or 0 at the end. */
char af_toml_peek(const struct af_toml_scan *scan);

/* Skips `byte` if it is next; returns whether it was. */
bool af_toml_take(struct af_toml_scan *scan, char byte);

/* Skips spaces and tabs. */
void af_toml_space(struct af_toml_scan *scan);

/* Skips spaces, line ends and comments. */
bool af_toml_blank(struct af_toml_scan *scan);

/* Skips spaces, a comment and the line end, or the end of the text. */
bool af_toml_line_end(struct af_toml_scan *scan);

/* Reads a dotted key of at most AF_TOML_PARTS_MAX parts. */
bool af_toml_key(struct af_toml_scan *scan, const char **parts, size_t *count_out);

/* Reads a string of any of the four kinds; its characters are in the arena. */
bool af_toml_string(struct af_toml_scan *scan, const char **text_out);

/* Reads a number, boolean, date or time. */
bool af_toml_scalar(struct af_toml_scan *scan, enum af_toml_kind *kind_out);

#endif
