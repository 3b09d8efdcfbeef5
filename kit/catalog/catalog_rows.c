/*
 * catalog_rows.c: converts JSON lines to wheels and back.
 *
 * Every text is checked here, once, because installers and terminals receive
 * them later. Unknown keys (of a newer file) are ignored. Used by catalog.c and
 * the update, and at build time by tools/pack_data.c.
 */
#include "kit/catalog/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/formats/version.h"

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

#define NUMBER_MAX 9999
#define SM_MAX 32

/* State of one reading; `status` is the first failure. */
struct reading {
    struct af_arena *arena;
    struct af_intern texts;
    struct af_intern versions;
    const char *name;
    size_t line;
    struct anyflash_error *err;
    enum anyflash_status status;
};

/* Records the first failure; returns false, so that it can end a chain of checks. */
static bool bad(struct reading *reading, const char *field, const char *problem)
{
    char shown[160];
    af_text_quote(shown, sizeof shown, reading->name, strlen(reading->name));
    if (reading->status == ANYFLASH_OK)
        reading->status =
            af_fail(reading->err, ANYFLASH_E_DATA, "'%s' line %zu, field '%s': %s", shown,
                    reading->line, field, problem);
    return false;
}

static const char *intern(struct reading *reading, const char *text)
{
    size_t number = af_intern_add(&reading->texts, reading->arena, text, strlen(text));
    return reading->texts.texts[number];
}

/*
 * Whether a terminal shows the text unchanged: it has only characters that
 * af_text_quote() keeps.
 */
static bool is_plain(const char *text)
{
    char quoted[AF_CATALOG_LINE_BYTES_MAX];
    size_t len = strlen(text);
    const char *at = text;
    while (*at >= ' ' && *at <= '~')
        at++;
    if (*at == '\0')
        return true; /* nearly always */
    if (len >= sizeof quoted)
        return false;
    return strcmp(af_text_quote(quoted, sizeof quoted, text, len), text) == 0;
}

/* Reads a text; NULL if the key is absent or null; returns false if it is invalid. */
static bool get_text(struct reading *reading, const json_t *row, const char *field, bool needed,
                     const char **text_out)
{
    const json_t *value = json_object_get(row, field);
    *text_out = NULL;
    if (value == NULL || json_is_null(value))
        return needed ? bad(reading, field, "is missing") : true;
    if (!json_is_string(value))
        return bad(reading, field, "is not text");
    if (!is_plain(json_string_value(value)))
        return bad(reading, field, "holds characters that cannot be printed");
    if (json_string_length(value) == 0)
        return bad(reading, field, "is empty");
    *text_out = json_string_value(value);
    return true;
}

static bool read_text(struct reading *reading, const json_t *row, const char *field,
                      bool needed, const char **text_out)
{
    const char *text;
    if (!get_text(reading, row, field, needed, &text))
        return false;
    *text_out = text == NULL ? NULL : intern(reading, text);
    return true;
}

static bool read_long(struct reading *reading, const json_t *row, const char *field,
                      bool needed, const char **text_out)
{
    const char *text;
    if (!get_text(reading, row, field, needed, &text))
        return false;
    *text_out = af_arena_text(reading->arena, text);
    return true;
}

static bool read_hash(struct reading *reading, const json_t *row, const char *field,
                      const unsigned char **hash_out)
{
    unsigned char hash[AF_SHA256_BYTES];
    const char *text;
    if (!get_text(reading, row, field, false, &text))
        return false;
    if (text == NULL)
        return true;
    if (!af_sha256_from_hex(text, hash))
        return bad(reading, field, "is not 64 hexadecimal digits");
    *hash_out =
        (const unsigned char *)af_arena_text_n(reading->arena, (const char *)hash, sizeof hash);
    return true;
}

static bool read_answer(struct reading *reading, const json_t *row, const char *field,
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

/* Whether the text `field` is `text`; absent or null counts as `fallback`. */
static bool read_flag(struct reading *reading, const json_t *row, const char *field,
                      const char *text, bool fallback, bool *flag_out)
{
    const char *value;
    if (!get_text(reading, row, field, false, &value))
        return false;
    *flag_out = value == NULL ? fallback : strcmp(value, text) == 0;
    return true;
}

/* Splits up to three numbers "2.8.1" into `parts`; -1 if absent. */
static bool split_numbers(const char *text, int16_t *parts[3])
{
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        *parts[i] = -1;
        if (at == NULL)
            continue;
        char *end = NULL;
        long number = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (number < 0 || number > NUMBER_MAX || (*end != '.' && *end != '\0'))
            return false;
        *parts[i] = (int16_t)number;
        at = *end == '.' ? end + 1 : NULL;
    }
    return at == NULL;
}

