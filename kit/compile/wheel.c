/*
 * wheel.c: links the objects into one library, which needs nothing but the C library, and packs
 * it with flash-attn's Python files, our module, and what describes them.
 *
 * The CUDA runtime and the C++ library are part of the library: so it loads beside any torch,
 * which may bring another version of either, and without one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "anyflash/anyflash.h"
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/formats/binary.h"
#include "kit/formats/wheel_archive.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define FILE_BYTES_MAX (4u << 20)
#define FOLDER_MAX 4096
#define MODULE "flash_attn_2_cuda/"
#define GLIBC "GLIBC_2."
#define GLIBC_LEAST 17 /* manylinux2014, the oldest of these tags */

static const char *const link_flags[] = {"-static-libstdc++",
                                         "-static-libgcc",
                                         "-Wl,-z,defs", /* nothing may be missing */
                                         "-Wl,-z,now",
                                         "-Wl,--gc-sections",
                                         "-Wl,--exclude-libs,ALL",
                                         "-lcudart_static",
                                         "-ldl",
                                         "-lpthread",
                                         "-lrt"};

static enum anyflash_status run_linker(struct af_build *build,
                                       const struct af_build_place *place,
                                       const struct af_build_jobs *jobs,
                                       struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *temporary = af_arena_format(arena, "TMPDIR=%s", place->temporary);
    const char *const environment[] = {temporary, NULL};
    size_t count = 0;
    const char **words =
        af_arena_array(arena, jobs->count + AF_COUNT(link_flags) + 8, sizeof *words);
    if (words == NULL || temporary == NULL)
        return af_fail_memory(err);
    words[count++] = place->host;
    words[count++] = "-shared";
    words[count++] = "-o";
    words[count++] = place->library;
    for (size_t i = 0; i < jobs->count; i++)
        words[count++] = jobs->rows[i].object;
    words[count++] = af_arena_format(arena, "-L%s/lib64", place->cuda_home);
    words[count++] = af_arena_format(arena, "-L%s/lib", place->cuda_home);
    memcpy(words + count, link_flags, sizeof link_flags);
    return arena->failed ? af_fail_memory(err)
                         : af_build_call(build, place->log, "linking", words, environment, err);
}

/* A library that every Linux with glibc has. */
static bool is_of_glibc(const char *name)
{
    static const char *const starts[] = {"libc.so.",       "libm.so.",  "libdl.so.",
                                         "libpthread.so.", "librt.so.", "ld-linux-"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (af_starts_with(name, starts[i]))
            return true;
    }
    return false;
}

static int glibc_of(const struct af_binary *binary)
{
    int need = GLIBC_LEAST;
    for (size_t i = 0; i < binary->version_need_count; i++) {
        const char *version = binary->version_needs[i].version;
        if (!af_starts_with(version, GLIBC))
            continue;
        int minor = (int)strtol(version + strlen(GLIBC), NULL, 10);
        need = minor > need ? minor : need;
    }
    return need;
}

