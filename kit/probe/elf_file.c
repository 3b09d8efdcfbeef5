/*
 * elf_file.c: maps an ELF file and reads its headers and tables; finds the C library and the
 * other libraries that it would be loaded with, without loading anything. It looks in more
 * places than the loader, so that "nowhere" is certain. The C library is found through the
 * loader that a program names, not that of this process: the interpreter of a container or of
 * conda may use another one.
 */
#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <string.h>

#define VERSION_BYTES 24
#define LD_CACHE_BYTES_MAX (8u * 1024u * 1024u)

enum anyflash_status af_probe_elf_open(const struct af_probe *probe, const char *path,
                                       struct af_probe_elf *file_out,
                                       struct anyflash_error *err)
{
    struct af_elf elf;
    struct af_probe_elf file = {0};
    enum anyflash_status status = af_file_map(path, &file.mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span bytes = {(const char *)file.mapping.data, file.mapping.len};
    status = af_elf_open(bytes, path, &elf, err);
    if (status == ANYFLASH_OK) {
        if (af_dynamic_read(probe->arena, bytes, path, &file.dynamic, NULL) != ANYFLASH_OK)
            file.dynamic.elf = elf; /* a static program */
        *file_out = file;
    } else {
        af_file_unmap(&file.mapping);
    }
    return status;
}

void af_probe_elf_close(struct af_probe_elf *file)
{
    af_file_unmap(&file->mapping);
    *file = (struct af_probe_elf){0};
}

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
    const char *banner =
        bytes.len == 0 ? NULL : memmem(bytes.data, bytes.len, start, sizeof start - 1);
    if (banner == NULL)
        return false;
    const char *end = bytes.data + bytes.len;
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
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        if (af_file_is_regular(path))
            return path;
        path = af_path_join(probe->arena, af_probe_path(probe, folders[i]), "libc.so.6");
    }
    return af_file_is_regular(path) ? path : NULL;
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

/* The next folder of a colon-separated list, with $ORIGIN replaced; NULL at the end. */
static const char *next_folder(const struct af_probe *probe, const char **rest,
                               const char *origin)
{
    static const char *const names[] = {"$ORIGIN", "${ORIGIN}"};
    const char *folder = af_probe_next_folder(probe, rest, NULL);
    for (size_t i = 0; folder != NULL && i < AF_COUNT(names); i++) {
        if (af_starts_with(folder, names[i]))
            return af_arena_format(probe->arena, "%s%s", origin, folder + strlen(names[i]));
    }
    return folder;
}

/* The path of `name` in one of the folders of `list`, links resolved, or NULL. */
static const char *find_in_list(const struct af_probe *probe, const char *list,
                                const char *origin, const char *name)
{
    const char *folder;
    while ((folder = next_folder(probe, &list, origin)) != NULL) {
        const char *path = af_path_join(probe->arena, folder, name);
        if (af_file_is_regular(path))
            return af_file_real_path(probe->arena, path);
    }
    return NULL;
}

/* The path of `name` in ld.so.cache, whose texts are NUL-terminated paths. */
static const char *find_in_ld_cache(const struct af_probe *probe, const char *name)
{
    struct af_span cache;
    const char *path = af_probe_path(probe, "/etc/ld.so.cache");
    const char *wanted = af_arena_format(probe->arena, "/%s", name);
    if (af_file_read(probe->arena, path, LD_CACHE_BYTES_MAX, &cache, NULL) != ANYFLASH_OK)
        return NULL;
    const char *found = memmem(cache.data, cache.len, wanted, strlen(wanted) + 1);
    if (found == NULL)
        return NULL;
    const char *start = found;
    while (start > cache.data && start[-1] != '\0' && found - start < 4000)
        start--;
    return start[0] == '/' ? af_probe_path(probe, af_arena_text(probe->arena, start)) : NULL;
}

/*
 * Searches nvidia/.../lib of the package folders, as torch itself does when ld.so finds
 * nothing.
 */
static const char *find_in_nvidia(const struct af_probe *probe, const char *name)
{
    const struct af_fact *sites = &probe->machine->python.site_packages;
    for (size_t s = 0; s < sites->value.list.count; s++) {
        const char *const *names;
        const char *nvidia = af_path_join(probe->arena, sites->value.list.items[s], "nvidia");
        size_t count = af_probe_list(probe, nvidia, &names);
        for (size_t i = 0; i < count; i++) {
            const char *path =
                af_arena_format(probe->arena, "%s/%s/lib/%s", nvidia, names[i], name);
            if (af_file_is_regular(path))
                return path;
        }
    }
    return NULL;
}

