/*
 * toml_edit.c: edits a TOML document by replacing byte ranges. After each edit
 * the text is parsed again, which ensures that it is still TOML. New text is made in
 * toml_write.c.
 */
#include "kit/formats/toml.h"

#include <string.h>

#include "kit/base/text.h"

/* Replaces the bytes from `at` to `end` with `text`. */
struct splice {
    size_t at;
    size_t end;
    const char *text;
};

static bool is_crlf(const struct af_toml *toml)
{
    const char *end = memchr(toml->text.data, '\n', toml->text.len);
    return end != NULL && end > toml->text.data && end[-1] == '\r';
}

static void add_lines(struct af_text *out, const char *text, bool crlf)
{
    for (const char *at = text; *at != '\0'; at++)
        af_text_add_n(out, crlf && *at == '\n' ? "\r\n" : at, crlf && *at == '\n' ? 2 : 1);
}

/* Makes the new document from the splices, which must be sorted and disjoint. */
static enum anyflash_status apply(struct af_toml *toml, const struct splice *splices,
                                  size_t count, struct anyflash_error *err)
{
    struct af_text out = {0};
    struct af_toml made;
    bool crlf = is_crlf(toml);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        af_text_add_n(&out, toml->text.data + at, splices[i].at - at);
        add_lines(&out, splices[i].text, crlf);
        at = splices[i].end;
    }
    af_text_add_n(&out, toml->text.data + at, toml->text.len - at);
    struct af_span text = {af_text_get(&out), out.len};
    enum anyflash_status status = af_toml_parse(&made, toml->arena, text, toml->name, err);
    af_text_release(&out);
    if (status == ANYFLASH_E_DATA)
        return af_fail(err, ANYFLASH_E_INTERNAL,
                       "%s: not changed, because the edit would have made it invalid",
                       toml->name);
    if (status == ANYFLASH_OK)
        *toml = made;
    return status;
}

static enum anyflash_status splice(struct af_toml *toml, size_t at, size_t end,
                                   const char *text, struct anyflash_error *err)
{
    return apply(toml, &(struct splice){at, end, text}, 1, err);
}

static char byte_at(const struct af_toml *toml, size_t at)
{
    return at < toml->text.len ? toml->text.data[at] : '\0';
}

/* The position after the end of the line or text; `at` must not be inside a string. */
static size_t line_after(const struct af_toml *toml, size_t at)
{
    while (at < toml->text.len && toml->text.data[at] != '\n')
        at++;
    return at < toml->text.len ? at + 1 : at;
}

/* The position before the '\n' or "\r\n" of the line. */
static size_t line_stop(const struct af_toml *toml, size_t at)
{
    size_t end = line_after(toml, at);
    if (end > at && toml->text.data[end - 1] == '\n')
        end--;
    return end > at && toml->text.data[end - 1] == '\r' ? end - 1 : end;
}

static size_t line_start(const struct af_toml *toml, size_t at)
{
    while (at > 0 && toml->text.data[at - 1] != '\n')
        at--;
    return at;
}

static size_t skip_space(const struct af_toml *toml, size_t at)
{
    while (byte_at(toml, at) == ' ' || byte_at(toml, at) == '\t')
        at++;
    return at;
}

static bool is_line_end(const struct af_toml *toml, size_t at)
{
    char byte = byte_at(toml, at);
    return at >= toml->text.len || byte == '\n' || byte == '\r';
}

/* From the end of a value: the next ',' or bracket, skipping blanks and comments. */
static size_t separator(const struct af_toml *toml, size_t at)
{
    for (;; at++) {
        char byte = byte_at(toml, at);
        if (byte == '#')
            at = line_stop(toml, at);
        if (at >= toml->text.len || byte == ',' || byte == ']' || byte == '}')
            return at;
    }
}

static enum anyflash_status taken(const struct af_toml *toml, struct af_toml_path path,
                                  struct anyflash_error *err)
{
    char name[200];
    const char *text = af_toml_dotted(toml->arena, path.keys, path.count);
    return af_fail(err, ANYFLASH_E_DATA,
                   "%s: '%s' is written in a form that anyflash cannot edit", toml->name,
                   af_text_quote(name, sizeof name, text, strlen(text)));
}

/* A line end if the text's last line lacks one, to put before appended text. */
static const char *opening(const struct af_toml *toml, size_t at)
{
    return at > 0 && byte_at(toml, at - 1) != '\n' && at == toml->text.len ? "\n" : "";
}

