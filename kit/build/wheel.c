/*
 * wheel.c: the wheel that setup.py made gets the platform tag that its bytes
 * need, and goes where wheels are kept.
 */
#include "kit/build/parts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/formats/binary.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define GLIBC "GLIBC_2."

/* The first file of the folder that ends so; NULL without one. */
static const char *find(struct af_build *build, const char *folder, const char *end)
{
    DIR *opened = opendir(folder);
    struct dirent *entry;
    const char *found = NULL;
    while (opened != NULL && found == NULL && (entry = readdir(opened)) != NULL) {
        if (entry->d_name[0] != '.' && af_ends_with(entry->d_name, end))
            found = af_path_join(build->arena, folder, entry->d_name);
    }
    if (opened != NULL)
        closedir(opened);
    return found;
}

/* The entry of the objects' folder that begins so, as "lib."; NULL without one. */
static const char *find_folder(const struct af_build *build, const struct af_build_place *place,
                               const char *start)
{
    const char *objects = af_path_join(build->arena, place->folder, "objects");
    DIR *opened = objects == NULL ? NULL : opendir(objects);
    struct dirent *entry;
    const char *found = NULL;
    while (opened != NULL && found == NULL && (entry = readdir(opened)) != NULL) {
        if (af_starts_with(entry->d_name, start))
            found = af_path_join(build->arena, objects, entry->d_name);
    }
    if (opened != NULL)
        closedir(opened);
    return found;
}

const char *af_build_object_folder(const struct af_build *build,
                                   const struct af_build_place *place)
{
    const char *folder = find_folder(build, place, "temp.");
    return folder == NULL ? NULL : af_path_join(build->arena, folder, "csrc/flash_attn");
}

enum anyflash_status af_build_drop_copies(struct af_build *build,
                                          const struct af_build_place *place,
                                          struct anyflash_error *err)
{
    static const char *const starts[] = {"lib.", "bdist."};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        const char *folder = find_folder(build, place, starts[i]);
        enum anyflash_status status =
            folder == NULL ? ANYFLASH_OK : af_build_remove_folder(folder, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return build->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* The minor of the newest glibc 2 whose functions the extension needs; -1 when unreadable. */
static int glibc_need(struct af_build *build, const char *library)
{
    struct af_mapping mapping;
    struct af_binary binary;
    int need = -1;
    if (library == NULL || af_file_map(library, &mapping, NULL) != ANYFLASH_OK)
        return -1;
    const struct af_span bytes = {(const char *)mapping.data, mapping.len};
    if (af_binary_read(build->arena, bytes, library, &binary, NULL) == ANYFLASH_OK) {
        need = 17; /* of manylinux2014, below which nothing is named so */
        for (size_t i = 0; i < binary.version_need_count; i++) {
            const char *version = binary.version_needs[i].version;
            if (!af_starts_with(version, GLIBC))
                continue;
            int minor = (int)strtol(version + strlen(GLIBC), NULL, 10);
            need = minor > need ? minor : need;
        }
    }
    af_file_unmap(&mapping);
    return need;
}

static enum anyflash_status tag(struct af_build *build, const struct af_build_place *place,
                                const char *made, int glibc, struct anyflash_error *err)
{
    const char *platform =
        af_arena_format(build->arena, "manylinux_2_%d_%s", glibc,
                        af_fact_text_or(&build->machine->platform.arch, "x86_64"));
    const char *const argv[] = {place->python,    "-I",     "-m", "wheel", "tags", "--remove",
                                "--platform-tag", platform, made, NULL};
    return platform == NULL
               ? af_fail_memory(err)
               : af_build_call(build, place->log, "naming the wheel", argv, NULL, NULL, err);
}

enum anyflash_status af_build_take_wheel(struct af_build *build,
                                         const struct af_build_place *place,
                                         const char **wheel_out, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *folder = af_path_join(arena, place->folder, "made");
    const char *made = folder == NULL ? NULL : find(build, folder, ".whl");
    const char *libraries = find_folder(build, place, "lib.");
    const char *library = libraries == NULL ? NULL : find(build, libraries, ".so");
    int glibc = glibc_need(build, library);
    if (made == NULL || glibc < 0)
        return arena->failed
                   ? af_fail_memory(err)
                   : af_fail(err, ANYFLASH_E_INTERNAL,
                             "setup.py ended well but left no wheel: see '%s'", place->log);
    enum anyflash_status status = tag(build, place, made, glibc, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->output, 0755, err);
    if (status != ANYFLASH_OK)
        return status;
    made = find(build, folder, ".whl");
    const char *final =
        made == NULL ? NULL : af_path_join(arena, place->output, af_path_name(made));
    if (final == NULL)
        return af_fail_memory(err);
    if (rename(made, final) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot move the wheel to '%s'", place->output);
    *wheel_out = final;
    return ANYFLASH_OK;
}