/* Searches as ld.so does (its manual, "rpath token expansion"), then as torch does. */
const char *af_probe_library_find(const struct af_probe *probe, const struct af_dynamic *elf,
                                  const char *origin, const char *name)
{
    const char *found = NULL;
    if (elf->runpath == NULL)
        found = find_in_list(probe, elf->rpath, origin, name);
    if (found == NULL)
        found = find_in_list(probe, af_probe_variable(probe, "LD_LIBRARY_PATH"), origin, name);
    if (found == NULL)
        found = find_in_list(probe, elf->runpath, origin, name);
    if (found == NULL)
        found = find_in_ld_cache(probe, name);
    if (found == NULL)
        found = find_in_list(probe, "/lib64:/usr/lib64:/lib:/usr/lib", origin, name);
    return found == NULL ? find_in_nvidia(probe, name) : found;
}

/*
 * Libraries that come with packages of Python: torch's and CUDA's. Where a system keeps its own
 * libraries is the business of its loader; libcuda.so belongs to the driver.
 */
static bool comes_with_packages(const char *name)
{
    static const char *const starts[] = {"libc10", "libtorch", "libcu", "libnccl", "libnv"};
    if (af_starts_with(name, "libcuda.so") || af_starts_with(name, "libnvidia-"))
        return false;
    for (size_t i = 0; i < AF_COUNT(starts); i++)
        if (af_starts_with(name, starts[i]))
            return true;
    return false;
}

/* A file in `folder` that is called `name` or `name`.N, or NULL. */
static const char *find_named(const struct af_probe *probe, const char *folder,
                              const char *name)
{
    const char *const *names;
    const char *exact = af_path_join(probe->arena, folder, name);
    if (af_file_is_regular(exact))
        return exact;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        if (af_starts_with(names[i], name) && names[i][strlen(name)] == '.')
            return af_path_join(probe->arena, folder, names[i]);
    }
    return NULL;
}

const char *af_probe_torch_library(const struct af_probe *probe, const char *torch_folder,
                                   const char *name)
{
    const char *prefix = af_fact_text_or(&probe->machine->python.prefix, NULL);
    const char *own = af_path_join(probe->arena, torch_folder, "lib");
    const char *exact = af_path_join(probe->arena, own, name);
    const char *const others[] = {
        af_path_join(probe->arena, prefix, "lib"),
        af_probe_path(probe, "/usr/lib/x86_64-linux-gnu"),
        af_probe_path(probe, "/usr/lib/aarch64-linux-gnu"),
        af_probe_path(probe, "/usr/lib64"),
    };
    const char *found = find_named(probe, own, name);
    /* If torch ships its own libraries, it uses none from other folders. */
    const char *mark = af_path_join(probe->arena, own, "libtorch_cpu.so");
    if (found != NULL || af_file_exists(mark))
        return found == NULL ? exact : found;
    for (size_t i = 0; found == NULL && i < AF_COUNT(others); i++)
        found = others[i] == NULL ? NULL : find_named(probe, others[i], name);
    return found == NULL ? exact : found;
}

/* Whether torch has it: then it is loaded already, or is in torch's own folder. */
static bool torch_has(const struct af_probe *probe, const char *name)
{
    const struct af_torch *torch = &probe->machine->torch;
    const char *folder = af_fact_text_or(&torch->path, NULL);
    const char *path = folder == NULL ? NULL : af_probe_torch_library(probe, folder, name);
    return (path != NULL && af_file_exists(path)) ||
           (af_fact_is(&torch->cudart_soname, name) &&
            torch->cudart_path.state == AF_FACT_KNOWN);
}

static bool is_listed(const struct af_probe_missing *missing, const char *name)
{
    for (size_t i = 0; i < missing->count; i++)
        if (af_equal(missing->names[i], name))
            return true;
    return false;
}

bool af_probe_library_check(const struct af_probe *probe, const char *path,
                            struct af_probe_missing *missing)
{
    struct af_probe_elf elf;
    if (af_probe_elf_open(probe, path, &elf, NULL) != ANYFLASH_OK)
        return false;
    const char *real = af_file_real_path(probe->arena, path);
    const char *origin = af_path_folder(probe->arena, real == NULL ? path : real);
    for (size_t i = 0; i < elf.dynamic.needed_count; i++) {
        const char *name = elf.dynamic.needed[i];
        if (missing->count < AF_PROBE_MISSING_MAX && comes_with_packages(name) &&
            !is_listed(missing, name) && !torch_has(probe, name) &&
            af_probe_library_find(probe, &elf.dynamic, origin, name) == NULL)
            missing->names[missing->count++] = af_arena_text(probe->arena, name);
    }
    af_probe_elf_close(&elf);
    return true;
}
