/*
 * toml.h: TOML files, read with the place of every byte, and edited so that
 * every byte that was not meant stays as it is: comments, blanks, order, line
 * ends.
 *
 * A document is never changed in place: an edit makes the new text and reads
 * it again, so that what comes out is TOML whenever what went in was. Items
 * found before an edit are void after it. Source: TOML 1.0.0, and of 1.1 the
 * line ends and the last comma within inline tables, \e and \x.
 */
#ifndef AF_KIT_FORMATS_TOML_H
#define AF_KIT_FORMATS_TOML_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/* Beyond these reading fails with LIMIT. */
#define AF_TOML_BYTES_MAX (16u << 20)
#define AF_TOML_ITEMS_MAX 400000u
#define AF_TOML_KEYS_MAX 2048u /* in one table */
#define AF_TOML_DEPTH_MAX 32u  /* arrays and inline tables within each other */
#define AF_TOML_PARTS_MAX 16u  /* of a dotted key */

enum af_toml_kind {
    AF_TOML_TABLE,  /* of a [header], or that a header or dotted key goes through */
    AF_TOML_TABLES, /* of [[headers]]; its children are tables without a key */
    AF_TOML_INLINE, /* {...} */
    AF_TOML_ARRAY,
    AF_TOML_STRING,
    AF_TOML_INTEGER,
    AF_TOML_FLOAT,
    AF_TOML_BOOL,
    AF_TOML_TIME /* date, time, or both */
};

/* How a table came to be. */
enum af_toml_origin {
    AF_TOML_VALUE,   /* no table, or an inline one */
    AF_TOML_HEADER,  /* by its own header; the root too */
    AF_TOML_IMPLIED, /* only as part of a longer header */
    AF_TOML_DOTTED   /* as part of a dotted key */
};

/* One value or table. Offsets count bytes from the start of the text. */
struct af_toml_item {
    enum af_toml_kind kind;
    enum af_toml_origin origin;
    const char *key;  /* decoded; NULL for the root and what stands in an array */
    const char *text; /* of a string: its characters; else NULL */
    struct af_toml_item *parent;
    struct af_toml_item *first; /* children, in the order of the text */
    struct af_toml_item *last;
    struct af_toml_item *next;
    size_t child_count;
    struct af_toml_item *holder; /* array or inline table whose bytes it stands in */
    size_t key_start;            /* of the whole dotted key of a value; of a header's line */
    size_t start;                /* bytes of the value; a header's after its line */
    size_t end;                  /* a header's: after its last own line */
};

struct af_toml {
    struct af_arena *arena; /* the caller's; all texts and items live there */
    const char *name;       /* for errors */
    struct af_span text;    /* NUL behind it */
    struct af_toml_item *root;
};

/*
 * Reads `text`, which is copied. Fails with DATA, naming line and column, for
 * what is not TOML (a NUL within a string is not read either), LIMIT or
 * NO_MEMORY. `name`, scrubbed, must live as long as the document.
 */
enum anyflash_status af_toml_parse(struct af_toml *toml_out, struct af_arena *arena,
                                   struct af_span text, const char *name,
                                   struct anyflash_error *err);

/* A way from the root: AF_TOML_PATH("tool", "uv"). */
struct af_toml_path {
    const char *const *keys;
    size_t count;
};
#define AF_TOML_PATH(...)                                                                      \
    ((struct af_toml_path){(const char *const[]){__VA_ARGS__},                                 \
                           AF_COUNT(((const char *const[]){__VA_ARGS__}))})

/* The value or table, or NULL. Of arrays of tables only the last is gone through. */
struct af_toml_item *af_toml_find(const struct af_toml *toml, struct af_toml_path path);

/* The child of a table or inline table, or NULL. `table` may be NULL. */
struct af_toml_item *af_toml_get(const struct af_toml_item *table, const char *key);

/* The characters of the string there, or NULL: not there, or no string. */
const char *af_toml_text(const struct af_toml *toml, struct af_toml_path path);

/* `text` as a TOML string with its quotes, in `arena`; NULL when memory fails. */
const char *af_toml_quote(struct af_arena *arena, const char *text);

/*
 * The edits. Values are TOML text; line ends within them ('\n') become those
 * of the file. Each fails with DATA when the place is taken by something of
 * another kind, NO_MEMORY, or INTERNAL when a value is no TOML; the document
 * then is as it was.
 */

/* Puts `value` in place of a value. */
enum anyflash_status af_toml_replace(struct af_toml *toml, const struct af_toml_item *item,
                                     const char *value, struct anyflash_error *err);

/* Replaces the value at `path`, or inserts it, with its table where that is missing. */
enum anyflash_status af_toml_set(struct af_toml *toml, struct af_toml_path path,
                                 const char *value, struct anyflash_error *err);

/* As af_toml_set() for one key of a table that is there, also one in an array. */
enum anyflash_status af_toml_set_in(struct af_toml *toml, const struct af_toml_item *table,
                                    const char *key, const char *value,
                                    struct anyflash_error *err);

/* Appends to the array at `path`, in its own layout, or makes it. */
enum anyflash_status af_toml_append(struct af_toml *toml, struct af_toml_path path,
                                    const char *value, struct anyflash_error *err);

/*
 * Appends [[path]] with `lines` ("name = ...\n..."), or the same as an inline
 * table where the array is written as a value.
 */
enum anyflash_status af_toml_append_table(struct af_toml *toml, struct af_toml_path path,
                                          const char *const *keys, const char *const *values,
                                          size_t count, struct anyflash_error *err);

/*
 * Takes out a value with its key and the comment behind it, an array's element
 * with its comma, or a header with its own lines (DATA for a table of a list
 * that has further headers below it).
 */
enum anyflash_status af_toml_remove(struct af_toml *toml, const struct af_toml_item *item,
                                    struct anyflash_error *err);

#endif
