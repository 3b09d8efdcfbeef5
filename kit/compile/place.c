/*
 * place.c: chooses the toolkit of a build, and the paths of its folders.
 */
#include "kit/compile/build_steps.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/fit/rung_build.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define METADATA_BYTES_MAX (1u * 1024u * 1024u)
#define KEY_DIGITS 16

const char *af_build_root(struct af_arena *arena)
{
    const char *cache = af_cache_folder(arena);
    return cache == NULL ? NULL : af_path_join(arena, cache, "build");
}

static bool same_major(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return len == strcspn(b, ".") && strncmp(a, b, len) == 0;
}

/* torch's METADATA; the folder has torch's version with or without the local part. */
static bool read_metadata(const struct af_build *build, struct af_span *text_out)
{
    const char *torch = af_fact_text_or(&build->machine->torch.path, NULL);
    const char *version = af_fact_text_or(&build->machine->torch.version, "");
    const char *site = torch == NULL ? NULL : af_path_folder(build->arena, torch);
    const size_t lengths[] = {strcspn(version, "+"), strlen(version)};
    for (size_t i = 0; site != NULL && i < AF_COUNT(lengths); i++) {
        const char *path = af_arena_format(build->arena, "%s/torch-%.*s.dist-info/METADATA",
                                           site, (int)lengths[i], version);
        if (path != NULL &&
            af_file_read(build->arena, path, METADATA_BYTES_MAX, text_out, NULL) == ANYFLASH_OK)
            return true;
    }
    return false;
}

/* "13.0.2" of torch's "Requires-Dist: cuda-toolkit[...]==13.0.2"; NULL: none. */
static const char *pinned_toolkit(const struct af_build *build)
{
    struct af_span rest;
    struct af_requirement requirement;
    if (!read_metadata(build, &rest))
        return NULL;
    while (af_requirement_next(&rest, &requirement)) {
        if (!af_text_span_equal(requirement.name, "cuda-toolkit") ||
            requirement.specifier.len < 3 || strncmp(requirement.specifier.data, "==", 2) != 0)
            continue;
        return af_arena_text_n(build->arena, requirement.specifier.data + 2,
                               requirement.specifier.len - 2);
    }
    return NULL;
}

static enum anyflash_status choose_toolkit(const struct af_build *build,
                                           struct af_build_place *place,
                                           struct anyflash_error *err)
{
    const char *cuda = af_fact_text_or(&build->machine->torch.cuda, NULL);
    const struct af_toolkit *toolkit = af_machine_toolkit(build->machine);
    if (cuda == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "this torch was built without CUDA: flash-attn cannot be built for it");
    bool fits = toolkit != NULL && toolkit->nvcc.state == AF_FACT_KNOWN &&
                toolkit->version.state == AF_FACT_KNOWN &&
                same_major(toolkit->version.value.text, cuda);
    if (build->toolkit != AF_FIT_TOOLKIT_INDEX && fits) {
        place->cuda_version = toolkit->version.value.text;
        place->cuda_home = af_fact_text_or(&toolkit->root, NULL);
        return ANYFLASH_OK;
    }
    if (build->toolkit == AF_FIT_TOOLKIT_SYSTEM)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "no CUDA %.*s toolkit that torch accepts was found on this system",
                       (int)strcspn(cuda, "."), cuda);
    place->cuda_from_index = true;
    place->cuda_version = pinned_toolkit(build);
    if (place->cuda_version == NULL && strtol(cuda, NULL, 10) >= AF_TOOLKIT_INDEX_CUDA_MIN)
        place->cuda_version =
            af_arena_format(build->arena, "%s.*", cuda); /* the newest of that minor */
    if (build->arena->failed)
        return af_fail_memory(err);
    if (place->cuda_version == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "torch with CUDA %s needs a CUDA %.*s toolkit on the system: PyPI "
                       "has compilers only for CUDA 13 and newer",
                       cuda, (int)strcspn(cuda, "."), cuda);
    return ANYFLASH_OK;
}

/* torch writes paths unquoted into ninja's commands, and PATH contains them, too. */
static enum anyflash_status check_root(const char *root, struct anyflash_error *err)
{
    char shown[200];
    size_t len = strcspn(root, " \t\r\n:;,$&|<>()[]{}*?#!'\"`\\");
    if (root[len] == '\0')
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "torch cannot build in '%s', because the path contains '%c': set "
                   "ANYFLASH_CACHE to another folder",
                   af_text_quote(shown, sizeof shown, root, strlen(root)),
                   root[len] >= ' ' ? root[len] : ' ');
}

