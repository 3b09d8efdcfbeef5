/*
 * toml_edit.c: edits of a TOML document as pieces put in place of byte ranges.
 * After each the text is read again, which proves that it is still TOML.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/toml_splice.h"

/* The text's last line lacks its end: what is appended brings it. */
static const char *opening(const struct af_toml *toml, size_t at)
{
    return at > 0 && af_toml_byte(toml, at - 1) != '\n' && at == toml->text.len ? "\n" : "";
}

/* The blanks before the first child of an array on a line of its own; else NULL. */
static const char *child_indent(const struct af_toml *toml, const struct af_toml_item *child)
{
    size_t start = af_toml_line_start(toml, child->start);
    if (child->holder == NULL || start <= child->holder->start ||
        af_toml_skip_space(toml, start) != child->start)
        return NULL;
    return af_arena_text_n(toml->arena, toml->text.data + start, child->start - start);
}

/* Behind the last child of an array or inline table that has one. */
static enum anyflash_status append_after(struct af_toml *toml, const struct af_toml_item *open,
                                         const struct af_toml_item *child, const char *text,
                                         struct anyflash_error *err)
{
    size_t at = af_toml_separator(toml, child->end);
    bool has_comma = af_toml_byte(toml, at) == ',';
    const char *indent = child_indent(toml, open->kind == AF_TOML_ARRAY ? child : open);
    size_t close = open->end - 1;
    if (open->kind == AF_TOML_ARRAY && indent != NULL &&
        af_toml_skip_space(toml, af_toml_line_start(toml, close)) == close) {
        size_t stop = af_toml_line_stop(toml, has_comma ? at : child->end);
        struct af_splice splices[] = {
            {child->end, child->end, has_comma ? "" : ","},
            {stop, stop,
             af_arena_format(toml->arena, "\n%s%s%s", indent, text, has_comma ? "," : "")}};
        return af_splice_apply(toml, splices, AF_COUNT(splices), err);
    }
    if (has_comma)
        return af_splice(toml, at + 1, at + 1, af_arena_format(toml->arena, " %s,", text), err);
    return af_splice(toml, child->end, child->end, af_arena_format(toml->arena, ", %s", text),
                     err);
}

/* The last value of the bytes of `open`: its last child, or that child's if dotted. */
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
    return af_splice(toml, inner, lines ? inner : af_toml_skip_space(toml, inner), made, err);
}

/* The next header or implied table in the text's order below `top`; NULL at its end. */
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

/* Where the sections of `top` end, with the comments that follow without a gap. */
static size_t family_end(const struct af_toml *toml, const struct af_toml_item *top)
{
    size_t end = 0;
    for (const struct af_toml_item *at = top; at != NULL; at = next_table(at, top)) {
        if (at->origin == AF_TOML_HEADER && at->kind == AF_TOML_TABLE && at->end > end)
            end = at->end;
    }
    size_t comments = end;
    while (end > 0 && af_toml_byte(toml, af_toml_skip_space(toml, comments)) == '#')
        comments = af_toml_line_after(toml, comments);
    return af_toml_is_line_end(toml, af_toml_skip_space(toml, comments)) ? comments : end;
}

/* The new section "[a.b]" or "[[a.b]]" with its lines, behind its family or at the end. */
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
    bool is_close =
        at < toml->text.len && !af_toml_is_line_end(toml, af_toml_skip_space(toml, at));
    if (name == NULL)
        return af_fail_memory(err);
    return af_splice(toml, at, at,
                     af_arena_format(toml->arena, "%s%s%s%s%s\n%s%s", opening(toml, at),
                                     is_first ? "" : "\n", is_list ? "[[" : "[", name,
                                     is_list ? "]]" : "]", lines, is_close ? "\n" : ""),
                     err);
}

/* How many keys lead from the section or inline table of `table` to it; at most `max`. */
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

/* "key = value" for a table that has no such key. */
static enum anyflash_status insert(struct af_toml *toml, const struct af_toml_item *table,
                                   const char *key, const char *value,
                                   struct anyflash_error *err)
{
    const char *keys[AF_TOML_PARTS_MAX] = {NULL};
    const struct af_toml_item *base;
    size_t count = dotted_way(table, keys, AF_TOML_PARTS_MAX, &base);
    const char *way = af_toml_dotted(toml->arena, keys, count);
    if (way == NULL)
        return af_fail_memory(err);
    const char *line =
        af_arena_format(toml->arena, "%s%s%s = %s", way, count > 0 ? "." : "", key, value);
    if (line == NULL)
        return af_fail_memory(err);
    if (base->kind == AF_TOML_INLINE)
        return append_child(toml, base, line, err);
    const struct af_toml_item *last = count > 0 ? last_value(table) : NULL;
    size_t at = last != NULL ? af_toml_line_after(toml, last->end) : base->end;
    return af_splice(toml, at, at,
                     af_arena_format(toml->arena, "%s%s\n", opening(toml, at), line), err);
}

enum anyflash_status af_toml_replace(struct af_toml *toml, const struct af_toml_item *item,
                                     const char *value, struct anyflash_error *err)
{
    if (item->kind == AF_TOML_TABLE || item->kind == AF_TOML_TABLES)
        return af_fail(err, ANYFLASH_E_DATA, "%s: '%s' is a table", toml->name,
                       item->key == NULL ? "" : item->key);
    return af_splice(toml, item->start, item->end, value, err);
}