/* The indentation of the first child if it is on its own line; else NULL. */
static const char *child_indent(const struct af_toml *toml, const struct af_toml_item *child)
{
    size_t start = line_start(toml, child->start);
    if (child->holder == NULL || start <= child->holder->start ||
        skip_space(toml, start) != child->start)
        return NULL;
    return af_arena_text_n(toml->arena, toml->text.data + start, child->start - start);
}

/* Appends after the last child of a nonempty array or inline table. */
static enum anyflash_status append_after(struct af_toml *toml, const struct af_toml_item *open,
                                         const struct af_toml_item *child, const char *text,
                                         struct anyflash_error *err)
{
    size_t at = separator(toml, child->end);
    bool has_comma = byte_at(toml, at) == ',';
    const char *indent = child_indent(toml, open->kind == AF_TOML_ARRAY ? child : open);
    size_t close = open->end - 1;
    if (open->kind == AF_TOML_ARRAY && indent != NULL &&
        skip_space(toml, line_start(toml, close)) == close) {
        size_t stop = line_stop(toml, has_comma ? at : child->end);
        struct splice splices[] = {
            {child->end, child->end, has_comma ? "" : ","},
            {stop, stop,
             af_arena_format(toml->arena, "\n%s%s%s", indent, text, has_comma ? "," : "")}};
        return apply(toml, splices, AF_COUNT(splices), err);
    }
    if (has_comma)
        return splice(toml, at + 1, at + 1, af_arena_format(toml->arena, " %s,", text), err);
    return splice(toml, child->end, child->end, af_arena_format(toml->arena, ", %s", text),
                  err);
}

/* The last value inside `open`: its last child, or that child's last value if dotted. */
static const struct af_toml_item *last_value(const struct af_toml_item *open)
{
    const struct af_toml_item *last = NULL;
    const struct af_toml_item *at = open->first;
    while (at != NULL) {
        if (at->origin == AF_TOML_DOTTED && at->first != NULL) {
            at = at->first;
            continue;
        }
        if (at->origin == AF_TOML_VALUE && (last == NULL || at->end > last->end))
            last = at; /* later headers may have added to a dotted table */
        while (at != open && at->next == NULL)
            at = at->parent;
        at = at == open ? NULL : at->next;
    }
    return last;
}

static enum anyflash_status append_child(struct af_toml *toml, const struct af_toml_item *open,
                                         const char *text, struct anyflash_error *err)
{
    const struct af_toml_item *last = last_value(open);
    if (last != NULL)
        return append_after(toml, open, last, text, err);
    size_t inner = open->start + 1;
    bool lines = open->kind == AF_TOML_ARRAY &&
                 memchr(toml->text.data + inner, '\n', open->end - inner) != NULL;
    const char *made = lines ? af_arena_format(toml->arena, "\n    %s,", text)
                       : open->kind == AF_TOML_ARRAY
                           ? text
                           : af_arena_format(toml->arena, " %s ", text);
    return splice(toml, inner, lines ? inner : skip_space(toml, inner), made, err);
}

/* The next header or implied table below `top` in text order; NULL at the end. */
static const struct af_toml_item *next_table(const struct af_toml_item *at,
                                             const struct af_toml_item *top)
{
    bool goes_down = at->kind == AF_TOML_TABLE || at->kind == AF_TOML_TABLES;
    if (goes_down && at->first != NULL)
        return at->first;
    while (at != top && at->next == NULL)
        at = at->parent;
    return at == top ? NULL : at->next;
}

/* Where the sections of `top` end, including comments that follow without a gap. */
static size_t family_end(const struct af_toml *toml, const struct af_toml_item *top)
{
    size_t end = 0;
    for (const struct af_toml_item *at = top; at != NULL; at = next_table(at, top)) {
        if (at->origin == AF_TOML_HEADER && at->kind == AF_TOML_TABLE && at->end > end)
            end = at->end;
    }
    size_t comments = end;
    while (end > 0 && byte_at(toml, skip_space(toml, comments)) == '#')
        comments = line_after(toml, comments);
    return is_line_end(toml, skip_space(toml, comments)) ? comments : end;
}

/*
 * Adds the section "[a.b]" or "[[a.b]]" with its lines, after related sections
 * or at the end.
 */
