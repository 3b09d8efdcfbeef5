/*
 * pack_data.c: writes the project's data as C source, when the program is built.
 *
 *   pack_data catalog data/wheels.jsonl OUT.c [HASHES_MAX]
 *   pack_data tables HEADER STRUCT NAME OUT.c data/torch.json data/cuda.json ...
 *   pack_data rows NAME IN.tsv OUT.c
 *   pack_data bytes NAME IN OUT.c
 *
 * The catalog is read by the code that reads a newer catalog file, so a bad row
 * ends the build with its line and field. If more than HASHES_MAX rows have a hash,
 * all hashes are left out: they do not compress, and the web page must stay small.
 * Tables become one constant, `const struct STRUCT NAME`; the rows of a .tsv file become
 * texts. Bytes are compressed as they are.
 */
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#define COMPRESSION_LEVEL 19
#define BYTES_A_LINE 20
#define HEAD "/* Written by tools/pack_data.c. */\n"

static int report(const struct anyflash_error *err)
{
    fprintf(stderr, "pack_data: %s\n", err->message);
    return 1;
}

static int cannot_write(const char *path)
{
    fprintf(stderr, "pack_data: cannot write '%s'\n", path);
    return 1;
}

/* As a string: gcc takes fifteen times as long to compile a list of numbers. */
static void write_bytes(FILE *out, const char *name, const unsigned char *bytes, size_t len)
{
    fprintf(out, HEAD "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
                      "#include \"kit/formats/embedded.h\"\n\n"
                      "static const unsigned char bytes[] = \"");
    for (size_t i = 0; i < len; i++)
        fprintf(out, "%s\\%03o", i % BYTES_A_LINE == 0 ? "\"\n\"" : "", (unsigned)bytes[i]);
    fprintf(out, "\";\nconst struct af_embedded af_embedded_%s = {bytes, sizeof bytes - 1};\n",
            name);
}

static int compress_to(const char *path, const char *name, struct af_span content)
{
    size_t capacity = ZSTD_compressBound(content.len);
    unsigned char *bytes = af_memory_alloc(capacity);
    FILE *out = fopen(path, "w");
    size_t len = ZSTD_compress(bytes, capacity, content.data, content.len, COMPRESSION_LEVEL);
    bool good = out != NULL && !ZSTD_isError(len);
    if (good)
        write_bytes(out, name, bytes, len);
    good = (out == NULL || fclose(out) == 0) && good;
    af_memory_free(bytes);
    return good ? 0 : cannot_write(path);
}

/* The wheels without their hashes if more than `max` have one. */
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
    for (size_t i = 0; i < count; i++) {
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
    else if (af_catalog_pack(limit_hashes(wheels, count, hashes_max, &arena), count, date,
                             &packed, &err) != ANYFLASH_OK)
        report(&err);
    else
        code = compress_to(out, "catalog", (struct af_span){packed.data, packed.len});
    af_text_release(&packed);
    af_arena_release(&arena);
    return code;
}

/*
 * What a JSON object of data/FILE.json is in C. Its keys are members of the struct with
 * the same names, so that the compiler refuses a key or a value that does not belong there.
 */
struct row_type {
    const char *file;
    const char *key;     /* of the list of rows, or of the object */
    const char *member;  /* of struct af_tables, or of the row that contains it */
    const char *type;    /* of the list's rows, a struct */
    const char *needed;  /* keys that must be there */
    const char *unknown; /* members that are not 0 if their key is missing */
};

static const struct row_type row_types[] = {
    {"torch", "releases", "torch", "af_catalog_torch_release",
     "torch latest released python variants",
     ".layout = -1, .cxx_std_min = -1, .flash_kernels_windows = AF_UNKNOWN, "},
    {"torch", "variants", "variants", "af_catalog_torch_variant", "platform cuda",
     ".cxx11abi = AF_UNKNOWN, "},
    {"cuda", "toolkits", "cuda", "af_cuda_toolkit", "cuda driver_linux_floor sm_targets",
     ".gcc_max = -1, .clang_max = -1, "},
    {"cuda", "ptx_isa", "ptx_isa", "af_ptx_isa", "ptx cuda", ""},
    {"cuda", "compression", "unpacking", "af_unpacking", "packing driver_linux_min", ""},
    {"flash_attn_releases", "releases", "flash", "af_catalog_flash_release", "version", ""},
    {"flash_attn_releases", "advisories", "advisories", "af_advisory", "id versions detail",
     ""},
    {"flash_attn_4", "releases", "fa4", "af_catalog_fa4_release",
     "first python_requires forward backward paged", ""},
    {"traps", "traps", "traps", "af_trap", "id reason match effect detail", ""},
    {"causes", "rows", "rows", "af_cause", "id phases title why next fix", ""},
    {"torch_symbols", "builds", "builds", "af_catalog_symbol_build",
     "version variant platform libraries", ".cxx11abi = AF_UNKNOWN, "},
    {"torch_symbols", "libraries", "libraries", "af_catalog_torch_library", "name file origin",
     ""},
    {"traps", "match", "match", NULL, "",
     ".label = AF_UNKNOWN, .metadata_has_local = AF_UNKNOWN, .valid_name = AF_UNKNOWN, "},
};