enum anyflash_status af_toml_set_in(struct af_toml *toml, const struct af_toml_item *table,
                                    const char *key, const char *value,
                                    struct anyflash_error *err)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    const char *written = af_toml_key_text(toml->arena, key);
    if (written == NULL)
        return af_fail_memory(err);
    if (item != NULL && item->origin != AF_TOML_VALUE)
        return af_toml_taken(toml, (struct af_toml_path){&key, 1}, err);
    return item != NULL ? af_splice(toml, item->start, item->end, value, err)
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
            return af_toml_taken(toml, path, err);
        table = next;
    }
    size_t rest = path.count - depth;
    bool by_line = table->kind == AF_TOML_INLINE || table->origin == AF_TOML_DOTTED ||
                   (rest == 1 && table->origin == AF_TOML_HEADER);
    if (by_line && rest == 1)
        return af_toml_set_in(toml, table, path.keys[depth], value, err);
    const char *way = af_toml_dotted(toml->arena, path.keys + depth, rest);
    const char *key = af_toml_dotted(toml->arena, path.keys + path.count - 1, 1);
    if (way == NULL || key == NULL)
        return af_fail_memory(err);
    if (by_line)
        return insert(toml, table, way, value, err);
    if (rest == 1 && af_toml_get(table, path.keys[depth]) != NULL)
        return af_toml_taken(toml, path, err);
    const char *line = af_arena_format(toml->arena, "%s = %s\n", key, value);
    if (line == NULL)
        return af_fail_memory(err);
    return add_section(toml, (struct af_toml_path){path.keys, path.count - 1}, false, line,
                       err);
}

enum anyflash_status af_toml_append(struct af_toml *toml, struct af_toml_path path,
                                    const char *value, struct anyflash_error *err)
{
    const struct af_toml_item *item = af_toml_find(toml, path);
    if (item == NULL) {
        const char *list = af_arena_format(toml->arena, "[%s]", value);
        return list == NULL ? af_fail_memory(err) : af_toml_set(toml, path, list, err);
    }
    return item->kind == AF_TOML_ARRAY ? append_child(toml, item, value, err)
                                       : af_toml_taken(toml, path, err);
}

/* "{ a = 1, b = 2 }" or "a = 1\nb = 2\n". */
static const char *join(struct af_arena *arena, const char *const *keys,
                        const char *const *values, size_t count, bool is_inline)
{
    const char *text = is_inline ? "{ " : "";
    for (size_t i = 0; text != NULL && i < count; i++)
        text = af_arena_format(arena, "%s%s = %s%s", text, keys[i], values[i],
                               !is_inline      ? "\n"
                               : i + 1 < count ? ", "
                                               : " }");
    return text;
}

/* The deepest table or value on the way that is there; the root at least. */
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
    const char *text = join(toml->arena, keys, values, count, is_inline);
    if (text == NULL)
        return af_fail_memory(err);
    if (item == NULL ? base->kind > AF_TOML_INLINE
                     : item->kind != AF_TOML_ARRAY && item->kind != AF_TOML_TABLES)
        return af_toml_taken(toml, path, err);
    if (is_inline)
        return af_toml_append(toml, path, text, err);
    return add_section(toml, path, true, text, err);
}

/* An element of an array, or a value of an inline table, with its comma. */
static enum anyflash_status remove_child(struct af_toml *toml, const struct af_toml_item *item,
                                         struct anyflash_error *err)
{
    size_t start = item->key_start;
    size_t end = af_toml_separator(toml, item->end);
    size_t line = af_toml_line_start(toml, start);
    bool has_comma = af_toml_byte(toml, end) == ',';
    if (has_comma) {
        end = af_toml_skip_space(toml, end + 1);
        bool alone = line > item->holder->start && af_toml_skip_space(toml, line) == start;
        if (alone && (af_toml_is_line_end(toml, end) || af_toml_byte(toml, end) == '#'))
            return af_splice(toml, line, af_toml_line_after(toml, end), "", err);
        return af_splice(toml, start, end, "", err);
    }
    size_t before = start;
    while (before > item->holder->start + 1 &&
           (af_toml_byte(toml, before - 1) == ' ' || af_toml_byte(toml, before - 1) == '\t'))
        before--;
    if (af_toml_byte(toml, before - 1) == ',')
        return af_splice(toml, before - 1, item->end, "", err);
    if (item->holder->kind == AF_TOML_INLINE && before > item->holder->start + 1)
        return af_toml_taken(toml, (struct af_toml_path){&item->key, 1}, err);
    return af_splice(toml, before, item->end, "", err);
}

/* A table of a list whose own tables would become those of its neighbour. */
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
        return af_toml_taken(toml, (struct af_toml_path){&item->key, item->key == NULL ? 0 : 1},
                             err);
    size_t start = af_toml_line_start(toml, item->key_start);
    size_t end = is_header ? item->end : af_toml_line_after(toml, item->end);
    bool gap_before = start > 0 && start - af_toml_line_start(toml, start - 1) <= 2 &&
                      af_toml_is_line_end(toml, af_toml_line_start(toml, start - 1));
    if (is_header && gap_before && (end == toml->text.len || af_toml_is_line_end(toml, end)))
        start = af_toml_line_start(toml, start - 1); /* of two empty lines one stays */
    return af_splice(toml, start, end, "", err);
}
