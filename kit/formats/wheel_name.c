/*
 * wheel_name.c: file names of wheels in parts (PEP 427, PEP 825). The words of
 * a local version are read in wheel_local.c.
 *
 * The name is copied once, decoded and cut at its dashes in place.
 */
#include "kit/formats/wheel_name.h"

#include "kit/base/text.h"
#include "kit/base/url.h"

#include <string.h>

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

/* Letters, digits and `more`, at least one. */
static bool consists_of(const char *field, const char *more)
{
    for (const char *at = field; *at != '\0'; at++) {
        if (!is_letter(*at) && !is_digit(*at) && strchr(more, *at) == NULL)
            return false;
    }
    return *field != '\0';
}

/* Copies the name without its ending, "%2B" as '+'. False at a NUL. */
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

/* Cuts `text` at its dashes; 0 when there are more than FIELDS_MAX fields. */
static int cut(char *text, const char **fields)
{
    int count = 0;
    while (text != NULL && count < FIELDS_MAX)
        fields[count++] = strsep(&text, "-");
    return text == NULL ? count : 0;
}

/* Whether the first of a set of tags is of a platform that there is. */
static bool is_platform(const char *field)
{
    static const char *const starts[] = {"linux_",      "manylinux", "musllinux_", "win",
                                         "macosx_",     "android_",  "ios_",       "pyodide_",
                                         "emscripten_", "wasi_",     "freebsd_"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (af_starts_with(field, starts[i]))
            return true;
    }
    return strcmp(field, "any") == 0;
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

static const char *moved(const char *text, const char *from, const char *to)
{
    return *text == '\0' ? "" : to + (text - from);
}

/* Copies `name`, whose texts then point into the copy. */
static void publish(const struct af_wheel_name *name, struct af_wheel_name *to)
{
    *to = *name;
    to->package = moved(name->package, name->text, to->text);
    to->version_text = moved(name->version_text, name->text, to->text);
    to->build = moved(name->build, name->text, to->text);
    to->python = moved(name->python, name->text, to->text);
    to->abi = moved(name->abi, name->text, to->text);
    to->platform = moved(name->platform, name->text, to->text);
    to->variant = moved(name->variant, name->text, to->text);
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
    publish(&name, name_out);
    return AF_WHEEL_NAME_VALID;
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
    return "is no wheel name";
}
