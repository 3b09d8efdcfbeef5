/*
 * wheel_name.c: parses names of distributions (PEP 503), file names of wheels
 * (PEP 427, PEP 825), and CUDA, torch and C++ ABI in the local version of a
 * flash-attn wheel, in all spellings that publishers use.
 *
 * The file name is copied once, decoded, and split at its dashes in place. The
 * parts of a local version may have any order and case:
 * "cu12torch2.8cxx11abiTRUE", "cu128torch2.9",
 * "20251124.cu130torch2100cxx11abitrue.ff2241", "cu128.torch29",
 * "cu.12.8.torch.2.11". The rest is ignored.
 */
#include "kit/formats/wheel_name.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"

static bool is_separator(char letter)
{
    return letter == '-' || letter == '_' || letter == '.';
}

bool af_name_normalise(struct af_span name, char *buffer, size_t size_bytes)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char letter = name.data[i];
        if (is_separator(letter) && i + 1 < name.len && is_separator(name.data[i + 1]))
            continue;
        if (len + 1 >= size_bytes) {
            buffer[0] = '\0';
            return false;
        }
        if (is_separator(letter))
            letter = '-';
        else if (letter >= 'A' && letter <= 'Z')
            letter = (char)(letter - 'A' + 'a');
        buffer[len++] = letter;
    }
    buffer[len] = '\0';
    return true;
}

bool af_name_is(struct af_span name, const char *normalised)
{
    char buffer[128];
    return name.len <= 2 * sizeof buffer && af_name_normalise(name, buffer, sizeof buffer) &&
           strcmp(buffer, normalised) == 0;
}

#define ENDING ".whl"
#define FIELDS_MAX 7
#define VARIANT_BYTES_MAX 16

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether `field` consists of letters, digits and characters of `more`, at least one. */
static bool consists_of(const char *field, const char *more)
{
    for (const char *at = field; *at != '\0'; at++) {
        if (!is_letter(*at) && !is_digit(*at) && strchr(more, *at) == NULL)
            return false;
    }
    return *field != '\0';
}

/* Copies the name without its extension, with "%2B" as '+'. False at a NUL. */
static bool copy_decoded(char *copy, const char *text, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        bool plus = af_url_escape_at(text + at, len - at) == '+';
        if (text[at] == '\0')
            return false;
        *copy++ = plus ? '+' : text[at];
        at += plus ? 2 : 0;
    }
    *copy = '\0';
    return true;
}

/* Splits `text` at its dashes; 0 if there are more than FIELDS_MAX fields. */
static int cut(char *text, const char **fields)
{
    int count = 0;
    while (text != NULL && count < FIELDS_MAX)
        fields[count++] = strsep(&text, "-");
    return text == NULL ? count : 0;
}

/* Whether the first of a set of tags names a known platform. */
static bool is_platform(const char *field)
{
    static const char *const starts[] = {"linux_",      "manylinux", "musllinux_", "win",
                                         "macosx_",     "android_",  "ios_",       "pyodide_",
                                         "emscripten_", "wasi_",     "freebsd_"};
    return af_starts_with_any(field, starts, AF_COUNT(starts)) || strcmp(field, "any") == 0;
}

/*
 * Six fields have a build tag, which starts with a digit, or a variant label
 * after a platform; seven have both.
 */
static enum af_wheel_name_problem assign(struct af_wheel_name *name, const char *const *fields,
                                         int count)
{
    bool has_build = count == 7 || (count == 6 && !is_platform(fields[4]));
    const char *const *tags = fields + 2 + has_build;
    if (count < 5)
        return AF_WHEEL_NAME_FIELDS;
    if (has_build && !is_digit(fields[2][0]))
        return AF_WHEEL_NAME_BUILD;
    name->package = fields[0];
    name->version_text = fields[1];
    name->build = has_build ? fields[2] : "";
    name->python = tags[0];
    name->abi = tags[1];
    name->platform = tags[2];
    name->variant = count - has_build == 6 ? tags[3] : "";
    return AF_WHEEL_NAME_VALID;
}

