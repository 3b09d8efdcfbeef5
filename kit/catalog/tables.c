/*
 * tables.c: the embedded tables as typed rows. The embedded form is one JSON
 * object with a member per file of data/, where a list of words is one text, see
 * tools/pack_data.c.
 *
 * A row that does not have the form is our own mistake and fails the load with
 * INTERNAL, naming table, row and key; the tests load every row.
 */
#include "kit/catalog/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/formats/embedded.h"
#include "kit/formats/version.h"

#define TABLES_BYTES_MAX (4u * 1024u * 1024u)

/* The row being read, and where an error is recorded. Failure is sticky. */
struct row {
    struct af_arena *arena;
    const json_t *json;
    const char *table;
    size_t number;
    struct anyflash_error *err;
    bool failed;
};

static void bad(struct row *row, const char *key)
{
    if (!row->failed)
        af_fail(row->err, ANYFLASH_E_INTERNAL, "embedded table '%s', row %zu: invalid '%s'",
                row->table, row->number, key);
    row->failed = true;
}

/* The text of `key`, copied; NULL when it is absent or null. */
static const char *text(struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->json, key);
    if (value == NULL || json_is_null(value))
        return NULL;
    if (!json_is_string(value))
        bad(row, key);
    return af_arena_text(row->arena, json_string_value(value));
}

static const char *needed_text(struct row *row, const char *key)
{
    const char *value = text(row, key);
    if (value == NULL && !row->arena->failed)
        bad(row, key);
    return value;
}

/* The number of `key`; -1 when it is absent or null. */
static int number(struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->json, key);
    if (value == NULL || json_is_null(value))
        return -1;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > 1000000)
        bad(row, key);
    return (int)json_integer_value(value);
}

static enum af_answer answer(struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->json, key);
    if (value == NULL || json_is_null(value))
        return AF_UNKNOWN;
    if (!json_is_boolean(value))
        bad(row, key);
    return json_is_true(value) ? AF_YES : AF_NO;
}

/* The words of a text "8.0 9.0", the embedded form of a list. */
static struct af_words words(struct row *row, const char *key)
{
    const json_t *value = json_object_get(row->json, key);
    char *rest = af_arena_text(row->arena, json_string_value(value));
    size_t count = 0;
    if (value != NULL && !json_is_null(value) && !json_is_string(value))
        bad(row, key);
    if (rest == NULL)
        return (struct af_words){NULL, 0};
    for (const char *at = rest; at != NULL; at = strchr(at + 1, ' '))
        count++;
    const char **items = af_arena_array(row->arena, count, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i] = strsep(&rest, " ");
    return (struct af_words){items, items == NULL ? 0 : count};
}

/* Both numbers of "12.8". */
static void split(struct row *row, const char *key, const char *version, int *major, int *minor)
{
    struct af_version parsed;
    *major = *minor = -1;
    if (version == NULL)
        return;
    if (!af_version_parse(version, strlen(version), &parsed) || parsed.release_count != 2) {
        bad(row, key);
        return;
    }
    *major = (int)parsed.release[0];
    *minor = (int)parsed.release[1];
}

/* "cu128" is 12.8: the last digit is the minor. "cpu" has neither. */
static void split_variant(struct row *row, struct af_catalog_torch_variant *variant)
{
    int64_t digits;
    variant->cuda_major = variant->cuda_minor = -1;
    if (variant->cuda == NULL || strcmp(variant->cuda, "cpu") == 0)
        return;
    if (!af_starts_with(variant->cuda, "cu") ||
        !af_parse_i64(variant->cuda + 2, 100, 999, &digits)) {
        bad(row, "cuda");
        return;
    }
    variant->cuda_major = (int)(digits / 10);
    variant->cuda_minor = (int)(digits % 10);
}

static void read_variant(struct row *row, struct af_catalog_torch_variant *variant)
{
    variant->platform = needed_text(row, "platform");
    variant->cuda = needed_text(row, "cuda");
    split_variant(row, variant);
    variant->cxx11abi = answer(row, "cxx11abi");
    variant->glibc_min = text(row, "glibc_min");
    variant->sm = words(row, "sm");
    variant->is_default = answer(row, "default") == AF_YES;
}

