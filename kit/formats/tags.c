/*
 * tags.c: the platform tags of Linux: linux_ first, then one tag for every minor version of the
 * C library down to the oldest, old names after the minor they stand for. The wheel tags that
 * an interpreter accepts: a wheel's tags are taken apart instead of being searched in the list,
 * which is long.
 *
 * In the list a row is one (python, abi) pair; it spans all platform tags, or only "any". Rows
 * in order, for CPython 3.12: cp312-cp312 cp312-abi3 cp312-none cp311-abi3 ... cp32-abi3
 * py312-none py3-none py311-none ... py30-none cp312-none-any py312-none-any py3-none-any ...
 * py30-none-any
 */
#include "kit/formats/tags.h"

#include "kit/base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PYTHON_MINOR_MAX 999
#define TAG_BYTES 24
#define LIBC_MINOR_MAX 200 /* longer lists of tags are useless */

struct tags {
    struct af_arena *arena;
    const char **items;
    size_t count;
};

static void add(struct tags *tags, const char *tag)
{
    tags->items[tags->count++] = tag;
}

bool af_platform_libc_parse(const char *text, int *major_out, int *minor_out)
{
    char *end;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    long major = strtol(text, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9')
        return false;
    long minor = strtol(end + 1, &end, 10);
    if ((*end != '\0' && *end != '.' && *end != '-') || major > 99 || minor > LIBC_MINOR_MAX)
        return false;
    *major_out = (int)major;
    *minor_out = (int)minor;
    return true;
}

size_t af_platform_arch_at(const char *text, const char **arch_out)
{
    static const char *const names[][2] = {
        {"x86_64", "x86_64"},   {"x86-64", "x86_64"},  {"amd64", "x86_64"}, {"x64", "x86_64"},
        {"aarch64", "aarch64"}, {"arm64", "aarch64"},  {"sbsa", "aarch64"}, {"i686", "i686"},
        {"ppc64le", "ppc64le"}, {"riscv64", "riscv64"}};
    for (size_t i = 0; text != NULL && i < AF_COUNT(names); i++) {
        size_t len = 0;
        while (names[i][0][len] != '\0' &&
               tolower((unsigned char)text[len]) == names[i][0][len])
            len++;
        if (names[i][0][len] != '\0' || isalnum((unsigned char)text[len]))
            continue;
        *arch_out = names[i][1];
        return len;
    }
    return 0;
}

/* The name used before PEP 600 for a glibc 2 minor, or NULL. */
static const char *legacy_name(int minor)
{
    return minor == 17   ? "manylinux2014"
           : minor == 12 ? "manylinux2010"
           : minor == 5  ? "manylinux1"
                         : NULL;
}

static void add_manylinux(struct tags *tags, const char *arch, int newest)
{
    bool old_too = strcmp(arch, "x86_64") == 0 || strcmp(arch, "i686") == 0;
    for (int minor = newest; minor >= (old_too ? 5 : 17); minor--) {
        add(tags, af_arena_format(tags->arena, "manylinux_2_%d_%s", minor, arch));
        if (legacy_name(minor) != NULL)
            add(tags, af_arena_format(tags->arena, "%s_%s", legacy_name(minor), arch));
    }
}

const char *const *af_platform_tags_linux(struct af_arena *arena, const char *arch,
                                          const char *libc, const char *libc_version,
                                          size_t *count_out)
{
    int major = 0;
    int minor = 0;
    bool known = af_platform_libc_parse(libc_version, &major, &minor);
    struct tags tags = {arena, af_arena_array(arena, LIBC_MINOR_MAX + 8, sizeof(char *)), 0};
    add(&tags, af_arena_format(arena, "linux_%s", arch));
    if (known && major == 2 && af_equal(libc, "glibc"))
        add_manylinux(&tags, arch, minor);
    for (int at = minor; known && af_equal(libc, "musl") && at >= 0; at--)
        add(&tags, af_arena_format(arena, "musllinux_%d_%d_%s", major, at, arch));
    *count_out = tags.count;
    return tags.items;
}

/* Where each kind of row begins. */
struct row_plan {
    int own_count;    /* cp312-cp312; debug builds also load normal modules */
    bool stable;      /* has abi3 or abi3t rows */
    int none_row;     /* cp312-none */
    int older_row;    /* first cp311-abi3 */
    int pure_row;     /* py312-none */
    int any_row;      /* cp312-none-any */
    int pure_any_row; /* py312-none-any */
    int row_count;
};

static struct row_plan plan_rows(const struct af_interpreter *interpreter)
{
    int minor = interpreter->minor;
    struct row_plan plan = {.own_count = interpreter->debug && minor >= 8 ? 2 : 1};
    plan.stable = interpreter->major == 3 && minor >= 2;
    plan.none_row = plan.own_count + (plan.stable ? 1 : 0);
    plan.older_row = plan.none_row + 1;
    plan.pure_row = plan.older_row + (plan.stable ? minor - 2 : 0);
    plan.any_row = plan.pure_row + minor + 2;
    plan.pure_any_row = plan.any_row + 1;
    plan.row_count = plan.pure_any_row + minor + 2;
    return plan;
}

static const char *stable_abi(const struct af_interpreter *interpreter)
{
    return interpreter->free_threaded ? "abi3t" : "abi3";
}

/* The interpreter's own ABI tags: number 0, for debug builds also 1. */
static void own_abi(const struct af_interpreter *interpreter, int number, char *buffer)
{
    bool debug = interpreter->debug && number == 0;
    snprintf(buffer, TAG_BYTES, "cp%d%d%s%s%s", interpreter->major, interpreter->minor,
             interpreter->free_threaded ? "t" : "", debug ? "d" : "",
             interpreter->minor < 8 ? "m" : "");
}

/* The next item of a compressed set "a.b.c". */
static bool next_tag(struct af_span *rest, struct af_span *tag_out)
{
    if (rest->data == NULL)
        return false;
    const char *dot = memchr(rest->data, '.', rest->len);
    size_t len = dot == NULL ? rest->len : (size_t)(dot - rest->data);
    *tag_out = (struct af_span){rest->data, len};
    *rest = dot == NULL ? (struct af_span){NULL, 0}
                        : (struct af_span){dot + 1, rest->len - len - 1};
    return true;
}

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

static bool is_tag(struct af_span tag, const char *text)
{
    return tag.len == strlen(text) && strncasecmp(tag.data, text, tag.len) == 0;
}

/* "cp312" or "py3" as a number after its two letters: minor -1 when absent. */
static bool parse_python_tag(struct af_span tag, const char *letters, int *major_out,
                             int *minor_out)
{
    if (tag.len < 3 || tag.len > 6 || strncasecmp(tag.data, letters, 2) != 0)
        return false;
    int minor = tag.len == 3 ? -1 : 0;
    for (size_t i = 2; i < tag.len; i++) {
        if (tag.data[i] < '0' || tag.data[i] > '9' ||
            (i == 3 && tag.len > 4 && tag.data[i] == '0'))
            return false;
        if (i > 2)
            minor = minor * 10 + (tag.data[i] - '0');
    }
    *major_out = tag.data[2] - '0';
    *minor_out = minor;
    return true;
}

/* Whether it is "py3" or "py3N", N at most the interpreter's. */
static bool is_pure_tag(const struct af_interpreter *interpreter, struct af_span python)
{
    int major;
    int minor;
    return parse_python_tag(python, "py", &major, &minor) && major == interpreter->major &&
           minor <= interpreter->minor;
}

/* Whether a "cp" tag with this ABI is accepted. */
static bool is_cpython_pair(const struct af_interpreter *interpreter, struct af_span python,
                            struct af_span abi)
{
    struct row_plan plan = plan_rows(interpreter);
    int major;
    int minor;
    if (!parse_python_tag(python, "cp", &major, &minor) || major != interpreter->major)
        return false;
    bool stable = plan.stable && is_tag(abi, stable_abi(interpreter));
    if (minor != interpreter->minor)
        return stable && minor >= 2 && minor < interpreter->minor;
    for (int i = 0; i < plan.own_count; i++) {
        char own[TAG_BYTES];
        own_abi(interpreter, i, own);
        if (is_tag(abi, own))
            return true;
    }
    return stable || is_tag(abi, "none");
}

static bool in_range(const struct af_interpreter *interpreter)
{
    return interpreter->major >= 0 && interpreter->major <= 9 && interpreter->minor >= 0 &&
           interpreter->minor <= PYTHON_MINOR_MAX;
}

bool af_tags_python_accepted(const struct af_interpreter *interpreter, const char *python_tags,
                             const char *abi_tags)
{
    struct af_span pythons = span_of(python_tags);
    struct af_span python;
    bool accepted = false;
    if (!in_range(interpreter))
        return false;
    while (!accepted && next_tag(&pythons, &python)) {
        struct af_span abis = span_of(abi_tags);
        struct af_span abi;
        while (!accepted && next_tag(&abis, &abi))
            accepted = is_cpython_pair(interpreter, python, abi) ||
                       (is_tag(abi, "none") && is_pure_tag(interpreter, python));
    }
    return accepted;
}

bool af_tags_platform_accepted(const struct af_interpreter *interpreter,
                               const char *platform_tags)
{
    struct af_span rest = span_of(platform_tags);
    struct af_span tag;
    while (next_tag(&rest, &tag)) {
        if (is_tag(tag, "any"))
            return true;
        for (size_t i = 0; i < interpreter->platform_count; i++)
            if (is_tag(tag, interpreter->platform_tags[i]))
                return true;
    }
    return false;
}

/* "cp312-abi3" for row number `row`. */
static void format_row(const struct af_interpreter *interpreter, const struct row_plan *plan,
                       int row, char *buffer, size_t size_bytes)
{
    int major = interpreter->major;
    int minor = interpreter->minor;
    char abi[TAG_BYTES];
    if (row < plan->own_count) {
        own_abi(interpreter, row, abi);
        snprintf(buffer, size_bytes, "cp%d%d-%s", major, minor, abi);
    } else if (row < plan->none_row) {
        snprintf(buffer, size_bytes, "cp%d%d-%s", major, minor, stable_abi(interpreter));
    } else if (row == plan->none_row || row == plan->any_row) {
        snprintf(buffer, size_bytes, "cp%d%d-none", major, minor);
    } else if (row < plan->pure_row) {
        snprintf(buffer, size_bytes, "cp%d%d-%s", major, minor - 1 - (row - plan->older_row),
                 stable_abi(interpreter));
    } else {
        int place = row - (row < plan->any_row ? plan->pure_row : plan->pure_any_row);
        if (place == 1)
            snprintf(buffer, size_bytes, "py%d-none", major);
        else
            snprintf(buffer, size_bytes, "py%d%d-none", major,
                     place == 0 ? minor : minor - place + 1);
    }
}

enum anyflash_status af_tags_list(const struct af_interpreter *interpreter,
                                  struct af_arena *arena, const char ***tags_out,
                                  size_t *count_out, struct anyflash_error *err)
{
    if (!in_range(interpreter))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no tags for python %d.%d", interpreter->major,
                       interpreter->minor);
    struct row_plan plan = plan_rows(interpreter);
    size_t platform_rows = (size_t)plan.any_row;
    size_t any_rows = (size_t)(plan.row_count - plan.any_row);
    size_t count;
    if (!af_size_mul(platform_rows, interpreter->platform_count, &count) ||
        !af_size_add(count, any_rows, &count))
        return af_fail(err, ANYFLASH_E_LIMIT, "too many platform tags");
    const char **tags = af_arena_array(arena, count, sizeof *tags);
    size_t made = 0;
    for (int row = 0; row < plan.row_count; row++) {
        char pair[2 * TAG_BYTES];
        format_row(interpreter, &plan, row, pair, sizeof pair);
        if (row >= plan.any_row)
            tags[made++] = af_arena_format(arena, "%s-any", pair);
        for (size_t p = 0; row < plan.any_row && p < interpreter->platform_count; p++)
            tags[made++] = af_arena_format(arena, "%s-%s", pair, interpreter->platform_tags[p]);
    }
    *tags_out = tags;
    *count_out = count;
    return ANYFLASH_OK;
}
