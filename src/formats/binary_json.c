/*
 * binary_json.c: the facts of binary.h as JSON and back, so that they can be
 * kept in place of a file that takes long to read.
 */
#include <string.h>

#include "base/text.h"
#include "formats/binary.h"

#define ROWS_MAX 1000000u

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

/* Takes over the item; the list becomes NULL without memory. */
static void append(json_t **list, json_t *item)
{
    if (*list != NULL && item != NULL && json_array_append_new(*list, item) == 0)
        return;
    if (*list == NULL || item == NULL)
        json_decref(item);
    json_decref(*list);
    *list = NULL;
}

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
        append(&list, json_pack("[s, o, o, b]", row->name, text_or_null(row->version),
                                text_or_null(row->library), row->weak));
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
        "{s:i, s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "schema",
        AF_BINARY_SCHEMA, "name", binary->name, "machine", text_or_null(binary->machine),
        "is_64", binary->is_64, "soname", text_or_null(binary->soname), "rpath",
        text_or_null(binary->rpath), "runpath", text_or_null(binary->runpath), "needed",
        texts_to_json(binary->needed), "undefined", undefined_to_json(binary), "version_needs",
        version_needs_to_json(binary), "init_name", text_or_null(binary->init_name),
        "pybind_internals", texts_to_json(binary->pybind_internals), "pybind_python",
        text_or_null(binary->pybind_python), "has_gpu_code", binary->has_gpu_code,
        "is_complete", binary->is_complete);
}

/* Reading. `bad` is sticky: something was not what af_binary_to_json() writes. */
struct reader {
    struct af_arena *arena;
    bool bad;
};

static const char *take_text(struct reader *reader, const json_t *value, bool may_be_null)
{
    if (!json_is_string(value)) {
        reader->bad = reader->bad || !may_be_null || !json_is_null(value);
        return NULL;
    }
    return af_arena_text_n(reader->arena, json_string_value(value), json_string_length(value));
}

static bool take_truth(struct reader *reader, const json_t *value)
{
    reader->bad = reader->bad || !json_is_boolean(value);
    return json_is_true(value);
}

/* How many rows the list `name` has, and room for them; NULL for none. */
static void *take_rows(struct reader *reader, const json_t *json, const char *name,
                       size_t row_bytes, const json_t **list_out, size_t *count_out)
{
    const json_t *list = json_object_get(json, name);
    *list_out = list;
    *count_out = json_array_size(list);
    reader->bad = reader->bad || !json_is_array(list) || *count_out > ROWS_MAX;
    if (reader->bad)
        *count_out = 0;
    void *rows = af_arena_array(reader->arena, *count_out + 1, row_bytes);
    if (rows == NULL)
        *count_out = 0;
    return rows;
}

static struct af_texts take_texts(struct reader *reader, const json_t *json, const char *name)
{
    const json_t *list;
    size_t count;
    const char **items = take_rows(reader, json, name, sizeof *items, &list, &count);
    for (size_t i = 0; i < count; i++)
        items[i] = take_text(reader, json_array_get(list, i), false);
    return (struct af_texts){items, count};
}

static void take_undefined(struct reader *reader, const json_t *json, struct af_binary *binary)
{
    const json_t *list;
    size_t count;
    struct af_undefined *rows =
        take_rows(reader, json, "undefined", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i] = (struct af_undefined){
            .name = take_text(reader, json_array_get(row, 0), false),
            .version = take_text(reader, json_array_get(row, 1), true),
            .library = take_text(reader, json_array_get(row, 2), true),
            .weak = take_truth(reader, json_array_get(row, 3)),
        };
    }
    binary->undefined = rows;
    binary->undefined_count = count;
}

static void take_version_needs(struct reader *reader, const json_t *json,
                               struct af_binary *binary)
{
    const json_t *list;
    size_t count;
    struct af_version_need *rows =
        take_rows(reader, json, "version_needs", sizeof *rows, &list, &count);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(list, i);
        rows[i].library = take_text(reader, json_array_get(row, 0), false);
        rows[i].version = take_text(reader, json_array_get(row, 1), false);
    }
    binary->version_needs = rows;
    binary->version_need_count = count;
}

enum anyflash_status af_binary_from_json(struct af_arena *arena, const json_t *json,
                                         struct af_binary *out, struct anyflash_error *err)
{
    struct reader reader = {arena, false};
    if (json_integer_value(json_object_get(json, "schema")) != AF_BINARY_SCHEMA)
        return af_fail(err, ANYFLASH_E_DATA, "kept facts of a binary have another schema");
    struct af_binary binary = {
        .name = take_text(&reader, json_object_get(json, "name"), false),
        .machine = take_text(&reader, json_object_get(json, "machine"), true),
        .is_64 = take_truth(&reader, json_object_get(json, "is_64")),
        .soname = take_text(&reader, json_object_get(json, "soname"), true),
        .rpath = take_text(&reader, json_object_get(json, "rpath"), true),
        .runpath = take_text(&reader, json_object_get(json, "runpath"), true),
        .needed = take_texts(&reader, json, "needed"),
        .init_name = take_text(&reader, json_object_get(json, "init_name"), true),
        .pybind_internals = take_texts(&reader, json, "pybind_internals"),
        .pybind_python = take_text(&reader, json_object_get(json, "pybind_python"), true),
        .has_gpu_code = take_truth(&reader, json_object_get(json, "has_gpu_code")),
        .is_complete = take_truth(&reader, json_object_get(json, "is_complete")),
    };
    take_undefined(&reader, json, &binary);
    take_version_needs(&reader, json, &binary);
    if (arena->failed)
        return af_fail_memory(err);
    if (reader.bad)
        return af_fail(err, ANYFLASH_E_DATA, "kept facts of a binary are damaged");
    *out = binary;
    return ANYFLASH_OK;
}