/* The linker refuses undefined symbols, so the libraries it names are all that is missing. */
static enum anyflash_status check(const struct af_binary *binary, struct anyflash_error *err)
{
    for (size_t i = 0; i < binary->needed.count; i++) {
        if (!is_of_glibc(binary->needed.items[i]))
            return af_fail(err, ANYFLASH_E_INTERNAL,
                           "the library needs '%s', which only some systems have",
                           binary->needed.items[i]);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_build_link(struct af_build *build, const struct af_build_place *place,
                                   const struct af_build_jobs *jobs, int *glibc_out,
                                   struct anyflash_error *err)
{
    struct af_mapping mapping;
    struct af_binary binary;
    unlink(place->library); /* the linker may keep a file that is there */
    enum anyflash_status status = run_linker(build, place, jobs, err);
    if (status == ANYFLASH_OK)
        status = af_file_map(place->library, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_span bytes = {(const char *)mapping.data, mapping.len};
    status = af_binary_read(build->arena, bytes, place->library, &binary, err);
    if (status == ANYFLASH_OK)
        status = check(&binary, err);
    if (status == ANYFLASH_OK)
        *glibc_out = glibc_of(&binary);
    af_file_unmap(&mapping);
    return status;
}

/* ---- the wheel ---- */

struct wheel {
    struct af_build *build;
    const struct af_build_place *place;
    struct af_wheel_pack pack;
    struct anyflash_error *err;
};

static enum anyflash_status add_file(struct wheel *wheel, const char *name, const char *path)
{
    struct af_span bytes;
    if (name == NULL || path == NULL)
        return af_fail_memory(wheel->err);
    enum anyflash_status status =
        af_file_read(wheel->build->arena, path, FILE_BYTES_MAX, &bytes, wheel->err);
    if (status == ANYFLASH_OK)
        af_wheel_pack_add(&wheel->pack, name, bytes, 0644);
    return status;
}

/* The local part of the wheel's version: "any.cu13.sm90.hd128.bf16.bwd.window". */
static const char *local_version(const struct af_build *build,
                                 const struct af_build_place *place)
{
    return af_arena_format(build->arena, "any.cu%.*s.%s",
                           (int)strcspn(place->cuda_version, "."), place->cuda_version,
                           af_selection_local(&build->selection, build->arena));
}

/* flash-attn's own package: the Python files of the folder and those below it. */
static enum anyflash_status add_package(struct wheel *wheel, const char *folder)
{
    struct af_arena *arena = wheel->build->arena;
    const char **names;
    size_t count;
    const char *path = af_path_join(arena, wheel->place->sources, folder);
    enum anyflash_status status = path == NULL ? af_fail_memory(wheel->err)
                                               : af_folder_list(arena, path, FOLDER_MAX, &names,
                                                                &count, NULL, wheel->err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *inner = af_arena_format(arena, "%s/%s", folder, names[i]);
        const char *file = af_path_join(arena, path, names[i]);
        if (inner == NULL || file == NULL)
            return af_fail_memory(wheel->err);
        if (af_file_is_folder(file))
            status = add_package(wheel, inner);
        else if (af_ends_with(inner, ".py"))
            status = add_file(wheel, inner, file);
    }
    return status;
}

static json_t *strings(const char *text, char separator)
{
    json_t *list = json_array();
    while (*text != '\0') {
        const char *end = strchr(text, separator);
        size_t len = end == NULL ? strlen(text) : (size_t)(end - text);
        list = af_json_append(list, json_stringn(text, len));
        text += len + (end != NULL);
    }
    return list;
}

static json_t *numbers(const int *numbers_in, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = af_json_append(list, json_integer(numbers_in[i]));
    return list;
}

/* contents.json: what the library was made of, for people and programs. */
static const char *contents_of(const struct wheel *wheel)
{
    const struct af_selection *selection = &wheel->build->selection;
    struct af_arena *arena = wheel->build->arena;
    int sizes[AF_SELECTION_HEAD_DIMS];
    size_t count = af_selection_head_dims(selection, sizes);
    const char *features = af_selection_features(selection, arena);
    bool none = strcmp(features, "none") == 0;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:s?}", "schema",
                  "anyflash-cuda-contents/1", "flash_attn", wheel->build->version, "anyflash",
                  anyflash_version_text(), "cuda", wheel->place->cuda_version, "targets",
                  numbers(selection->archs, selection->arch_count), "head_dims",
                  numbers(sizes, count), "dtypes", strings(af_selection_dtypes(selection), ','),
                  "features", strings(none ? "" : features, ','), "backward",
                  selection->backward, "build_options", af_selection_options(selection, arena));
    char *text = json == NULL ? NULL : json_dumps(json, JSON_INDENT(1));
    const char *copy = text == NULL ? NULL : af_arena_format(arena, "%s\n", text);
    arena->failed |= copy == NULL;
    af_mem_free(text);
    json_decref(json);
    return copy;
}

/* Our module: the Python files of the glue, the library, and what it contains. */
static void add_module(struct wheel *wheel, const struct af_mapping *library)
{
    static const char start[] = "python/" MODULE;
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        if (af_starts_with(file->name, start))
            af_wheel_pack_text(&wheel->pack, file->name + strlen("python/"), file->text);
    }
    af_wheel_pack_add(&wheel->pack, MODULE "libanyflash_cuda.so",
                      (struct af_span){(const char *)library->data, library->len}, 0755);
    af_wheel_pack_text(&wheel->pack, MODULE "contents.json", contents_of(wheel));
}

