/*
 * own_package.c: finds the files of anyflash's Python package and writes them as an
 * installed distribution, or as a wheel that is called flash-attn. pyproject.toml describes the
 * wheel of the same package.
 */
#include "kit/install/own_package.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define NAMES_MAX 1024
#define VERSION_BYTES_MAX 4096
#define FILE_BYTES_MAX (256u << 20)

/* Where the files are, seen from the folder of the program. */
struct place {
    const char *python;
    const char *libraries; /* NULL: among the Python files, like the program */
};
static const struct place places[] = {
    {"..", NULL},
    {"python/anyflash", "."},
    {"../" AF_PACKAGE_FOLDER "/anyflash", "../" AF_LIBRARY_FOLDER},
};
static const char *const libraries[] = {"libanyflash.so", "libanyflash_python.so"};

/* The files of this program, and the wheel that is made of them. */
struct making {
    struct af_wheel_pack pack;
    const char *program;
    const char *python;    /* the folder of the Python files */
    const char *libraries; /* the folder of the libraries; NULL: that one */
    struct anyflash_error *err;
};

/* Whether the folder holds the package of this version. */
static bool is_package(struct af_arena *arena, const char *folder)
{
    struct af_span text;
    const char *path = af_path_join(arena, folder, "_version.py");
    const char *quoted = af_arena_format(arena, "\"%s\"", anyflash_version_text());
    return af_file_read(arena, path, VERSION_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
           strstr(text.data, quoted) != NULL;
}

static enum anyflash_status add_file(struct making *making, const char *from, const char *name)
{
    struct af_span bytes;
    enum anyflash_status status =
        af_file_read(making->pack.arena, from, FILE_BYTES_MAX, &bytes, making->err);
    if (status == ANYFLASH_OK)
        af_wheel_pack_add(&making->pack, name, bytes,
                          af_file_is_executable(from) ? 0755 : 0644);
    return status;
}

/* Adds the files below `from` as those below `name`, without Python's caches. */
static enum anyflash_status add_folder(struct making *making, const char *from,
                                       const char *name)
{
    struct af_arena *arena = making->pack.arena;
    const char **names;
    size_t count;
    enum anyflash_status status =
        af_folder_list(arena, from, NAMES_MAX, &names, &count, NULL, making->err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *path = af_path_join(arena, from, names[i]);
        const char *inner = af_path_join(arena, name, names[i]);
        if (!af_file_is_folder(path))
            status = add_file(making, path, inner);
        else if (strcmp(names[i], "__pycache__") != 0)
            status = add_folder(making, path, inner);
    }
    return status;
}

/*
 * The Python package. Distributions put the libraries, or links to them, among the Python
 * files.
 */
static enum anyflash_status add_package(struct making *making)
{
    struct af_arena *arena = making->pack.arena;
    enum anyflash_status status = add_folder(making, making->python, "anyflash");
    if (making->libraries == NULL)
        return status;
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(libraries); i++) {
        const char *added = af_path_join(arena, making->python, libraries[i]);
        if (af_file_is_absent(added))
            status = add_file(making, af_path_join(arena, making->libraries, libraries[i]),
                              af_path_join(arena, "anyflash", libraries[i]));
    }
    return status == ANYFLASH_OK ? add_file(making, making->program, "anyflash/bin/anyflash")
                                 : status;
}

/* METADATA and WHEEL. */
static void describe(struct making *making, const char *name, const char *version,
                     const char *tag, const char *rest)
{
    struct af_arena *arena = making->pack.arena;
    af_wheel_pack_information(
        &making->pack, "METADATA",
        af_arena_format(arena,
                        "Metadata-Version: 2.1\nName: %s\nVersion: %s\n"
                        "License: BSD-3-Clause\nRequires-Python: >=3.9\n%s",
                        name, version, rest));
    af_wheel_pack_information(&making->pack, "WHEEL",
                              af_arena_format(arena,
                                              "Wheel-Version: 1.0\nGenerator: anyflash %s\n"
                                              "Root-Is-Purelib: false\nTag: %s\n",
                                              anyflash_version_text(), tag));
}

