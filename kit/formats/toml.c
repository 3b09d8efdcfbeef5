/*
 * toml.c: parses the structure of a document: lines, headers, dotted keys and
 * nested values, each with its position. Tokens are read in toml_scan.c; edits
 * are in toml_edit.c.
 */
#include "kit/formats/toml.h"

#include <string.h>

#include "kit/base/text.h"

struct parser {
    struct af_toml_scan scan;
    struct af_toml_item *root;
    struct af_toml_item *section; /* table whose lines are being read */
    size_t item_count;
    size_t depth;
};

static struct af_toml_item *too_much(struct parser *parser, const char *what)
{
    if (parser->scan.status == ANYFLASH_OK)
        parser->scan.status =
            af_fail(parser->scan.err, ANYFLASH_E_LIMIT, "%s: %s", parser->scan.name, what);
    return NULL;
}

/* Appends a child; `key` is NULL in arrays. NULL when the parser has failed. */
static struct af_toml_item *add_child(struct parser *parser, struct af_toml_item *parent,
                                      const char *key)
{
    if (parser->item_count++ == AF_TOML_ITEMS_MAX)
        return too_much(parser, "too many values");
    if (key != NULL && parent->child_count == AF_TOML_KEYS_MAX)
        return too_much(parser, "too many keys in one table");
    struct af_toml_item *item = af_arena_alloc(parser->scan.arena, sizeof *item);
    item->key = key;
    item->parent = parent;
    if (parent->last != NULL)
        parent->last->next = item;
    else
        parent->first = item;
    parent->last = item;
    parent->child_count++;
    return item;
}

static struct af_toml_item *add_table(struct parser *parser, struct af_toml_item *parent,
                                      const char *key, enum af_toml_origin origin)
{
    struct af_toml_item *table = add_child(parser, parent, key);
    if (table == NULL)
        return NULL;
    table->kind = AF_TOML_TABLE;
    table->origin = origin;
    table->key_start = table->start = table->end = parser->scan.at;
    return table;
}

/* Makes the item of "a.b.c" below `table`, and missing tables on its path. */
static struct af_toml_item *place_key(struct parser *parser, struct af_toml_item *table,
                                      const char *const *parts, size_t count)
{
    struct af_toml_item *holder =
        table->kind == AF_TOML_INLINE || table->kind == AF_TOML_ARRAY ? table : NULL;
    for (size_t i = 0; i + 1 < count; i++) {
        struct af_toml_item *next = af_toml_get(table, parts[i]);
        if (next == NULL)
            next = add_table(parser, table, parts[i], AF_TOML_DOTTED);
        else if (next->origin != AF_TOML_DOTTED)
            af_toml_scan_fail(&parser->scan, "part of the key is already defined elsewhere");
        if (parser->scan.status != ANYFLASH_OK)
            return NULL;
        next->holder = holder;
        table = next;
    }
    if (af_toml_get(table, parts[count - 1]) != NULL) {
        af_toml_scan_fail(&parser->scan, "duplicate key");
        return NULL;
    }
    struct af_toml_item *item = add_child(parser, table, parts[count - 1]);
    if (item != NULL)
        item->holder = holder;
    return item;
}

/* Reads a scalar, or the opening bracket of an array or inline table. */
static bool begin_value(struct parser *parser, struct af_toml_item *item)
{
    struct af_toml_scan *scan = &parser->scan;
    item->start = scan->at;
    char first = af_toml_peek(scan);
    bool good = true;
    if (first == '[' || first == '{') {
        item->kind = first == '[' ? AF_TOML_ARRAY : AF_TOML_INLINE;
        scan->at++;
        if (parser->depth++ == AF_TOML_DEPTH_MAX)
            return too_much(parser, "values within values are too deep") != NULL;
    } else if (first == '"' || first == '\'') {
        item->kind = AF_TOML_STRING;
        good = af_toml_string(scan, &item->text);
    } else {
        good = af_toml_scalar(scan, &item->kind);
    }
    item->end = scan->at;
    return good;
}

