/*
 * project_fix.c: edits and their unified diff. The lines of the two texts are matched from the
 * start; after a difference at the nearest pair of equal lines. That is no shortest diff, but
 * always a right one, and short for a few small edits.
 */
#include "kit/project/project_fix.h"

#include <string.h>

#define CONTEXT_LINES 2
#define LOOK_AHEAD_LINES 400

/* The first edit, by start and then by order, that begins at `at` or later and was not made. */
static size_t next_edit(const struct af_project_edit *edits, size_t count, size_t at,
                        size_t made)
{
    size_t next = count;
    for (size_t i = 0; i < count; i++) {
        bool is_left =
            edits[i].start > at || (edits[i].start == at && (i > made || made == count));
        if (is_left && (next == count || edits[i].start < edits[next].start))
            next = i;
    }
    return next;
}

void af_project_apply(struct af_span old, const struct af_project_edit *edits, size_t count,
                      struct af_text *out)
{
    size_t at = 0, made = count;
    for (size_t i; (i = next_edit(edits, count, at, made)) < count;) {
        af_text_add_n(out, old.data + at, edits[i].start - at);
        af_text_add(out, edits[i].text);
        made = edits[i].end == edits[i].start ? i : count; /* only insertions share a place */
        at = edits[i].end;
    }
    af_text_add_n(out, old.data + at, old.len - at);
}

/* Lines of a text, read forwards. */
struct lines {
    struct af_span text;
    size_t at;     /* byte where the next line starts */
    size_t number; /* of the next line, from 0 */
};

static bool take_line(struct lines *lines, struct af_span *line_out)
{
    if (lines->at >= lines->text.len)
        return false;
    const char *start = lines->text.data + lines->at;
    const char *end = memchr(start, '\n', lines->text.len - lines->at);
    *line_out = (struct af_span){start, end == NULL ? lines->text.len - lines->at
                                                    : (size_t)(end - start) + 1};
    lines->at += line_out->len;
    lines->number++;
    return true;
}

static bool equal(struct af_span a, struct af_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static void add_line(struct af_text *out, char sign, struct af_span line)
{
    af_text_add_n(out, &sign, 1);
    af_text_add_n(out, line.data, line.len);
    if (line.len == 0 || line.data[line.len - 1] != '\n')
        af_text_add(out, "\n\\ No newline at end of file\n");
}

static void skip_lines(struct lines *lines, size_t count)
{
    struct af_span unused;
    while (count-- > 0 && take_line(lines, &unused))
        ;
}

/* Whether the next lines are equal; at the end of both texts, too. */
static bool match(struct lines a, struct lines b)
{
    struct af_span line_a = {0}, line_b = {0};
    bool has_a = take_line(&a, &line_a), has_b = take_line(&b, &line_b);
    return has_a == has_b && equal(line_a, line_b);
}

/* How many lines to skip in each until they match again: the fewest together. */
static void resync(const struct lines *old, const struct lines *made, size_t *old_out,
                   size_t *made_out)
{
    for (size_t sum = 1; sum < LOOK_AHEAD_LINES; sum++) {
        struct lines a = *old;
        for (size_t skipped = 0; skipped <= sum; skipped++) {
            struct lines b = *made;
            skip_lines(&b, sum - skipped);
            if (match(a, b)) {
                *old_out = skipped;
                *made_out = sum - skipped;
                return;
            }
            skip_lines(&a, 1);
        }
    }
    *old_out = *made_out = SIZE_MAX;
}

/* One group of changes with the lines around it. */
struct hunk {
    struct lines old; /* where it begins */
    struct lines made;
    size_t old_count;
    size_t made_count;
    size_t tail; /* equal lines at its end */
    struct af_text body;
};

static void end_hunk(struct hunk *hunk, struct af_text *out)
{
    if (hunk->old_count + hunk->made_count > 0) {
        af_text_format(out, "@@ -%zu,%zu +%zu,%zu @@\n",
                       hunk->old.number + (hunk->old_count > 0), hunk->old_count,
                       hunk->made.number + (hunk->made_count > 0), hunk->made_count);
        af_text_add_n(out, af_text_get(&hunk->body), hunk->body.len);
        out->failed |= hunk->body.failed;
    }
    af_text_release(&hunk->body);
    *hunk = (struct hunk){0};
}

/* Adds the next line of both, which is equal. */
static void keep_line(struct hunk *hunk, struct lines *old, struct lines *made)
{
    struct af_span line = {0};
    take_line(made, &line);
    take_line(old, &line);
    add_line(&hunk->body, ' ', line);
    hunk->old_count++;
    hunk->made_count++;
    hunk->tail++;
}

static void change_lines(struct hunk *hunk, struct lines *old, struct lines *made)
{
    size_t removed, added;
    struct af_span line;
    resync(old, made, &removed, &added);
    for (; removed > 0 && take_line(old, &line); removed--, hunk->old_count++)
        add_line(&hunk->body, '-', line);
    for (; added > 0 && take_line(made, &line); added--, hunk->made_count++)
        add_line(&hunk->body, '+', line);
    hunk->tail = 0;
}

/* Starts a hunk with the equal lines before the place where the texts differ. */
static void start_hunk(struct hunk *hunk, const struct lines *old, const struct lines *made)
{
    struct lines a = {.text = old->text}, b = {.text = made->text};
    size_t before = old->number < made->number ? old->number : made->number;
    before = before < CONTEXT_LINES ? before : CONTEXT_LINES;
    skip_lines(&a, old->number - before);
    skip_lines(&b, made->number - before);
    while (before > 0 && !equal((struct af_span){a.text.data + a.at, old->at - a.at},
                                (struct af_span){b.text.data + b.at, made->at - b.at})) {
        before--;
        skip_lines(&a, 1);
        skip_lines(&b, 1);
    }
    hunk->old = a;
    hunk->made = b;
    while (before-- > 0)
        keep_line(hunk, &a, &b);
}

void af_project_diff(const char *path, struct af_span old_text, struct af_span made_text,
                     struct af_text *out)
{
    struct lines old = {.text = old_text}, made = {.text = made_text};
    struct hunk hunk = {0};
    if (equal(old_text, made_text))
        return;
    af_text_format(out, "--- a/%s\n+++ b/%s\n", path, path);
    while (old.at < old_text.len || made.at < made_text.len) {
        bool is_open = hunk.old_count + hunk.made_count > 0;
        if (!match(old, made)) {
            if (!is_open)
                start_hunk(&hunk, &old, &made);
            change_lines(&hunk, &old, &made);
        } else if (is_open && hunk.tail < CONTEXT_LINES) {
            keep_line(&hunk, &old, &made);
        } else {
            end_hunk(&hunk, out);
            skip_lines(&old, 1);
            skip_lines(&made, 1);
        }
    }
    end_hunk(&hunk, out);
}
