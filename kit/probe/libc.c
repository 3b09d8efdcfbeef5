/*
 * libc.c: the C library that a program would run with, and its version. It is found through the
 * loader that the program names, not that of this process: the interpreter of a container or of
 * conda may use another one.
 */
#include "kit/probe/libc.h"

#include "kit/base/text.h"
#include "kit/probe/elf_file.h"
#include "kit/system/file.h"

#include <string.h>

#define VERSION_BYTES 24

/* Copies digits and dots from `text`; false when it does not begin with "N.N". */
static bool copy_dotted(const char *text, const char *end, char version[VERSION_BYTES])
{
    size_t len = 0;
    bool dotted = false;
    while (text + len < end && len + 1 < VERSION_BYTES &&
           ((text[len] >= '0' && text[len] <= '9') || text[len] == '.')) {
        dotted = dotted || (len > 0 && text[len] == '.');
        version[len] = text[len];
        len++;
    }
    while (len > 0 && version[len - 1] == '.')
        len--;
    version[len] = '\0';
    return dotted && strchr(version, '.') != NULL;
}

/* Finds glibc's banner: "GNU C Library (...) stable release version 2.36." */
static bool find_glibc_banner(struct af_span bytes, char version[VERSION_BYTES])
{
    static const char start[] = "GNU C Library (";
    static const char before[] = " release version ";
    const char *end = bytes.data + bytes.len;
    const char *banner =
        bytes.len == 0 ? NULL : memmem(bytes.data, bytes.len, start, sizeof start - 1);
    if (banner == NULL)
        return false;
    size_t capacity = (size_t)(end - banner) < 400 ? (size_t)(end - banner) : 400;
    const char *found = memmem(banner, capacity, before, sizeof before - 1);
    return found != NULL && copy_dotted(found + sizeof before - 1, end, version);
}

/* Finds musl's version, which is a separate text: "1.2.4". */
static bool find_musl_version(struct af_span bytes, char version[VERSION_BYTES])
{
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.len;
    while (bytes.len > 0 && end - at > 4) {
        at = memmem(at, (size_t)(end - at),
                    "\0"
                    "1.",
                    3);
        if (at == NULL)
            return false;
        at++;
        if (copy_dotted(at, end, version) && at + strlen(version) < end &&
            (at[strlen(version)] == '\0' || at[strlen(version)] == '-') &&
            strchr(strchr(version, '.') + 1, '.') != NULL)
            return true;
    }
    return false;
}

/* libc.so.6 beside the loader, or where distributions install it. */
static const char *find_glibc(const struct af_probe *probe, const char *loader)
{
    static const char *const folders[] = {"/lib64",
                                          "/usr/lib64",
                                          "/lib",
                                          "/usr/lib",
                                          "/lib/x86_64-linux-gnu",
                                          "/lib/aarch64-linux-gnu"};
    const char *real = af_file_real_path(probe->arena, loader);
    const char *folder = af_path_folder(probe->arena, real == NULL ? loader : real);
    const char *path = af_path_join(probe->arena, folder, "libc.so.6");
    for (size_t i = 0; path != NULL && i < AF_COUNT(folders); i++) {
        if (af_file_is_regular(path))
            return path;
        path = af_path_join(probe->arena, af_probe_path(probe, folders[i]), "libc.so.6");
    }
    return path != NULL && af_file_is_regular(path) ? path : NULL;
}

static void read_version(const struct af_probe *probe, const char *path, bool musl,
                         struct af_libc *libc)
{
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    struct af_span bytes = {NULL, 0};
    char version[VERSION_BYTES];
    const char *highest = NULL;
    libc->source = path;
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        libc->problem = af_arena_text(probe->arena, err.message);
        return;
    }
    af_elf_section_bytes(&elf.dynamic.elf, ".rodata", &bytes);
    if (musl ? find_musl_version(bytes, version) : find_glibc_banner(bytes, version))
        libc->version = af_arena_text(probe->arena, version);
    else if (!musl && (highest = af_dynamic_version_max(&elf.dynamic, "GLIBC_", true)) != NULL)
        libc->version = af_arena_text(probe->arena, highest);
    else
        libc->problem = af_arena_format(probe->arena, "no version in '%s'", path);
    af_probe_elf_close(&elf);
}

void af_libc_of_program(const struct af_probe *probe, const char *program,
                        struct af_libc *libc_out)
{
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    *libc_out = (struct af_libc){.source = program};
    if (af_probe_elf_open(probe, program, &elf, &err) != ANYFLASH_OK) {
        libc_out->problem = af_arena_text(probe->arena, err.message);
        return;
    }
    const char *named = af_arena_text(probe->arena, af_elf_interpreter(&elf.dynamic.elf));
    af_probe_elf_close(&elf);
    if (named == NULL) {
        libc_out->problem = af_arena_format(probe->arena, "'%s' names no loader", program);
        return;
    }
    bool musl = strstr(named, "ld-musl") != NULL;
    const char *loader = af_probe_path(probe, named);
    const char *library = musl ? loader : find_glibc(probe, loader);
    libc_out->kind = musl ? "musl" : "glibc";
    if (library == NULL)
        libc_out->problem = af_arena_format(probe->arena, "no libc.so.6 beside '%s'", loader);
    else
        read_version(probe, library, musl, libc_out);
}
