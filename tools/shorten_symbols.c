/*
 * shorten_symbols.c: shrinks the table of torch's symbols for the WebAssembly module,
 * because every visitor of the web page downloads it.
 *
 *   shorten_symbols data/torch_symbols.json data/torch_symbols.bin OUT.bin
 *
 * Leaves out the names that only CUDA libraries define, and keeps 32 bits of each hash.
 * The format is that of the input (tools/make_torch_symbols.py) with two differences: it
 * starts with "AFS2", and after the 16 bits that choose the run, only the next 16 bits of a
 * hash are stored instead of 32.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define BYTES_MAX (64u * 1024u * 1024u)
#define HEAD_BYTES 16u
#define RUNS 65536u
#define BUILDS_MAX 256u

struct table {
    const unsigned char *counts;
    const unsigned char *rests;
    const unsigned char *patterns;
    const unsigned char *masks;
    size_t name_count, pattern_count, build_count;
    uint64_t torch_libraries[BUILDS_MAX]; /* mask by build */
};

static uint64_t number_at(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

static bool read_builds(struct table *table, const json_t *root)
{
    const json_t *builds = json_object_get(root, "builds");
    table->build_count = json_array_size(builds);
    for (size_t b = 0; b < table->build_count && b < BUILDS_MAX; b++) {
        const json_t *list = json_object_get(json_array_get(builds, b), "libraries");
        for (size_t i = 0; i < json_array_size(list) && i < 64; i++) {
            const json_t *origin = json_object_get(json_array_get(list, i), "origin");
            if (af_equal(json_string_value(origin), "torch"))
                table->torch_libraries[b] |= UINT64_C(1) << i;
        }
    }
    return table->build_count > 0 && table->build_count <= BUILDS_MAX;
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
    return number_at(data + 12, 4) == table->build_count &&
           bytes.len == HEAD_BYTES + RUNS + 6 * table->name_count +
                            8 * table->pattern_count * table->build_count;
}

/* Whether one of torch's own libraries defines the name in any build. */
static bool is_of_torch(const struct table *table, size_t name)
{
    size_t pattern = (size_t)number_at(table->patterns + 2 * name, 2);
    for (size_t b = 0; b < table->build_count; b++) {
        size_t at = 8 * (pattern * table->build_count + b);
        if ((number_at(table->masks + at, 8) & table->torch_libraries[b]) != 0)
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

static enum anyflash_status write_short(const struct table *table, struct af_arena *arena,
                                        const char *path, struct anyflash_error *err)
{
    struct af_text counts = {0}, rests = {0}, patterns = {0}, head = {0};
    size_t name = 0, kept = 0;
    for (size_t run = 0; run < RUNS; run++) {
        size_t before = kept;
        for (size_t i = 0; i < table->counts[run] && name < table->name_count; i++, name++) {
            if (!is_of_torch(table, name))
                continue;
            add_number(&rests, number_at(table->rests + 4 * name + 2, 2), 2);
            add_number(&patterns, number_at(table->patterns + 2 * name, 2), 2);
            kept++;
        }
        add_number(&counts, kept - before, 1);
    }
    af_text_add(&head, "AFS2");
    add_number(&head, kept, 4);
    add_number(&head, table->pattern_count, 4);
    add_number(&head, table->build_count, 4);
    const struct af_span parts[] = {
        {head.data, head.len},
        {counts.data, counts.len},
        {rests.data, rests.len},
        {patterns.data, patterns.len},
        {(const char *)table->masks, 8 * table->pattern_count * table->build_count}};
    bool failed = head.failed || counts.failed || rests.failed || patterns.failed;
    enum anyflash_status status =
        failed ? af_fail_memory(err) : af_file_write(arena, path, parts, AF_COUNT(parts), err);
    af_text_release(&head);
    af_text_release(&counts);
    af_text_release(&rests);
    af_text_release(&patterns);
    return status;
}

int main(int argc, char **argv)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span json, bytes;
    struct table table = {0};
    json_t *root = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: shorten_symbols SYMBOLS.json SYMBOLS.bin OUT.bin\n");
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
        status = write_short(&table, &arena, argv[3], &err);
    if (status != ANYFLASH_OK)
        fprintf(stderr, "shorten_symbols: %s\n", err.message);
    json_decref(root);
    af_arena_release(&arena);
    return status == ANYFLASH_OK ? 0 : 1;
}
