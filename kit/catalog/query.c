/*
 * query.c: which wheels a query is about, and in which order they are shown.
 * The words are read in query_words.c.
 *
 * What a wheel does not say matches nothing, with one exception: pure Python
 * wheels are bound to no torch, CUDA, ABI, GPU or glibc.
 */
#include "kit/catalog/query_word.h"

#include "kit/base/sort.h"
#include "kit/base/text.h"
#include "kit/formats/tags.h"

#include <stdlib.h>
#include <string.h>

static bool is_pure(const struct af_catalog_wheel *wheel)
{
    return strcmp(wheel->abi, "none") == 0;
}

/* Order of the wheel's numbers and the word's; what one does not say is equal. */
static int order_of(const struct af_query_word *word, const int *numbers)
{
    for (int i = 0; i < word->part_count; i++) {
        if (numbers[i] >= 0 && numbers[i] != word->parts[i])
            return numbers[i] > word->parts[i] ? 1 : -1;
    }
    return 0;
}

static bool holds_order(enum af_query_operator operator, int order)
{
    switch (operator) {
    case AF_QUERY_IS:
        return order == 0;
    case AF_QUERY_IS_NOT:
        return order != 0;
    case AF_QUERY_AT_LEAST:
        return order >= 0;
    case AF_QUERY_AT_MOST:
        return order <= 0;
    case AF_QUERY_ABOVE:
        return order > 0;
    case AF_QUERY_BELOW:
        return order < 0;
    case AF_QUERY_COMPATIBLE:
        break;
    }
    return false;
}

static bool holds_numbers(const struct af_query_word *word,
                          const struct af_catalog_wheel *wheel, const int *numbers)
{
    if (numbers[0] < 0)
        return is_pure(wheel);
    return holds_order(word->operator, order_of(word, numbers));
}

/* "glibc=2.31" asks what loads there; the other operators compare. */
static bool holds_glibc(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    int numbers[] = {wheel->glibc_minor < 0 ? -1 : 2, wheel->glibc_minor, -1};
    struct af_query_word loads = *word;
    if (word->operator== AF_QUERY_IS)
        loads.operator= AF_QUERY_AT_MOST;
    if (word->operator== AF_QUERY_IS_NOT)
        loads.operator= AF_QUERY_ABOVE;
    return holds_numbers(&loads, wheel, numbers);
}

static bool loads_in_python(const struct af_query_word *word,
                            const struct af_catalog_wheel *wheel)
{
    char major = (char)('0' + word->parts[0] % 10);
    if (word->part_count == 1)
        return strlen(wheel->python) > 2 && wheel->python[2] == major;
    struct af_interpreter interpreter = {
        .major = word->parts[0], .minor = word->parts[1], .free_threaded = word->free_threaded};
    return af_tags_python_accepted(&interpreter, wheel->python, wheel->abi);
}

static bool has_answer(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    enum af_answer answer = wheel->cxx11abi_effective;
    if (answer == AF_UNKNOWN)
        answer = wheel->cxx11abi;
    return answer == word->answer || is_pure(wheel);
}

/* "linux" is every Linux, "linux_x86_64" every x86_64 Linux, "aarch64" every such. */
static bool is_platform(const char *platform, const char *wanted)
{
    if (strcmp(platform, "any") == 0 || strcmp(platform, wanted) == 0)
        return true;
    if (af_equal_fold(wanted, "windows") || af_equal_fold(wanted, "win"))
        return af_starts_with(platform, "win");
    if (af_equal_fold(wanted, "macos"))
        return af_starts_with(platform, "macosx");
    if (af_starts_with(wanted, "linux_"))
        return strstr(platform, "linux") != NULL && af_ends_with(platform, wanted + 5);
    return strcasestr(platform, wanted) != NULL;
}

/* Equal but for case and separators: "flash-attn-4" is flash_attn4. */
static bool is_package(const char *package, const char *wanted)
{
    static const char separators[] = "-_.";
    for (;;) {
        package += strspn(package, separators);
        wanted += strspn(wanted, separators);
        if (*package == '\0' || (*package | 0x20) != (*wanted | 0x20))
            return *package == '\0' && *wanted == '\0';
        package++;
        wanted++;
    }
}

