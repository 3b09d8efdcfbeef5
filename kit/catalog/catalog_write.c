/*
 * catalog_write.c: one struct af_catalog_wheel as one JSON object. The table of members
 * is wheel_fields.inc; numbers are read out of the texts again.
 */
#include "kit/catalog/catalog_write.h"

#include <string.h>

#include "kit/base/json.h"

void af_catalog_write_date(struct af_text *rows, const char *date)
{
    af_text_format(rows, "{\"catalog_date\": \"%s\"}\n", date);
}

/* A row that is being made; without memory it is no row. */
struct row {
    json_t *json;
    bool failed;
};

static void set(struct row *row, const char *key, json_t *value)
{
    row->failed |= json_object_set_new(row->json, key, value) != 0;
}

static void set_text(struct row *row, const char *key, const char *text)
{
    if (text != NULL)
        set(row, key, json_string(text));
}

static void set_answer(struct row *row, const char *key, enum af_answer answer)
{
    if (answer != AF_UNKNOWN)
        set(row, key, json_boolean(answer == AF_YES));
}

/* "8.0 9.0" as a list of texts. */
static void set_joined(struct row *row, const char *key, const char *text)
{
    json_t *list = json_array();
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, " ");
        row->failed |= json_array_append_new(list, json_stringn(text, len)) != 0;
        text += len;
        text += strspn(text, " ");
    }
    if (text != NULL)
        set(row, key, list);
    else
        json_decref(list);
}

enum anyflash_status af_catalog_write_row(struct af_text *rows,
                                          const struct af_catalog_wheel *wheel,
                                          struct anyflash_error *err)
{
    struct row row = {json_object(), false};
#define AF_CATALOG_WHEEL_TEXT(member, needed) set_text(&row, #member, wheel->member);
#define AF_CATALOG_WHEEL_LONG(member, needed) set_text(&row, #member, wheel->member);
#define AF_CATALOG_WHEEL_JOINED(member) set_joined(&row, #member, wheel->member);
#define AF_CATALOG_WHEEL_ANSWER(member) set_answer(&row, #member, wheel->member);
#define AF_CATALOG_WHEEL_NUMBER(member, type)
#define AF_CATALOG_WHEEL_FLAG(member)
#include "kit/catalog/wheel_fields.inc"
#undef AF_CATALOG_WHEEL_TEXT
#undef AF_CATALOG_WHEEL_LONG
#undef AF_CATALOG_WHEEL_JOINED
#undef AF_CATALOG_WHEEL_ANSWER
#undef AF_CATALOG_WHEEL_NUMBER
#undef AF_CATALOG_WHEEL_FLAG
    set_text(&row, "kind", wheel->official ? "official" : "community");
    set_text(&row, "gpu", wheel->rocm ? "rocm" : "cuda");
    set_text(&row, "evidence", wheel->listed ? "listed" : "matrix");
    set_answer(&row, "valid_name", wheel->valid_name ? AF_UNKNOWN : AF_NO);
    char *line = json_dumps(row.json, JSON_COMPACT);
    if (line != NULL) {
        af_text_add(rows, line);
        af_text_add(rows, "\n");
    }
    bool good = line != NULL && !row.failed && !rows->failed;
    af_mem_free(line);
    json_decref(row.json);
    return good ? ANYFLASH_OK : af_fail_memory(err);
}