static enum anyflash_status add_section(struct af_toml *toml, struct af_toml_path path,
                                        bool is_list, const char *lines,
                                        struct anyflash_error *err)
{
    size_t at = 0;
    for (size_t count = path.count; at == 0 && count > (path.count > 1 ? 1u : 0u); count--) {
        struct af_toml_path family = {path.keys, count};
        const struct af_toml_item *top = af_toml_find(toml, family);
        at = top == NULL ? 0 : family_end(toml, top);
    }
    if (at == 0 && af_equal(path.keys[0], "project"))
        at = family_end(toml, af_toml_get(toml->root, path.keys[0]));
    if (at == 0)
        at = toml->text.len;
    const char *name = af_toml_dotted(toml->arena, path.keys, path.count);
    bool is_first = at == 0 || (at == 3 && toml->root->start == 3);
    bool is_close = at < toml->text.len && !is_line_end(toml, skip_space(toml, at));
    return splice(toml, at, at,
                  af_arena_format(toml->arena, "%s%s%s%s%s\n%s%s", opening(toml, at),
                                  is_first ? "" : "\n", is_list ? "[[" : "[", name,
                                  is_list ? "]]" : "]", lines, is_close ? "\n" : ""),
                  err);
}

/*
 * How many keys lead from the enclosing section or inline table to `table`; at
 * most `max`.
 */
static size_t dotted_way(const struct af_toml_item *table, const char **keys, size_t max,
                         const struct af_toml_item **base_out)
{
    size_t count = 0;
    const struct af_toml_item *at = table;
    for (; at->origin == AF_TOML_DOTTED; at = at->parent)
        count++;
    *base_out = at;
    size_t place = count;
    for (at = table; at->origin == AF_TOML_DOTTED; at = at->parent)
        if (--place < max)
            keys[place] = at->key;
    return count;
}

/* Inserts "key = value" into a table without that key. */
static enum anyflash_status insert(struct af_toml *toml, const struct af_toml_item *table,
                                   const char *key, const char *value,
                                   struct anyflash_error *err)
{
    const char *keys[AF_TOML_PARTS_MAX] = {NULL};
    const struct af_toml_item *base;
    size_t count = dotted_way(table, keys, AF_TOML_PARTS_MAX, &base);
    const char *way = af_toml_dotted(toml->arena, keys, count);
    const char *line =
        af_arena_format(toml->arena, "%s%s%s = %s", way, count > 0 ? "." : "", key, value);
    if (base->kind == AF_TOML_INLINE)
        return append_child(toml, base, line, err);
    const struct af_toml_item *last = count > 0 ? last_value(table) : NULL;
    size_t at = last != NULL ? line_after(toml, last->end) : base->end;
    return splice(toml, at, at, af_arena_format(toml->arena, "%s%s\n", opening(toml, at), line),
                  err);
}

enum anyflash_status af_toml_replace(struct af_toml *toml, const struct af_toml_item *item,
                                     const char *value, struct anyflash_error *err)
{
    if (item->kind == AF_TOML_TABLE || item->kind == AF_TOML_TABLES)
        return af_fail(err, ANYFLASH_E_DATA, "%s: '%s' is a table, not a value", toml->name,
                       item->key == NULL ? "" : item->key);
    return splice(toml, item->start, item->end, value, err);
}

enum anyflash_status af_toml_set_in(struct af_toml *toml, const struct af_toml_item *table,
                                    const char *key, const char *value,
                                    struct anyflash_error *err)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    const char *written = af_toml_key_text(toml->arena, key);
    if (item != NULL && item->origin != AF_TOML_VALUE)
        return taken(toml, (struct af_toml_path){&key, 1}, err);
    return item != NULL ? splice(toml, item->start, item->end, value, err)
                        : insert(toml, table, written, value, err);
}

enum anyflash_status af_toml_set(struct af_toml *toml, struct af_toml_path path,
                                 const char *value, struct anyflash_error *err)
{
    const struct af_toml_item *table = toml->root;
    size_t depth = 0;
    for (; depth + 1 < path.count; depth++) {
        const struct af_toml_item *next = af_toml_get(table, path.keys[depth]);
        if (next == NULL)
            break;
        if (next->kind != AF_TOML_TABLE && next->kind != AF_TOML_INLINE)
            return taken(toml, path, err);
        table = next;
    }
    size_t rest = path.count - depth;
    bool by_line = table->kind == AF_TOML_INLINE || table->origin == AF_TOML_DOTTED ||
                   (rest == 1 && table->origin == AF_TOML_HEADER);
    if (by_line && rest == 1)
        return af_toml_set_in(toml, table, path.keys[depth], value, err);
    const char *way = af_toml_dotted(toml->arena, path.keys + depth, rest);
    const char *key = af_toml_dotted(toml->arena, path.keys + path.count - 1, 1);
    if (by_line)
        return insert(toml, table, way, value, err);
    if (rest == 1 && af_toml_get(table, path.keys[depth]) != NULL)
        return taken(toml, path, err);
    const char *line = af_arena_format(toml->arena, "%s = %s\n", key, value);
    return add_section(toml, (struct af_toml_path){path.keys, path.count - 1}, false, line,
                       err);
}

