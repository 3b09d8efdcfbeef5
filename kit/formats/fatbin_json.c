/*
 * fatbin_json.c: the GPU code of fatbin.h as JSON and back. Containers and
 * images are rows of numbers; what follows from them is made again.
 */
#include <limits.h>

#include "kit/formats/fatbin_walk.h"
#include "kit/formats/stored_json.h"

#define PLACE_MAX INT64_MAX

static json_t *containers_to_json(const struct af_gpu_code *code)
{
    json_t *list = json_array();
    for (size_t i = 0; i < code->container_count; i++) {
        const struct af_gpu_container *row = &code->containers[i];
        af_stored_json_append(&list,
                              json_pack("[I, I, I, b]", (json_int_t)row->offset,
                                        (json_int_t)row->image_first,
                                        (json_int_t)row->image_count, row->is_relocatable));
    }
    return list;
}

static json_t *images_to_json(const struct af_gpu_code *code)
{
    json_t *list = json_array();
    for (size_t i = 0; i < code->image_count; i++) {
        const struct af_gpu_image *row = &code->images[i];
        af_stored_json_append(
            &list, json_pack("[I, I, I, I, i, i, i, i, i, i, i, b, i]", (json_int_t)row->offset,
                             (json_int_t)row->stored_bytes, (json_int_t)row->raw_bytes,
                             (json_int_t)row->container, row->sm, row->suffix, row->kind_number,
                             row->version_major, row->version_minor, (int)row->kind,
                             (int)row->packing, row->is_debug, (int)row->has_entry));
    }
    return list;
}

json_t *af_gpu_code_to_json(const struct af_gpu_code *code)
{
    return json_pack("{s:o, s:o, s:I, s:b, s:o}", "containers", containers_to_json(code),
                     "images", images_to_json(code), "registered",
                     (json_int_t)code->wrapper_count, "was_searched", code->was_searched,
                     "problem", af_stored_json_text(code->problem));
}

/* Number `at` of the row. */
static int64_t take(struct af_stored_json *kept, const json_t *row, size_t at, int64_t max)
{
    return af_stored_json_number(kept, json_array_get(row, at), 0, max);
}

static void take_images(struct af_stored_json *kept, const json_t *json,
                        struct af_gpu_code *code)
{
    const json_t *list;
    size_t count;
    struct af_gpu_image *rows =
        af_stored_json_rows(kept, json, "images", sizeof *rows, &list, &count);
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
            .is_debug = af_stored_json_bool(kept, json_array_get(row, 11)),
            .has_entry = (enum af_answer)take(kept, row, 12, AF_UNKNOWN),
        };
        char suffix = rows[i].suffix;
        kept->bad = kept->bad || (suffix != '\0' && (suffix < 'a' || suffix > 'z'));
    }
    code->images = rows;
    code->image_count = count;
}

/* Of which the images, taken later, must be consecutive. */
static void take_containers(struct af_stored_json *kept, const json_t *json,
                            struct af_gpu_code *code)
{
    const json_t *list;
    size_t count;
    struct af_gpu_container *rows =
        af_stored_json_rows(kept, json, "containers", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i] = (struct af_gpu_container){
            .offset = (uint64_t)take(kept, row, 0, PLACE_MAX),
            .image_first = (uint32_t)take(kept, row, 1, AF_GPU_IMAGES_MAX),
            .image_count = (uint32_t)take(kept, row, 2, AF_GPU_IMAGES_MAX),
            .is_relocatable = af_stored_json_bool(kept, json_array_get(row, 3)),
        };
    }
    code->containers = rows;
    code->container_count = count;
}

/* Whether each container has the images that say so, and no image is left over. */
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
    struct af_stored_json kept = {arena, false};
    struct af_gpu_code code = {
        .wrapper_count =
            af_stored_json_number(&kept, json_object_get(json, "registered"), -1, PLACE_MAX),
        .was_searched = af_stored_json_bool(&kept, json_object_get(json, "was_searched")),
        .problem = af_stored_json_take_text(&kept, json_object_get(json, "problem"), true),
    };
    take_containers(&kept, json, &code);
    take_images(&kept, json, &code);
    if (arena->failed)
        return af_fail_memory(err);
    if (kept.bad || !agrees(&code))
        return af_fail(err, ANYFLASH_E_DATA, "kept facts of GPU code are damaged");
    enum anyflash_status status = af_fatbin_sum_up(arena, &code, err);
    if (status == ANYFLASH_OK)
        *out = code;
    return status;
}
