/*
 * binary_json.c: the facts of binary.h as JSON and back, so that they can be
 * kept in place of a file that takes long to read.
 */
#include "kit/formats/binary.h"
#include "kit/formats/stored_json.h"

static json_t *texts_to_json(struct af_texts texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts.count; i++)
        af_stored_json_append(&list, json_string(texts.items[i]));
    return list;
}

static json_t *undefined_to_json(const struct af_binary *binary)
{
    json_t *list = json_array();
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const struct af_undefined *row = &binary->undefined[i];
        af_stored_json_append(&list, json_pack("[s, o, o, b]", row->name,
                                               af_stored_json_text(row->version),
                                               af_stored_json_text(row->library), row->weak));
    }
    return list;
}

static json_t *version_needs_to_json(const struct af_binary *binary)
{
    json_t *list = json_array();
    for (size_t i = 0; i < binary->version_need_count; i++)
        af_stored_json_append(&list, json_pack("[s, s]", binary->version_needs[i].library,
                                               binary->version_needs[i].version));
    return list;
}

json_t *af_binary_to_json(const struct af_binary *binary)
{
    return json_pack(
        "{s:i, s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}",
        "schema", AF_BINARY_SCHEMA, "name", binary->name, "machine",
        af_stored_json_text(binary->machine), "is_64", binary->is_64, "soname",
        af_stored_json_text(binary->soname), "rpath", af_stored_json_text(binary->rpath),
        "runpath", af_stored_json_text(binary->runpath), "needed",
        texts_to_json(binary->needed), "undefined", undefined_to_json(binary), "version_needs",
        version_needs_to_json(binary), "init_name", af_stored_json_text(binary->init_name),
        "pybind_internals", texts_to_json(binary->pybind_internals), "assertions",
        texts_to_json(binary->assertions), "pybind_python",
        af_stored_json_text(binary->pybind_python), "has_gpu_code", binary->has_gpu_code,
        "is_complete", binary->is_complete);
}

static struct af_texts take_texts(struct af_stored_json *kept, const json_t *json,
                                  const char *name)
{
    const json_t *list;
    size_t count;
    const char **items = af_stored_json_rows(kept, json, name, sizeof *items, &list, &count);
    for (size_t i = 0; i < count; i++)
        items[i] = af_stored_json_take_text(kept, json_array_get(list, i), false);
    return (struct af_texts){items, count};
}

static void take_undefined(struct af_stored_json *kept, const json_t *json,
                           struct af_binary *binary)
{
    const json_t *list;
    size_t count;
    struct af_undefined *rows =
        af_stored_json_rows(kept, json, "undefined", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i] = (struct af_undefined){
            .name = af_stored_json_take_text(kept, json_array_get(row, 0), false),
            .version = af_stored_json_take_text(kept, json_array_get(row, 1), true),
            .library = af_stored_json_take_text(kept, json_array_get(row, 2), true),
            .weak = af_stored_json_bool(kept, json_array_get(row, 3)),
        };
    }
    binary->undefined = rows;
    binary->undefined_count = count;
}

static void take_version_needs(struct af_stored_json *kept, const json_t *json,
                               struct af_binary *binary)
{
    const json_t *list;
    size_t count;
    struct af_version_need *rows =
        af_stored_json_rows(kept, json, "version_needs", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i].library = af_stored_json_take_text(kept, json_array_get(row, 0), false);
        rows[i].version = af_stored_json_take_text(kept, json_array_get(row, 1), false);
    }
    binary->version_needs = rows;
    binary->version_need_count = count;
}

enum anyflash_status af_binary_from_json(struct af_arena *arena, const json_t *json,
                                         struct af_binary *out, struct anyflash_error *err)
{
    struct af_stored_json kept = {arena, false};
    if (json_integer_value(json_object_get(json, "schema")) != AF_BINARY_SCHEMA)
        return af_fail(err, ANYFLASH_E_DATA, "kept facts of a binary have another schema");
    struct af_binary binary = {
        .name = af_stored_json_take_text(&kept, json_object_get(json, "name"), false),
        .machine = af_stored_json_take_text(&kept, json_object_get(json, "machine"), true),
        .is_64 = af_stored_json_bool(&kept, json_object_get(json, "is_64")),
        .soname = af_stored_json_take_text(&kept, json_object_get(json, "soname"), true),
        .rpath = af_stored_json_take_text(&kept, json_object_get(json, "rpath"), true),
        .runpath = af_stored_json_take_text(&kept, json_object_get(json, "runpath"), true),
        .needed = take_texts(&kept, json, "needed"),
        .init_name = af_stored_json_take_text(&kept, json_object_get(json, "init_name"), true),
        .pybind_internals = take_texts(&kept, json, "pybind_internals"),
        .assertions = take_texts(&kept, json, "assertions"),
        .pybind_python =
            af_stored_json_take_text(&kept, json_object_get(json, "pybind_python"), true),
        .has_gpu_code = af_stored_json_bool(&kept, json_object_get(json, "has_gpu_code")),
        .is_complete = af_stored_json_bool(&kept, json_object_get(json, "is_complete")),
    };
    take_undefined(&kept, json, &binary);
    take_version_needs(&kept, json, &binary);
    if (arena->failed)
        return af_fail_memory(err);
    if (kept.bad)
        return af_fail(err, ANYFLASH_E_DATA, "kept facts of a binary are damaged");
    *out = binary;
    return ANYFLASH_OK;
}
