/*
 * resources.c: the probe of memory and cores that a build may use: what the system has, limited
 * by the control group, all its parents, and the CPU affinity; and of the disks that an
 * installation or a build writes to: temporary files, the caches of the installer and of
 * builds, the environment and home.
 */
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SMALL_FILE_BYTES 65536u
#define TMPFS_MAGIC_NUMBER 0x01021994
#define RAMFS_MAGIC_NUMBER 0x858458f6
#define FOLDERS_UP_MAX 64

/* The number in "Name:   1234 kB" of meminfo, or "name 1234" of memory.stat; -1: not found. */
static int64_t find_number(struct af_span bytes, const char *name, int64_t unit)
{
    struct af_span line;
    size_t len = strlen(name);
    while (af_text_line(&bytes, &line)) {
        if (line.len <= len || strncmp(line.data, name, len) != 0)
            continue;
        /* The text is NUL-terminated after its last line, so strtoll ends. */
        long long number = strtoll(line.data + len, NULL, 10);
        return number < 0 || number > INT64_MAX / unit ? -1 : number * unit;
    }
    return -1;
}

static void set_bytes(struct af_probe *probe, struct af_fact *fact, int64_t bytes,
                      const char *name, const char *path)
{
    if (bytes < 0)
        af_fact_unknown(probe->arena, fact, "no %s in '%s'", name, path);
    else
        af_fact_int(probe->arena, fact, bytes, path);
}

static void probe_meminfo(struct af_probe *probe)
{
    struct af_resources *resources = &probe->machine->resources;
    struct anyflash_error err = {0};
    struct af_span bytes;
    const char *path = af_probe_path(probe, "/proc/meminfo");
    if (af_file_read(probe->arena, path, SMALL_FILE_BYTES, &bytes, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &resources->memory_total_bytes, "%s", err.message);
        af_fact_unknown(probe->arena, &resources->memory_available_bytes, "%s", err.message);
        return;
    }
    set_bytes(probe, &resources->memory_total_bytes, find_number(bytes, "MemTotal:", 1024),
              "MemTotal", path);
    set_bytes(probe, &resources->memory_available_bytes,
              find_number(bytes, "MemAvailable:", 1024), "MemAvailable", path);
}

/* The limit of one group; false when it has none. */
static bool group_limit(const struct af_probe *probe, const struct af_cgroup *cgroup,
                        int64_t *limit_out)
{
    int64_t high;
    if (!cgroup->v2)
        return af_cgroup_number(probe, cgroup, "memory.limit_in_bytes", limit_out);
    bool limited = af_cgroup_number(probe, cgroup, "memory.max", limit_out);
    if (!af_cgroup_number(probe, cgroup, "memory.high", &high))
        return limited;
    if (!limited || high < *limit_out)
        *limit_out = high; /* above it the kernel throttles the group heavily */
    return true;
}

/* Memory that the group uses and cannot release: without inactive file pages. */
static int64_t group_used(const struct af_probe *probe, const struct af_cgroup *cgroup)
{
    int64_t used = 0;
    const char *stat = af_cgroup_text(probe, cgroup, "memory.stat");
    const char *name = cgroup->v2 ? "inactive_file" : "total_inactive_file";
    if (!af_cgroup_number(probe, cgroup,
                          cgroup->v2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return 0;
    int64_t inactive =
        stat == NULL ? 0 : find_number((struct af_span){stat, strlen(stat)}, name, 1);
    return inactive > 0 && inactive < used ? used - inactive : used;
}

static void probe_memory_limit(struct af_probe *probe)
{
    struct af_resources *resources = &probe->machine->resources;
    struct af_cgroup cgroup;
    if (!af_cgroup_find(probe, "memory", &cgroup)) {
        af_fact_absent(probe->arena, &resources->memory_limit_bytes, "no control groups");
        return;
    }
    int64_t smallest = INT64_MAX;
    do {
        int64_t limit;
        if (!group_limit(probe, &cgroup, &limit))
            continue;
        int64_t used = group_used(probe, &cgroup);
        int64_t rest = used < limit ? limit - used : 0;
        if (limit < smallest) {
            smallest = limit;
            af_fact_int(probe->arena, &resources->memory_limit_bytes, limit, cgroup.folder);
        }
        if (rest < af_fact_int_or(&resources->memory_available_bytes, INT64_MAX))
            af_fact_int(probe->arena, &resources->memory_available_bytes, rest, cgroup.folder);
    } while (af_cgroup_up(probe, &cgroup));
    if (smallest == INT64_MAX)
        af_fact_absent(probe->arena, &resources->memory_limit_bytes,
                       "no limit in any group of /proc/self/cgroup");
}

/* Number of cores in the group's quota, rounded up; false when it has no quota. */
static bool group_cores(const struct af_probe *probe, const struct af_cgroup *cgroup,
                        int64_t *cores_out)
{
    int64_t quota;
    int64_t period;
    if (cgroup->v2) {
        const char *text = af_cgroup_text(probe, cgroup, "cpu.max"); /* "200000 100000" */
        const char *blank = text == NULL ? NULL : strchr(text, ' ');
        const char *first =
            blank == NULL ? NULL : af_arena_text_n(probe->arena, text, (size_t)(blank - text));
        if (first == NULL || !af_parse_i64(first, 1, INT32_MAX, &quota) ||
            !af_parse_i64(blank + 1, 1, INT32_MAX, &period))
            return false;
    } else if (!af_cgroup_number(probe, cgroup, "cpu.cfs_quota_us", &quota) ||
               !af_cgroup_number(probe, cgroup, "cpu.cfs_period_us", &period) || quota < 1 ||
               period < 1) {
        return false;
    }
    *cores_out = (quota - 1) / period + 1;
    return true;
}

static void probe_cores(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->resources.cores;
    struct af_cgroup cgroup;
    cpu_set_t allowed;
    int64_t cores;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        af_fact_int(probe->arena, fact, CPU_COUNT(&allowed), "sched_getaffinity(2)");
    else
        af_fact_unknown(probe->arena, fact, "sched_getaffinity(2) failed");
    if (!af_cgroup_find(probe, "cpu", &cgroup))
        return;
    do {
        if (group_cores(probe, &cgroup, &cores) && cores < af_fact_int_or(fact, INT64_MAX))
            af_fact_int(probe->arena, fact, cores, cgroup.folder);
    } while (af_cgroup_up(probe, &cgroup));
}

void af_probe_resources(struct af_probe *probe)
{
    probe_meminfo(probe);
    probe_memory_limit(probe);
    probe_cores(probe);
}

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
