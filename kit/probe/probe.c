/*
 * probe.c: probes this machine by calling one probe after the other (probes.h). The
 * GPU driver may be slow, so its child process starts first and is read last. Also reads
 * machine records and catalogs from files, and hashes the environment for stored proofs.
 */
#include "kit/probe/probe.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/catalog/catalog_update.h"
#include "kit/machine/pasted.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

/* Adds the text with its NUL, so that neighbours cannot be confused. */
static void add(struct af_sha256 *hash, const char *text)
{
    if (text != NULL)
        af_sha256_add(hash, text, strlen(text));
    af_sha256_add(hash, "", 1);
}

static void add_text(struct af_sha256 *hash, const struct af_fact *fact)
{
    add(hash, af_fact_text_or(fact, NULL));
}

static void add_list(struct af_sha256 *hash, const struct af_fact *fact)
{
    for (size_t i = 0; fact->state == AF_FACT_KNOWN && i < fact->value.list.count; i++)
        add(hash, fact->value.list.items[i]);
    add(hash, NULL);
}

/* Adds the path, and what changes when the file or folder is replaced or changed. */
static void add_file(struct af_sha256 *hash, const char *path)
{
    struct stat status;
    char text[100] = "absent";
    if (path != NULL && stat(path, &status) == 0)
        snprintf(text, sizeof text, "%ju %jd %jd.%09ld", (uintmax_t)status.st_ino,
                 (intmax_t)status.st_size, (intmax_t)status.st_mtim.tv_sec,
                 status.st_mtim.tv_nsec);
    add(hash, path);
    add(hash, text);
}

static void add_torch(struct af_sha256 *hash, const struct af_torch *torch)
{
    static const char *const libraries[] = {"libc10.so", "libc10_cuda.so", "libtorch_cpu.so",
                                            "libtorch_cuda.so", "libtorch_python.so"};
    const struct af_fact *const texts[] = {&torch->version,    &torch->cuda,
                                           &torch->hip,        &torch->git,
                                           &torch->c10_soname, &torch->cudart_soname};
    const struct af_fact *const lists[] = {&torch->missing_files, &torch->changed_files,
                                           &torch->broken_files, &torch->missing_libraries};
    const char *folder = af_fact_text_or(&torch->path, "");
    for (size_t i = 0; i < AF_COUNT(texts); i++)
        add_text(hash, texts[i]);
    for (size_t i = 0; i < AF_COUNT(lists); i++)
        add_list(hash, lists[i]);
    for (size_t i = 0; i < AF_COUNT(libraries); i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/lib/%s", folder, libraries[i]);
        add_file(hash, path);
    }
    add_file(hash, af_fact_text_or(&torch->cudart_path, NULL));
}

static void add_loading(struct af_sha256 *hash, const struct af_machine *machine)
{
    const struct af_platform *platform = &machine->platform;
    const struct af_python *python = &machine->python;
    const struct af_fact *const texts[] = {
        &platform->os,           &platform->arch,    &platform->libc,
        &platform->libc_version, &platform->glibcxx, &python->implementation,
        &python->version,        &python->abi_flags, &python->ext_suffix,
    };
    add(hash, anyflash_version_text());
    for (size_t i = 0; i < AF_COUNT(texts); i++)
        add_text(hash, texts[i]);
    add_list(hash, &python->site_packages);
    add_file(hash, af_fact_text_or(&python->base_executable, NULL));
    add(hash, af_machine_variable(machine, "LD_LIBRARY_PATH"));
    add_torch(hash, &machine->torch);
}

static void add_surroundings(struct af_sha256 *hash, const struct af_machine *machine)
{
    const struct af_driver *driver = &machine->driver;
    const struct af_fact *const texts[] = {&driver->kernel_version, &driver->user_version,
                                           &driver->cuda_api, &driver->visible_devices};
    const struct af_fact *sites = &machine->python.site_packages;
    for (size_t i = 0; i < AF_COUNT(texts); i++)
        add_text(hash, texts[i]);
    for (size_t i = 0; i < machine->gpus.count; i++)
        add_text(hash, &machine->gpus.rows[i].sm);
    add(hash, NULL);
    for (size_t i = 0; sites->state == AF_FACT_KNOWN && i < sites->value.list.count; i++)
        add_file(hash, sites->value.list.items[i]);
    add_file(hash, "/etc/ld.so.cache");
}

void af_probe_environment_hash(const struct af_machine *machine,
                               struct af_environment_hash *out)
{
    struct af_sha256 hash;
    af_sha256_init(&hash);
    add_loading(&hash, machine);
    af_sha256_finish(&hash, out->loading);
    add_surroundings(&hash, machine);
    af_sha256_finish(&hash, out->surroundings);
}

static enum anyflash_status look(struct af_probe *probe, struct anyflash_error *err)
{
    enum anyflash_status status = af_probe_python(probe, err);
    if (status != ANYFLASH_OK)
        return status;
    af_probe_platform(probe); /* reports the C library of the interpreter */
    af_probe_torch(probe);
    af_probe_packages(probe);
    af_probe_shadow(probe);
    af_probe_resources(probe);
    af_probe_disks(probe); /* includes the environment's disk */
    af_probe_toolkits(probe);
    af_probe_compilers(probe);
    af_probe_tools(probe);
    af_probe_project_files(probe);
    af_probe_variables(probe);
    af_probe_cached_wheels(probe);
    return ANYFLASH_OK;
}

enum anyflash_status af_probe_machine(struct af_machine *machine,
                                      const struct af_probe_options *options,
                                      struct anyflash_error *err)
{
    char folder[PATH_MAX];
    struct af_probe_options filled = *options;
    struct af_probe probe = {machine, &machine->arena, &filled};
    struct af_child child = {0};
    if (filled.environment == NULL)
        filled.environment = environ;
    if (filled.folder == NULL)
        filled.folder = getcwd(folder, sizeof folder) == NULL ? "/" : folder;
    if (!filled.only_python)
        af_probe_gpu_start(&probe, &child);
    enum anyflash_status status =
        filled.only_python ? af_probe_python(&probe, err) : look(&probe, err);
    if (!filled.only_python)
        af_probe_gpu_finish(&probe, &child);
    return status;
}

enum anyflash_status af_probe_record(struct af_machine *machine, const char *path,
                                     struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    const char *origin = strcmp(path, "-") == 0 ? "stdin" : path;
    af_arena_init(&arena);
    enum anyflash_status status =
        af_file_read_input(&arena, path, AF_PASTED_BYTES_MAX, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_machine_read(machine, bytes, origin, err);
    af_arena_release(&arena);
    return status;
}

typedef enum anyflash_status parse_function(struct af_catalog *catalog, struct af_span bytes,
                                            const char *name, struct anyflash_error *err);

static enum anyflash_status read_with(parse_function *parse, struct af_catalog *catalog,
                                      const char *path, struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, path, AF_CATALOG_BYTES_MAX, &bytes, err);
    if (status == ANYFLASH_OK)
        status = parse(catalog, bytes, path, err);
    af_arena_release(&arena);
    return status;
}

enum anyflash_status af_probe_catalog(struct af_catalog *catalog, const char *path,
                                      struct anyflash_error *err)
{
    return read_with(af_catalog_parse, catalog, path, err);
}

enum anyflash_status af_probe_catalog_stored(struct af_catalog *catalog, const char *path,
                                             struct anyflash_error *err)
{
    return read_with(af_catalog_stored_parse, catalog, path, err);
}
