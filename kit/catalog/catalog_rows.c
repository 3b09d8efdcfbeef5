/*
 * catalog_rows.c: converts JSON lines to wheels and back. Unknown keys (of a newer file) are
 * ignored. Used by catalog.c, and at build time by tools/pack_data.c.
 */
#include "kit/catalog/catalog.h"

#include <string.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog_list.h"

void af_catalog_write_date(struct af_text *rows, const char *date)
{
    af_text_format(rows, "{\"catalog_date\": \"%s\"}\n", date);
}

static void set_text(json_t *row, const char *key, const char *text)
{
    if (text != NULL)
        json_object_set_new(row, key, json_string(text));
}

static void set_answer(json_t *row, const char *key, enum af_answer answer)
{
    if (answer != AF_UNKNOWN)
        json_object_set_new(row, key, json_boolean(answer == AF_YES));
}

static void set_hash(json_t *row, const char *key, const unsigned char *hash)
{
    char hex[AF_SHA256_HEX_BYTES];
    if (hash == NULL)
        return;
    af_sha256_to_hex(hash, hex);
    set_text(row, key, hex);
}

/* Stores "8.0 9.0" as a list of texts. */
static void set_joined(json_t *row, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_t *list = json_array();
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        json_array_append_new(list, json_stringn(text, len));
        text += len;
        text += strspn(text, " ");
    }
    json_object_set_new(row, key, list);
}

void af_catalog_write_row(struct af_text *rows, const struct af_catalog_wheel *wheel)
{
    json_t *row = json_object();
#define AF_CATALOG_WHEEL_TEXT(member, needed) set_text(row, #member, wheel->member);
#define AF_CATALOG_WHEEL_LONG(member, needed) set_text(row, #member, wheel->member);
#define AF_CATALOG_WHEEL_JOINED(member) set_joined(row, #member, wheel->member);
#define AF_CATALOG_WHEEL_HASH(member) set_hash(row, #member, wheel->member);
#define AF_CATALOG_WHEEL_ANSWER(member) set_answer(row, #member, wheel->member);
#define AF_CATALOG_WHEEL_NUMBER(member, type)
#define AF_CATALOG_WHEEL_FLAG(member)
#include "kit/catalog/wheel_fields.inc"
    set_text(row, "kind", wheel->official ? "official" : "community");
    set_text(row, "gpu", wheel->rocm ? "rocm" : "cuda");
    set_text(row, "evidence", wheel->listed ? "listed" : "matrix");
    set_answer(row, "valid_name", wheel->valid_name ? AF_UNKNOWN : AF_NO);
    char *line = json_dumps(row, JSON_COMPACT);
    af_text_add(rows, line);
    af_text_add(rows, "\n");
    af_memory_free(line);
    json_decref(row);
}

#define SM_MAX 32

/* One row that is being read. What is not in the row's JSON lasts until the wheel is added. */
struct reading {
    const char *place;
    struct anyflash_error *err;
    struct af_text sms;
    unsigned char hash[AF_SHA256_BYTES];
};

/* Records what is wrong; returns false, so that it can end a chain of checks. */
static bool bad(const struct reading *reading, const char *field, const char *problem)
{
    af_fail(reading->err, ANYFLASH_E_DATA, "%s, field '%s': %s", reading->place, field,
            problem);
    return false;
}

/* Reads a text; NULL if the key is absent or null; returns false if it is something else. */
static bool read_text(const struct reading *reading, const json_t *row, const char *field,
                      const char **text_out)
{
    const json_t *value = json_object_get(row, field);
    *text_out = json_string_value(value);
    if (value != NULL && !json_is_null(value) && !json_is_string(value))
        return bad(reading, field, "is not text");
    return true;
}

static bool read_hash(struct reading *reading, const json_t *row, const char *field,
                      const unsigned char **hash_out)
{
    const char *text;
    if (!read_text(reading, row, field, &text))
        return false;
    if (text != NULL && !af_sha256_from_hex(text, reading->hash))
        return bad(reading, field, "is not 64 hexadecimal digits");
    *hash_out = text != NULL ? reading->hash : NULL;
    return true;
}

static bool read_answer(const struct reading *reading, const json_t *row, const char *field,
                        enum af_answer *answer_out)
{
    const json_t *value = json_object_get(row, field);
    *answer_out = AF_UNKNOWN;
    if (value == NULL || json_is_null(value))
        return true;
    if (!json_is_boolean(value))
        return bad(reading, field, "is neither true, false nor null");
    *answer_out = json_is_true(value) ? AF_YES : AF_NO;
    return true;
}

