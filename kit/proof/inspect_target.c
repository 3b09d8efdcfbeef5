/*
 * inspect_target.c: finds the shared libraries of a target and reads their facts.
 * inspect_wheel.c reads the metadata of wheels. Called by `inspect` and by code that proves a
 * wheel before it is installed.
 */
#include "kit/proof/inspect_target.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/download.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/state.h"

#define FOLDERS_MAX 4000u
#define NAMES_MAX 20000u
#define NAME_BYTES 4000u
#define START_BYTES 512u

bool af_proof_path_is_shared_library(const char *path)
{
    const char *name = af_path_name(path);
    const char *so = strstr(name, ".so");
    return af_ends_with(name, ".so") ||
           (so != NULL && so[3] == '.' && so[4] >= '0' && so[4] <= '9');
}

struct af_inspect_extension *af_inspect_target_add(struct af_inspect_target *target,
                                                   const char *path)
{
    if (target->count == AF_INSPECT_EXTENSIONS_MAX) {
        target->cut = true;
        return NULL;
    }
    struct af_inspect_extension *one = &target->extensions[target->count++];
    *one = (struct af_inspect_extension){.path = path,
                                         .is_bundled = strstr(path, ".libs/") != NULL};
    return one;
}

static void add_file(struct af_arena *arena, const char *shown, const char *path,
                     struct af_inspect_target *target)
{
    struct af_inspect_extension *one =
        af_inspect_target_add(target, af_text_scrub(arena, shown, NAME_BYTES));
    if (one == NULL)
        return;
    one->file = path;
    one->folder = af_path_folder(arena, path);
}

/* Index where the name within the folder begins in a path made by af_path_join(). */
static size_t shown_from(const char *folder)
{
    size_t len = strlen(folder);
    return len > 0 && folder[len - 1] == '/' ? len : len + 1;
}

/* Adds all shared libraries below the folder, folder after folder; links are not followed. */
static enum anyflash_status add_folder(struct af_arena *arena, const char *folder,
                                       struct af_inspect_target *target,
                                       struct anyflash_error *err)
{
    const char **queue = af_arena_array(arena, FOLDERS_MAX, sizeof *queue);
    size_t count = 0;
    queue[count++] = folder;
    for (size_t i = 0; i < count; i++) {
        const char **names = NULL;
        size_t name_count = 0;
        enum anyflash_status status =
            af_folder_list(arena, queue[i], NAMES_MAX, &names, &name_count, NULL, err);
        if (status != ANYFLASH_OK && i == 0)
            return status;
        for (size_t n = 0; status == ANYFLASH_OK && n < name_count; n++) {
            const char *path = af_path_join(arena, queue[i], names[n]);
            if (af_file_is_link(path))
                continue;
            if (af_proof_path_is_shared_library(names[n]) && af_file_is_regular(path))
                add_file(arena, path + shown_from(folder), path, target);
            else if (count < FOLDERS_MAX && af_file_is_folder(path))
                queue[count++] = path;
        }
    }
    return ANYFLASH_OK;
}

static struct af_inspect_target begin(struct af_arena *arena, const char *what)
{
    return (struct af_inspect_target){
        .name = af_text_scrub(arena, what, NAME_BYTES),
        .extensions = af_arena_array(arena, AF_INSPECT_EXTENSIONS_MAX,
                                     sizeof(struct af_inspect_extension)),
    };
}