static bool has_right_letters(const struct af_wheel_name *name)
{
    return consists_of(name->package, "_.") && strstr(name->package, "__") == NULL &&
           (*name->build == '\0' || consists_of(name->build, "_.")) &&
           consists_of(name->python, "_.") && consists_of(name->abi, "_.") &&
           consists_of(name->platform, "_.") &&
           (*name->variant == '\0' ||
            (consists_of(name->variant, "_.") && strlen(name->variant) <= VARIANT_BYTES_MAX));
}

enum af_wheel_name_problem af_wheel_name_parse(const char *text, size_t len,
                                               struct af_wheel_name *name_out)
{
    struct af_wheel_name name = {0};
    const char *fields[FIELDS_MAX];
    size_t ending = strlen(ENDING);
    if (len >= AF_WHEEL_NAME_BYTES)
        return AF_WHEEL_NAME_TOO_LONG;
    if (len < ending || memcmp(text + len - ending, ENDING, ending) != 0)
        return AF_WHEEL_NAME_NO_WHEEL;
    if (!copy_decoded(name.text, text, len - ending))
        return AF_WHEEL_NAME_LETTERS;
    enum af_wheel_name_problem problem = assign(&name, fields, cut(name.text, fields));
    if (problem != AF_WHEEL_NAME_VALID)
        return problem;
    if (!has_right_letters(&name))
        return AF_WHEEL_NAME_LETTERS;
    if (!af_version_parse(name.version_text, strlen(name.version_text), &name.version))
        return AF_WHEEL_NAME_VERSION;
    *name_out = name;
    copy_decoded(name_out->text, text, len - ending); /* its texts point into its own copy */
    return assign(name_out, fields, cut(name_out->text, fields));
}

const char *af_wheel_name_problem_text(enum af_wheel_name_problem problem)
{
    switch (problem) {
    case AF_WHEEL_NAME_VALID:
        return "is a valid wheel name";
    case AF_WHEEL_NAME_TOO_LONG:
        return "is too long for a file name";
    case AF_WHEEL_NAME_NO_WHEEL:
        return "does not end in .whl";
    case AF_WHEEL_NAME_FIELDS:
        return "does not have the five to seven fields of a wheel name";
    case AF_WHEEL_NAME_LETTERS:
        return "holds a character that a wheel name may not have";
    case AF_WHEEL_NAME_BUILD:
        return "has a build tag that does not start with a digit";
    case AF_WHEEL_NAME_VERSION:
        return "has no PEP 440 version";
    }
    return "is not a wheel name";
}

#define LOCAL_BYTES 128
#define DIGITS_MAX 4

enum af_formats_torch_digits af_formats_torch_digits_of(const char *source)
{
    static const struct {
        const char *source;
        enum af_formats_torch_digits digits;
    } habits[] = {{"windreamer/flash-attention3-wheels", AF_FORMATS_TORCH_DIGITS_PATCH_LAST},
                  {"nvidia-cosmos/cosmos-dependencies", AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE}};
    for (size_t i = 0; i < AF_COUNT(habits); i++) {
        if (af_equal(habits[i].source, source))
            return habits[i].digits;
    }
    return AF_FORMATS_TORCH_DIGITS_NONE;
}

static size_t digits_at(const char *text)
{
    return strspn(text, "0123456789");
}

/* The position after `word` and an optional '.', if digits follow; else NULL. */
static const char *find_number(const char *local, const char *word)
{
    for (const char *at = strstr(local, word); at != NULL; at = strstr(at + 1, word)) {
        const char *number = at + strlen(word);
        number += *number == '.';
        if (digits_at(number) > 0)
            return number;
    }
    return NULL;
}