/* Sets *flag_out to whether the field is `text`; it is not if it is absent or null. */
static bool read_flag(const struct reading *reading, const json_t *row, const char *field,
                      const char *text, bool *flag_out)
{
    const char *value;
    if (!read_text(reading, row, field, &value))
        return false;
    *flag_out = value != NULL && strcmp(value, text) == 0;
    return true;
}

/* Makes "8.0 9.0" from the list of texts. */
static bool read_joined(struct reading *reading, const json_t *row, const char *field,
                        const char **joined_out)
{
    const json_t *list = json_object_get(row, field);
    if (list == NULL || json_is_null(list))
        return true;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > SM_MAX)
        return bad(reading, field, "is not a list of compute capabilities");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        af_text_format(&reading->sms, "%s%s", i == 0 ? "" : " ",
                       json_string_length(item) > 0 ? json_string_value(item) : "-");
    }
    *joined_out = af_text_get(&reading->sms);
    return true;
}

/* Reads what JSON says; the list checks it. */
static bool read_row(struct reading *reading, const json_t *row, struct af_catalog_wheel *wheel)
{
    enum af_answer valid_name;
#define AF_CATALOG_WHEEL_TEXT(member, needed)                                                  \
    if (!read_text(reading, row, #member, &wheel->member))                                     \
        return false;
#define AF_CATALOG_WHEEL_LONG(member, needed)                                                  \
    if (!read_text(reading, row, #member, &wheel->member))                                     \
        return false;
#define AF_CATALOG_WHEEL_HASH(member)                                                          \
    if (!read_hash(reading, row, #member, &wheel->member))                                     \
        return false;
#define AF_CATALOG_WHEEL_ANSWER(member)                                                        \
    if (!read_answer(reading, row, #member, &wheel->member))                                   \
        return false;
#define AF_CATALOG_WHEEL_JOINED(member)                                                        \
    if (!read_joined(reading, row, #member, &wheel->member))                                   \
        return false;
#define AF_CATALOG_WHEEL_NUMBER(member, type)
#define AF_CATALOG_WHEEL_FLAG(member)
#include "kit/catalog/wheel_fields.inc"
    if (!read_flag(reading, row, "kind", "official", &wheel->official) ||
        !read_flag(reading, row, "gpu", "rocm", &wheel->rocm) ||
        !read_flag(reading, row, "evidence", "listed", &wheel->listed) ||
        !read_answer(reading, row, "valid_name", &valid_name))
        return false;
    wheel->valid_name = valid_name != AF_NO;
    return true;
}

static enum anyflash_status add_row(struct af_catalog_list *list, const json_t *row,
                                    const char *place, struct anyflash_error *err)
{
    struct reading reading = {.place = place, .err = err};
    struct af_catalog_wheel wheel = {0};
    enum anyflash_status status = read_row(&reading, row, &wheel)
                                      ? af_catalog_list_add(list, &wheel, place, err)
                                      : ANYFLASH_E_DATA;
    af_text_release(&reading.sms);
    return status;
}

static enum anyflash_status read_line(struct af_catalog_list *list, struct af_span line,
                                      size_t number, const char *name, const char **date,
                                      struct anyflash_error *err)
{
    char place[200];
    char shown[160];
    json_t *row = NULL;
    af_text_quote(shown, sizeof shown, name, strlen(name));
    snprintf(place, sizeof place, "%s:%zu", shown, number);
    enum anyflash_status status =
        af_json_parse(line, AF_CATALOG_LINE_BYTES_MAX, place, &row, err);
    if (status != ANYFLASH_OK)
        return status;
    snprintf(place, sizeof place, "'%s' line %zu", shown, number);
    const json_t *of_date = number == 1 ? json_object_get(row, "catalog_date") : NULL;
    if (of_date == NULL)
        status = add_row(list, row, place, err);
    else if (json_string_length(of_date) > 0)
        *date = af_text_scrub(list->arena, json_string_value(of_date), 32);
    else
        status = af_fail(err, ANYFLASH_E_DATA, "%s, field 'catalog_date': is not text", place);
    json_decref(row);
    return status;
}

enum anyflash_status af_catalog_rows_read(struct af_span bytes, const char *name,
                                          struct af_arena *arena,
                                          const struct af_catalog_wheel **wheels_out,
                                          size_t *count_out, const char **date_out,
                                          struct anyflash_error *err)
{
    struct af_catalog_list list = {.arena = arena};
    struct af_span line;
    const char *date = NULL;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t number = 1; status == ANYFLASH_OK && af_text_line(&bytes, &line); number++)
        if (af_text_trim(line).len > 0)
            status = read_line(&list, line, number, name, &date, err);
    if (status != ANYFLASH_OK) {
        af_catalog_list_release(&list);
        return status;
    }
    *wheels_out = af_catalog_list_take(&list, count_out);
    *date_out = date;
    return ANYFLASH_OK;
}