static void read_torch(struct row *row, void *to)
{
    struct af_catalog_torch_release *release = to;
    const json_t *list = json_object_get(row->json, "variants");
    release->minor = needed_text(row, "torch");
    split(row, "torch", release->minor, &release->major_number, &release->minor_number);
    release->latest = needed_text(row, "latest");
    release->layout = number(row, "layout");
    release->cxx_std_min = number(row, "cxx_std_min");
    release->flash_kernels_windows = answer(row, "flash_kernels_windows");
    release->pythons = words(row, "python");
    release->pythons_free_threaded = words(row, "python_free_threaded");
    release->variant_count = json_array_size(list);
    struct af_catalog_torch_variant *variants =
        af_arena_array(row->arena, release->variant_count, sizeof *variants);
    struct row inner = *row;
    for (size_t i = 0; variants != NULL && i < release->variant_count; i++) {
        inner.json = json_array_get(list, i);
        read_variant(&inner, &variants[i]);
    }
    row->failed = inner.failed;
    release->variants = variants;
}

static void read_cuda(struct row *row, void *to)
{
    struct af_cuda_toolkit *toolkit = to;
    toolkit->version = needed_text(row, "cuda");
    split(row, "cuda", toolkit->version, &toolkit->major, &toolkit->minor);
    toolkit->gcc_max = number(row, "gcc_max");
    toolkit->clang_max = number(row, "clang_max");
    toolkit->driver_linux_min = text(row, "driver_linux_min");
    toolkit->driver_windows_min = text(row, "driver_windows_min");
    toolkit->driver_linux_floor = needed_text(row, "driver_linux_floor");
    toolkit->sm_targets = words(row, "sm_targets");
}

static void read_ptx_isa(struct row *row, void *to)
{
    struct af_ptx_isa *isa = to;
    split(row, "ptx", needed_text(row, "ptx"), &isa->major, &isa->minor);
    split(row, "cuda", needed_text(row, "cuda"), &isa->cuda_major, &isa->cuda_minor);
}

static void read_unpacking(struct row *row, void *to)
{
    struct af_unpacking *unpacking = to;
    unpacking->packing = needed_text(row, "packing");
    unpacking->driver_linux_min = needed_text(row, "driver_linux_min");
}

static void read_flash(struct row *row, void *to)
{
    struct af_catalog_flash_release *release = to;
    release->version = needed_text(row, "version");
    release->python_requires = text(row, "python_requires");
    release->archs = text(row, "archs");
}

static void read_fa4(struct row *row, void *to)
{
    struct af_catalog_fa4_release *release = to;
    release->first = needed_text(row, "first");
    release->python_requires = needed_text(row, "python_requires");
    release->needs = words(row, "needs");
    release->needs_cuda13 = text(row, "needs_cuda13");
    release->forward = words(row, "forward");
    release->backward = words(row, "backward");
    release->paged = words(row, "paged");
}

static enum af_trap_effect effect(struct row *row)
{
    static const char *const names[] = {
        [AF_TRAP_NOTE] = "note",           [AF_TRAP_ABI] = "abi",
        [AF_TRAP_GLIBC] = "glibc",         [AF_TRAP_SM_MAX] = "sm_max",
        [AF_TRAP_SM_ONLY] = "sm_only",     [AF_TRAP_TORCH_BUILD] = "torch_build",
        [AF_TRAP_TORCH_MIN] = "torch_min", [AF_TRAP_NOT_INSTALLABLE] = "not_installable"};
    const char *name = json_string_value(json_object_get(row->json, "effect"));
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (af_equal(names[i], name))
            return (enum af_trap_effect)i;
    }
    bad(row, "effect");
    return AF_TRAP_NOTE;
}

