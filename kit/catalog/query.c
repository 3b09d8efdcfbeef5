/*
 * query.c: parses the terms of `anyflash find`, and finds the wheels that match
 * them, in order. A term is KEY=VALUE, or text that must occur in the file name.
 *
 * A value that a wheel does not state matches nothing, with one exception: pure
 * Python wheels do not depend on torch, CUDA, ABI, GPU or glibc, and match all
 * of these.
 */
#include "kit/catalog/query.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/sort.h"
#include "kit/base/text.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"

#define AF_QUERY_PARTS_MAX 3
#define WORD_BYTES_MAX 256
#define KEYS_TEXT_BYTES 160

struct key;

struct af_query_word {
    const struct key *key;
    const char *text;              /* the value; of a version: its specifier */
    int parts[AF_QUERY_PARTS_MAX]; /* of numbers, "12.8" */
    int part_count;
    int cuda[AF_QUERY_PARTS_MAX]; /* of torch, "2.9.1+cu128": its 12.8 */
    int cuda_count;
    bool free_threaded;    /* of python, "3.13t" */
    enum af_answer answer; /* of abi */
};

/* A word while it is parsed. */
struct input {
    const char *word;
    struct af_arena *arena;
    struct anyflash_error *err;
};

static enum anyflash_status refuse(const struct input *input, const char *problem)
{
    char shown[80];
    af_text_quote(shown, sizeof shown, input->word, strlen(input->word));
    return af_fail(input->err, ANYFLASH_E_ARGUMENT, "'%s': %s", shown, problem);
}

/* Parses "12.8" to its parts; false for anything else. */
static bool read_parts(const struct input *input, const char *value, struct af_query_word *word)
{
    struct af_version version;
    (void)input;
    if (value[strspn(value, "0123456789.")] != '\0' ||
        !af_version_parse(value, strlen(value), &version) ||
        version.release_count > AF_QUERY_PARTS_MAX)
        return false;
    for (int i = 0; i < version.release_count; i++) {
        if (version.release[i] > INT16_MAX)
            return false;
        word->parts[i] = (int)version.release[i];
    }
    word->part_count = version.release_count;
    return true;
}

/* "2.9", "2.9.1+cu128": the build of torch says which CUDA the wheel must be for. */
static bool read_torch(const struct input *input, const char *value, struct af_query_word *word)
{
    int64_t digits;
    size_t len = strcspn(value, "+");
    const char *build = value + len;
    const char *release = af_arena_text_n(input->arena, value, len);
    if (*build != '\0' &&
        (!af_starts_with(build, "+cu") || !af_parse_i64(build + 3, 80, 999, &digits)))
        return false;
    if (*build != '\0') {
        word->cuda[0] = (int)(digits / 10);
        word->cuda[1] = (int)(digits % 10);
        word->cuda_count = 2;
    }
    return read_parts(input, release, word);
}

/* "3.12", "3.13t", "cp312", "cp313t", "3". */
static bool read_python(const struct input *input, const char *value,
                        struct af_query_word *word)
{
    size_t len = strlen(value);
    word->free_threaded = len > 1 && value[len - 1] == 't';
    char *text = af_arena_text_n(input->arena, value, len - word->free_threaded);
    if (af_starts_with(text, "cp") && strchr(text, '.') == NULL && strlen(text) > 3)
        text = af_arena_format(input->arena, "%c.%s", text[2], text + 3);
    return read_parts(input, text, word) && word->part_count <= 2;
}

/* "9.0", "90", "sm_90", "sm90": the last digit is the minor. */
static bool read_sm(const struct input *input, const char *value, struct af_query_word *word)
{
    int64_t digits;
    if (af_starts_with(value, "sm"))
        value += value[2] == '_' ? 3 : 2;
    if (af_parse_i64(value, 20, 999, &digits)) {
        word->parts[0] = (int)(digits / 10);
        word->parts[1] = (int)(digits % 10);
        word->part_count = 2;
        return true;
    }
    return read_parts(input, value, word) && word->part_count == 2;
}

static bool read_answer(const struct input *input, const char *value,
                        struct af_query_word *word)
{
    bool yes = af_equal_fold(value, "true");
    bool no = af_equal_fold(value, "false");
    (void)input;
    word->answer = yes ? AF_YES : no ? AF_NO : AF_UNKNOWN;
    return yes || no || af_equal_fold(value, "unknown");
}

static bool read_gpu(const struct input *input, const char *value, struct af_query_word *word)
{
    (void)input;
    (void)word;
    return af_equal_fold(value, "cuda") || af_equal_fold(value, "rocm");
}

/* The value as a specifier; "2.8" means every 2.8.x, "2.8.3" only itself. */
static bool read_version(const struct input *input, const char *value,
                         struct af_query_word *word)
{
    struct af_version version;
    if (!af_version_parse(value, strlen(value), &version))
        return false;
    bool any_below = version.release_count <= 2 && !af_version_is_prerelease(&version) &&
                     version.post < 0 && version.local[0] == '\0';
    word->text = af_arena_format(input->arena, "==%s%s", value, any_below ? ".*" : "");
    return true;
}

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

/* Code for SM X.y runs on X.z if z is y or higher. */
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

