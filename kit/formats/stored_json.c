/*
 * stored_json.c: converts the facts of binary.h, fatbin.h and flash_kernel.h to
 * JSON and back, so that they can be stored in place of a file that is slow to
 * read. Stored JSON may be damaged or written by another program, so it is
 * checked as strictly as a file.
 */
#include <limits.h>

#include "kit/base/text.h"
#include "kit/formats/binary.h"
#include "kit/formats/flash_kernel.h"

#define ROWS_MAX 1000000u
#define PLACE_MAX INT64_MAX
#define FEATURES_MAX (AF_FLASH_APPEND * 2 - 1)
#define SM_MAX 100000
#define GENERATION_MAX 9

/* State of reading. `bad` is sticky: the JSON is not what we write. */
struct kept {
    struct af_arena *arena;
    bool bad;
};

static void append(json_t **list, json_t *item)
{
    if (*list != NULL && item != NULL && json_array_append_new(*list, item) == 0)
        return;
    if (*list == NULL)
        json_decref(item);
    json_decref(*list);
    *list = NULL;
}

static json_t *text_to_json(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static const char *take_text(struct kept *kept, const json_t *value, bool may_be_null)
{
    if (!json_is_string(value)) {
        kept->bad = kept->bad || !may_be_null || !json_is_null(value);
        return NULL;
    }
    return af_binary_text(kept->arena, json_string_value(value));
}

static bool take_bool(struct kept *kept, const json_t *value)
{
    kept->bad = kept->bad || !json_is_boolean(value);
    return json_is_true(value);
}

static int64_t take_number(struct kept *kept, const json_t *value, int64_t min, int64_t max)
{
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= min && number <= max)
        return number;
    kept->bad = true;
    return min;
}

static void *take_rows(struct kept *kept, const json_t *json, const char *name,
                       size_t row_bytes, const json_t **list_out, size_t *count_out)
{
    const json_t *list = json_object_get(json, name);
    *list_out = list;
    *count_out = json_array_size(list);
    kept->bad = kept->bad || !json_is_array(list) || *count_out > ROWS_MAX;
    if (kept->bad)
        *count_out = 0;
    void *rows = af_arena_array(kept->arena, *count_out + 1, row_bytes);
    if (rows == NULL)
        *count_out = 0;
    return rows;
}

/* ---- binary.h ---- */

static json_t *texts_to_json(struct af_texts texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts.count; i++)
        append(&list, json_string(texts.items[i]));
    return list;
}

static json_t *undefined_to_json(const struct af_binary *binary)
{
    json_t *list = json_array();
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const struct af_undefined *row = &binary->undefined[i];
        append(&list, json_pack("[s, o, o, b]", row->name, text_to_json(row->version),
                                text_to_json(row->library), row->weak));
    }
    return list;
}

static json_t *version_needs_to_json(const struct af_binary *binary)
{
    json_t *list = json_array();
    for (size_t i = 0; i < binary->version_need_count; i++)
        append(&list, json_pack("[s, s]", binary->version_needs[i].library,
                                binary->version_needs[i].version));
    return list;
}

json_t *af_binary_to_json(const struct af_binary *binary)
{
    return json_pack(
        "{s:i, s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}",
        "schema", AF_BINARY_SCHEMA, "name", binary->name, "machine",
        text_to_json(binary->machine), "is_64", binary->is_64, "soname",
        text_to_json(binary->soname), "rpath", text_to_json(binary->rpath), "runpath",
        text_to_json(binary->runpath), "needed", texts_to_json(binary->needed), "undefined",
        undefined_to_json(binary), "version_needs", version_needs_to_json(binary), "init_name",
        text_to_json(binary->init_name), "pybind_internals",
        texts_to_json(binary->pybind_internals), "assertions",
        texts_to_json(binary->assertions), "pybind_python", text_to_json(binary->pybind_python),
        "has_gpu_code", binary->has_gpu_code, "is_complete", binary->is_complete);
}

static struct af_texts take_texts(struct kept *kept, const json_t *json, const char *name)
{
    const json_t *list;
    size_t count;
    const char **items = take_rows(kept, json, name, sizeof *items, &list, &count);
    for (size_t i = 0; i < count; i++)
        items[i] = take_text(kept, json_array_get(list, i), false);
    return (struct af_texts){items, count};
}

