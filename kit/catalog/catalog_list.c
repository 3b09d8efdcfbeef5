/*
 * catalog_list.c: checks wheels and collects them.
 */
#include "kit/catalog/catalog_list.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/formats/version.h"

#define NUMBER_MAX 9999
#define FIRST_CAPACITY 16u

/* The arguments of the checks of one wheel: the list, and where errors go. */
struct adding {
    struct af_catalog_list *list;
    const char *place;
    struct anyflash_error *err;
};

/* Records what is wrong; returns false, so that it can end a chain of checks. */
static bool bad(const struct adding *adding, const char *field, const char *problem)
{
    af_fail(adding->err, ANYFLASH_E_DATA, "%s, field '%s': %s", adding->place, field, problem);
    return false;
}

/* Whether a terminal can show the text as it is: af_text_quote() would change nothing. */
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

static bool check_text(const struct adding *adding, const char *field, bool needed,
                       const char *text)
{
    if (text == NULL)
        return needed ? bad(adding, field, "is missing") : true;
    if (!is_plain(text))
        return bad(adding, field, "holds characters that cannot be printed");
    return text[0] != '\0' ? true : bad(adding, field, "is empty");
}

static bool add_text(const struct adding *adding, const char *field, bool needed,
                     const char **text)
{
    struct af_catalog_list *list = adding->list;
    if (!check_text(adding, field, needed, *text))
        return false;
    if (*text == NULL)
        return true;
    const size_t number = af_intern_add(&list->texts, list->arena, *text, strlen(*text));
    *text = list->texts.texts[number];
    return true;
}

static bool add_long(const struct adding *adding, const char *field, bool needed,
                     const char **text)
{
    if (!check_text(adding, field, needed, *text))
        return false;
    if (*text != NULL)
        *text = af_arena_text(adding->list->arena, *text);
    return true;
}