/* Keys of rows that the program does not use. */
static const char unused_keys[] =
    " build_image cu_files date flash_kernels gcc_min gpu_check note nvcc_builds nvcc_min "
    "sm_cuda124 sm_cuda128 source source_date symbols tensor_vtable_bytes torch_builds "
    "wheels_planned wheels_published ";

static bool has_word(const char *words, const char *word)
{
    char between[64];
    snprintf(between, sizeof between, " %s ", word);
    return strstr(words, between) != NULL;
}

struct tables {
    FILE *out;
    const char *path; /* of the file of data/ that is read */
    const char *file; /* its name without ".json" */
    bool failed;
};

static const struct row_type *find_type(const struct tables *tables, const char *key)
{
    for (size_t i = 0; i < AF_COUNT(row_types); i++) {
        if (strcmp(row_types[i].file, tables->file) == 0 && strcmp(row_types[i].key, key) == 0)
            return &row_types[i];
    }
    return NULL;
}

static void check_needed(struct tables *tables, const json_t *row, const struct row_type *type,
                         size_t number)
{
    char needed[128];
    char *rest = needed;
    snprintf(needed, sizeof needed, "%s", type->needed);
    for (const char *key = strsep(&rest, " "); key != NULL; key = strsep(&rest, " ")) {
        const json_t *value = json_object_get(row, key);
        if (value != NULL && !json_is_null(value))
            continue;
        fprintf(stderr, "pack_data: %s: row %zu of '%s' has no '%s'\n", tables->path, number,
                type->key, key);
        tables->failed = true;
    }
}

static void write_text(FILE *out, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    fputs(text, out);
    af_memory_free(text);
}

/* Both numbers of a version, "12.8" or "cu128"; -1 if it has none ("cpu"). */
static void write_numbers(FILE *out, const char *key, const char *version)
{
    int major = -1;
    int minor = -1;
    if (sscanf(version, "cu%2d%1d", &major, &minor) != 2)
        sscanf(version, "%d.%d", &major, &minor);
    fprintf(out, ".%s_major = %d, .%s_minor = %d, ", key, major, key, minor);
}

/* "sm-max" is PREFIX_SM_MAX, a number of an enum. */
static void write_enum(FILE *out, const char *prefix, const char *word)
{
    fputs(prefix, out);
    for (; *word != '\0'; word++)
        putc(*word >= 'a' && *word <= 'z' ? *word - 'a' + 'A'
             : *word == '-'               ? '_'
                                          : *word,
             out);
}

static void write_phases(FILE *out, const json_t *phases)
{
    size_t at;
    json_t *phase;
    fputs(".phases = 0", out);
    json_array_foreach(phases, at, phase)
    {
        const char *word = json_string_value(phase);
        write_enum(out, " | 1u << AF_CAUSE_", word == NULL ? "" : word);
    }
    fputs(", ", out);
}

static void write_words(FILE *out, const char *key, const json_t *words)
{
    size_t at;
    json_t *word;
    fprintf(out, ".%s = {(const char *const[]){", key);
    json_array_foreach(words, at, word)
    {
        write_text(out, word);
        fputs(", ", out);
    }
    fprintf(out, "}, %zu}, ", json_array_size(words));
}

static void write_value(FILE *out, const char *key, const json_t *value)
{
    const char *text = json_string_value(value);
    if (json_is_array(value)) {
        if (strcmp(key, "phases") == 0)
            write_phases(out, value);
        else
            write_words(out, key, value);
        return;
    }
    fprintf(out, ".%s = ", key);
    if (text != NULL && strcmp(key, "effect") == 0)
        write_enum(out, "AF_TRAP_", text);
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "AF_YES" : "AF_NO", out);
    else
        write_text(out, value);
    fputs(", ", out);
    if (text != NULL && has_word(" torch cuda ptx ", key))
        write_numbers(out, key, text);
}

/* The members of a file (`type` is NULL), of a row, or of an object in a row. */
static void write_members(struct tables *tables, json_t *object, const struct row_type *type)
{
    const char *key;
    json_t *value, *row;
    size_t at;
    fputs(type == NULL ? "" : type->unknown, tables->out);
    json_object_foreach(object, key, value)
    {
        const struct row_type *inner = find_type(tables, key);
        bool empty = json_is_array(value) && json_array_size(value) == 0;
        bool used = inner != NULL || (type != NULL && !has_word(unused_keys, key));
        if (!used || json_is_null(value) || empty)
            continue;
        if (inner == NULL) {
            write_value(tables->out, key, value);
            continue;
        }
        fprintf(tables->out, inner->type == NULL ? ".%s = {" : ".%s = (const struct %s[]){",
                inner->member, inner->type);
        if (inner->type == NULL)
            write_members(tables, value, inner);
        json_array_foreach(value, at, row)
        {
            check_needed(tables, row, inner, at + 1);
            fputs("\n{", tables->out);
            write_members(tables, row, inner);
            fputs("},", tables->out);
        }
        fputs("}, ", tables->out);
        if (inner->type != NULL)
            fprintf(tables->out, ".%s_count = %zu,\n", inner->member, json_array_size(value));
    }
}

