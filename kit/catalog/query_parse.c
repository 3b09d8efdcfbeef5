/*
 * query_parse.c: parses the terms of `anyflash find`: KEY=VALUE, or text that must occur in the
 * file name.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/catalog/query_word.h"
#include "kit/formats/version.h"

#define WORD_BYTES_MAX 256
#define KEYS_TEXT_BYTES 160

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

/* "12", "12.8", "cu128", "128": the last of three digits is the minor. */
static bool read_cuda(const struct input *input, const char *value, struct af_query_word *word)
{
    int64_t digits;
    value += af_starts_with(value, "cu") ? 2 : 0;
    if (!af_parse_i64(value, 100, 999, &digits))
        return read_parts(input, value, word);
    word->parts[0] = (int)(digits / 10);
    word->parts[1] = (int)(digits % 10);
    word->part_count = 2;
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

/* "3.12", "3.13t", "cp312", "cp313t", "312", "3". */
static bool read_python(const struct input *input, const char *value,
                        struct af_query_word *word)
{
    size_t len = strlen(value);
    word->free_threaded = len > 1 && value[len - 1] == 't';
    char *text = af_arena_text_n(input->arena, value, len - word->free_threaded);
    text += af_starts_with(text, "cp") ? 2 : 0;
    if (strchr(text, '.') == NULL && strlen(text) > 1)
        text = af_arena_format(input->arena, "%c.%s", text[0], text + 1);
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

/* The keys of a search and what each accepts; AF_QUERY_NAME has none. */
static const struct key {
    const char *name;
    /* false if the value is wrong; NULL: any text is right */
    bool (*read)(const struct input *input, const char *value, struct af_query_word *word);
    const char *problem; /* of wrong values */
} keys[] = {
    [AF_QUERY_TORCH] = {"torch", read_torch,
                        "the value is not a version of torch: 2.9, 2.9.1 or 2.9.1+cu128"},
    [AF_QUERY_PYTHON] = {"python", read_python,
                         "the value is not a Python version like 3.12 or 3.13t"},
    [AF_QUERY_CUDA] = {"cuda", read_cuda, "the value is not a number like 12 or 12.8"},
    [AF_QUERY_ABI] = {"abi", read_answer, "the value is not one of true, false, unknown"},
    [AF_QUERY_PLATFORM] = {"platform", NULL, NULL},
    [AF_QUERY_PACKAGE] = {"package", NULL, NULL},
    [AF_QUERY_VERSION] = {"version", read_version,
                          "the value is not a version like 2.8 or 2.8.3.post1"},
    [AF_QUERY_SOURCE] = {"source", NULL, NULL},
    [AF_QUERY_SM] = {"sm", read_sm, "the value is not a GPU like 9.0 or sm_90"},
    [AF_QUERY_GLIBC] = {"glibc", read_parts, "the value is not a number like 12 or 12.8"},
    [AF_QUERY_GPU] = {"gpu", read_gpu,
                      "gpu is cuda or rocm; a GPU of NVIDIA's is named by its compute "
                      "capability, like sm=9.0"},
};

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
    const struct key *key = NULL;
    *word = (struct af_query_word){.key = AF_QUERY_NAME};
    if (strlen(input->word) > WORD_BYTES_MAX)
        return refuse(input, "the word is too long");
    if (*input->word == '\0')
        return refuse(input, "an empty word");
    const char *value = *at == '\0' ? input->word : at + 1 + (at[1] == '=');
    if (*at != '\0') {
        key = find_key(input->word, key_len);
        if (key == NULL)
            return refuse_key(input, key_len);
        word->key = (enum af_query_key)(key - keys);
        if (*at != '=')
            return refuse(input, "a term is KEY=VALUE; there is no other operator");
        if (*value == '\0')
            return refuse(input, "the value is missing");
    }
    word->text = af_arena_text(input->arena, value);
    if (key != NULL && key->read != NULL && !key->read(input, value, word))
        return refuse(input, key->problem);
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