/* Reads "key =" of a line or in an inline table. */
static struct af_toml_item *read_key(struct parser *parser, struct af_toml_item *table)
{
    const char *parts[AF_TOML_PARTS_MAX];
    size_t count = 0;
    struct af_toml_scan *scan = &parser->scan;
    size_t start = scan->at;
    if (!af_toml_key(scan, parts, &count))
        return NULL;
    struct af_toml_item *item = place_key(parser, table, parts, count);
    if (item == NULL)
        return NULL;
    item->key_start = start;
    if (!af_toml_take(scan, '=')) {
        af_toml_scan_fail(scan, "'=' is missing");
        return NULL;
    }
    af_toml_space(scan);
    return item;
}

/* Whether the open array or inline table ends here; if so, closes it. */
static bool take_close(struct parser *parser, struct af_toml_item *open)
{
    if (!af_toml_take(&parser->scan, open->kind == AF_TOML_ARRAY ? ']' : '}'))
        return false;
    open->end = parser->scan.at;
    parser->depth--;
    return true;
}

/* Starts the next child of `open`, whose value is still to be read; NULL on failure. */
static struct af_toml_item *begin_child(struct parser *parser, struct af_toml_item *open)
{
    if (open->kind == AF_TOML_INLINE)
        return read_key(parser, open);
    struct af_toml_item *item = add_child(parser, open, NULL);
    if (item == NULL)
        return NULL;
    item->holder = open;
    item->key_start = parser->scan.at;
    return item;
}

/*
 * Reads the value of `item` and everything in it. `at` is the value that begins,
 * `open` the innermost open bracket.
 */
static bool read_value(struct parser *parser, struct af_toml_item *item)
{
    struct af_toml_item *open = NULL;
    struct af_toml_item *at = item;
    while (begin_value(parser, at)) {
        bool is_fresh = at->kind == AF_TOML_ARRAY || at->kind == AF_TOML_INLINE;
        open = is_fresh ? at : open;
        while (open != NULL) {
            af_toml_blank(&parser->scan);
            bool has_comma = !is_fresh && af_toml_take(&parser->scan, ',');
            af_toml_blank(&parser->scan);
            if (!take_close(parser, open)) {
                if (!is_fresh && !has_comma)
                    return af_toml_scan_fail(&parser->scan,
                                             "expected ',' or a closing bracket");
                break;
            }
            open = open == item ? NULL : open->holder;
            is_fresh = false;
        }
        if (open == NULL)
            return true;
        at = begin_child(parser, open);
        if (at == NULL)
            return false;
    }
    return false;
}

/* One step along a header's path: the child table `key`, made if missing. */
static struct af_toml_item *step(struct parser *parser, struct af_toml_item *table,
                                 const char *key)
{
    struct af_toml_item *next = af_toml_get(table, key);
    if (next == NULL)
        return add_table(parser, table, key, AF_TOML_IMPLIED);
    if (next->kind == AF_TOML_TABLES)
        return next->last;
    if (next->kind == AF_TOML_TABLE)
        return next;
    af_toml_scan_fail(&parser->scan, "part of the table name is already defined as a value");
    return NULL;
}

/* Opens the table of "[a.b]". */
static struct af_toml_item *open_table(struct parser *parser, struct af_toml_item *parent,
                                       const char *key)
{
    struct af_toml_item *table = af_toml_get(parent, key);
    if (table == NULL)
        return add_table(parser, parent, key, AF_TOML_HEADER);
    if (table->kind == AF_TOML_TABLE && table->origin == AF_TOML_IMPLIED) {
        table->origin = AF_TOML_HEADER;
        return table;
    }
    af_toml_scan_fail(&parser->scan, "duplicate table");
    return NULL;
}

/* Adds the table of "[[a.b]]". */
static struct af_toml_item *add_element(struct parser *parser, struct af_toml_item *parent,
                                        const char *key)
{
    struct af_toml_item *list = af_toml_get(parent, key);
    if (list == NULL) {
        list = add_table(parser, parent, key, AF_TOML_IMPLIED);
        if (list == NULL)
            return NULL;
        list->kind = AF_TOML_TABLES;
    } else if (list->kind != AF_TOML_TABLES) {
        af_toml_scan_fail(&parser->scan, "duplicate key");
        return NULL;
    }
    return add_table(parser, list, NULL, AF_TOML_HEADER);
}