/* The site folder in the stage, where an installer's --prefix would put it. */
static const char *site_in_stage(const struct af_stage *stage)
{
    struct af_arena *arena = stage->run->arena;
    const char *prefix = af_fact_text_or(&stage->run->machine->python.prefix, NULL);
    prefix = prefix == NULL ? NULL : af_file_real_path(arena, prefix);
    if (prefix == NULL || !af_starts_with(stage->run->site, prefix))
        return stage->root;
    return af_arena_format(arena, "%s%s", stage->root, stage->run->site + strlen(prefix));
}

/* Finds the files beside the running program. */
static enum anyflash_status find_package(struct making *making, struct af_arena *arena,
                                         struct anyflash_error *err)
{
    const char *program = af_file_real_path(arena, "/proc/self/exe");
    const char *folder = program == NULL ? NULL : af_path_folder(arena, program);
    *making = (struct making){.program = program, .err = err};
    making->pack.arena = arena;
    for (size_t i = 0; folder != NULL && i < AF_COUNT(places); i++) {
        making->python = af_path_join(arena, folder, places[i].python);
        making->libraries = places[i].libraries == NULL
                                ? NULL
                                : af_path_join(arena, folder, places[i].libraries);
        if (is_package(arena, making->python))
            return ANYFLASH_OK;
    }
    return af_fail(err, ANYFLASH_E_NOT_FOUND,
                   "the Python package of anyflash %s is not beside this program; "
                   "`make install` and the Python wheel both bring it",
                   anyflash_version_text());
}

/* Writes the members to the site folder, as an installer would unpack them. */
static enum anyflash_status unpack(const struct making *making, const char *site)
{
    struct af_arena *arena = making->pack.arena;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < making->pack.count; i++) {
        const struct af_wheel_member *member = &making->pack.members[i];
        const char *path = af_path_join(arena, site, member->name);
        status = af_folder_make(af_path_folder(arena, path), 0755, making->err);
        if (status == ANYFLASH_OK)
            status = af_file_write(arena, path, &member->bytes, 1, making->err);
        if (status == ANYFLASH_OK && member->mode == 0755 && chmod(path, member->mode) != 0)
            status = af_fail(making->err, ANYFLASH_E_IO, "cannot make '%s' executable", path);
    }
    return status;
}

/* The package as a distribution of its own. */
static enum anyflash_status make_package(struct making *making)
{
    struct af_arena *arena = making->pack.arena;
    const char *version = anyflash_version_text();
    enum anyflash_status status = add_package(making);
    making->pack.information = af_arena_format(arena, "anyflash-%s.dist-info", version);
    describe(making, "anyflash", version, "py3-none-any",
             "Summary: FlashAttention on any machine\n");
    af_wheel_pack_information(&making->pack, "entry_points.txt",
                              "[vllm.general_plugins]\nanyflash = anyflash.vllm:register\n");
    return status;
}

/* ---- the stand-in for flash-attn ---- */

/* flash_attn's modules; FlashAttention-3's are left out, as `shim install` does. */
static enum anyflash_status add_modules(struct making *making)
{
    struct af_arena *arena = making->pack.arena;
    const char *tree = af_path_join(arena, making->python, "shim/tree");
    enum anyflash_status status =
        add_folder(making, af_path_join(arena, tree, "flash_attn"), "flash_attn");
    return status == ANYFLASH_OK
               ? add_file(making, af_path_join(arena, tree, "flash_attn_2_cuda.py"),
                          "flash_attn_2_cuda.py")
               : status;
}

/* Gives the modules this version in place of their own. */
static enum anyflash_status set_version(struct making *making, const char *version)
{
    static const char line[] = "__version__ = \"" AF_OWN_PACKAGE_STAND_IN "\"";
    for (size_t i = 0; i < making->pack.count && i < AF_WHEEL_PACK_MEMBERS_MAX; i++) {
        struct af_wheel_member *member = &making->pack.members[i];
        if (strcmp(member->name, "flash_attn/__init__.py") != 0)
            continue;
        const char *at = strstr(member->bytes.data, line);
        if (at == NULL)
            break;
        const char *text = af_arena_format(making->pack.arena, "%.*s__version__ = \"%s\"%s",
                                           (int)(at - member->bytes.data), member->bytes.data,
                                           version, at + strlen(line));
        member->bytes = (struct af_span){text, strlen(text)};
        return ANYFLASH_OK;
    }
    return af_fail(making->err, ANYFLASH_E_DATA,
                   "'%s/shim/tree/flash_attn/__init__.py' has no "
                   "line %s",
                   making->python, line);
}