static void take_undefined(struct kept *kept, const json_t *json, struct af_binary *binary)
{
    const json_t *list;
    size_t count;
    struct af_undefined *rows = take_rows(kept, json, "undefined", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i] = (struct af_undefined){
            .name = take_text(kept, json_array_get(row, 0), false),
            .version = take_text(kept, json_array_get(row, 1), true),
            .library = take_text(kept, json_array_get(row, 2), true),
            .weak = take_bool(kept, json_array_get(row, 3)),
        };
    }
    binary->undefined = rows;
    binary->undefined_count = count;
}

static void take_version_needs(struct kept *kept, const json_t *json, struct af_binary *binary)
{
    const json_t *list;
    size_t count;
    struct af_version_need *rows =
        take_rows(kept, json, "version_needs", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i].library = take_text(kept, json_array_get(row, 0), false);
        rows[i].version = take_text(kept, json_array_get(row, 1), false);
    }
    binary->version_needs = rows;
    binary->version_need_count = count;
}

enum anyflash_status af_binary_from_json(struct af_arena *arena, const json_t *json,
                                         struct af_binary *out, struct anyflash_error *err)
{
    struct kept kept = {arena, false};
    if (json_integer_value(json_object_get(json, "schema")) != AF_BINARY_SCHEMA)
        return af_fail(err, ANYFLASH_E_DATA,
                       "cached data about a binary has a different schema");
    struct af_binary binary = {
        .name = take_text(&kept, json_object_get(json, "name"), false),
        .machine = take_text(&kept, json_object_get(json, "machine"), true),
        .is_64 = take_bool(&kept, json_object_get(json, "is_64")),
        .soname = take_text(&kept, json_object_get(json, "soname"), true),
        .rpath = take_text(&kept, json_object_get(json, "rpath"), true),
        .runpath = take_text(&kept, json_object_get(json, "runpath"), true),
        .needed = take_texts(&kept, json, "needed"),
        .init_name = take_text(&kept, json_object_get(json, "init_name"), true),
        .pybind_internals = take_texts(&kept, json, "pybind_internals"),
        .assertions = take_texts(&kept, json, "assertions"),
        .pybind_python = take_text(&kept, json_object_get(json, "pybind_python"), true),
        .has_gpu_code = take_bool(&kept, json_object_get(json, "has_gpu_code")),
        .is_complete = take_bool(&kept, json_object_get(json, "is_complete")),
    };
    take_undefined(&kept, json, &binary);
    take_version_needs(&kept, json, &binary);
    if (arena->failed)
        return af_fail_memory(err);
    if (kept.bad)
        return af_fail(err, ANYFLASH_E_DATA, "cached data about a binary is corrupt");
    *out = binary;
    return ANYFLASH_OK;
}

static json_t *gpu_containers_to_json(const struct af_gpu_code *code)
{
    json_t *list = json_array();
    for (size_t i = 0; i < code->container_count; i++) {
        const struct af_gpu_container *row = &code->containers[i];
        append(&list,
               json_pack("[I, I, I, b]", (json_int_t)row->offset, (json_int_t)row->image_first,
                         (json_int_t)row->image_count, row->is_relocatable));
    }
    return list;
}

static json_t *images_to_json(const struct af_gpu_code *code)
{
    json_t *list = json_array();
    for (size_t i = 0; i < code->image_count; i++) {
        const struct af_gpu_image *row = &code->images[i];
        append(&list,
               json_pack("[I, I, I, I, i, i, i, i, i, i, i, b, i]", (json_int_t)row->offset,
                         (json_int_t)row->stored_bytes, (json_int_t)row->raw_bytes,
                         (json_int_t)row->container, row->sm, row->suffix, row->kind_number,
                         row->version_major, row->version_minor, (int)row->kind,
                         (int)row->packing, row->is_debug, (int)row->has_entry));
    }
    return list;
}

json_t *af_gpu_code_to_json(const struct af_gpu_code *code)
{
    return json_pack("{s:o, s:o, s:I, s:b, s:o}", "containers", gpu_containers_to_json(code),
                     "images", images_to_json(code), "registered",
                     (json_int_t)code->wrapper_count, "was_searched", code->was_searched,
                     "problem", text_to_json(code->problem));
}

