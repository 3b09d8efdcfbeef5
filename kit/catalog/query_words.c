/*
 * query_words.c: reads the words of `anyflash find`. A word is KEY OPERATOR
 * VALUE, or free text that must occur in the file name. Values are read here,
 * once; query.c then compares numbers and short texts.
 */
#include "kit/catalog/query_word.h"

#include "kit/base/text.h"

#include <stdio.h>
#include <string.h>

#define WORD_BYTES_MAX 256
#define KEYS_TEXT_BYTES 160

enum kind { NUMBERS, PYTHON, SM, ANSWER, TEXT, VERSION };

static const struct {
    const char *name;
    enum kind kind;
    bool ordered; /* takes <, <=, >, >= */
    const char *help;
} keys[AF_QUERY_KEY_COUNT] = {
    [AF_QUERY_TORCH] = {"torch", NUMBERS, true, "torch it was made for; 2.9 is also 2.9.1"},
    [AF_QUERY_PYTHON] = {"python", PYTHON, false, "Python that loads it, as 3.12 or 3.13t"},
    [AF_QUERY_CUDA] = {"cuda", NUMBERS, true, "CUDA it was made for; 12 is also 12.8"},
    [AF_QUERY_ABI] = {"abi", ANSWER, false, "C++ ABI it has: true, false or unknown"},
    [AF_QUERY_PLATFORM] = {"platform", TEXT, false,
                           "platform tag, or linux, windows, aarch64, ..."},
    [AF_QUERY_PACKAGE] = {"package", TEXT, false, "flash_attn, flash_attn_3 or flash_attn_4"},
    [AF_QUERY_VERSION] = {"version", VERSION, true, "flash-attn's version; 2.8 is also 2.8.3"},
    [AF_QUERY_SOURCE] = {"source", TEXT, false,
                         "official, community, or part of the publisher's name"},
    [AF_QUERY_SM] = {"sm", SM, false, "GPU it has code for, as 9.0 or sm_90"},
    [AF_QUERY_GLIBC] = {"glibc", NUMBERS, true,
                        "glibc it needs; glibc=2.31 is what loads there"},
    [AF_QUERY_GPU] = {"gpu", TEXT, false, "cuda or rocm"},
};

/* Longer operators stand before those that they start with. */
static const struct {
    const char *text;
    enum af_query_operator operator;
} operators[] = {
    {"==", AF_QUERY_IS},      {"!=", AF_QUERY_IS_NOT},     {">=", AF_QUERY_AT_LEAST},
    {"<=", AF_QUERY_AT_MOST}, {"~=", AF_QUERY_COMPATIBLE}, {"=", AF_QUERY_IS},
    {">", AF_QUERY_ABOVE},    {"<", AF_QUERY_BELOW},
};

/* One word on its way to being parsed. */
struct input {
    const char *word;
    struct af_arena *arena;
    struct anyflash_error *err;
};

const char *af_query_key(size_t index)
{
    return index < AF_QUERY_KEY_COUNT ? keys[index].name : NULL;
}

const char *af_query_key_help(size_t index)
{
    return index < AF_QUERY_KEY_COUNT ? keys[index].help : NULL;
}

static enum anyflash_status refuse(const struct input *input, const char *problem)
{
    char shown[80];
    af_text_quote(shown, sizeof shown, input->word, strlen(input->word));
    return af_fail(input->err, ANYFLASH_E_ARGUMENT, "'%s': %s", shown, problem);
}

static enum anyflash_status refuse_key(const struct input *input)
{
    char problem[64 + KEYS_TEXT_BYTES] = "no such key; keys are";
    for (size_t i = 0; i < AF_QUERY_KEY_COUNT; i++) {
        size_t used = strlen(problem);
        snprintf(problem + used, sizeof problem - used, "%s %s", i == 0 ? "" : ",",
                 keys[i].name);
    }
    return refuse(input, problem);
}

/* "12.8" as parts; false when it is anything else. */
static bool read_parts(const char *value, struct af_query_word *word)
{
    struct af_version version;
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

/* "3.12", "3.13t", "cp312", "cp313t", "3". */
static bool read_python(const struct input *input, const char *value,
                        struct af_query_word *word)
{
    size_t len = strlen(value);
    word->free_threaded = len > 1 && value[len - 1] == 't';
    char *text = af_arena_text_n(input->arena, value, len - word->free_threaded);
    if (text == NULL)
        return true; /* the arena has failed; said at the end */
    if (af_starts_with(text, "cp") && strchr(text, '.') == NULL && strlen(text) > 3)
        text = af_arena_format(input->arena, "%c.%s", text[2], text + 3);
    return text == NULL || (read_parts(text, word) && word->part_count <= 2);
}

/* "9.0", "90", "sm_90", "sm90": the last digit is the minor. */
static bool read_sm(const char *value, struct af_query_word *word)
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
    return read_parts(value, word) && word->part_count == 2;
}

static bool read_answer(const char *value, struct af_query_word *word)
{
    static const struct {
        const char *text;
        enum af_answer answer;
    } answers[] = {{"true", AF_YES}, {"yes", AF_YES}, {"1", AF_YES},          {"false", AF_NO},
                   {"no", AF_NO},    {"0", AF_NO},    {"unknown", AF_UNKNOWN}};
    for (size_t i = 0; i < AF_COUNT(answers); i++) {
        if (af_equal_fold(answers[i].text, value)) {
            word->answer = answers[i].answer;
            return true;
        }
    }
    return false;
}

