/*
 * shorten_symbols.c: shrinks the table of torch's symbols for the WebAssembly module,
 * because every visitor of the web page downloads it.
 *
 *   shorten_symbols data/torch_symbols.json data/torch_symbols.bin OUT.json OUT.bin
 *
 * Leaves out the builds for processors other than x86_64 and the names that only CUDA
 * libraries define, and keeps 32 bits of each hash. The format is that of the input
 * (tools/make_torch_symbols.py) with two differences: it starts with "AFS2", and after the 16
 * bits that choose the run, only the next 16 bits of a hash are stored instead of 32.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define BYTES_MAX (64u * 1024u * 1024u)
#define HEAD_BYTES 16u
#define RUNS 65536u
#define BUILDS_MAX 256u

#define PATTERNS_MAX 65536u
#define PLATFORM "linux_x86_64"

/* A build that is kept. */
struct build {
    size_t column; /* in the masks of the input */
    uint64_t torch_libraries;
};

struct table {
    const unsigned char *counts;
    const unsigned char *rests;
    const unsigned char *patterns;
    const unsigned char *masks;
    size_t name_count, pattern_count, column_count;
    struct build builds[BUILDS_MAX];
    size_t build_count;
    /* Of each pattern of the input: its number in the output, plus 1; 0: left out. */
    uint32_t numbers[PATTERNS_MAX];
};

static uint64_t number_at(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

/* Selects the builds, and removes the others from the JSON. */
static bool read_builds(struct table *table, json_t *root)
{
    json_t *builds = json_object_get(root, "builds");
    size_t kept = 0;
    table->column_count = json_array_size(builds);
    for (size_t b = 0; b < table->column_count && b < BUILDS_MAX; b++) {
        const json_t *build = json_array_get(builds, kept);
        const json_t *list = json_object_get(build, "libraries");
        if (!af_equal(json_string_value(json_object_get(build, "platform")), PLATFORM)) {
            json_array_remove(builds, kept);
            continue;
        }
        table->builds[kept].column = b;
        for (size_t i = 0; i < json_array_size(list) && i < 64; i++) {
            const json_t *origin = json_object_get(json_array_get(list, i), "origin");
            if (af_equal(json_string_value(origin), "torch"))
                table->builds[kept].torch_libraries |= UINT64_C(1) << i;
        }
        kept++;
    }
    table->build_count = kept;
    return kept > 0 && table->column_count <= BUILDS_MAX;
}

static bool open_table(struct table *table, struct af_span bytes)
{
    const unsigned char *data = (const unsigned char *)bytes.data;
    if (bytes.len < HEAD_BYTES + RUNS || memcmp(data, "AFS1", 4) != 0)
        return false;
    table->name_count = (size_t)number_at(data + 4, 4);
    table->pattern_count = (size_t)number_at(data + 8, 4);
    table->counts = data + HEAD_BYTES;
    table->rests = table->counts + RUNS;
    table->patterns = table->rests + 4 * table->name_count;
    table->masks = table->patterns + 2 * table->name_count;
    return number_at(data + 12, 4) == table->column_count &&
           table->pattern_count <= PATTERNS_MAX &&
           bytes.len == HEAD_BYTES + RUNS + 6 * table->name_count +
                            8 * table->pattern_count * table->column_count;
}

static uint64_t mask_at(const struct table *table, size_t pattern, size_t build)
{
    size_t column = table->builds[build].column;
    return number_at(table->masks + 8 * (pattern * table->column_count + column), 8);
}

/* Whether one of torch's own libraries defines the names of the pattern in a kept build. */
static bool is_of_torch(const struct table *table, size_t pattern)
{
    for (size_t b = 0; b < table->build_count; b++) {
        if ((mask_at(table, pattern, b) & table->builds[b].torch_libraries) != 0)
            return true;
    }
    return false;
}

static void add_number(struct af_text *text, uint64_t number, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char byte = (char)(number >> (8 * i));
        af_text_add_n(text, &byte, 1);
    }
}

static size_t pattern_of(const struct table *table, size_t name)
{
    size_t pattern = (size_t)number_at(table->patterns + 2 * name, 2);
    return pattern < table->pattern_count ? pattern : 0;
}

/* Whether the patterns differ only in builds that are left out. */
static bool is_same(const struct table *table, size_t one, size_t other)
{
    for (size_t b = 0; b < table->build_count; b++) {
        if (mask_at(table, one, b) != mask_at(table, other, b))
            return false;
    }
    return true;
}

struct counted {
    size_t pattern;
    size_t name_count;
};