/* Reads number `at` of the row. */
static int64_t take(struct kept *kept, const json_t *row, size_t at, int64_t max)
{
    return take_number(kept, json_array_get(row, at), 0, max);
}

static void take_images(struct kept *kept, const json_t *json, struct af_gpu_code *code)
{
    const json_t *list;
    size_t count;
    struct af_gpu_image *rows = take_rows(kept, json, "images", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i] = (struct af_gpu_image){
            .offset = (uint64_t)take(kept, row, 0, PLACE_MAX),
            .stored_bytes = (uint64_t)take(kept, row, 1, PLACE_MAX),
            .raw_bytes = (uint64_t)take(kept, row, 2, PLACE_MAX),
            .container = (uint32_t)take(kept, row, 3, (int64_t)code->container_count - 1),
            .sm = (int)take(kept, row, 4, INT_MAX),
            .suffix = (char)take(kept, row, 5, 'z'),
            .kind_number = (uint16_t)take(kept, row, 6, UINT16_MAX),
            .version_major = (uint16_t)take(kept, row, 7, UINT16_MAX),
            .version_minor = (uint16_t)take(kept, row, 8, UINT16_MAX),
            .kind = (enum af_gpu_kind)take(kept, row, 9, AF_GPU_OTHER),
            .packing = (enum af_gpu_packing)take(kept, row, 10, AF_GPU_ZSTD),
            .is_debug = take_bool(kept, json_array_get(row, 11)),
            .has_entry = (enum af_answer)take(kept, row, 12, AF_UNKNOWN),
        };
        char suffix = rows[i].suffix;
        kept->bad = kept->bad || (suffix != '\0' && (suffix < 'a' || suffix > 'z'));
    }
    code->images = rows;
    code->image_count = count;
}

/* Their images, read later, must be consecutive. */
static void take_gpu_containers(struct kept *kept, const json_t *json, struct af_gpu_code *code)
{
    const json_t *list;
    size_t count;
    struct af_gpu_container *rows =
        take_rows(kept, json, "containers", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i] = (struct af_gpu_container){
            .offset = (uint64_t)take(kept, row, 0, PLACE_MAX),
            .image_first = (uint32_t)take(kept, row, 1, AF_GPU_IMAGES_MAX),
            .image_count = (uint32_t)take(kept, row, 2, AF_GPU_IMAGES_MAX),
            .is_relocatable = take_bool(kept, json_array_get(row, 3)),
        };
    }
    code->containers = rows;
    code->container_count = count;
}

/* Whether each container has exactly the images that refer to it, and none is left over. */
static bool agrees(const struct af_gpu_code *code)
{
    size_t next = 0;
    for (size_t i = 0; i < code->container_count; i++) {
        const struct af_gpu_container *container = &code->containers[i];
        if (container->image_first != next || container->image_count > code->image_count - next)
            return false;
        for (size_t end = next + container->image_count; next < end; next++) {
            if (code->images[next].container != i)
                return false;
        }
    }
    return next == code->image_count;
}

enum anyflash_status af_gpu_code_from_json(struct af_arena *arena, const json_t *json,
                                           struct af_gpu_code *out, struct anyflash_error *err)
{
    struct kept kept = {arena, false};
    struct af_gpu_code code = {
        .wrapper_count = take_number(&kept, json_object_get(json, "registered"), -1, PLACE_MAX),
        .was_searched = take_bool(&kept, json_object_get(json, "was_searched")),
        .problem = take_text(&kept, json_object_get(json, "problem"), true),
    };
    take_gpu_containers(&kept, json, &code);
    take_images(&kept, json, &code);
    if (arena->failed)
        return af_fail_memory(err);
    if (kept.bad || !agrees(&code))
        return af_fail(err, ANYFLASH_E_DATA, "cached data about GPU code is corrupt");
    enum anyflash_status status = af_fatbin_sum_up(arena, &code, err);
    if (status == ANYFLASH_OK)
        *out = code;
    return status;
}

static json_t *containers_to_json(const struct af_flash_family *family)
{
    json_t *list = json_array();
    for (size_t i = 0; i < family->container_count; i++)
        append(&list, json_integer(family->containers[i]));
    return list;
}