static bool read_numbers(struct reading *reading, struct af_catalog_wheel *wheel)
{
    int16_t unused;
    int16_t glibc_major;
    if (!split_numbers(wheel->torch, (int16_t *[3]){&wheel->torch_major, &wheel->torch_minor,
                                                    &wheel->torch_patch}))
        return bad(reading, "torch", "is not a version like 2.8 or 2.8.1");
    if (!split_numbers(wheel->cuda,
                       (int16_t *[3]){&wheel->cuda_major, &wheel->cuda_minor, &unused}))
        return bad(reading, "cuda", "is not a version like 12 or 12.8");
    if (!split_numbers(wheel->glibc_min,
                       (int16_t *[3]){&glibc_major, &wheel->glibc_minor, &unused}) ||
        (wheel->glibc_min != NULL && (glibc_major != 2 || wheel->glibc_minor < 0)))
        return bad(reading, "glibc_min", "is not a version like 2.28");
    int64_t tag = -1;
    bool single = af_starts_with(wheel->python, "cp3") &&
                  af_parse_i64(wheel->python + 3, 0, NUMBER_MAX, &tag);
    wheel->python_minor = (int16_t)(single ? tag : -1);
    return true;
}

/* Makes "8.0 9.0" from the list of texts. */
/* "gfx1100": a target of AMD's compiler. */
static bool is_gfx(const char *text)
{
    size_t len = af_starts_with(text, "gfx") ? strspn(text + 3, "0123456789abcdef") : 0;
    return len >= 3 && len <= 4 && text[3 + len] == '\0';
}

static bool read_sms(struct reading *reading, const json_t *row, const char *field,
                     const char **sm_out)
{
    const json_t *list = json_object_get(row, field);
    struct af_text joined = {0};
    bool good = true;
    if (list == NULL || json_is_null(list))
        return true;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > SM_MAX)
        return bad(reading, field, "is not a list of compute capabilities");
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        int16_t major, minor, patch;
        const char *sm = json_string_value(json_array_get(list, i));
        good = sm != NULL &&
               (is_gfx(sm) || (split_numbers(sm, (int16_t *[3]){&major, &minor, &patch}) &&
                               minor >= 0 && patch < 0));
        if (good)
            af_text_format(&joined, "%s%s", i == 0 ? "" : " ", sm);
    }
    if (good)
        *sm_out = intern(reading, af_text_get(&joined));
    af_text_release(&joined);
    return good || bad(reading, field, "holds an item that is not like '8.0' or 'gfx942'");
}

/* Stores the version's number in discovery order; rank_versions() replaces it. */
static bool read_version(struct reading *reading, struct af_catalog_wheel *wheel)
{
    struct af_version version;
    size_t len = strlen(wheel->version);
    if (!af_version_parse(wheel->version, len, &version) || version.local[0] != '\0')
        return bad(reading, "version", "is not a public version");
    wheel->version_rank =
        (int32_t)af_intern_add(&reading->versions, reading->arena, wheel->version, len);
    return true;
}

/* plain http is allowed only for localhost: a local server, or a test's */
static bool is_address(const char *url)
{
    return (af_starts_with(url, "https://") || af_starts_with(url, "http://127.0.0.1:")) &&
           strpbrk(url, " \"'`$\\") == NULL;
}

/* Names and URLs are passed to installers, so none may look like an option or a path. */
static bool check_handles(struct reading *reading, const struct af_catalog_wheel *wheel)
{
    if (wheel->filename[0] == '-' || strpbrk(wheel->filename, "/\\ ") != NULL ||
        !af_ends_with(wheel->filename, ".whl"))
        return bad(reading, "filename", "is not a wheel's file name");
    if (wheel->url != NULL && !is_address(wheel->url))
        return bad(reading, "url", "is not an https URL");
    return true;
}

