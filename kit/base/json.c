/*
 * json.c: wraps jansson with our limits. Used by records, data tables and
 * --json.
 */
#include "kit/base/json.h"

#include "kit/base/text.h"

#include <string.h>

void af_json_start(void)
{
    json_set_alloc_funcs(af_memory_alloc, af_memory_free);
}

enum anyflash_status af_json_parse(struct af_span bytes, size_t max_bytes, const char *name,
                                   json_t **json_out, struct anyflash_error *err)
{
    char shown[160];
    json_error_t problem = {0};
    af_text_quote(shown, sizeof shown, name, strlen(name));
    if (bytes.len > max_bytes)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' is larger than %zu bytes", shown,
                       max_bytes);
    json_t *json = json_loadb(bytes.len == 0 ? "" : bytes.data, bytes.len,
                              JSON_REJECT_DUPLICATES, &problem);
    if (json != NULL) {
        *json_out = json;
        return ANYFLASH_OK;
    }
    char text[200];
    af_text_quote(text, sizeof text, problem.text, strlen(problem.text));
    return af_fail(err, ANYFLASH_E_DATA, "'%s' line %d column %d: %s", shown, problem.line,
                   problem.column, text);
}

json_t *af_json_append(json_t *list, json_t *item)
{
    if (list != NULL && item != NULL && json_array_append(list, item) == 0) {
        json_decref(item);
        return list;
    }
    json_decref(item);
    json_decref(list);
    return NULL;
}

json_t *af_json_text(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

json_t *af_json_count(int64_t number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

json_t *af_json_answer(enum af_answer answer)
{
    return json_string(af_answer_text(answer));
}

json_t *af_json_texts(const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = af_json_append(list, json_string(texts[i]));
    return list;
}

/* 15 digits: releases of jansson differ in how they print more (629.2, 629.20000000000005). */
#define ANSWER_FORMAT (JSON_INDENT(1) | JSON_REAL_PRECISION(15))

enum anyflash_status af_json_write_take(json_t *json, struct af_text *out,
                                        struct anyflash_error *err)
{
    char *text = json != NULL ? json_dumps(json, ANSWER_FORMAT) : NULL;
    json_decref(json);
    if (text == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "the answer has text that is not UTF-8");
    af_text_add(out, text);
    af_text_add(out, "\n");
    af_memory_free(text);
    return ANYFLASH_OK;
}
