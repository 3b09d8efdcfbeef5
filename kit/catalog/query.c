/*
 * query.c: finds the wheels that match the terms of `anyflash find`, in order. The terms are
 * parsed in query_parse.c.
 *
 * A value that a wheel does not state matches nothing, with one exception: pure
 * Python wheels do not depend on torch, CUDA, ABI, GPU or glibc, and match all
 * of these.
 */
#include "kit/catalog/query.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/sort.h"
#include "kit/base/text.h"
#include "kit/catalog/query_word.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"

static bool is_pure(const struct af_catalog_wheel *wheel)
{
    return strcmp(wheel->abi, "none") == 0;
}

/* Whether the wheel's numbers are the term's; one that a side does not have counts as equal. */
static bool holds_numbers(const int *wanted, int wanted_count,
                          const struct af_catalog_wheel *wheel, const int *numbers)
{
    if (numbers[0] < 0)
        return is_pure(wheel);
    for (int i = 0; i < wanted_count; i++)
        if (numbers[i] >= 0 && numbers[i] != wanted[i])
            return false;
    return true;
}

static bool holds_torch(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    int torch[] = {wheel->torch_major, wheel->torch_minor, wheel->torch_patch};
    int cuda[] = {wheel->cuda_major, wheel->cuda_minor, -1};
    return holds_numbers(word->parts, word->part_count, wheel, torch) &&
           (word->cuda_count == 0 || holds_numbers(word->cuda, word->cuda_count, wheel, cuda));
}

static bool holds_cuda(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    return holds_numbers(word->parts, word->part_count, wheel,
                         (int[]){wheel->cuda_major, wheel->cuda_minor, -1});
}

/* "glibc=2.31" matches wheels that load with it. */
static bool loads_with_glibc(const struct af_query_word *word,
                             const struct af_catalog_wheel *wheel)
{
    if (wheel->glibc_minor < 0)
        return is_pure(wheel);
    return word->parts[0] > 2 ||
           (word->parts[0] == 2 &&
            (word->part_count == 1 || wheel->glibc_minor <= word->parts[1]));
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

/*
 * "linux" matches every Linux, "linux_x86_64" every x86_64 Linux, "aarch64"
 * every aarch64 system.
 */
static bool is_platform(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    const char *platform = wheel->platform;
    const char *wanted = word->text;
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

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)(a == '-' ? '_' : a)) ==
           tolower((unsigned char)(b == '-' ? '_' : b));
}

/* Whether a file name contains the text, with '-' and '_' equal: "flash-attn". */
static bool is_in_name(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    const char *text = word->text;
    for (const char *name = wheel->filename; *name != '\0'; name++) {
        size_t len = 0;
        while (text[len] != '\0' && same_letter(name[len], text[len]))
            len++;
        if (text[len] == '\0')
            return true;
    }
    return false;
}

/* Whether names are equal, ignoring case and separators: "flash-attn-4" is flash_attn4. */
static bool is_package(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    const char *package = wheel->package;
    const char *wanted = word->text;
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

static bool is_source(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    const char *wanted = word->text;
    if (af_equal_fold(wanted, "official"))
        return wheel->official;
    if (af_equal_fold(wanted, "community"))
        return !wheel->official;
    return strcasestr(wheel->source, wanted) != NULL;
}

/* Code for SM X.y runs on X.z if z >= y; FlashAttention-4 compiles for some majors only. */
static bool serves_sm(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    const struct af_catalog_fa4_release *fa4 = af_catalog_fa4(wheel);
    if (fa4 != NULL)
        return af_catalog_has_major(fa4->forward, 10 * (int)word->parts[0]);
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

static bool is_for_gpu(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    return af_equal_fold(word->text, wheel->rocm ? "rocm" : "cuda");
}

/* When a term matches a wheel, by its key. */
static bool (*const holds[])(const struct af_query_word *word,
                             const struct af_catalog_wheel *wheel) = {
    [AF_QUERY_TORCH] = holds_torch,    [AF_QUERY_PYTHON] = loads_in_python,
    [AF_QUERY_CUDA] = holds_cuda,      [AF_QUERY_ABI] = has_answer,
    [AF_QUERY_PLATFORM] = is_platform, [AF_QUERY_PACKAGE] = is_package,
    [AF_QUERY_VERSION] = has_version,  [AF_QUERY_SOURCE] = is_source,
    [AF_QUERY_SM] = serves_sm,         [AF_QUERY_GLIBC] = loads_with_glibc,
    [AF_QUERY_GPU] = is_for_gpu,       [AF_QUERY_NAME] = is_in_name,
};

static bool matches(const struct af_query *query, const struct af_catalog_wheel *wheel)
{
    for (size_t i = 0; i < query->count; i++) {
        if (!holds[query->words[i].key](&query->words[i], wheel))
            return false;
    }
    return true;
}

/* As is_package(), by order: "flash_attn4" and "flash_attn_4" are one package. */
static int compare_packages(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        a += *a == '_';
        b += *b == '_';
        if (*a != *b)
            break;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* Orders by package, newest version, official, source, file name, row. */
static int compare(const void *left, const void *right, const void *context)
{
    (void)context;
    const struct af_catalog_wheel *a = *(const struct af_catalog_wheel *const *)left;
    const struct af_catalog_wheel *b = *(const struct af_catalog_wheel *const *)right;
    int order = a->package == b->package ? 0 : compare_packages(a->package, b->package);
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

void af_query_run(const struct af_query *query, const struct af_catalog *catalog,
                  struct af_arena *arena, const struct af_catalog_wheel *const **wheels_out,
                  size_t *count_out)
{
    const struct af_catalog_wheel **found =
        af_arena_array(arena, catalog->count, sizeof *found);
    size_t count = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        if (matches(query, &catalog->wheels[i]))
            found[count++] = &catalog->wheels[i];
    }
    af_sort(found, count, sizeof *found, compare, NULL);
    *wheels_out = found;
    *count_out = count;
}

static bool is_built_for(const struct af_query_word *torch, const struct af_catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->wheels[i].torch_major >= 0 && holds_torch(torch, &catalog->wheels[i]))
            return true;
    return false;
}

const char *af_query_unbuilt_torch(const struct af_query *query,
                                   const struct af_catalog *catalog, struct af_arena *arena)
{
    for (size_t i = 0; i < query->count; i++) {
        const struct af_query_word *word = &query->words[i];
        if (word->key != AF_QUERY_TORCH || is_built_for(word, catalog))
            continue;
        const char *text = af_arena_format(arena, "%d", word->parts[0]);
        for (int part = 1; part < word->part_count; part++)
            text = af_arena_format(arena, "%s.%d", text, word->parts[part]);
        return text;
    }
    return NULL;
}
