/*
 * source_edit.c: changes of a file, and their unified diff, which is made from them: the lines
 * that they touch are removed, and added as they are afterwards.
 */
#include <string.h>

#include "kit/base/sort.h"
#include "kit/base/text.h"
#include "kit/project/project_source.h"

#define CONTEXT_LINES 2

static size_t line_start(struct af_span text, size_t at)
{
    return (size_t)(af_project_line(text, at).data - text.data);
}

static size_t line_end(struct af_span text, size_t at)
{
    return line_start(text, at) + af_project_line(text, at).len;
}

static int compare_edits(const void *a, const void *b, const void *context)
{
    const struct af_project_edit *left = a, *right = b;
    (void)context;
    return (left->start > right->start) - (left->start < right->start);
}

size_t af_project_edits_order(struct af_project_edit *edits, size_t count)
{
    size_t kept = 0, end = 0;
    af_sort(edits, count, sizeof *edits, compare_edits, NULL);
    for (size_t i = 0; i < count; i++) {
        if (edits[i].start < end)
            continue;
        end = edits[i].end;
        edits[kept++] = edits[i];
    }
    return kept;
}

/* Appends the bytes of `old` from `start` to `end` with the edits, which are all in there. */
static void apply(struct af_span old, size_t start, size_t end,
                  const struct af_project_edit *edits, size_t count, struct af_text *out)
{
    for (size_t i = 0; i < count; i++) {
        af_text_add_n(out, old.data + start, edits[i].start - start);
        af_text_add(out, edits[i].text);
        start = edits[i].end;
    }
    af_text_add_n(out, old.data + start, end - start);
}

void af_project_apply(struct af_span old, const struct af_project_edit *edits, size_t count,
                      struct af_text *out)
{
    apply(old, 0, old.len, edits, count, out);
}

static bool starts_line(struct af_span text, size_t at)
{
    return at == 0 || text.data[at - 1] == '\n';
}

/* The start of the line `lines` lines before the one that has byte `at`. */
static size_t back(struct af_span text, size_t at, size_t lines)
{
    for (at = line_start(text, at); at > 0 && lines > 0; lines--)
        at = line_start(text, at - 1);
    return at;
}

/* The start of the line `lines` lines behind `at`, the start of a line; or the text's end. */
static size_t forward(struct af_span text, size_t at, size_t lines)
{
    for (; at < text.len && lines > 0; lines--)
        at = line_end(text, at);
    return at;
}

/* Where the lines end that the edit touches. */
static size_t lines_end(struct af_span text, const struct af_project_edit *edit)
{
    size_t len = strlen(edit->text);
    bool is_whole = starts_line(text, edit->end) && starts_line(text, edit->start) &&
                    (len == 0 || edit->text[len - 1] == '\n');
    return is_whole ? edit->end : forward(text, edit->end, 1);
}

/* Appends the lines with a sign before each; returns how many. */
static size_t add_lines(struct af_text *out, char sign, const char *text, size_t len)
{
    struct af_span rest = {text, len}, line;
    size_t count = 0;
    for (; af_text_line(&rest, &line); count++) {
        af_text_add_n(out, &sign, 1);
        af_text_add_n(out, line.data, line.len);
        af_text_add(out, "\n");
    }
    if (len > 0 && text[len - 1] != '\n')
        af_text_add(out, "\\ No newline at end of file\n");
    return count;
}

/* A group of changes with the lines around them. */
struct hunk {
    size_t at; /* the byte behind the last line that was added */
    size_t old_count;
    size_t new_count;
    struct af_text body;
};

static void add_context(struct hunk *hunk, struct af_span old, size_t end)
{
    size_t count = add_lines(&hunk->body, ' ', old.data + hunk->at, end - hunk->at);
    hunk->old_count += count;
    hunk->new_count += count;
    hunk->at = end;
}

/* Adds the change of the first edits, those that touch the same lines; returns how many. */
static size_t add_change(struct hunk *hunk, struct af_span old,
                         const struct af_project_edit *edits, size_t count)
{
    size_t used = 1, end = lines_end(old, edits);
    struct af_text made = {0};
    /* What is appended to a last line without a newline changes that line. */
    while (used < count && (edits[used].start < end || !starts_line(old, end))) {
        size_t next = lines_end(old, &edits[used++]);
        end = next > end ? next : end;
    }
    add_context(hunk, old, back(old, edits->start, 0));
    apply(old, hunk->at, end, edits, used, &made);
    hunk->old_count += add_lines(&hunk->body, '-', old.data + hunk->at, end - hunk->at);
    hunk->new_count += add_lines(&hunk->body, '+', af_text_get(&made), made.len);
    hunk->at = end;
    af_text_release(&made);
    return used;
}

void af_project_diff(const char *path, struct af_span old, const struct af_project_edit *edits,
                     size_t count, struct af_text *out)
{
    size_t old_line = 0, new_line = 0, at = 0;
    const char *tab = strchr(path, ' ') == NULL ? "" : "\t"; /* ends a name with blanks */
    if (count > 0)
        af_text_format(out, "--- a/%s%s\n+++ b/%s%s\n", path, tab, path, tab);
    for (size_t i = 0; i < count;) {
        struct hunk hunk = {.at = back(old, edits[i].start, CONTEXT_LINES)};
        for (; at < hunk.at; at++) {
            old_line += old.data[at] == '\n';
            new_line += old.data[at] == '\n';
        }
        size_t near;
        do {
            i += add_change(&hunk, old, edits + i, count - i);
            near = forward(old, hunk.at, 2 * CONTEXT_LINES + 1);
        } while (i < count && (edits[i].start < near || near == old.len));
        at = forward(old, hunk.at, CONTEXT_LINES);
        add_context(&hunk, old, at);
        af_text_format(out, "@@ -%zu,%zu +%zu,%zu @@\n", old_line + (hunk.old_count > 0),
                       hunk.old_count, new_line + (hunk.new_count > 0), hunk.new_count);
        af_text_add_n(out, af_text_get(&hunk.body), hunk.body.len);
        old_line += hunk.old_count;
        new_line += hunk.new_count;
        af_text_release(&hunk.body);
    }
}