/* The value as a specifier; "2.8" alone is every 2.8.x, "2.8.3" is itself. */
static bool read_version(const struct input *input, const char *value,
                         struct af_query_word *word)
{
    static const char *const signs[] = {
        [AF_QUERY_IS] = "==",        [AF_QUERY_IS_NOT] = "!=", [AF_QUERY_AT_LEAST] = ">=",
        [AF_QUERY_AT_MOST] = "<=",   [AF_QUERY_ABOVE] = ">",   [AF_QUERY_BELOW] = "<",
        [AF_QUERY_COMPATIBLE] = "~="};
    struct af_version version;
    bool exact = word->operator== AF_QUERY_IS || word->operator== AF_QUERY_IS_NOT;
    bool plain = af_version_parse(value, strlen(value), &version);
    bool any_below = exact && plain && version.release_count <= 2 &&
                     !af_version_is_prerelease(&version) && version.post < 0 &&
                     version.local[0] == '\0';
    if (strchr(value, ',') != NULL)
        return false;
    word->text = af_arena_format(input->arena, "%s%s%s", signs[word->operator], value,
                                 any_below ? ".*" : "");
    af_version_parse("0", 1, &version);
    return word->text == NULL || af_specifier_contains(word->text, &version) != AF_UNKNOWN;
}

static enum anyflash_status read_value(const struct input *input, const char *value,
                                       struct af_query_word *word)
{
    word->text = af_arena_text(input->arena, value);
    switch (keys[word->key].kind) {
    case NUMBERS:
        return read_parts(value, word)
                   ? ANYFLASH_OK
                   : refuse(input, "the value is no number like 12 or 12.8");
    case PYTHON:
        return read_python(input, value, word)
                   ? ANYFLASH_OK
                   : refuse(input, "the value is no Python like 3.12 or 3.13t");
    case SM:
        return read_sm(value, word) ? ANYFLASH_OK
                                    : refuse(input, "the value is no GPU like 9.0 or sm_90");
    case ANSWER:
        return read_answer(value, word)
                   ? ANYFLASH_OK
                   : refuse(input, "the value is none of true, false, unknown");
    case VERSION:
        return read_version(input, value, word)
                   ? ANYFLASH_OK
                   : refuse(input, "the value is no version like 2.8 or 2.8.3.post1");
    case TEXT:
        break;
    }
    return ANYFLASH_OK;
}

static bool find_key(const char *text, size_t len, enum af_query_key *key_out)
{
    for (size_t i = 0; i < AF_QUERY_KEY_COUNT; i++) {
        if (strlen(keys[i].name) == len && strncasecmp(keys[i].name, text, len) == 0) {
            *key_out = (enum af_query_key)i;
            return true;
        }
    }
    return false;
}

/* The operator at `at`; its length, or 0. */
static size_t find_operator(const char *at, enum af_query_operator *operator_out)
{
    for (size_t i = 0; i < AF_COUNT(operators); i++) {
        if (af_starts_with(at, operators[i].text)) {
            *operator_out = operators[i].operator;
            return strlen(operators[i].text);
        }
    }
    return 0;
}

/* Why the key does not take the operator, or NULL. */
static const char *operator_problem(const struct af_query_word *word)
{
    if (word->operator== AF_QUERY_IS || word->operator== AF_QUERY_IS_NOT)
        return NULL;
    if (!keys[word->key].ordered)
        return "this key takes = and != only";
    if (word->operator== AF_QUERY_COMPATIBLE && keys[word->key].kind != VERSION)
        return "only version takes ~=";
    return NULL;
}

static enum anyflash_status read_word(const struct input *input, struct af_query_word *word)
{
    size_t key_len = strcspn(input->word, "=!<>~");
    const char *at = input->word + key_len;
    word->key = AF_QUERY_FREE;
    if (strlen(input->word) > WORD_BYTES_MAX)
        return refuse(input, "the word is too long");
    if (*input->word == '\0')
        return refuse(input, "an empty word");
    if (*at == '\0') {
        word->text = af_arena_text(input->arena, input->word);
        return ANYFLASH_OK;
    }
    if (!find_key(input->word, key_len, &word->key))
        return refuse_key(input);
    size_t len = find_operator(at, &word->operator);
    if (len == 0)
        return refuse(input, "operators are =, !=, <, <=, >, >=");
    if (operator_problem(word) != NULL)
        return refuse(input, operator_problem(word));
    if (at[len] == '\0')
        return refuse(input, "the value is missing");
    return read_value(input, at + len, word);
}

enum anyflash_status af_query_parse(const char *const *words, size_t word_count,
                                    struct af_arena *arena, struct af_query *query_out,
                                    struct anyflash_error *err)
{
    if (word_count > AF_QUERY_WORDS_MAX)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "more than %d words", AF_QUERY_WORDS_MAX);
    struct af_query_word *parsed = af_arena_array(arena, word_count, sizeof *parsed);
    for (size_t i = 0; parsed != NULL && i < word_count; i++) {
        struct input input = {words[i], arena, err};
        enum anyflash_status status = read_word(&input, &parsed[i]);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (arena->failed)
        return af_fail_memory(err);
    *query_out = (struct af_query){parsed, word_count};
    return ANYFLASH_OK;
}