/* Reads "12.8" from "12.8", "128" or "12"; nothing from other numbers of digits. */
static void read_cuda(const char *number, char *cuda)
{
    size_t len = digits_at(number);
    size_t minor = number[len] == '.' ? digits_at(number + len + 1) : 0;
    if (len <= 2 && minor > 0 && minor <= 2)
        snprintf(cuda, AF_WHEEL_WORD_BYTES, "%.*s", (int)(len + 1 + minor), number);
    else if (len == 2)
        snprintf(cuda, AF_WHEEL_WORD_BYTES, "%.2s", number);
    else if (len == 3)
        snprintf(cuda, AF_WHEEL_WORD_BYTES, "%.2s.%c", number, number[2]);
}

/* Length of dotted digits: two or three numbers of at most DIGITS_MAX digits. */
static size_t dotted_len(const char *number)
{
    size_t len = digits_at(number);
    for (int parts = 1; parts < 3 && number[len] == '.'; parts++) {
        size_t part = digits_at(number + len + 1);
        if (part == 0 || part > DIGITS_MAX)
            break;
        len += 1 + part;
    }
    return len;
}

/* Digits without a dot: the first is the major, the last may be the patch. */
static void read_torch_digits(const char *number, size_t len,
                              enum af_formats_torch_digits digits, char *torch)
{
    bool patch = digits == AF_FORMATS_TORCH_DIGITS_PATCH_LAST || len == 4 ||
                 (len == 3 && number[1] != '1');
    if (digits == AF_FORMATS_TORCH_DIGITS_NONE || len < 2 || len > 4 || (patch && len < 3))
        return;
    size_t minor = len - 1 - patch;
    int used =
        snprintf(torch, AF_WHEEL_WORD_BYTES, "%c.%.*s", number[0], (int)minor, number + 1);
    if (patch)
        snprintf(torch + used, AF_WHEEL_WORD_BYTES - (size_t)used, ".%c", number[len - 1]);
}

static void read_torch(const char *number, enum af_formats_torch_digits digits, char *torch)
{
    size_t len = digits_at(number);
    size_t dotted = dotted_len(number);
    if (dotted == len)
        read_torch_digits(number, len, digits, torch);
    else if (len <= DIGITS_MAX && dotted < AF_WHEEL_WORD_BYTES)
        snprintf(torch, AF_WHEEL_WORD_BYTES, "%.*s", (int)dotted, number);
}

/* Reads "cxx11abitrue"; some publishers misspell "cxx11". */
static enum af_answer read_abi(const char *local)
{
    static const char word[] = "x11abi";
    for (const char *at = strstr(local, word); at != NULL; at = strstr(at + 1, word)) {
        const char *value = at + strlen(word);
        if (af_starts_with(value, "true"))
            return AF_YES;
        if (af_starts_with(value, "false"))
            return AF_NO;
    }
    return AF_UNKNOWN;
}

void af_wheel_local_parse(const char *local, enum af_formats_torch_digits digits,
                          struct af_wheel_local *local_out)
{
    struct af_wheel_local parsed = {.cxx11abi = AF_UNKNOWN};
    char lower[LOCAL_BYTES];
    size_t len = 0;
    for (; len + 1 < sizeof lower && local[len] != '\0'; len++) {
        char c = local[len];
        lower[len] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    lower[len] = '\0';
    const char *cuda = find_number(lower, "cu");
    const char *torch = find_number(lower, "torch");
    if (cuda != NULL)
        read_cuda(cuda, parsed.cuda);
    if (torch != NULL)
        read_torch(torch, digits, parsed.torch);
    parsed.cxx11abi = read_abi(lower);
    parsed.rocm = strstr(lower, "rocm") != NULL;
    *local_out = parsed;
}

const char *af_wheel_plain_name(struct af_arena *arena, const char *file)
{
    const char *plus = file == NULL ? NULL : strchr(file, '+');
    const char *rest = plus == NULL ? NULL : strchr(plus, '-');
    return rest == NULL ? file
                        : af_arena_format(arena, "%.*s%s", (int)(plus - file), file, rest);
}

const char *af_wheel_listed_name(struct af_arena *arena, const char *package)
{
    char *name = af_arena_text(arena, package);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '_' ? '-' : *at;
    return name;
}