enum anyflash_status af_toml_append(struct af_toml *toml, struct af_toml_path path,
                                    const char *value, struct anyflash_error *err)
{
    const struct af_toml_item *item = af_toml_find(toml, path);
    if (item == NULL) {
        const char *list = af_arena_format(toml->arena, "[%s]", value);
        return af_toml_set(toml, path, list, err);
    }
    return item->kind == AF_TOML_ARRAY ? append_child(toml, item, value, err)
                                       : taken(toml, path, err);
}

/* The deepest existing table or value on the path; at least the root. */
static const struct af_toml_item *deepest(const struct af_toml *toml, struct af_toml_path path)
{
    const struct af_toml_item *item = toml->root;
    for (size_t i = 0; i < path.count; i++) {
        const struct af_toml_item *next =
            af_toml_get(item->kind == AF_TOML_TABLES ? item->last : item, path.keys[i]);
        if (next == NULL)
            break;
        item = next;
    }
    return item;
}

enum anyflash_status af_toml_append_table(struct af_toml *toml, struct af_toml_path path,
                                          const char *const *keys, const char *const *values,
                                          size_t count, struct anyflash_error *err)
{
    const struct af_toml_item *item = af_toml_find(toml, path);
    const struct af_toml_item *base = deepest(toml, path);
    bool is_inline = base->kind == AF_TOML_INLINE || base->kind == AF_TOML_ARRAY;
    const char *text = af_toml_joined(toml->arena, keys, values, count, is_inline);
    if (item == NULL ? base->kind > AF_TOML_INLINE
                     : item->kind != AF_TOML_ARRAY && item->kind != AF_TOML_TABLES)
        return taken(toml, path, err);
    if (is_inline)
        return af_toml_append(toml, path, text, err);
    return add_section(toml, path, true, text, err);
}

/* Removes an element of an array, or a value of an inline table, with its comma. */
static enum anyflash_status remove_child(struct af_toml *toml, const struct af_toml_item *item,
                                         struct anyflash_error *err)
{
    size_t start = item->key_start;
    size_t end = separator(toml, item->end);
    size_t line = line_start(toml, start);
    bool has_comma = byte_at(toml, end) == ',';
    if (has_comma) {
        end = skip_space(toml, end + 1);
        bool alone = line > item->holder->start && skip_space(toml, line) == start;
        if (alone && (is_line_end(toml, end) || byte_at(toml, end) == '#'))
            return splice(toml, line, line_after(toml, end), "", err);
        return splice(toml, start, end, "", err);
    }
    size_t before = start;
    while (before > item->holder->start + 1 &&
           (byte_at(toml, before - 1) == ' ' || byte_at(toml, before - 1) == '\t'))
        before--;
    if (byte_at(toml, before - 1) == ',')
        return splice(toml, before - 1, item->end, "", err);
    if (item->holder->kind == AF_TOML_INLINE && before > item->holder->start + 1)
        return taken(toml, (struct af_toml_path){&item->key, 1}, err);
    return splice(toml, before, item->end, "", err);
}

/* Whether sections below this table of an array would become part of its neighbour. */
static bool has_sections(const struct af_toml_item *item)
{
    if (item->parent == NULL || item->parent->kind != AF_TOML_TABLES)
        return false;
    for (const struct af_toml_item *child = item->first; child != NULL; child = child->next)
        if (child->origin == AF_TOML_HEADER || child->origin == AF_TOML_IMPLIED)
            return true;
    return false;
}

enum anyflash_status af_toml_remove(struct af_toml *toml, const struct af_toml_item *item,
                                    struct anyflash_error *err)
{
    if (item->holder != NULL && item->origin == AF_TOML_VALUE)
        return remove_child(toml, item, err);
    bool is_header = item->origin == AF_TOML_HEADER && item->parent != NULL;
    if ((!is_header && item->origin != AF_TOML_VALUE) || has_sections(item))
        return taken(toml, (struct af_toml_path){&item->key, item->key == NULL ? 0 : 1}, err);
    size_t start = line_start(toml, item->key_start);
    size_t end = is_header ? item->end : line_after(toml, item->end);
    bool gap_before = start > 0 && start - line_start(toml, start - 1) <= 2 &&
                      is_line_end(toml, line_start(toml, start - 1));
    if (is_header && gap_before && (end == toml->text.len || is_line_end(toml, end)))
        start = line_start(toml, start - 1); /* of two empty lines, keep one */
    return splice(toml, start, end, "", err);
}