static bool read_row(struct reading *reading, const json_t *row, struct af_catalog_wheel *wheel)
{
    enum af_answer valid_name;
#define AF_CATALOG_WHEEL_TEXT(member, needed)                                                  \
    if (!read_text(reading, row, #member, needed, &wheel->member))                             \
        return false;
#define AF_CATALOG_WHEEL_LONG(member, needed)                                                  \
    if (!read_long(reading, row, #member, needed, &wheel->member))                             \
        return false;
#define AF_CATALOG_WHEEL_HASH(member)                                                          \
    if (!read_hash(reading, row, #member, &wheel->member))                                     \
        return false;
#define AF_CATALOG_WHEEL_ANSWER(member)                                                        \
    if (!read_answer(reading, row, #member, &wheel->member))                                   \
        return false;
#define AF_CATALOG_WHEEL_JOINED(member)                                                        \
    if (!read_sms(reading, row, #member, &wheel->member))                                      \
        return false;
#define AF_CATALOG_WHEEL_NUMBER(member, type)
#define AF_CATALOG_WHEEL_FLAG(member)
#include "kit/catalog/wheel_fields.inc"
    if (!read_flag(reading, row, "kind", "official", false, &wheel->official) ||
        !read_flag(reading, row, "gpu", "rocm", false, &wheel->rocm) ||
        !read_flag(reading, row, "evidence", "listed", false, &wheel->listed) ||
        !read_answer(reading, row, "valid_name", &valid_name))
        return false;
    wheel->valid_name = valid_name != AF_NO;
    return read_numbers(reading, wheel) && read_version(reading, wheel) &&
           check_handles(reading, wheel);
}

struct ranked {
    struct af_version version;
    size_t number;
};

static int compare_ranked(const void *a, const void *b)
{
    return af_version_compare_public(&((const struct ranked *)a)->version,
                                     &((const struct ranked *)b)->version);
}

/* Turns version_rank from discovery order into the order of versions. */
static void rank_versions(struct reading *reading, struct af_catalog_wheel *wheels,
                          size_t count)
{
    size_t known = reading->versions.count;
    struct ranked *ranked = af_memory_alloc(known * sizeof *ranked);
    int32_t *ranks = af_memory_alloc(known * sizeof *ranks);
    for (size_t i = 0; i < known; i++) {
        const char *text = reading->versions.texts[i];
        ranked[i].number = i;
        af_version_parse(text, strlen(text), &ranked[i].version);
    }
    qsort(ranked, known, sizeof *ranked, compare_ranked);
    int32_t rank = 0;
    for (size_t i = 0; i < known; i++) {
        rank += i > 0 && compare_ranked(&ranked[i - 1], &ranked[i]) != 0;
        ranks[ranked[i].number] = rank;
    }
    for (size_t i = 0; i < count; i++)
        wheels[i].version_rank = ranks[wheels[i].version_rank];
    af_memory_free(ranks);
    af_memory_free(ranked);
}

static bool is_blank(struct af_span line)
{
    return af_text_trim(line).len == 0;
}

static bool read_line(struct reading *reading, struct af_span line,
                      struct af_catalog_wheel *wheels, size_t *count, const char **date)
{
    char place[200];
    char shown[160];
    json_t *row = NULL;
    af_text_quote(shown, sizeof shown, reading->name, strlen(reading->name));
    snprintf(place, sizeof place, "%s:%zu", shown, reading->line);
    reading->status = af_json_parse(line, AF_CATALOG_LINE_BYTES_MAX, place, &row, reading->err);
    if (reading->status != ANYFLASH_OK)
        return false;
    bool good;
    if (!json_is_object(row))
        good = bad(reading, "", "the line is not a JSON object");
    else if (reading->line == 1 && json_object_get(row, "catalog_date") != NULL)
        good = read_long(reading, row, "catalog_date", true, date);
    else
        good = read_row(reading, row, &wheels[(*count)++]);
    json_decref(row);
    return good;
}

/* Counts the lines with a row or the date, which is the size of the array of wheels. */
static size_t count_lines(struct af_span bytes)
{
    struct af_span line;
    size_t count = 0;
    while (af_text_line(&bytes, &line))
        count += !is_blank(line);
    return count;
}

enum anyflash_status af_catalog_rows_read(struct af_span bytes, const char *name,
                                          struct af_arena *arena,
                                          const struct af_catalog_wheel **wheels_out,
                                          size_t *count_out, const char **date_out,
                                          struct anyflash_error *err)
{
    struct reading reading = {.arena = arena, .name = name, .err = err};
    struct af_span line;
    const char *date = NULL;
    size_t count = 0;
    size_t capacity = count_lines(bytes);
    if (capacity > AF_CATALOG_ROWS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "the catalog has more than %u rows",
                       AF_CATALOG_ROWS_MAX);
    struct af_catalog_wheel *wheels = af_arena_array(arena, capacity, sizeof *wheels);
    bool good = true;
    while (good && af_text_line(&bytes, &line)) {
        reading.line++;
        good = is_blank(line) || read_line(&reading, line, wheels, &count, &date);
    }
    if (good)
        rank_versions(&reading, wheels, count);
    af_intern_release(&reading.texts);
    af_intern_release(&reading.versions);
    if (!good)
        return reading.status;
    *wheels_out = wheels;
    *count_out = count;
    *date_out = date;
    return ANYFLASH_OK;
}