static int compare(const void *left, const void *right)
{
    const struct counted *one = left;
    const struct counted *other = right;
    if (one->name_count != other->name_count)
        return one->name_count < other->name_count ? -1 : 1;
    return one->pattern < other->pattern ? -1 : one->pattern > other->pattern;
}

/*
 * Numbers the patterns of torch's names and adds their masks to `masks`. Patterns that became
 * the same get one number. Those with the most names come last: numbers that are not mostly
 * zero bytes compress better beside the hashes (by 12 KB).
 */
static void number_patterns(struct table *table, struct af_text *masks)
{
    static size_t firsts[PATTERNS_MAX]; /* the first pattern that is the same */
    static struct counted counted[PATTERNS_MAX];
    uint32_t count = 0;
    for (size_t i = 0; i < table->pattern_count; i++) {
        while (!is_same(table, firsts[i], i))
            firsts[i]++;
        counted[i].pattern = i;
    }
    for (size_t name = 0; name < table->name_count; name++)
        counted[firsts[pattern_of(table, name)]].name_count++;
    qsort(counted, table->pattern_count, sizeof *counted, compare);
    for (size_t i = 0; i < table->pattern_count; i++) {
        size_t pattern = counted[i].pattern;
        if (counted[i].name_count == 0 || !is_of_torch(table, pattern))
            continue;
        for (size_t b = 0; b < table->build_count; b++)
            add_number(masks, mask_at(table, pattern, b), 8);
        table->numbers[pattern] = ++count;
    }
    for (size_t i = 0; i < table->pattern_count; i++)
        table->numbers[i] = table->numbers[firsts[i]];
}

static enum anyflash_status write_names(struct table *table, struct af_arena *arena,
                                        const char *path, struct anyflash_error *err)
{
    struct af_text counts = {0}, rests = {0}, patterns = {0}, masks = {0}, head = {0};
    size_t name = 0, kept = 0;
    number_patterns(table, &masks);
    for (size_t run = 0; run < RUNS; run++) {
        size_t before = kept;
        for (size_t i = 0; i < table->counts[run] && name < table->name_count; i++, name++) {
            uint32_t number = table->numbers[pattern_of(table, name)];
            if (number == 0)
                continue;
            add_number(&rests, number_at(table->rests + 4 * name + 2, 2), 2);
            add_number(&patterns, number - 1, 2);
            kept++;
        }
        add_number(&counts, kept - before, 1);
    }
    af_text_add(&head, "AFS2");
    add_number(&head, kept, 4);
    add_number(&head, masks.len / (8 * table->build_count), 4);
    add_number(&head, table->build_count, 4);
    const struct af_span parts[] = {{head.data, head.len},
                                    {counts.data, counts.len},
                                    {rests.data, rests.len},
                                    {patterns.data, patterns.len},
                                    {masks.data, masks.len}};
    enum anyflash_status status = af_file_write(arena, path, parts, AF_COUNT(parts), err);
    af_text_release(&head);
    af_text_release(&counts);
    af_text_release(&rests);
    af_text_release(&patterns);
    af_text_release(&masks);
    return status;
}

static enum anyflash_status write_builds(const json_t *root, struct af_arena *arena,
                                         const char *path, struct anyflash_error *err)
{
    char *text = json_dumps(root, JSON_COMPACT);
    const struct af_span part = {text, strlen(text)};
    enum anyflash_status status = af_file_write(arena, path, &part, 1, err);
    af_memory_free(text);
    return status;
}

int main(int argc, char **argv)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span json, bytes;
    static struct table table;
    json_t *root = NULL;
    if (argc != 5) {
        fprintf(stderr, "usage: shorten_symbols SYMBOLS.json SYMBOLS.bin OUT.json OUT.bin\n");
        return 2;
    }
    af_json_start();
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, argv[1], BYTES_MAX, &json, &err);
    if (status == ANYFLASH_OK)
        status = af_json_parse(json, BYTES_MAX, argv[1], &root, &err);
    if (status == ANYFLASH_OK)
        status = af_file_read(&arena, argv[2], BYTES_MAX, &bytes, &err);
    if (status == ANYFLASH_OK && (!read_builds(&table, root) || !open_table(&table, bytes)))
        status = af_fail(&err, ANYFLASH_E_DATA, "'%s' and '%s' are not a table of symbols",
                         argv[1], argv[2]);
    if (status == ANYFLASH_OK)
        status = write_builds(root, &arena, argv[3], &err);
    if (status == ANYFLASH_OK)
        status = write_names(&table, &arena, argv[4], &err);
    if (status != ANYFLASH_OK)
        fprintf(stderr, "shorten_symbols: %s\n", err.message);
    json_decref(root);
    af_arena_release(&arena);
    return status == ANYFLASH_OK ? 0 : 1;
}