static bool add_hash(const struct adding *adding, const unsigned char **hash)
{
    if (*hash != NULL)
        *hash = (const unsigned char *)af_arena_text_n(adding->list->arena, (const char *)*hash,
                                                       AF_SHA256_BYTES);
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

static bool set_numbers(const struct adding *adding, struct af_catalog_wheel *wheel)
{
    int16_t unused;
    int16_t glibc_major;
    if (!split_numbers(wheel->torch, (int16_t *[3]){&wheel->torch_major, &wheel->torch_minor,
                                                    &wheel->torch_patch}))
        return bad(adding, "torch", "is not a version like 2.8 or 2.8.1");
    if (!split_numbers(wheel->cuda,
                       (int16_t *[3]){&wheel->cuda_major, &wheel->cuda_minor, &unused}))
        return bad(adding, "cuda", "is not a version like 12 or 12.8");
    if (!split_numbers(wheel->glibc_min,
                       (int16_t *[3]){&glibc_major, &wheel->glibc_minor, &unused}) ||
        (wheel->glibc_min != NULL && (glibc_major != 2 || wheel->glibc_minor < 0)))
        return bad(adding, "glibc_min", "is not a version like 2.28");
    int64_t tag = -1;
    bool single = af_starts_with(wheel->python, "cp3") &&
                  af_parse_i64(wheel->python + 3, 0, NUMBER_MAX, &tag);
    wheel->python_minor = (int16_t)(single ? tag : -1);
    return true;
}

/* "gfx1100": a target of AMD's compiler. */
static bool is_gfx(const char *text, size_t len)
{
    return len >= 6 && len <= 7 && memcmp(text, "gfx", 3) == 0 &&
           strspn(text + 3, "0123456789abcdef") >= len - 3;
}

/* Whether `sm` lists compute capabilities or AMD's targets: "8.0 9.0", "gfx942". */
static bool check_sms(const struct adding *adding, const char *sm)
{
    for (const char *at = sm; at != NULL && *at != '\0';) {
        char one[16];
        int16_t major, minor, patch;
        size_t len = strcspn(at, " ");
        snprintf(one, sizeof one, "%.*s", (int)len, at);
        if (!is_gfx(at, len) &&
            (len >= sizeof one || !split_numbers(one, (int16_t *[3]){&major, &minor, &patch}) ||
             minor < 0 || patch >= 0))
            return bad(adding, "sm", "holds an item that is not like '8.0' or 'gfx942'");
        at += len + (at[len] == ' ');
    }
    return true;
}

/* Stores the version's number in discovery order; rank_versions() replaces it. */
static bool set_version(const struct adding *adding, struct af_catalog_wheel *wheel)
{
    struct af_version version;
    struct af_catalog_list *list = adding->list;
    size_t len = strlen(wheel->version);
    if (!af_version_parse(wheel->version, len, &version) || version.local[0] != '\0')
        return bad(adding, "version", "is not a public version");
    wheel->version_rank =
        (int32_t)af_intern_add(&list->versions, list->arena, wheel->version, len);
    return true;
}

/* plain http is allowed only for localhost: a local server, or a test's */
static bool is_address(const char *url)
{
    return (af_starts_with(url, "https://") || af_starts_with(url, "http://127.0.0.1:")) &&
           strpbrk(url, " \"'`$\\") == NULL;
}

/* Names and URLs are passed to installers, so none may look like an option or a path. */
static bool check_handles(const struct adding *adding, const struct af_catalog_wheel *wheel)
{
    if (wheel->filename[0] == '-' || strpbrk(wheel->filename, "/\\ ") != NULL ||
        !af_ends_with(wheel->filename, ".whl"))
        return bad(adding, "filename", "is not a wheel's file name");
    if (wheel->url != NULL && !is_address(wheel->url))
        return bad(adding, "url", "is not an https URL");
    return true;
}

/* Checks the members in the order of the table, and makes their texts the list's own. */
static bool take_members(const struct adding *adding, struct af_catalog_wheel *wheel)
{
#define AF_CATALOG_WHEEL_TEXT(member, needed)                                                  \
    if (!add_text(adding, #member, needed, &wheel->member))                                    \
        return false;
#define AF_CATALOG_WHEEL_LONG(member, needed)                                                  \
    if (!add_long(adding, #member, needed, &wheel->member))                                    \
        return false;
#define AF_CATALOG_WHEEL_JOINED(member)                                                        \
    if (!check_sms(adding, wheel->member) ||                                                   \
        !add_text(adding, #member, false, &wheel->member))                                     \
        return false;
#define AF_CATALOG_WHEEL_HASH(member)                                                          \
    if (!add_hash(adding, &wheel->member))                                                     \
        return false;
#define AF_CATALOG_WHEEL_NUMBER(member, type)
#define AF_CATALOG_WHEEL_ANSWER(member)
#define AF_CATALOG_WHEEL_FLAG(member)
#include "kit/catalog/wheel_fields.inc"
    return true;
}

static void grow(struct af_catalog_list *list)
{
    if (list->count < list->capacity)
        return;
    list->capacity = list->capacity == 0 ? FIRST_CAPACITY : 2 * list->capacity;
    list->wheels = af_memory_resize(list->wheels, list->capacity * sizeof *list->wheels);
}

enum anyflash_status af_catalog_list_add(struct af_catalog_list *list,
                                         const struct af_catalog_wheel *wheel,
                                         const char *place, struct anyflash_error *err)
{
    const struct adding adding = {list, place, err};
    struct af_catalog_wheel made = *wheel;
    if (list->count == AF_CATALOG_ROWS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "the catalog has more than %u rows",
                       AF_CATALOG_ROWS_MAX);
    if (!take_members(&adding, &made) || !set_numbers(&adding, &made) ||
        !set_version(&adding, &made) || !check_handles(&adding, &made))
        return ANYFLASH_E_DATA;
    grow(list);
    list->wheels[list->count++] = made;
    return ANYFLASH_OK;
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
static void rank_versions(struct af_catalog_list *list)
{
    size_t known = list->versions.count;
    struct ranked *ranked = af_memory_alloc(known * sizeof *ranked);
    int32_t *ranks = af_memory_alloc(known * sizeof *ranks);
    for (size_t i = 0; i < known; i++) {
        const char *text = list->versions.texts[i];
        ranked[i].number = i;
        af_version_parse(text, strlen(text), &ranked[i].version);
    }
    qsort(ranked, known, sizeof *ranked, compare_ranked);
    int32_t rank = 0;
    for (size_t i = 0; i < known; i++) {
        rank += i > 0 && compare_ranked(&ranked[i - 1], &ranked[i]) != 0;
        ranks[ranked[i].number] = rank;
    }
    for (size_t i = 0; i < list->count; i++)
        list->wheels[i].version_rank = ranks[list->wheels[i].version_rank];
    af_memory_free(ranks);
    af_memory_free(ranked);
}

const struct af_catalog_wheel *af_catalog_list_take(struct af_catalog_list *list,
                                                    size_t *count_out)
{
    rank_versions(list);
    struct af_catalog_wheel *wheels = af_arena_array(list->arena, list->count, sizeof *wheels);
    for (size_t i = 0; i < list->count; i++)
        wheels[i] = list->wheels[i];
    *count_out = list->count;
    af_catalog_list_release(list);
    return wheels;
}

void af_catalog_list_release(struct af_catalog_list *list)
{
    af_intern_release(&list->texts);
    af_intern_release(&list->versions);
    af_memory_free(list->wheels);
    *list = (struct af_catalog_list){.arena = list->arena};
}