static void read_trap(struct row *row, void *to)
{
    struct af_trap *trap = to;
    trap->id = needed_text(row, "id");
    trap->reason = needed_text(row, "reason");
    trap->effect = effect(row);
    trap->value = text(row, "value");
    trap->detail = needed_text(row, "detail");
    trap->source = needed_text(row, "source");
    trap->date = needed_text(row, "date");
    struct row match = *row;
    match.json = json_object_get(row->json, "match");
    if (!json_is_object(match.json))
        bad(&match, "match");
    trap->match.packages = words(&match, "packages");
    trap->match.sources = words(&match, "sources");
    trap->match.torch = words(&match, "torch");
    trap->match.platforms = words(&match, "platforms");
    trap->match.builds = words(&match, "builds");
    trap->match.versions = text(&match, "versions");
    trap->match.local_has = text(&match, "local_has");
    trap->match.label = answer(&match, "label");
    trap->match.metadata_has_local = answer(&match, "metadata_has_local");
    trap->match.valid_name = answer(&match, "valid_name");
    trap->match.official_only = answer(&match, "official") == AF_YES;
    row->failed = match.failed;
}

/* One table: its member, the key of its rows, the row reader and the row size. */
struct table {
    const char *file;
    const char *rows;
    void (*read)(struct row *row, void *to);
    size_t row_bytes;
};

static void *read_table(const json_t *root, const struct table *table, struct row *row,
                        size_t *count_out)
{
    const json_t *rows = json_object_get(json_object_get(root, table->file), table->rows);
    size_t count = json_array_size(rows);
    char *memory = af_arena_array(row->arena, count, table->row_bytes);
    row->table = table->file;
    row->number = 0;
    if (count == 0)
        bad(row, table->rows);
    for (size_t i = 0; memory != NULL && !row->failed && i < count; i++) {
        row->json = json_array_get(rows, i);
        row->number = i + 1;
        table->read(row, memory + i * table->row_bytes);
    }
    *count_out = count;
    return memory;
}

/* The newest date in the files. */
static const char *youngest(const json_t *root, struct af_arena *arena)
{
    const char *youngest_date = "";
    void *at = json_object_iter((json_t *)(uintptr_t)root);
    for (; at != NULL; at = json_object_iter_next((json_t *)(uintptr_t)root, at)) {
        const char *date =
            json_string_value(json_object_get(json_object_iter_value(at), "date"));
        if (date != NULL && strcmp(date, youngest_date) > 0)
            youngest_date = date;
    }
    return af_arena_text(arena, youngest_date);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp((*(const struct af_catalog_flash_release *const *)a)->version,
                  (*(const struct af_catalog_flash_release *const *)b)->version);
}

/* Ranking looks up releases by text a hundred thousand times. */
static void index_flash(struct af_tables *tables)
{
    const struct af_catalog_flash_release **index =
        af_arena_array(&tables->arena, tables->flash_count, sizeof *index);
    for (size_t i = 0; index != NULL && i < tables->flash_count; i++)
        index[i] = &tables->flash[i];
    if (!tables->arena.failed)
        qsort(index, tables->flash_count, sizeof *index, compare_text);
    tables->flash_by_text = index;
}

static bool read_all(const json_t *root, struct af_tables *tables, struct anyflash_error *err)
{
    static const struct table torch = {"torch", "releases", read_torch,
                                       sizeof(struct af_catalog_torch_release)};
    static const struct table cuda = {"cuda", "toolkits", read_cuda,
                                      sizeof(struct af_cuda_toolkit)};
    static const struct table ptx = {"cuda", "ptx_isa", read_ptx_isa,
                                     sizeof(struct af_ptx_isa)};
    static const struct table unpacking = {"cuda", "compression", read_unpacking,
                                           sizeof(struct af_unpacking)};
    static const struct table flash = {"flash_attn_releases", "releases", read_flash,
                                       sizeof(struct af_catalog_flash_release)};
    static const struct table fa4 = {"flash_attn_4", "releases", read_fa4,
                                     sizeof(struct af_catalog_fa4_release)};
    static const struct table traps = {"traps", "traps", read_trap, sizeof(struct af_trap)};
    struct row row = {.arena = &tables->arena, .err = err};
    tables->torch = read_table(root, &torch, &row, &tables->torch_count);
    tables->cuda = read_table(root, &cuda, &row, &tables->cuda_count);
    tables->ptx_isa = read_table(root, &ptx, &row, &tables->ptx_isa_count);
    tables->unpacking = read_table(root, &unpacking, &row, &tables->unpacking_count);
    tables->flash = read_table(root, &flash, &row, &tables->flash_count);
    tables->fa4 = read_table(root, &fa4, &row, &tables->fa4_count);
    tables->traps = read_table(root, &traps, &row, &tables->trap_count);
    tables->date = youngest(root, &tables->arena);
    if (!row.failed && !tables->arena.failed)
        index_flash(tables);
    return !row.failed;
}