/* A file of one JSON object a line, as the list "rows". */
static enum anyflash_status read_lines(const char *path, json_t **root_out,
                                       struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span rest, line;
    json_t *rows = json_array();
    json_t *row;
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, path, AF_CATALOG_BYTES_MAX, &rest, err);
    while (status == ANYFLASH_OK && af_text_line(&rest, &line)) {
        status = af_json_parse(line, AF_CATALOG_BYTES_MAX, path, &row, err);
        if (status == ANYFLASH_OK)
            rows = af_json_append(rows, row);
    }
    *root_out = json_pack("{s:o}", "rows", rows);
    af_arena_release(&arena);
    return status;
}

static bool write_table(struct tables *tables, const char *path)
{
    char name[64];
    struct anyflash_error err = {0};
    json_t *root = NULL;
    snprintf(name, sizeof name, "%s", af_path_name(path));
    name[strcspn(name, ".")] = '\0';
    tables->path = path;
    tables->file = name;
    enum anyflash_status status =
        af_ends_with(path, ".jsonl")
            ? read_lines(path, &root, &err)
            : af_file_read_json(path, AF_CATALOG_BYTES_MAX, &root, &err);
    if (status != ANYFLASH_OK)
        return report(&err) == 0;
    write_members(tables, root, NULL);
    json_decref(root);
    return !tables->failed;
}

/* A constant `name`, a struct `tag` that `header` declares, with the rows of all files. */
static int pack_tables(const char *header, const char *tag, const char *name, const char *out,
                       char **paths, int count)
{
    struct tables tables = {.out = fopen(out, "w")};
    bool good = tables.out != NULL;
    if (!good)
        return cannot_write(out);
    /* A row first gets the members that are unknown, and then those of its keys. */
    fprintf(tables.out,
            HEAD "#include \"%s\"\n\n"
                 "#pragma GCC diagnostic error \"-Wint-conversion\"\n"
                 "#pragma GCC diagnostic ignored \"-Woverride-init\"\n"
                 "const struct %s %s = {\n",
            header, tag, name);
    for (int i = 0; good && i < count; i++)
        good = write_table(&tables, paths[i]);
    fputs("};\n", tables.out);
    if (fclose(tables.out) != 0)
        return cannot_write(out);
    return good ? 0 : 1;
}

static void write_row(FILE *out, struct af_span line)
{
    fputs("{\"", out);
    for (size_t i = 0; i < line.len; i++) {
        if (line.data[i] == '\t')
            fputs("\", \"", out);
        else
            fprintf(out, line.data[i] == '"' || line.data[i] == '\\' ? "\\%c" : "%c",
                    line.data[i]);
    }
    fputs("\"},\n", out);
}

/* The rows of a .tsv file; its lines that start with '#' are remarks. */
static bool write_rows(FILE *out, const char *name, const char *in, struct af_span rest)
{
    size_t column_count = 0;
    struct af_span line;
    for (size_t number = 1; af_text_line(&rest, &line); number++) {
        size_t count = 1;
        for (size_t i = 0; i < line.len; i++)
            count += line.data[i] == '\t';
        if (line.len == 0 || line.data[0] == '#')
            continue;
        if (column_count == 0)
            fprintf(out, "const char *const af_embedded_%s[][%zu] = {\n", name, count);
        else if (count != column_count) {
            fprintf(stderr, "pack_data: %s:%zu: the row has %zu columns instead of %zu\n", in,
                    number, count, column_count);
            return false;
        }
        column_count = count;
        write_row(out, line);
    }
    fputs("{NULL}};\n", out);
    return true;
}

static int pack_rows(const char *name, const char *in, const char *out)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    FILE *file = fopen(out, "w");
    if (file == NULL)
        return cannot_write(out);
    fputs(HEAD "#include \"kit/formats/embedded.h\"\n\n", file);
    af_arena_init(&arena);
    int code = 1;
    if (af_file_read(&arena, in, AF_CATALOG_BYTES_MAX, &bytes, &err) != ANYFLASH_OK)
        report(&err);
    else if (write_rows(file, name, in, bytes))
        code = 0;
    af_arena_release(&arena);
    return fclose(file) == 0 ? code : cannot_write(out);
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
    if (argc >= 7 && strcmp(argv[1], "tables") == 0)
        return pack_tables(argv[2], argv[3], argv[4], argv[5], argv + 6, argc - 6);
    if (argc == 5 && strcmp(argv[1], "rows") == 0)
        return pack_rows(argv[2], argv[3], argv[4]);
    if (argc == 5 && strcmp(argv[1], "bytes") == 0)
        return pack_bytes(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: pack_data catalog IN.jsonl OUT.c [HASHES_MAX]\n"
                    "       pack_data tables HEADER STRUCT NAME OUT.c IN.json...\n"
                    "       pack_data rows NAME IN.tsv OUT.c\n"
                    "       pack_data bytes NAME IN OUT.c\n");
    return 2;
}
