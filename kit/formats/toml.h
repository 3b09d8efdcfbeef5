/*
 * toml.h: reads TOML files with the position of every item, and edits them so
 * that all other bytes stay as they are: comments, blanks, order, line ends.
 *
 * An edit never changes a document in place: it makes the new text and parses it
 * again, so the result of editing valid TOML is valid TOML. Items found before
 * an edit are invalid after it. Source: TOML 1.0.0, and from 1.1 line ends and a
 * trailing comma in inline tables, \e and \x.
 */
#ifndef AF_KIT_FORMATS_TOML_H
#define AF_KIT_FORMATS_TOML_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/* Files that exceed these fail with LIMIT. */
#define AF_TOML_BYTES_MAX (16u << 20)
#define AF_TOML_ITEMS_MAX 400000u
#define AF_TOML_KEYS_MAX 2048u /* per table */
#define AF_TOML_DEPTH_MAX 32u  /* nesting of arrays and inline tables */
#define AF_TOML_PARTS_MAX 16u  /* parts of a dotted key */

enum af_toml_kind {
    AF_TOML_TABLE,  /* made by a [header], or passed through by a header or dotted key */
    AF_TOML_TABLES, /* of [[headers]]; its children are tables without a key */
    AF_TOML_INLINE, /* {...} */
    AF_TOML_ARRAY,
    AF_TOML_STRING,
    AF_TOML_INTEGER,
    AF_TOML_FLOAT,
    AF_TOML_BOOL,
    AF_TOML_TIME /* date, time, or both */
};

/* How a table was made. */
enum af_toml_origin {
    AF_TOML_VALUE,   /* no table, or an inline one */
    AF_TOML_HEADER,  /* its own header; the root, too */
    AF_TOML_IMPLIED, /* only part of a longer header */
    AF_TOML_DOTTED   /* part of a dotted key */
};

/* One value or table. Offsets count bytes from the start of the text. */
struct af_toml_item {
    enum af_toml_kind kind;
    enum af_toml_origin origin;
    const char *key;  /* decoded; NULL for the root and array elements */
    const char *text; /* decoded characters of a string; else NULL */
    struct af_toml_item *parent;
    struct af_toml_item *first; /* children, in the order of the text */
    struct af_toml_item *last;
    struct af_toml_item *next;
    size_t child_count;
    struct af_toml_item *holder; /* array or inline table that contains it */
    size_t key_start; /* start of a value's whole dotted key, or of a header's line */
    size_t start;     /* of the value; for a header after its line */
    size_t end;       /* for a header: end of its own lines */
};

struct af_toml {
    struct af_arena *arena; /* caller's; owns all texts and items */
    const char *name;       /* for errors */
    struct af_span text;    /* followed by a NUL */
    struct af_toml_item *root;
};

/*
 * Parses a copy of `text`. Fails with DATA, naming line and column, when it is
 * not TOML (including a NUL in a string), or LIMIT. `name`, scrubbed,
 * must live as long as the document.
 */
enum anyflash_status af_toml_parse(struct af_toml *toml_out, struct af_arena *arena,
                                   struct af_span text, const char *name,
                                   struct anyflash_error *err);

/* A path from the root: AF_TOML_PATH("tool", "uv"). */
struct af_toml_path {
    const char *const *keys;
    size_t count;
};
#define AF_TOML_PATH(...)                                                                      \
    ((struct af_toml_path){(const char *const[]){__VA_ARGS__},                                 \
                           AF_COUNT(((const char *const[]){__VA_ARGS__}))})

/* The value or table, or NULL. A path through an array of tables uses its last table. */
struct af_toml_item *af_toml_find(const struct af_toml *toml, struct af_toml_path path);

/* The child of a table or inline table, or NULL. `table` may be NULL. */
struct af_toml_item *af_toml_get(const struct af_toml_item *table, const char *key);

/*
 * The characters of the string at that path; NULL if it does not exist or is not
 * a string.
 */
const char *af_toml_text(const struct af_toml *toml, struct af_toml_path path);

/* `text` as a TOML string with its quotes. */
const char *af_toml_quote(struct af_arena *arena, const char *text);

/*
 * The edits. Values are TOML text; their line ends ('\n') are converted to those
 * of the file. Each fails with DATA when the path is used by something of
 * another kind, or INTERNAL when a value is not TOML; on failure the
 * document is unchanged.
 */

/* Replaces a value with `value`. */
enum anyflash_status af_toml_replace(struct af_toml *toml, const struct af_toml_item *item,
                                     const char *value, struct anyflash_error *err);

/* Replaces the value at `path`, or inserts it, and its table if that is missing. */
enum anyflash_status af_toml_set(struct af_toml *toml, struct af_toml_path path,
                                 const char *value, struct anyflash_error *err);

/* As af_toml_set() for one key of an existing table, which may be in an array. */
enum anyflash_status af_toml_set_in(struct af_toml *toml, const struct af_toml_item *table,
                                    const char *key, const char *value,
                                    struct anyflash_error *err);

/* Appends to the array at `path` in the array's own layout; creates it if missing. */
enum anyflash_status af_toml_append(struct af_toml *toml, struct af_toml_path path,
                                    const char *value, struct anyflash_error *err);

/*
 * Appends [[path]] with `lines` ("name = ...\n..."), or an equivalent inline
 * table if the array is written as a value.
 */
enum anyflash_status af_toml_append_table(struct af_toml *toml, struct af_toml_path path,
                                          const char *const *keys, const char *const *values,
                                          size_t count, struct anyflash_error *err);

/*
 * Removes a value with its key and trailing comment, an array element with its
 * comma, or a header with its own lines (DATA for a table in an array of tables
 * that has further headers below it).
 */
enum anyflash_status af_toml_remove(struct af_toml *toml, const struct af_toml_item *item,
                                    struct anyflash_error *err);

/*
 * New text, in the arena (toml_write.c). Private to toml*.c.
 */

/* The key as TOML text: bare if possible, else quoted. */
const char *af_toml_key_text(struct af_arena *arena, const char *key);

/* Joins keys to "a.b.c"; "" for none. */
const char *af_toml_dotted(struct af_arena *arena, const char *const *keys, size_t count);

/* Joins values to "{ a = 1, b = 2 }" or "a = 1\nb = 2\n". */
const char *af_toml_joined(struct af_arena *arena, const char *const *keys,
                           const char *const *values, size_t count, bool is_inline);

/* ---- The tokens: blanks, comments, strings, keys, scalars. Private to toml*.c. ---- */

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