static bool is_replaced(struct af_span line)
{
    static const char *const starts[] = {"Name:", "Version:", "Dynamic:", "License-File:"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (line.len >= strlen(starts[i]) &&
            memcmp(line.data, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

/* METADATA from upstream's PKG-INFO, with this build's version and a line about it. */
static enum anyflash_status add_metadata(struct wheel *wheel, const char *version)
{
    struct af_arena *arena = wheel->build->arena;
    struct af_text out = {0};
    struct af_span rest;
    struct af_span line;
    const char *path = af_path_join(arena, wheel->place->sources, "PKG-INFO");
    enum anyflash_status status =
        path == NULL ? af_fail_memory(wheel->err)
                     : af_file_read(arena, path, FILE_BYTES_MAX, &rest, wheel->err);
    if (status != ANYFLASH_OK)
        return status;
    while (af_text_line(&rest, &line) && line.len > 0) {
        if (!is_replaced(line))
            af_text_format(&out, "%.*s\n", (int)line.len, line.data);
    }
    af_text_format(&out,
                   "Name: flash-attn\nVersion: %s\nLicense-File: LICENSE\n"
                   "License-File: AUTHORS\nLicense-File: LICENSE.anyflash\n\n"
                   "flash-attn %s built by anyflash %s from its published sources, for every "
                   "torch from 2.4 on: %s.\n\n%.*s",
                   version, wheel->build->version, anyflash_version_text(),
                   af_selection_text(&wheel->build->selection, arena), (int)rest.len,
                   rest.len == 0 ? "" : rest.data);
    af_wheel_pack_information(&wheel->pack, "METADATA", af_text_take(&out, arena));
    return ANYFLASH_OK;
}

static enum anyflash_status add_licenses(struct wheel *wheel)
{
    static const char *const names[] = {"LICENSE", "AUTHORS"};
    struct af_arena *arena = wheel->build->arena;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < AF_COUNT(names) && status == ANYFLASH_OK; i++)
        status = add_file(
            wheel, af_arena_format(arena, "%s/licenses/%s", wheel->pack.information, names[i]),
            af_path_join(arena, wheel->place->sources, names[i]));
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        if (strcmp(file->name, "LICENSE") == 0)
            af_wheel_pack_information(&wheel->pack, "licenses/LICENSE.anyflash", file->text);
    }
    return status;
}

static enum anyflash_status collect(struct wheel *wheel, const char *version, const char *tag,
                                    const struct af_mapping *library)
{
    struct af_arena *arena = wheel->build->arena;
    enum anyflash_status status = add_package(wheel, "flash_attn");
    if (status == ANYFLASH_OK)
        status = add_metadata(wheel, version);
    if (status == ANYFLASH_OK)
        status = add_licenses(wheel);
    add_module(wheel, library);
    af_wheel_pack_information(&wheel->pack, "WHEEL",
                              af_arena_format(arena,
                                              "Wheel-Version: 1.0\nGenerator: anyflash (%s)\n"
                                              "Root-Is-Purelib: false\nTag: %s\n",
                                              anyflash_version_text(), tag));
    return status;
}

enum anyflash_status af_build_pack(struct af_build *build, const struct af_build_place *place,
                                   int glibc, const char **wheel_out,
                                   struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    struct wheel *wheel = af_arena_alloc(arena, sizeof *wheel);
    const char *version =
        af_arena_format(arena, "%s+%s", build->version, local_version(build, place));
    const char *tag =
        af_arena_format(arena, "py3-none-manylinux_2_%d_%s", glibc,
                        af_fact_text_or(&build->machine->platform.arch, "x86_64"));
    const char *path =
        af_arena_format(arena, "%s/flash_attn-%s-%s.whl", place->output, version, tag);
    const char *information = af_arena_format(arena, "flash_attn-%s.dist-info", version);
    const struct af_span *pieces;
    size_t count;
    if (wheel == NULL || arena->failed)
        return af_fail_memory(err);
    *wheel = (struct wheel){.build = build, .place = place, .err = err};
    wheel->pack.arena = arena;
    wheel->pack.information = information;
    struct af_mapping library;
    enum anyflash_status status = af_folder_make(place->output, 0755, err);
    if (status == ANYFLASH_OK)
        status = af_file_map(place->library, &library, err);
    if (status != ANYFLASH_OK)
        return status;
    status = collect(wheel, version, tag, &library);
    if (status == ANYFLASH_OK)
        status = af_wheel_pack_archive(&wheel->pack, &pieces, &count, err);
    if (status == ANYFLASH_OK)
        status = af_file_write(arena, path, pieces, count, err);
    af_file_unmap(&library);
    if (status == ANYFLASH_OK)
        *wheel_out = path;
    return status;
}
