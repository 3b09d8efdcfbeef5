/*
 * probe.c: probes this machine by calling one probe after the other, each in its own file. The
 * GPU driver may be slow, so its child process starts first and is read last. Also reads
 * machine records.
 */
#include "kit/probe/probe.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "kit/machine/pasted.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

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
    af_probe_network(probe);
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
    size_t failure_count = af_mem_failure_count();
    if (filled.environment == NULL)
        filled.environment = environ;
    if (filled.folder == NULL)
        filled.folder = getcwd(folder, sizeof folder) == NULL ? "/" : folder;
    af_probe_gpu_start(&probe, &child);
    enum anyflash_status status = look(&probe, err);
    af_probe_gpu_finish(&probe, &child);
    /* facts may be missing or unknown only because memory ran out */
    if (af_mem_failure_count() != failure_count)
        status = af_fail_memory(err);
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
