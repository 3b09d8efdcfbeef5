/*
 * flash_json.c: FlashAttention kernels of flash_kernel.h as JSON and back.
 */
#include <limits.h>

#include "kit/formats/flash_kernel.h"
#include "kit/formats/stored_json.h"

#define FEATURES_MAX (AF_FLASH_APPEND * 2 - 1)
#define SM_MAX 100000
#define GENERATION_MAX 9

static json_t *containers_to_json(const struct af_flash_family *family)
{
    json_t *list = json_array();
    for (size_t i = 0; i < family->container_count; i++)
        af_stored_json_append(&list, json_integer(family->containers[i]));
    return list;
}

static json_t *families_to_json(const struct af_flash_kernels *kernels)
{
    json_t *list = json_array();
    for (size_t i = 0; i < kernels->family_count; i++) {
        const struct af_flash_family *row = &kernels->families[i];
        const struct af_flash_kernel *kernel = &row->kernel;
        af_stored_json_append(
            &list,
            json_pack("{s:i, s:i, s:i, s:o, s:i, s:i, s:i, s:I, s:o}", "operation",
                      (int)kernel->operation, "generation", kernel->generation, "head_dim",
                      kernel->head_dim, "dtype", af_stored_json_text(kernel->dtype), "features",
                      (int)kernel->features, "sm_min", kernel->sm_min, "sm_max", kernel->sm_max,
                      "kernels", (json_int_t)row->kernel_count, "containers",
                      containers_to_json(row)));
    }
    return list;
}

json_t *af_flash_kernels_to_json(const struct af_flash_kernels *kernels)
{
    return json_pack("{s:o, s:I, s:I, s:o}", "families", families_to_json(kernels), "kernels",
                     (json_int_t)kernels->kernel_count, "containers",
                     (json_int_t)kernels->container_count, "problem",
                     af_stored_json_text(kernels->problem));
}

static int take(struct af_stored_json *kept, const json_t *row, const char *name, int min,
                int max)
{
    return (int)af_stored_json_number(kept, json_object_get(row, name), min, max);
}

static const char *take_dtype(struct af_stored_json *kept, const json_t *value)
{
    const char *text = af_flash_dtype_find(json_string_value(value));
    kept->bad = kept->bad || (text == NULL && !json_is_null(value));
    return text;
}

/* Indices into the containers of `code`, ascending. */
static void take_containers(struct af_stored_json *kept, const json_t *json,
                            const struct af_gpu_code *code, struct af_flash_family *family)
{
    const json_t *list;
    size_t count;
    uint32_t *rows = af_stored_json_rows(kept, json, "containers", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (uint32_t)af_stored_json_number(kept, json_array_get(list, i),
                                                  i == 0 ? 0 : (int64_t)rows[i - 1] + 1,
                                                  (int64_t)code->container_count - 1);
    }
    family->containers = rows;
    family->container_count = count;
}

static void take_family(struct af_stored_json *kept, const json_t *json,
                        const struct af_gpu_code *code, struct af_flash_family *family)
{
    *family = (struct af_flash_family){
        .kernel =
            {
                .operation = (enum af_flash_operation)take(kept, json, "operation", 0,
                                                           AF_FLASH_BACKWARD_HELP),
                .generation = take(kept, json, "generation", 0, GENERATION_MAX),
                .head_dim = take(kept, json, "head_dim", -1, INT_MAX),
                .dtype = take_dtype(kept, json_object_get(json, "dtype")),
                .features = (unsigned)take(kept, json, "features", 0, FEATURES_MAX),
                .sm_min = take(kept, json, "sm_min", 0, SM_MAX),
                .sm_max = take(kept, json, "sm_max", 0, SM_MAX),
            },
        .kernel_count =
            (size_t)af_stored_json_number(kept, json_object_get(json, "kernels"), 0, INT64_MAX),
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
    struct af_stored_json kept = {arena, false};
    struct af_flash_family *rows =
        af_stored_json_rows(&kept, json, "families", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++)
        take_family(&kept, json_array_get(list, i), code, &rows[i]);
    struct af_flash_kernels kernels = {
        .families = rows,
        .family_count = count,
        .kernel_count = (size_t)af_stored_json_number(&kept, json_object_get(json, "kernels"),
                                                      0, INT64_MAX),
        .container_count = (size_t)af_stored_json_number(
            &kept, json_object_get(json, "containers"), 0, INT64_MAX),
        .problem = af_stored_json_take_text(&kept, json_object_get(json, "problem"), true),
    };
    if (arena->failed)
        return af_fail_memory(err);
    if (kept.bad)
        return af_fail(err, ANYFLASH_E_DATA, "kept facts of kernels are damaged");
    *out = kernels;
    return ANYFLASH_OK;
}