/* The tag of the wheel that contains the libraries of this program. */
static const char *stand_in_tag(const struct af_run *run)
{
    return af_arena_format(run->arena, "py3-none-linux_%s",
                           af_fact_text_or(&run->machine->platform.arch, "x86_64"));
}

/* flash_attn, and the package unless it is a distribution of its own there. */
static enum anyflash_status make_stand_in(struct making *making, const struct af_run *run,
                                          const char *version)
{
    struct af_arena *arena = run->arena;
    bool has_package = af_machine_package(run->machine, "anyflash") != NULL;
    enum anyflash_status status = add_modules(making);
    if (status == ANYFLASH_OK)
        status = set_version(making, version);
    if (status == ANYFLASH_OK && !has_package)
        status = add_package(making);
    if (status != ANYFLASH_OK)
        return status;
    making->pack.information = af_arena_format(arena, "flash_attn-%s.dist-info", version);
    describe(making, "flash-attn", version, stand_in_tag(run),
             af_arena_format(
                 arena,
                 "Summary: Modules of flash-attn, generated on this machine by anyflash, which "
                 "computes them\nRequires-Dist: torch\n%s\n"
                 "Not the project flash-attn: modules and functions with its names, computed "
                 "by anyflash.\nNames and signatures follow flash-attention, BSD-3-Clause, (c) "
                 "2022 its contributors.\n",
                 has_package ? "Requires-Dist: anyflash\n" : ""));
    af_wheel_pack_information(&making->pack, "top_level.txt",
                              has_package ? "flash_attn\nflash_attn_2_cuda\n"
                                          : "anyflash\nflash_attn\nflash_attn_2_cuda\n");
    return ANYFLASH_OK;
}

bool af_own_package_is_here(struct af_arena *arena)
{
    struct making *making = af_arena_alloc(arena, sizeof *making);
    return find_package(making, arena, NULL) == ANYFLASH_OK;
}

enum anyflash_status af_own_package_stage(struct af_stage *stage, bool stand_in,
                                          struct anyflash_error *err)
{
    struct af_arena *arena = stage->run->arena;
    struct making *making = af_arena_alloc(arena, sizeof *making);
    enum anyflash_status status = find_package(making, arena, err);
    if (status == ANYFLASH_OK)
        status = stand_in ? make_stand_in(making, stage->run, AF_OWN_PACKAGE_STAND_IN)
                          : make_package(making);
    if (status != ANYFLASH_OK)
        return status;
    af_wheel_pack_information(&making->pack, "INSTALLER", "anyflash\n");
    status = af_wheel_pack_record(&making->pack, err);
    return status == ANYFLASH_OK ? unpack(making, site_in_stage(stage)) : status;
}

enum anyflash_status af_own_package_stand_in(struct af_run *run, const char *version,
                                             const char *folder, const char **path_out,
                                             struct anyflash_error *err)
{
    struct af_arena *arena = run->arena;
    struct making *making = af_arena_alloc(arena, sizeof *making);
    const char *path =
        af_arena_format(arena, "%s/flash_attn-%s-%s.whl", folder, version, stand_in_tag(run));
    const struct af_span *pieces;
    size_t count;
    enum anyflash_status status = find_package(making, arena, err);
    if (status == ANYFLASH_OK)
        status = make_stand_in(making, run, version);
    if (status == ANYFLASH_OK)
        status = af_wheel_pack_archive(&making->pack, &pieces, &count, err);
    if (status == ANYFLASH_OK)
        status = af_file_write(arena, path, pieces, count, err);
    if (status == ANYFLASH_OK)
        *path_out = path;
    return status;
}