/* Opens the wheel at `path` that is called `filename`. */
static enum anyflash_status open_wheel(const char *path, const char *filename,
                                       struct af_arena *arena, struct af_inspect_target *out,
                                       struct anyflash_error *err)
{
    struct af_inspect_target target = begin(arena, filename);
    target.is_package = true;
    target.archive = af_arena_alloc(arena, sizeof *target.archive);
    enum anyflash_status status = af_file_map(path, &target.mapping, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(af_mapping_bytes(&target.mapping), filename,
                                       target.archive, err);
    if (status != ANYFLASH_OK) {
        af_inspect_target_close(&target);
        return status;
    }
    af_inspect_target_read_wheel(&target, arena);
    *out = target;
    return ANYFLASH_OK;
}

/* Opens a file by its first bytes: a wheel, else a library, whose format the proof checks. */
static enum anyflash_status open_file(const char *path, struct af_arena *arena,
                                      struct af_inspect_target *out, struct anyflash_error *err)
{
    struct af_span start;
    enum anyflash_status status = af_file_read_start(arena, path, START_BYTES, &start, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *other = af_download_not_a_wheel(start);
    bool is_packed = start.len >= 2 && memcmp(start.data, "PK", 2) == 0;
    if (other != NULL)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is %s",
                       af_text_scrub(arena, path, NAME_BYTES), other);
    if (!is_packed && !af_ends_with(path, ".whl")) {
        add_file(arena, path, path, out);
        return ANYFLASH_OK;
    }
    return open_wheel(path, path, arena, out, err);
}

enum anyflash_status af_inspect_target_open(const char *what, struct af_arena *arena,
                                            struct af_inspect_target *out,
                                            struct anyflash_error *err)
{
    struct af_inspect_target target = begin(arena, what);
    if (af_file_is_absent(what))
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' does not exist", target.name);
    enum anyflash_status status = af_file_is_folder(what)
                                      ? add_folder(arena, what, &target, err)
                                      : open_file(what, arena, &target, err);
    if (status == ANYFLASH_OK)
        *out = target;
    else
        af_inspect_target_close(&target);
    return status;
}

enum anyflash_status af_inspect_target_open_url(const struct af_http *http, const char *url,
                                                struct af_arena *arena,
                                                struct af_inspect_target *out,
                                                struct anyflash_error *err)
{
    struct af_download_result result;
    const char *folder;
    enum anyflash_status status = af_cache_wheel_folder(arena, url, &folder, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(folder, 0755, err);
    if (status != ANYFLASH_OK)
        return status;
    /* The name in the address may be anything; the folder is named by the address's hash. */
    const char *path = af_path_join(arena, folder, "inspected.whl");
    const char *filename = af_url_file_name(arena, url);
    const struct af_download order = {
        .url = url, .path = path, .size_bytes = -1, .wheel = true};
    status = af_download_run(http, &order, &result, err);
    if (status != ANYFLASH_OK)
        return status;
    status = open_wheel(path, filename, arena, out, err);
    unlink(path);
    rmdir(folder);
    return status;
}

void af_inspect_target_open_installed(const struct af_machine *machine, struct af_arena *arena,
                                      struct af_inspect_target *out)
{
    struct af_inspect_target target = begin(arena, "installed");
    for (size_t i = 0; i < machine->packages.count; i++) {
        const struct af_package *package = &machine->packages.rows[i];
        const char *folder = af_fact_text_or(&package->folder, NULL);
        const struct af_fact *files = &package->extensions;
        for (size_t n = 0;
             folder != NULL && files->state == AF_FACT_KNOWN && n < files->value.list.count;
             n++)
            add_file(arena, files->value.list.items[n],
                     af_path_join(arena, folder, files->value.list.items[n]), &target);
    }
    target.is_package = true;
    *out = target;
}

/* Reads the GPU code; NULL when it cannot be read: the checks then report that. */
static const struct af_gpu_code *read_gpu_code(struct af_arena *arena, struct af_span bytes,
                                               const char *name)
{
    struct af_gpu_code *code = af_arena_alloc(arena, sizeof *code);
    return af_gpu_code_read(arena, bytes, name, false, code, NULL) == ANYFLASH_OK ? code : NULL;
}

static void read_file(struct af_inspect_extension *one, struct af_arena *arena)
{
    struct anyflash_error why = {0};
    struct af_facts facts = {.gpu_code = NULL};
    struct af_mapping mapping = {0};
    enum anyflash_status status = af_file_map(one->file, &mapping, &why);
    struct af_span bytes = af_mapping_bytes(&mapping);
    if (status == ANYFLASH_OK)
        status = af_binary_read(arena, bytes, one->path, &facts.binary, &why);
    if (status == ANYFLASH_OK && facts.binary.has_gpu_code)
        facts.gpu_code = read_gpu_code(arena, bytes, one->path);
    af_file_unmap(&mapping);
    one->has_facts = status == ANYFLASH_OK;
    if (status == ANYFLASH_OK)
        one->facts = facts;
    else
        one->problem = af_arena_text(arena, why.message);
}

enum anyflash_status af_inspect_target_read(struct af_inspect_target *target, size_t index,
                                            struct af_arena *arena, struct anyflash_error *err)
{
    struct af_inspect_extension *one = &target->extensions[index];
    enum anyflash_status status = ANYFLASH_OK;
    if (target->wheel != NULL)
        status = af_inspect_target_unpack(target, arena, err);
    if (status == ANYFLASH_OK && one->problem == NULL && !one->has_facts)
        read_file(one, arena);
    return status;
}

/* A Python extension, one of torch, or the library of `anyflash build`. */
static bool may_have_kernels(const struct af_inspect_extension *one)
{
    const struct af_binary *binary = &one->facts.binary;
    bool found = binary->init_name != NULL || af_ends_with(one->path, "libanyflash_cuda.so");
    for (size_t i = 0; i < binary->needed.count && !found; i++)
        found = af_starts_with(binary->needed.items[i], "libtorch") ||
                af_starts_with(binary->needed.items[i], "libc10");
    return found;
}

void af_inspect_target_read_kernels(struct af_inspect_target *target, size_t index,
                                    struct af_arena *arena)
{
    struct af_inspect_extension *one = &target->extensions[index];
    struct af_facts *facts = &one->facts;
    struct af_mapping mapping = {0};
    if (facts->gpu_code == NULL || facts->kernels != NULL || !may_have_kernels(one) ||
        af_file_map(one->file, &mapping, NULL) != ANYFLASH_OK)
        return;
    struct af_flash_kernels *kernels = af_arena_alloc(arena, sizeof *kernels);
    if (af_flash_kernels_read(arena, af_mapping_bytes(&mapping), one->path, facts->gpu_code,
                              kernels, NULL) == ANYFLASH_OK)
        facts->kernels = kernels;
    af_file_unmap(&mapping);
}