static bool is_for_gpu(const struct af_query_word *word, const struct af_catalog_wheel *wheel)
{
    return af_equal_fold(word->text, wheel->rocm ? "rocm" : "cuda");
}

/* The keys of a search: what each accepts, and when it matches a wheel. */
static const struct key {
    const char *name;
    bool (*holds)(const struct af_query_word *word, const struct af_catalog_wheel *wheel);
    /* false if the value is wrong; NULL: any text is right */
    bool (*read)(const struct input *input, const char *value, struct af_query_word *word);
    const char *problem; /* of wrong values */
} keys[] = {
    {"torch", holds_torch, read_torch,
     "the value is not a version of torch: 2.9, 2.9.1 or 2.9.1+cu128"},
    {"python", loads_in_python, read_python,
     "the value is not a Python version like 3.12 or 3.13t"},
    {"cuda", holds_cuda, read_parts, "the value is not a number like 12 or 12.8"},
    {"abi", has_answer, read_answer, "the value is not one of true, false, unknown"},
    {"platform", is_platform, NULL, NULL},
    {"package", is_package, NULL, NULL},
    {"version", has_version, read_version,
     "the value is not a version like 2.8 or 2.8.3.post1"},
    {"source", is_source, NULL, NULL},
    {"sm", serves_sm, read_sm, "the value is not a GPU like 9.0 or sm_90"},
    {"glibc", loads_with_glibc, read_parts, "the value is not a number like 12 or 12.8"},
    {"gpu", is_for_gpu, read_gpu,
     "gpu is cuda or rocm; a GPU of NVIDIA's is named by its compute capability, like sm=9.0"},
};

/* The key of a term without one. */
static const struct key in_name = {.holds = is_in_name};

static enum anyflash_status refuse_key(const struct input *input, size_t key_len)
{
    const char *names[AF_COUNT(keys)];
    char problem[64 + KEYS_TEXT_BYTES];
    const char *typed = af_arena_text_n(input->arena, input->word, key_len);
    for (size_t i = 0; i < AF_COUNT(keys); i++)
        names[i] = keys[i].name;
    const char *near = key_len == 0 ? NULL : af_nearest(typed, names, AF_COUNT(keys));
    snprintf(problem, sizeof problem, "no such key; %s%s%skeys are",
             near == NULL ? "" : "did you mean ", near == NULL ? "" : near,
             near == NULL ? "" : "? ");
    for (size_t i = 0; i < AF_COUNT(keys); i++) {
        size_t used = strlen(problem);
        snprintf(problem + used, sizeof problem - used, "%s %s", i == 0 ? "" : ",",
                 keys[i].name);
    }
    return refuse(input, problem);
}

static const struct key *find_key(const char *text, size_t len)
{
    for (size_t i = 0; i < AF_COUNT(keys); i++) {
        if (strlen(keys[i].name) == len && strncasecmp(keys[i].name, text, len) == 0)
            return &keys[i];
    }
    return NULL;
}

static enum anyflash_status read_word(const struct input *input, struct af_query_word *word)
{
    size_t key_len = strcspn(input->word, "=!<>");
    const char *at = input->word + key_len;
    *word = (struct af_query_word){.key = &in_name};
    if (strlen(input->word) > WORD_BYTES_MAX)
        return refuse(input, "the word is too long");
    if (*input->word == '\0')
        return refuse(input, "an empty word");
    const char *value = *at == '\0' ? input->word : at + 1 + (at[1] == '=');
    if (*at != '\0') {
        word->key = find_key(input->word, key_len);
        if (word->key == NULL)
            return refuse_key(input, key_len);
        if (*at != '=')
            return refuse(input, "a term is KEY=VALUE; there is no other operator");
        if (*value == '\0')
            return refuse(input, "the value is missing");
    }
    word->text = af_arena_text(input->arena, value);
    if (word->key->read != NULL && !word->key->read(input, value, word))
        return refuse(input, word->key->problem);
    return ANYFLASH_OK;
}

enum anyflash_status af_query_parse(const char *const *words, size_t word_count,
                                    struct af_arena *arena, struct af_query *query_out,
                                    struct anyflash_error *err)
{
    if (word_count > AF_QUERY_WORDS_MAX)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "more than %d search words",
                       AF_QUERY_WORDS_MAX);
    struct af_query_word *parsed = af_arena_array(arena, word_count, sizeof *parsed);
    for (size_t i = 0; i < word_count; i++) {
        struct input input = {words[i], arena, err};
        enum anyflash_status status = read_word(&input, &parsed[i]);
        if (status != ANYFLASH_OK)
            return status;
    }
    *query_out = (struct af_query){parsed, word_count};
    return ANYFLASH_OK;
}

static bool matches(const struct af_query *query, const struct af_catalog_wheel *wheel)
{
    for (size_t i = 0; i < query->count; i++) {
        if (!query->words[i].key->holds(&query->words[i], wheel))
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
        if (word->key != &keys[0] || is_built_for(word, catalog))
            continue;
        const char *text = af_arena_format(arena, "%d", word->parts[0]);
        for (int part = 1; part < word->part_count; part++)
            text = af_arena_format(arena, "%s.%d", text, word->parts[part]);
        return text;
    }
    return NULL;
}
