/*
 * pack_data.c: writes the project's data as C source, when the program is built.
 *
 *   pack_data catalog data/wheels.jsonl OUT.c [HASHES_MAX]
 *   pack_data tables OUT.c data/torch.json data/cuda.json ...
 *   pack_data bytes NAME IN OUT.c
 *
 * The catalog is read by the code that reads a newer catalog file, so a bad row
 * ends the build with its line and field. If more than HASHES_MAX rows have a hash,
 * all hashes are left out: they do not compress, and the web page must stay small.
 * Tables become one JSON object with a member per file, named as the file is. It is
 * parsed at every start of the program, so remarks are left out, and a list of words
 * becomes one text. Bytes are embedded as they are.
 */
#include "kit/base/text.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/catalog/catalog_rows.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#define COMPRESSION_LEVEL 19
#define BYTES_A_LINE 20

static int report(const struct anyflash_error *err)
{
    fprintf(stderr, "pack_data: %s\n", err->message);
    return 1;
}

static void write_bytes(FILE *out, const char *name, const unsigned char *bytes, size_t len)
{
    fprintf(out, "/* Written by tools/pack_data.c. */\n#include \"kit/formats/embedded.h\"\n\n"
                 "static const unsigned char bytes[] = {");
    for (size_t i = 0; i < len; i++)
        fprintf(out, "%s%u,", i % BYTES_A_LINE == 0 ? "\n" : "", (unsigned)bytes[i]);
    fprintf(out, "\n};\nconst struct af_embedded af_embedded_%s = {bytes, sizeof bytes};\n",
            name);
}

static int compress_to(const char *path, const char *name, struct af_span content)
{
    size_t capacity = ZSTD_compressBound(content.len);
    unsigned char *bytes = af_mem_alloc(capacity);
    FILE *out = fopen(path, "w");
    size_t len = bytes == NULL ? 0
                               : ZSTD_compress(bytes, capacity, content.data, content.len,
                                               COMPRESSION_LEVEL);
    bool good = out != NULL && bytes != NULL && !ZSTD_isError(len);
    if (good)
        write_bytes(out, name, bytes, len);
    good = (out == NULL || fclose(out) == 0) && good;
    af_mem_free(bytes);
    if (!good)
        fprintf(stderr, "pack_data: cannot write '%s'\n", path);
    return good ? 0 : 1;
}

/* The wheels without their hashes if more than `max` have one; NULL: no memory. */
static const struct af_catalog_wheel *limit_hashes(const struct af_catalog_wheel *wheels,
                                                   size_t count, size_t max,
                                                   struct af_arena *arena)
{
    size_t hashes = 0;
    for (size_t i = 0; i < count; i++)
        hashes += wheels[i].sha256 != NULL;
    if (hashes <= max)
        return wheels;
    struct af_catalog_wheel *bare = af_arena_array(arena, count, sizeof *bare);
    for (size_t i = 0; bare != NULL && i < count; i++) {
        bare[i] = wheels[i];
        bare[i].sha256 = NULL;
    }
    return bare;
}

static int pack_catalog(const char *in, const char *out, size_t hashes_max)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    struct af_text packed = {0};
    const struct af_catalog_wheel *wheels;
    const char *date;
    size_t count;
    int code = 1;
    af_arena_init(&arena);
    if (af_file_read(&arena, in, AF_CATALOG_BYTES_MAX, &bytes, &err) != ANYFLASH_OK ||
        af_catalog_rows_read(bytes, in, &arena, &wheels, &count, &date, &err) != ANYFLASH_OK)
        report(&err);
    else if ((wheels = limit_hashes(wheels, count, hashes_max, &arena)) == NULL)
        fprintf(stderr, "pack_data: out of memory\n");
    else if (af_catalog_pack(wheels, count, date, &packed, &err) != ANYFLASH_OK)
        report(&err);
    else
        code = compress_to(out, "catalog", (struct af_span){packed.data, packed.len});
    af_text_release(&packed);
    af_arena_release(&arena);
    return code;
}