/* Reads a line "[a.b]" or "[[a.b]]". */
static bool read_header(struct parser *parser)
{
    const char *parts[AF_TOML_PARTS_MAX];
    size_t count = 0;
    struct af_toml_scan *scan = &parser->scan;
    size_t start = scan->at++;
    bool is_list = af_toml_take(scan, '[');
    if (!af_toml_key(scan, parts, &count))
        return false;
    struct af_toml_item *table = parser->root;
    for (size_t i = 0; table != NULL && i + 1 < count; i++)
        table = step(parser, table, parts[i]);
    if (table != NULL)
        table = is_list ? add_element(parser, table, parts[count - 1])
                        : open_table(parser, table, parts[count - 1]);
    if (table == NULL)
        return false;
    if (!af_toml_take(scan, ']') || (is_list && !af_toml_take(scan, ']')))
        return af_toml_scan_fail(scan, "']' is missing");
    if (!af_toml_line_end(scan))
        return false;
    parser->section = table;
    table->key_start = start;
    table->start = table->end = scan->at;
    return true;
}

static bool read_line(struct parser *parser)
{
    struct af_toml_scan *scan = &parser->scan;
    af_toml_blank(scan);
    if (scan->at == scan->len)
        return true;
    if (af_toml_peek(scan) == '[')
        return read_header(parser);
    struct af_toml_item *item = read_key(parser, parser->section);
    if (item == NULL || !read_value(parser, item) || !af_toml_line_end(scan))
        return false;
    parser->section->end = scan->at;
    return true;
}

enum anyflash_status af_toml_parse(struct af_toml *toml_out, struct af_arena *arena,
                                   struct af_span text, const char *name,
                                   struct anyflash_error *err)
{
    if (text.len > AF_TOML_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "%s: larger than %u MiB", name,
                       AF_TOML_BYTES_MAX >> 20);
    if (!af_text_is_utf8(text.data, text.len))
        return af_fail(err, ANYFLASH_E_DATA, "%s: not valid UTF-8", name);
    char *copy = af_arena_text_n(arena, text.len > 0 ? text.data : "", text.len);
    struct parser parser = {.scan = {arena, name, copy, text.len, 0, err, ANYFLASH_OK}};
    parser.root = af_arena_alloc(arena, sizeof *parser.root);
    if (af_starts_with(copy, "\xEF\xBB\xBF"))
        parser.scan.at = 3;
    *parser.root = (struct af_toml_item){.origin = AF_TOML_HEADER,
                                         .key_start = parser.scan.at,
                                         .start = parser.scan.at,
                                         .end = parser.scan.at};
    parser.section = parser.root;
    while (parser.scan.at < parser.scan.len && read_line(&parser))
        ;
    if (parser.scan.status != ANYFLASH_OK)
        return parser.scan.status;
    *toml_out = (struct af_toml){arena, name, {copy, text.len}, parser.root};
    return ANYFLASH_OK;
}

struct af_toml_item *af_toml_get(const struct af_toml_item *table, const char *key)
{
    if (table == NULL || (table->kind != AF_TOML_TABLE && table->kind != AF_TOML_INLINE))
        return NULL;
    struct af_toml_item *child = table->first;
    while (child != NULL && strcmp(child->key, key) != 0)
        child = child->next;
    return child;
}

struct af_toml_item *af_toml_find(const struct af_toml *toml, struct af_toml_path path)
{
    struct af_toml_item *item = toml->root;
    for (size_t i = 0; item != NULL && i < path.count; i++)
        item = af_toml_get(item->kind == AF_TOML_TABLES ? item->last : item, path.keys[i]);
    return item;
}

const char *af_toml_text(const struct af_toml *toml, struct af_toml_path path)
{
    const struct af_toml_item *item = af_toml_find(toml, path);
    return item != NULL ? item->text : NULL;
}