static json_t *families_to_json(const struct af_flash_kernels *kernels)
{
    json_t *list = json_array();
    for (size_t i = 0; i < kernels->family_count; i++) {
        const struct af_flash_family *row = &kernels->families[i];
        const struct af_flash_kernel *kernel = &row->kernel;
        append(&list,
               json_pack("{s:i, s:i, s:i, s:o, s:i, s:i, s:i, s:I, s:o}", "operation",
                         (int)kernel->operation, "generation", kernel->generation, "head_dim",
                         kernel->head_dim, "dtype", text_to_json(kernel->dtype), "features",
                         (int)kernel->features, "sm_min", kernel->sm_min, "sm_max",
                         kernel->sm_max, "kernels", (json_int_t)row->kernel_count, "containers",
                         containers_to_json(row)));
    }
    return list;
}

json_t *af_flash_kernels_to_json(const struct af_flash_kernels *kernels)
{
    return json_pack("{s:o, s:I, s:I, s:o}", "families", families_to_json(kernels), "kernels",
                     (json_int_t)kernels->kernel_count, "containers",
                     (json_int_t)kernels->container_count, "problem",
                     text_to_json(kernels->problem));
}

static int take_int(struct kept *kept, const json_t *row, const char *name, int min, int max)
{
    return (int)take_number(kept, json_object_get(row, name), min, max);
}

static const char *take_dtype(struct kept *kept, const json_t *value)
{
    const char *text = af_flash_dtype_find(json_string_value(value));
    kept->bad = kept->bad || (text == NULL && !json_is_null(value));
    return text;
}

/* Reads ascending indices into the containers of `code`. */
static void take_containers(struct kept *kept, const json_t *json,
                            const struct af_gpu_code *code, struct af_flash_family *family)
{
    const json_t *list;
    size_t count;
    uint32_t *rows = take_rows(kept, json, "containers", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (uint32_t)take_number(kept, json_array_get(list, i),
                                        i == 0 ? 0 : (int64_t)rows[i - 1] + 1,
                                        (int64_t)code->container_count - 1);
    }
    family->containers = rows;
    family->container_count = count;
}

static void take_family(struct kept *kept, const json_t *json, const struct af_gpu_code *code,
                        struct af_flash_family *family)
{
    *family = (struct af_flash_family){
        .kernel =
            {
                .operation = (enum af_flash_operation)take_int(kept, json, "operation", 0,
                                                               AF_FLASH_BACKWARD_HELP),
                .generation = take_int(kept, json, "generation", 0, GENERATION_MAX),
                .head_dim = take_int(kept, json, "head_dim", -1, INT_MAX),
                .dtype = take_dtype(kept, json_object_get(json, "dtype")),
                .features = (unsigned)take_int(kept, json, "features", 0, FEATURES_MAX),
                .sm_min = take_int(kept, json, "sm_min", 0, SM_MAX),
                .sm_max = take_int(kept, json, "sm_max", 0, SM_MAX),
            },
        .kernel_count =
            (size_t)take_number(kept, json_object_get(json, "kernels"), 0, INT64_MAX),
    };
    take_containers(kept, json, code, family);
}

enum anyflash_status af_flash_kernels_from_json(struct af_arena *arena, const json_t *json,
                                                const struct af_gpu_code *code,
                                                struct af_flash_kernels *out,
                                                struct anyflash_error *err)
{
    const json_t *list;
    size_t count;
    struct kept kept = {arena, false};
    struct af_flash_family *rows =
        take_rows(&kept, json, "families", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++)
        take_family(&kept, json_array_get(list, i), code, &rows[i]);
    struct af_flash_kernels kernels = {
        .families = rows,
        .family_count = count,
        .kernel_count =
            (size_t)take_number(&kept, json_object_get(json, "kernels"), 0, INT64_MAX),
        .container_count =
            (size_t)take_number(&kept, json_object_get(json, "containers"), 0, INT64_MAX),
        .problem = take_text(&kept, json_object_get(json, "problem"), true),
    };
    if (arena->failed)
        return af_fail_memory(err);
    if (kept.bad)
        return af_fail(err, ANYFLASH_E_DATA, "cached data about kernels is corrupt");
    *out = kernels;
    return ANYFLASH_OK;
}
