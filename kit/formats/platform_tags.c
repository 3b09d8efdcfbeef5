/*
 * platform_tags.c: linux, manylinux and musllinux tags for a machine and its C
 * library. Source: _linux_platforms() of packaging 26.3 with its modules
 * _manylinux (PEP 600) and _musllinux (PEP 656): linux_ first, then one tag for
 * every minor version down to the oldest, old names after the minor they stand for.
 */
#include "kit/formats/platform_tags.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"

#define MINOR_MAX 200 /* longer lists of tags are useless */

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
    if ((*end != '\0' && *end != '.' && *end != '-') || major > 99 || minor > MINOR_MAX)
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
    struct tags tags = {arena, af_arena_array(arena, MINOR_MAX + 8, sizeof(char *)), 0};
    if (tags.items == NULL)
        return NULL;
    add(&tags, af_arena_format(arena, "linux_%s", arch));
    if (known && major == 2 && af_equal(libc, "glibc"))
        add_manylinux(&tags, arch, minor);
    for (int at = minor; known && af_equal(libc, "musl") && at >= 0; at--)
        add(&tags, af_arena_format(arena, "musllinux_%d_%d_%s", major, at, arch));
    *count_out = tags.count;
    return arena->failed ? NULL : tags.items;
}