static void drop_remarks(json_t *object)
{
    static const char *const keys[] = {"about",       "sources",     "env_semantics", "rules",
                                       "source_date", "nvcc_builds", "build_image",   "note"};
    for (size_t i = 0; i < AF_COUNT(keys); i++)
        json_object_del(object, keys[i]);
}

/* ["8.0", "9.0"] as "8.0 9.0"; NULL when the list holds anything else. */
static json_t *joined(const json_t *list)
{
    struct af_text text = {0};
    bool good = json_array_size(list) > 0;
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        const char *item = json_string_value(json_array_get(list, i));
        good = item != NULL && strchr(item, ' ') == NULL;
        if (good)
            af_text_format(&text, "%s%s", i == 0 ? "" : " ", item);
    }
    json_t *value = good && !text.failed ? json_string(af_text_get(&text)) : NULL;
    af_text_release(&text);
    return value;
}

static void join_lists(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        json_t *text = joined(value);
        if (text != NULL)
            json_object_set_new(object, key, text);
        else if (json_array_size(value) == 0 && json_is_array(value))
            json_object_set_new(object, key, json_null());
    }
}

/* A table, its rows, and what a row holds: match, variants. */
static void thin_table(json_t *table)
{
    const char *key, *row_key;
    json_t *rows, *row, *inner, *variant;
    size_t at, place;
    drop_remarks(table);
    json_object_foreach(table, key, rows)
    {
        json_array_foreach(rows, at, row)
        {
            drop_remarks(row);
            join_lists(row);
            json_object_foreach(row, row_key, inner)
            {
                join_lists(inner);
                json_array_foreach(inner, place, variant) join_lists(variant);
            }
        }
    }
}

/* Adds the file's content as the member named as the file without ".json". */
static bool add_table(json_t *tables, struct af_arena *arena, const char *path)
{
    struct anyflash_error err = {0};
    json_t *table;
    const char *name = af_path_name(path);
    size_t len = strlen(name);
    if (len <= 5 || !af_ends_with(name, ".json")) {
        fprintf(stderr, "pack_data: '%s' is no .json file\n", path);
        return false;
    }
    if (af_file_read_json(path, AF_CATALOG_BYTES_MAX, &table, &err) != ANYFLASH_OK)
        return report(&err) == 0;
    thin_table(table);
    const char *key = af_arena_text_n(arena, name, len - 5);
    return key != NULL && json_object_set_new(tables, key, table) == 0;
}

static int pack_tables(const char *out, char **paths, int count)
{
    struct af_arena arena;
    json_t *tables = json_object();
    char *text = NULL;
    int code = 1;
    bool good = tables != NULL;
    af_arena_init(&arena);
    for (int i = 0; good && i < count; i++)
        good = add_table(tables, &arena, paths[i]);
    if (good)
        text = json_dumps(tables, JSON_COMPACT);
    if (text != NULL)
        code = compress_to(out, "tables", (struct af_span){text, strlen(text)});
    af_mem_free(text);
    json_decref(tables);
    af_arena_release(&arena);
    return code;
}

static int pack_bytes(const char *name, const char *in, const char *out)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, in, AF_CATALOG_BYTES_MAX, &bytes, &err);
    int code = status == ANYFLASH_OK ? compress_to(out, name, bytes) : report(&err);
    af_arena_release(&arena);
    return code;
}

int main(int argc, char **argv)
{
    af_json_start();
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "catalog") == 0)
        return pack_catalog(argv[2], argv[3],
                            argc == 5 ? strtoul(argv[4], NULL, 10) : SIZE_MAX);
    if (argc >= 4 && strcmp(argv[1], "tables") == 0)
        return pack_tables(argv[2], argv + 3, argc - 3);
    if (argc == 5 && strcmp(argv[1], "bytes") == 0)
        return pack_bytes(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: pack_data catalog IN.jsonl OUT.c [HASHES_MAX]\n"
                    "       pack_data tables OUT.c IN.json...\n"
                    "       pack_data bytes NAME IN OUT.c\n");
    return 2;
}