static enum anyflash_status load(struct af_tables *tables, struct anyflash_error *err)
{
    struct af_arena scratch;
    struct af_span bytes;
    json_t *root = NULL;
    af_arena_init(&scratch);
    enum anyflash_status status = af_embedded_open(&af_embedded_tables, &scratch, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_json_parse(bytes, TABLES_BYTES_MAX, "embedded tables", &root, err);
    if (status == ANYFLASH_OK && !read_all(root, tables, err))
        status = ANYFLASH_E_INTERNAL;
    if (tables->arena.failed)
        status = af_fail_memory(err);
    json_decref(root);
    af_arena_release(&scratch);
    return status;
}

enum anyflash_status af_tables_load(struct af_tables *tables, struct anyflash_error *err)
{
    struct af_tables loaded = {0};
    af_arena_init(&loaded.arena);
    enum anyflash_status status = load(&loaded, err);
    if (status == ANYFLASH_OK)
        *tables = loaded;
    else
        af_arena_release(&loaded.arena);
    return status;
}

void af_tables_release(struct af_tables *tables)
{
    af_arena_release(&tables->arena);
    *tables = (struct af_tables){0};
}

const struct af_catalog_torch_release *af_tables_torch(const struct af_tables *tables,
                                                       int major, int minor)
{
    for (size_t i = 0; i < tables->torch_count; i++) {
        if (tables->torch[i].major_number == major && tables->torch[i].minor_number == minor)
            return &tables->torch[i];
    }
    return NULL;
}

const struct af_catalog_torch_variant *af_tables_variant(
    const struct af_catalog_torch_release *release, const char *platform, const char *cuda)
{
    for (size_t i = 0; i < release->variant_count; i++) {
        const struct af_catalog_torch_variant *variant = &release->variants[i];
        if (af_equal(variant->platform, platform) && af_equal(variant->cuda, cuda))
            return variant;
    }
    return NULL;
}

const char *af_tables_platform(const char *os, const char *arch)
{
    bool x86_64 = af_equal(arch, "x86_64");
    if (af_equal(os, "linux"))
        return x86_64 ? "linux_x86_64" : af_equal(arch, "aarch64") ? "linux_aarch64" : NULL;
    return af_equal(os, "windows") && x86_64 ? "win_amd64" : NULL;
}

const struct af_catalog_torch_variant *af_tables_default(
    const struct af_catalog_torch_release *release, const char *platform)
{
    for (size_t i = 0; i < release->variant_count; i++) {
        const struct af_catalog_torch_variant *variant = &release->variants[i];
        if (variant->is_default && af_equal(variant->platform, platform))
            return variant;
    }
    return NULL;
}

const struct af_cuda_toolkit *af_tables_cuda(const struct af_tables *tables, int major,
                                             int minor)
{
    for (size_t i = 0; i < tables->cuda_count; i++) {
        if (tables->cuda[i].major == major && tables->cuda[i].minor == minor)
            return &tables->cuda[i];
    }
    return NULL;
}

const struct af_catalog_flash_release *af_tables_flash(const struct af_tables *tables,
                                                       const char *version)
{
    size_t low = 0;
    for (size_t high = tables->flash_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(tables->flash_by_text[middle]->version, version);
        if (order == 0)
            return tables->flash_by_text[middle];
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

const struct af_catalog_fa4_release *af_tables_fa4(const struct af_tables *tables,
                                                   const char *version)
{
    struct af_version wanted, first;
    const struct af_catalog_fa4_release *found = NULL;
    if (!af_version_parse(version, strlen(version), &wanted))
        return NULL;
    for (size_t i = 0; i < tables->fa4_count; i++)
        if (af_version_parse(tables->fa4[i].first, strlen(tables->fa4[i].first), &first) &&
            af_version_compare(&first, &wanted) <= 0)
            found = &tables->fa4[i];
    return found;
}

static bool is_newer_build(const struct af_catalog_torch_variant *a,
                           const struct af_catalog_torch_variant *b)
{
    return a->cuda_major > b->cuda_major ||
           (a->cuda_major == b->cuda_major && a->cuda_minor > b->cuda_minor);
}

const struct af_catalog_torch_variant *af_tables_next_build(
    const struct af_tables *tables, const char *platform,
    const struct af_catalog_torch_variant *previous)
{
    const struct af_catalog_torch_variant *next = NULL;
    for (size_t i = 0; i < tables->torch_count; i++)
        for (size_t v = 0; v < tables->torch[i].variant_count; v++) {
            const struct af_catalog_torch_variant *variant = &tables->torch[i].variants[v];
            if (variant->cuda_major > 0 &&
                (platform == NULL || af_equal(variant->platform, platform)) &&
                (previous == NULL || is_newer_build(previous, variant)) &&
                (next == NULL || is_newer_build(variant, next)))
                next = variant;
        }
    return next;
}

bool af_words_have(struct af_words words, const char *word)
{
    for (size_t i = 0; i < words.count; i++) {
        if (af_equal(words.items[i], word))
            return true;
    }
    return false;
}

/* Whether `words` is empty, which allows every text, or contains `text`. */
static bool allows(struct af_words words, const char *text)
{
    return words.count == 0 || af_words_have(words, text);
}

static bool allows_start(struct af_words words, const char *text)
{
    for (size_t i = 0; i < words.count; i++) {
        if (af_starts_with(text, words.items[i]))
            return true;
    }
    return words.count == 0;
}

static bool allows_torch(struct af_words words, const struct af_catalog_wheel *wheel)
{
    char minor[32];
    if (words.count == 0)
        return true;
    snprintf(minor, sizeof minor, "%d.%d", wheel->torch_major, wheel->torch_minor);
    return af_words_have(words, minor);
}

static bool allows_version(const char *specifiers, const char *text)
{
    struct af_version version;
    if (specifiers == NULL)
        return true;
    return af_version_parse(text, strlen(text), &version) &&
           af_specifier_contains(specifiers, &version) == AF_YES;
}

static bool allows_local(const char *part, const char *local)
{
    return part == NULL || (local != NULL && strcasestr(local, part) != NULL);
}

static bool allows_answer(enum af_answer wanted, enum af_answer answer)
{
    return wanted == AF_UNKNOWN || wanted == answer;
}

bool af_trap_matches(const struct af_trap *trap, const struct af_catalog_wheel *wheel)
{
    return (!trap->match.official_only || wheel->official) &&
           allows_answer(trap->match.label, wheel->cxx11abi) &&
           allows_answer(trap->match.metadata_has_local, wheel->metadata_has_local) &&
           allows_answer(trap->match.valid_name, wheel->valid_name ? AF_YES : AF_NO) &&
           allows(trap->match.packages, wheel->package) &&
           allows(trap->match.sources, wheel->source) &&
           allows(trap->match.builds, wheel->torch_build_cuda) &&
           allows_start(trap->match.platforms, wheel->platform) &&
           allows_torch(trap->match.torch, wheel) &&
           allows_local(trap->match.local_has, wheel->local) &&
           allows_version(trap->match.versions, wheel->version);
}
