/*
 * jsonl.c: rows of a JSON Lines table, with errors that name the line.
 */
#include "kit/doctor/rows/jsonl.h"

#include "kit/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROW_BYTES_MAX 65536u

enum anyflash_status af_jsonl_fail(struct af_jsonl *rows, const char *format, ...)
{
    char message[400];
    va_list arguments;
    if (rows->status != ANYFLASH_OK)
        return rows->status;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    rows->status =
        af_fail(rows->err, ANYFLASH_E_DATA, "%s:%zu: %s", rows->name, rows->line, message);
    return rows->status;
}

void af_jsonl_fail_with(struct af_jsonl *rows, enum anyflash_status status,
                        const struct anyflash_error *why)
{
    if (status != ANYFLASH_OK)
        af_jsonl_fail(rows, "%s", why->message);
}

/* Parses the line; a failure names the column in it. */
static void parse_row(struct af_jsonl *rows, struct af_span line)
{
    struct anyflash_error why = {0};
    enum anyflash_status status = af_json_parse(line, ROW_BYTES_MAX, "row", &rows->row, &why);
    const char *column = strstr(why.message, "column ");
    if (status == ANYFLASH_E_DATA)
        af_jsonl_fail(rows, "%s", column != NULL ? column : why.message);
    else
        af_jsonl_fail_with(rows, status, &why);
    if (rows->status == ANYFLASH_OK && !json_is_object(rows->row))
        af_jsonl_fail(rows, "is not a JSON object");
}

bool af_jsonl_next(struct af_jsonl *rows)
{
    struct af_span line;
    json_decref(rows->row);
    rows->row = NULL;
    while (rows->status == ANYFLASH_OK && af_text_line(&rows->rest, &line)) {
        rows->line++;
        if (af_text_trim(line).len == 0)
            continue;
        parse_row(rows, line);
        return rows->status == ANYFLASH_OK;
    }
    return false;
}

void af_jsonl_check_keys(struct af_jsonl *rows, json_t *object, const char *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (af_text_word_index(keys, key) < 0)
            af_jsonl_fail(rows, "unknown key '%s'; there are: %s", key, keys);
    }
}

static const char *take_text(struct af_jsonl *rows, const json_t *value, const char *key)
{
    const char *text = json_string_value(value);
    if (text == NULL || text[0] == '\0') {
        af_jsonl_fail(rows, "'%s' must be a text that is not empty", key);
        return NULL;
    }
    return af_arena_text(rows->arena, text);
}

const char *af_jsonl_text(struct af_jsonl *rows, json_t *object, const char *key, bool must)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        if (must)
            af_jsonl_fail(rows, "'%s' is missing", key);
        return NULL;
    }
    return take_text(rows, value, key);
}

const char **af_jsonl_texts(struct af_jsonl *rows, json_t *object, const char *key, bool must,
                            size_t *count_out)
{
    const json_t *list = json_object_get(object, key);
    size_t count = json_array_size(list);
    const char **texts = af_arena_array(rows->arena, count + 1, sizeof *texts);
    *count_out = 0;
    if (list == NULL ? must : !json_is_array(list) || count == 0)
        af_jsonl_fail(rows, "'%s' must be a list of texts", key);
    for (size_t i = 0; i < count && rows->status == ANYFLASH_OK; i++)
        texts[i] = take_text(rows, json_array_get(list, i), key);
    if (rows->status == ANYFLASH_OK)
        *count_out = count;
    return texts;
}

size_t af_jsonl_line_count(struct af_span bytes)
{
    size_t count = 1;
    for (size_t i = 0; i < bytes.len; i++)
        count += bytes.data[i] == '\n' ? 1 : 0;
    return count;
}
