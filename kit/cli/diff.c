/*
 * diff.c: a unified diff, from the longest common subsequence of lines after
 * removing the common start and end of both files.
 */
#include "kit/cli/diff.h"

#include <string.h>

#define CONTEXT 3u
/* Maximum cells of the table of lengths; beyond it the whole middle is shown as replaced. */
#define CELLS_MAX (4u << 20)

struct lines {
    struct af_span *items; /* including line ends */
    size_t count;
};

/* One line of the result. */
struct row {
    char mark; /* ' ', '-', '+' */
    struct af_span line;
};

struct diff {
    struct af_arena *arena;
    struct lines old;
    struct lines made;
    struct row *rows;
    size_t row_count;
};

static struct lines split(struct af_arena *arena, struct af_span text)
{
    struct lines lines = {NULL, 0};
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '\n' ? 1 : 0;
    lines.items = af_arena_array(arena, count, sizeof *lines.items);
    for (size_t at = 0; lines.items != NULL && at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end != NULL ? (size_t)(end - text.data) + 1 - at : text.len - at;
        lines.items[lines.count++] = (struct af_span){text.data + at, len};
        at += len;
    }
    return lines;
}

static bool same(struct af_span a, struct af_span b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static void add_row(struct diff *diff, char mark, struct af_span line)
{
    diff->rows[diff->row_count++] = (struct row){mark, line};
}

/*
 * table[i][j]: length of the longest common subsequence from lines i and j on;
 * rows of `width`.
 */
static uint16_t *lengths(struct diff *diff, size_t head, size_t old_end, size_t made_end)
{
    size_t height = old_end - head + 1;
    size_t width = made_end - head + 1;
    if (height > UINT16_MAX || width > UINT16_MAX || height * width > CELLS_MAX)
        return NULL;
    uint16_t *table = af_arena_array(diff->arena, height * width, sizeof *table);
    for (size_t i = height - 1; table != NULL && i-- > 0;) {
        for (size_t j = width - 1; j-- > 0;) {
            uint16_t below = table[(i + 1) * width + j];
            uint16_t right = table[i * width + j + 1];
            bool equal = same(diff->old.items[head + i], diff->made.items[head + j]);
            table[i * width + j] = equal ? (uint16_t)(table[(i + 1) * width + j + 1] + 1)
                                         : (below >= right ? below : right);
        }
    }
    return table;
}

static void walk(struct diff *diff, const uint16_t *table, size_t head, size_t old_end,
                 size_t made_end)
{
    size_t width = made_end - head + 1;
    size_t i = head;
    size_t j = head;
    while (i < old_end && j < made_end) {
        size_t at = (i - head) * width + (j - head);
        if (table != NULL && same(diff->old.items[i], diff->made.items[j])) {
            add_row(diff, ' ', diff->old.items[i++]);
            j++;
        } else if (table == NULL || table[at + width] >= table[at + 1]) {
            add_row(diff, '-', diff->old.items[i++]);
        } else {
            add_row(diff, '+', diff->made.items[j++]);
        }
    }
    while (i < old_end)
        add_row(diff, '-', diff->old.items[i++]);
    while (j < made_end)
        add_row(diff, '+', diff->made.items[j++]);
}

static bool make_rows(struct diff *diff)
{
    size_t head = 0;
    size_t old_end = diff->old.count;
    size_t made_end = diff->made.count;
    diff->rows = af_arena_array(diff->arena, old_end + made_end + 1, sizeof *diff->rows);
    while (head < old_end && head < made_end &&
           same(diff->old.items[head], diff->made.items[head]))
        head++;
    while (old_end > head && made_end > head &&
           same(diff->old.items[old_end - 1], diff->made.items[made_end - 1])) {
        old_end--;
        made_end--;
    }
    const uint16_t *table = lengths(diff, head, old_end, made_end);
    if (diff->arena->failed)
        return false;
    for (size_t i = 0; i < head; i++)
        add_row(diff, ' ', diff->old.items[i]);
    walk(diff, table, head, old_end, made_end);
    for (size_t i = old_end; i < diff->old.count; i++)
        add_row(diff, ' ', diff->old.items[i]);
    return true;
}

static void print_row(struct af_text *out, const struct row *row)
{
    af_text_add_n(out, &row->mark, 1);
    af_text_add_n(out, row->line.data, row->line.len);
    if (row->line.len == 0 || row->line.data[row->line.len - 1] != '\n')
        af_text_add(out, "\n\\ No newline at end of file\n");
}

/* The row at which the hunk from row `from` ends: after enough unchanged rows. */
static size_t hunk_end(const struct diff *diff, size_t from)
{
    size_t end = from;
    for (size_t i = from; i < diff->row_count && i - end <= 2 * CONTEXT; i++)
        end = diff->rows[i].mark != ' ' ? i + 1 : end;
    return end + CONTEXT < diff->row_count ? end + CONTEXT : diff->row_count;
}

static void print_hunks(struct af_text *out, const struct diff *diff)
{
    size_t old_line = 1;
    size_t made_line = 1;
    for (size_t i = 0; i < diff->row_count;) {
        size_t change = i;
        while (change < diff->row_count && diff->rows[change].mark == ' ')
            change++;
        if (change == diff->row_count)
            return;
        size_t start = change - i > CONTEXT ? change - CONTEXT : i;
        size_t end = hunk_end(diff, change);
        size_t old_count = 0;
        size_t made_count = 0;
        old_line += start - i;
        made_line += start - i;
        for (size_t row = start; row < end; row++) {
            old_count += diff->rows[row].mark != '+' ? 1 : 0;
            made_count += diff->rows[row].mark != '-' ? 1 : 0;
        }
        af_text_format(out, "@@ -%zu,%zu +%zu,%zu @@\n", old_line - (old_count == 0 ? 1 : 0),
                       old_count, made_line - (made_count == 0 ? 1 : 0), made_count);
        for (size_t row = start; row < end; row++)
            print_row(out, &diff->rows[row]);
        old_line += old_count;
        made_line += made_count;
        i = end;
    }
}

enum anyflash_status af_diff(struct af_text *out, const char *name, struct af_span old,
                             struct af_span new_text, struct anyflash_error *err)
{
    struct af_arena arena;
    af_arena_init(&arena);
    struct diff diff = {.arena = &arena};
    diff.old = split(&arena, old);
    diff.made = split(&arena, new_text);
    bool good = !arena.failed && make_rows(&diff);
    if (good && !same(old, new_text)) {
        af_text_format(out, "--- %s\n+++ %s\n", name, name);
        print_hunks(out, &diff);
    }
    af_arena_release(&arena);
    return good && !out->failed ? ANYFLASH_OK : af_fail_memory(err);
}
