/*
 * interpreter_version.c: the version of an interpreter that is not run: from the binary itself
 * (the symbol Py_Version, since 3.11), else from patchlevel.h, else from the text in the
 * binary.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define PATCHLEVEL_BYTES_MAX (64u * 1024u)

/* The libpython that the binary needs, in its run path or below its prefix. */
static const char *find_libpython(const struct af_probe *probe, const struct af_dynamic *elf,
                                  const struct af_probe_interpreter_files *files)
{
    for (size_t i = 0; i < elf->needed_count; i++) {
        const char *name = elf->needed[i];
        if (!af_starts_with(name, "libpython3."))
            continue;
        const char *run = elf->runpath != NULL ? elf->runpath : elf->rpath;
        const char *path = NULL;
        if (run != NULL && run[0] == '/' && strchr(run, ':') == NULL)
            path = af_path_join(probe->arena, af_probe_path(probe, run), name);
        if (path == NULL || !af_file_is_regular(path))
            path = af_arena_format(probe->arena, "%s/%s/%s", files->base_prefix,
                                   files->platform_folder, name);
        return path;
    }
    return NULL;
}

/* Reads Py_Version, an unsigned long: 0x030b07f0 is 3.11.7 final 0. */
static bool version_by_symbol(const struct af_dynamic *elf,
                              char version[AF_PROBE_VERSION_BYTES])
{
    struct af_span bytes;
    if (!elf->elf.is_little_endian || !af_dynamic_data(elf, "Py_Version", 4, &bytes))
        return false;
    const unsigned char *b = (const unsigned char *)bytes.data;
    unsigned level = b[0] >> 4;
    int len = snprintf(version, AF_PROBE_VERSION_BYTES, "%u.%u.%u", b[3], b[2], b[1]);
    if (level != 0xf && len > 0)
        snprintf(version + len, AF_PROBE_VERSION_BYTES - (size_t)len, "%s%u",
                 level == 0xa   ? "a"
                 : level == 0xb ? "b"
                                : "rc",
                 b[0] & 15u);
    return b[3] == 3;
}

/* Finds a text such as "3.9.18" between NULs in .rodata. */
static bool version_by_text(const struct af_dynamic *elf, int minor,
                            char version[AF_PROBE_VERSION_BYTES])
{
    struct af_span bytes;
    char wanted[16];
    int wanted_len = snprintf(wanted, sizeof wanted, "%c3.%d.", '\0', minor);
    if (wanted_len < 0 || !af_elf_section_bytes(&elf->elf, ".rodata", &bytes))
        return false;
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.len;
    while ((at = memmem(at, (size_t)(end - at), wanted, (size_t)wanted_len)) != NULL) {
        at++;
        const char *stop = memchr(at, '\0', (size_t)(end - at));
        size_t len = stop == NULL ? AF_PROBE_VERSION_BYTES : (size_t)(stop - at);
        if (len >= AF_PROBE_VERSION_BYTES)
            continue;
        memcpy(version, at, len + 1);
        if (strspn(version, "0123456789.abrc+") == len)
            return true;
    }
    return false;
}

/* Reads the line: #define PY_VERSION "3.12.1" */
static bool version_by_header(const struct af_probe *probe, const char *path,
                              char version[AF_PROBE_VERSION_BYTES])
{
    struct af_span text;
    struct af_span line;
    if (path == NULL ||
        af_file_read(probe->arena, path, PATCHLEVEL_BYTES_MAX, &text, NULL) != ANYFLASH_OK)
        return false;
    while (af_text_line(&text, &line)) {
        const char *copy = af_arena_text_n(probe->arena, line.data, line.len);
        if (sscanf(copy, "#define PY_VERSION \"%31[0-9.abrc+]\"", version) == 1)
            return true;
    }
    return false;
}

const char *af_probe_interpreter_version(const struct af_probe *probe,
                                         const struct af_dynamic *elf,
                                         const struct af_probe_interpreter_files *files,
                                         char version[AF_PROBE_VERSION_BYTES])
{
    struct af_probe_elf library;
    const char *header = af_arena_format(probe->arena, "%s/include/python3.%d%s/patchlevel.h",
                                         files->base_prefix, files->minor, files->flags);
    if (version_by_symbol(elf, version))
        return files->base_executable;
    if (version_by_header(probe, header, version))
        return header;
    const char *path = find_libpython(probe, elf, files);
    if (path != NULL && af_probe_elf_open(probe, path, &library, NULL) == ANYFLASH_OK) {
        bool found = version_by_symbol(&library.dynamic, version) ||
                     version_by_text(&library.dynamic, files->minor, version);
        af_probe_elf_close(&library);
        if (found)
            return path;
    }
    return version_by_text(elf, files->minor, version) ? files->base_executable : NULL;
}
