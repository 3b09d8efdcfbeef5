/*
 * stored_json.c: pieces of facts written as JSON and read back strictly.
 */
#include "kit/formats/stored_json.h"

#include "kit/base/text.h"

#define ROWS_MAX 1000000u

void af_stored_json_append(json_t **list, json_t *item)
{
    if (*list != NULL && item != NULL && json_array_append_new(*list, item) == 0)
        return;
    if (*list == NULL)
        json_decref(item);
    json_decref(*list);
    *list = NULL;
}

json_t *af_stored_json_text(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

const char *af_stored_json_copy(struct af_arena *arena, const char *text)
{
    if (text == NULL)
        return NULL;
    size_t len = 0;
    while (text[len] > ' ' && text[len] < 0x7f && len < AF_STORED_JSON_TEXT_MAX)
        len++;
    if (text[len] == '\0')
        return af_arena_text_n(arena, text, len);
    return af_text_scrub(arena, text, AF_STORED_JSON_TEXT_MAX);
}

const char *af_stored_json_take_text(struct af_stored_json *kept, const json_t *value,
                                     bool may_be_null)
{
    if (!json_is_string(value)) {
        kept->bad = kept->bad || !may_be_null || !json_is_null(value);
        return NULL;
    }
    return af_stored_json_copy(kept->arena, json_string_value(value));
}

bool af_stored_json_bool(struct af_stored_json *kept, const json_t *value)
{
    kept->bad = kept->bad || !json_is_boolean(value);
    return json_is_true(value);
}

int64_t af_stored_json_number(struct af_stored_json *kept, const json_t *value, int64_t min,
                              int64_t max)
{
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= min && number <= max)
        return number;
    kept->bad = true;
    return min;
}

void *af_stored_json_rows(struct af_stored_json *kept, const json_t *json, const char *name,
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
