/*
 * place.c: chooses the toolkit of a build, and the paths of its folders.
 */
#include "kit/compile/build_steps.h"

#include <string.h>

#include "kit/base/path.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/fit/rung_build.h"
#include "kit/system/output.h"
#include "kit/system/state.h"

#define KEY_DIGITS 16

const char *af_build_root(struct af_arena *arena)
{
    const char *cache = af_cache_folder(arena);
    return cache == NULL ? NULL : af_path_join(arena, cache, "build");
}

/*
 * Chooses the toolkit as the plan does (kit/fit/prerequisites.c): by the driver and the
 * targets. torch's CUDA does not matter: the runtime is linked into the library, and the
 * driver serves several runtimes in one process.
 */
static enum anyflash_status choose_toolkit(const struct af_build *build,
                                           struct af_build_place *place,
                                           struct anyflash_error *err)
{
    const struct af_fit_options options = {.build_targets = build->selection.archs,
                                           .build_target_count = build->selection.arch_count,
                                           .build_toolkit = build->toolkit};
    struct af_rung rung;
    enum anyflash_status status =
        af_rung_build_alone(build->machine, &options, build->arena, &rung, err);
    if (status != ANYFLASH_OK)
        return status;
    place->cuda_from_index = rung.build.toolkit_from_index;
    if (place->cuda_from_index) {
        place->cuda_version = AF_TOOLKIT_INDEX_VERSION;
        return ANYFLASH_OK;
    }
    if (rung.build.toolkit == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "no CUDA toolkit can be used: `anyflash build --check` says why");
    place->cuda_version = af_fact_text_or(&rung.build.toolkit->version, NULL);
    place->cuda_home = af_fact_text_or(&rung.build.toolkit->root, NULL);
    return ANYFLASH_OK;
}

/* nvcc starts its programs through a shell, with paths unquoted. */
static enum anyflash_status check_root(const char *root, struct anyflash_error *err)
{
    char shown[200];
    size_t len = strcspn(root, " \t\r\n:;,$&|<>()[]{}*?#!'\"`\\");
    if (root[len] == '\0')
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "nvcc cannot compile in '%s', because the path contains '%c': set "
                   "ANYFLASH_CACHE to another folder",
                   af_text_quote(shown, sizeof shown, root, strlen(root)),
                   root[len] >= ' ' ? root[len] : ' ');
}

static const struct af_compiler *compiler_of(const struct af_build *build)
{
    const struct af_compiler_rows *rows = &build->machine->compilers;
    return rows->count == 0 ? NULL : &rows->rows[0];
}

/* A hash of the glue, which is part of this program. */
static const char *glue_hash(struct af_arena *arena)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_sha256 hash;
    af_sha256_init(&hash);
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        af_sha256_add(&hash, file->name, strlen(file->name) + 1);
        af_sha256_add(&hash, file->text, strlen(file->text) + 1);
    }
    af_sha256_finish(&hash, hex);
    return af_arena_text(arena, hex);
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
    const struct af_compiler *compiler = compiler_of(build);
    const char *macros[AF_SELECTION_MACROS_MAX + 1];
    const char *text = af_arena_format(
        build->arena, "flash-attn %s\nglue %s\noptions%s\ncuda %s %s\nhost %s %s\ntarget",
        build->version, glue_hash(build->arena), af_build_flags(build->arena),
        place->cuda_version, place->cuda_from_index ? "index" : place->cuda_home, place->host,
        compiler == NULL ? "?" : af_fact_text_or(&compiler->version, "?"));
    for (size_t i = 0; i < build->selection.arch_count; i++)
        text = af_arena_format(build->arena, "%s %d", text, build->selection.archs[i]);
    af_selection_macros(&build->selection, macros);
    for (size_t i = 0; macros[i] != NULL; i++)
        text = af_arena_format(build->arena, "%s\nmacro %s", text, macros[i]);
    return text;
}

static void name_paths(const struct af_build *build, const char *root,
                       struct af_build_place *place)
{
    struct af_arena *arena = build->arena;
    const char *inputs = inputs_of(build, place);
    if (inputs == NULL)
        return;
    place->folder = af_arena_format(arena, "%s/%s", root, key_of(build, inputs));
    place->sources = af_arena_format(arena, "%s/flash-attn", place->folder);
    place->glue = af_arena_format(arena, "%s/glue", place->folder);
    place->objects = af_arena_format(arena, "%s/objects", place->folder);
    place->library = af_arena_format(arena, "%s/libanyflash_cuda.so", place->folder);
    place->temporary = af_arena_format(arena, "%s/temporary", place->folder);
    place->log = af_arena_format(arena, "%s/log", place->folder);
    place->output = af_arena_format(arena, "%s/wheels", place->folder);
    if (place->cuda_from_index) {
        place->tools = af_arena_format(arena, "%s/tools-cuda-%s", root, place->cuda_version);
        place->cuda_home =
            af_arena_format(arena, "%s/toolkit/nvidia/cu%.*s", place->tools,
                            (int)strcspn(place->cuda_version, "."), place->cuda_version);
    }
    place->nvcc = af_arena_format(arena, "%s/bin/nvcc", place->cuda_home);
}

enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err)
{
    struct af_build_place place = {0};
    struct af_arena *arena = build->arena;
    const char *root = af_build_root(arena);
    const struct af_compiler *compiler = compiler_of(build);
    enum anyflash_status status = choose_toolkit(build, &place, err);
    if (status != ANYFLASH_OK)
        return status;
    if (arena->failed)
        return af_fail_memory(err);
    if (root == NULL)
        return af_fail(
            err, ANYFLASH_E_UNSUPPORTED,
            "no place for the cache: HOME is not set (set ANYFLASH_CACHE to a folder)");
    status = check_root(root, err);
    if (status != ANYFLASH_OK)
        return status;
    place.host =
        compiler == NULL ? "/usr/bin/c++" : af_fact_text_or(&compiler->path, "/usr/bin/c++");
    name_paths(build, root, &place);
    if (arena->failed)
        return af_fail_memory(err);
    *place_out = place;
    return ANYFLASH_OK;
}
