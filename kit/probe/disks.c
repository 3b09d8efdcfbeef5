/*
 * disks.c: the probe of the disks that an installation or a build writes to:
 * temporary files, the caches of the installer and of builds, the environment and
 * home.
 */
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <stdint.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TMPFS_MAGIC_NUMBER 0x01021994
#define RAMFS_MAGIC_NUMBER 0x858458f6
#define FOLDERS_UP_MAX 64

/* The path or its nearest parent that exists. */
static const char *existing(struct af_probe *probe, const char *path)
{
    for (int i = 0; i < FOLDERS_UP_MAX && path != NULL && !af_file_is_folder(path); i++)
        path = af_path_folder(probe->arena, path);
    return path;
}

static void add_disk(struct af_probe *probe, const char *use, const char *path,
                     const char *source)
{
    struct af_machine *machine = probe->machine;
    struct statvfs space;
    struct statfs kind;
    path = existing(probe, af_probe_path(probe, path));
    if (path == NULL)
        return;
    struct af_disk *disk =
        af_machine_row_add(machine, offsetof(struct af_machine, disks), "statvfs(3) failed");
    if (disk == NULL)
        return;
    af_fact_text(probe->arena, &disk->use, use, source);
    af_fact_text(probe->arena, &disk->path, path, source);
    if (statvfs(path, &space) == 0 && space.f_frsize > 0 &&
        space.f_bavail <= (uint64_t)INT64_MAX / space.f_frsize)
        af_fact_int(probe->arena, &disk->free_bytes, (int64_t)(space.f_bavail * space.f_frsize),
                    "statvfs(3)");
    if (statfs(path, &kind) == 0)
        af_fact_bool(probe->arena, &disk->in_memory,
                     kind.f_type == TMPFS_MAGIC_NUMBER ||
                         (uint32_t)kind.f_type == RAMFS_MAGIC_NUMBER,
                     "statfs(2)");
    af_fact_bool(probe->arena, &disk->writable, access(path, W_OK) == 0, "access(2)");
}

/* Adds the folder that the first set variable names, else ~/.cache. */
static void add_cache(struct af_probe *probe, const char *use, const char *const names[3])
{
    const char *path = NULL;
    size_t i = 0;
    while (i < 3 && (path = af_probe_variable(probe, names[i])) == NULL)
        i++;
    if (path == NULL)
        path = af_path_join(probe->arena, af_probe_variable(probe, "HOME"), ".cache");
    if (path != NULL)
        add_disk(probe, use, path, i < 3 ? names[i] : "HOME");
}

void af_probe_disks(struct af_probe *probe)
{
    const struct af_fact *prefix = &probe->machine->python.prefix;
    const char *temporary = af_probe_variable(probe, "TMPDIR");
    const char *home = af_probe_variable(probe, "HOME");
    probe->machine->disks.state = AF_FACT_KNOWN;
    probe->machine->disks.source = "TMPDIR, cache, environment and home";
    add_disk(probe, "temporary", temporary == NULL ? "/tmp" : temporary,
             temporary == NULL ? "default" : "TMPDIR");
    add_cache(probe, "cache",
              (const char *const[]){"UV_CACHE_DIR", "PIP_CACHE_DIR", "XDG_CACHE_HOME"});
    add_cache(probe, "builds",
              (const char *const[]){"ANYFLASH_CACHE", "XDG_CACHE_HOME", "XDG_CACHE_HOME"});
    if (prefix->state == AF_FACT_KNOWN)
        add_disk(probe, "environment", prefix->value.text, prefix->source);
    if (home != NULL)
        add_disk(probe, "home", home, "HOME");
}