static bool is_source(const struct af_catalog_wheel *wheel, const char *wanted)
{
    if (af_equal_fold(wanted, "official"))
        return wheel->official;
    if (af_equal_fold(wanted, "community"))
        return !wheel->official;
    return strcasestr(wheel->source, wanted) != NULL;
}

/* Code for SM X.y runs on X.z where z is y or higher. */
static bool serves_sm(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    for (const char *at = wheel->sm; at != NULL; at = strchr(at, ' ')) {
        char *end;
        at += *at == ' ';
        long major = strtol(at, &end, 10);
        long minor = strtol(end + (*end == '.'), NULL, 10);
        if (major == word->parts[0] && minor <= word->parts[1])
            return true;
    }
    return is_pure(wheel);
}

static bool has_version(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    struct af_version version;
    return af_version_parse(wheel->version, strlen(wheel->version), &version) &&
           af_specifier_contains(word->text, &version) == AF_YES;
}

/* Whether the word holds, "!=" taken as "=" where `holds` turns it round. */
static bool holds_is(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    switch (word->key) {
    case AF_QUERY_PYTHON:
        return loads_in_python(word, wheel);
    case AF_QUERY_ABI:
        return has_answer(word, wheel);
    case AF_QUERY_PLATFORM:
        return is_platform(wheel->platform, word->text);
    case AF_QUERY_PACKAGE:
        return is_package(wheel->package, word->text);
    case AF_QUERY_SOURCE:
        return is_source(wheel, word->text);
    case AF_QUERY_SM:
        return serves_sm(word, wheel);
    case AF_QUERY_GPU:
        return af_equal_fold(word->text, wheel->rocm ? "rocm" : "cuda");
    default:
        return strcasestr(wheel->filename, word->text) != NULL;
    }
}

static bool holds(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    switch (word->key) {
    case AF_QUERY_TORCH:
        return holds_numbers(
            word, wheel, (int[]){wheel->torch_major, wheel->torch_minor, wheel->torch_patch});
    case AF_QUERY_CUDA:
        return holds_numbers(word, wheel, (int[]){wheel->cuda_major, wheel->cuda_minor, -1});
    case AF_QUERY_GLIBC:
        return holds_glibc(word, wheel);
    case AF_QUERY_VERSION:
        return has_version(word, wheel);
    default:
        return holds_is(word, wheel) == (word->operator== AF_QUERY_IS);
    }
}

static bool matches(const struct af_query *query, const struct af_catalog_wheel *wheel)
{
    for (size_t i = 0; i < query->count; i++) {
        if (!holds(&query->words[i], wheel))
            return false;
    }
    return true;
}

/* Package, newest version, official, source, file name, row. */
static int compare(const void *left, const void *right, const void *context)
{
    (void)context;
    const struct af_catalog_wheel *a = *(const struct af_catalog_wheel *const *)left;
    const struct af_catalog_wheel *b = *(const struct af_catalog_wheel *const *)right;
    int order = a->package == b->package ? 0 : strcmp(a->package, b->package);
    if (order != 0)
        return order;
    if (a->version_rank != b->version_rank)
        return a->version_rank > b->version_rank ? -1 : 1;
    if (a->official != b->official)
        return a->official ? -1 : 1;
    order = a->source == b->source ? 0 : strcmp(a->source, b->source);
    if (order == 0)
        order = strcmp(a->filename, b->filename);
    return order != 0 ? order : (a > b) - (a < b);
}

enum anyflash_status af_query_run(const struct af_query *query,
                                  const struct af_catalog *catalog, struct af_arena *arena,
                                  const struct af_catalog_wheel *const **wheels_out,
                                  size_t *count_out, struct anyflash_error *err)
{
    const struct af_catalog_wheel **found =
        af_arena_array(arena, catalog->count, sizeof *found);
    size_t count = 0;
    if (found == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < catalog->count; i++) {
        if (matches(query, &catalog->wheels[i]))
            found[count++] = &catalog->wheels[i];
    }
    af_sort(found, count, sizeof *found, compare, NULL);
    *wheels_out = found;
    *count_out = count;
    return ANYFLASH_OK;
}