/* Path and version of the host compiler that setup.py will use. */
static const char *host_compiler(const struct af_build *build)
{
    const struct af_compiler_rows *rows = &build->machine->compilers;
    return rows->count == 0 ? "none"
                            : af_arena_format(build->arena, "%s %s",
                                              af_fact_text_or(&rows->rows[0].path, "?"),
                                              af_fact_text_or(&rows->rows[0].version, "?"));
}

static const char *key_of(const struct af_build *build, const char *inputs)
{
    char hex[AF_SHA256_HEX_BYTES];
    af_sha256_bytes((struct af_span){inputs, strlen(inputs)}, hex);
    return af_arena_text_n(build->arena, hex, KEY_DIGITS);
}

/* Everything that objects depend on, one line each. */
static const char *inputs_of(const struct af_build *build, const struct af_build_place *place)
{
    const struct af_machine *machine = build->machine;
    const char *macros[AF_SELECTION_MACROS_MAX + 1];
    const char *text = af_arena_format(
        build->arena, "flash-attn %s\npython %s %s\ntorch %s %s\ncuda %s %s\nhost %s\ntarget",
        build->version, af_fact_text_or(&machine->python.version, "?"),
        af_fact_text_or(&machine->python.executable, "?"),
        af_fact_text_or(&machine->torch.version, "?"),
        af_fact_text_or(&machine->torch.path, "?"), place->cuda_version,
        place->cuda_from_index ? "index" : place->cuda_home, host_compiler(build));
    for (size_t i = 0; i < build->selection.arch_count; i++)
        text = af_arena_format(build->arena, "%s %d", text, build->selection.archs[i]);
    af_selection_macros(&build->selection, macros);
    for (size_t i = 0; macros[i] != NULL; i++)
        text = af_arena_format(build->arena, "%s\nmacro %s", text, macros[i]);
    return af_arena_format(build->arena, "%s\n", text);
}

enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err)
{
    struct af_build_place place = {0};
    struct af_arena *arena = build->arena;
    const char *root = af_build_root(arena);
    const char *python = af_fact_text_or(&build->machine->python.executable, NULL);
    enum anyflash_status status = choose_toolkit(build, &place, err);
    if (status != ANYFLASH_OK)
        return status;
    if (arena->failed)
        return af_fail_memory(err);
    if (root == NULL || python == NULL)
        return af_fail(
            err, ANYFLASH_E_UNSUPPORTED,
            root == NULL
                ? "no place for the cache: HOME is not set (set ANYFLASH_CACHE to a folder)"
                : "cannot find the environment's Python: name it with --python");
    status = check_root(root, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *inputs = inputs_of(build, &place);
    const char *tools = af_arena_format(arena, "%s\n%s\n%s\n", python,
                                        af_fact_text_or(&build->machine->torch.path, "?"),
                                        place.cuda_from_index ? place.cuda_version : "system");
    if (inputs == NULL || tools == NULL)
        return af_fail_memory(err);
    place.folder = af_arena_format(arena, "%s/%s", root, key_of(build, inputs));
    place.environment = af_arena_format(arena, "%s/tools-%s", root, key_of(build, tools));
    place.python = af_arena_format(arena, "%s/bin/python", place.environment);
    place.sources = af_arena_format(arena, "%s/flash-attn", place.folder);
    place.temporary = af_arena_format(arena, "%s/temporary", place.folder);
    place.log = af_arena_format(arena, "%s/log", place.folder);
    place.output = af_arena_format(arena, "%s/wheels", place.folder);
    if (place.cuda_from_index)
        place.cuda_home = af_arena_format(arena, "%s/cuda", place.environment);
    if (arena->failed)
        return af_fail_memory(err);
    *place_out = place;
    return ANYFLASH_OK;
}

const char *af_build_find_objects(const struct af_build *build,
                                  const struct af_build_place *place, const char *start)
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
    const char *folder = af_build_find_objects(build, place, "temp.");
    return folder == NULL ? NULL : af_path_join(build->arena, folder, "csrc/flash_attn");
}

enum anyflash_status af_build_drop_copies(struct af_build *build,
                                          const struct af_build_place *place,
                                          struct anyflash_error *err)
{
    static const char *const starts[] = {"lib.", "bdist."};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        const char *folder = af_build_find_objects(build, place, starts[i]);
        enum anyflash_status status =
            folder == NULL ? ANYFLASH_OK : af_folder_remove(folder, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return build->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
