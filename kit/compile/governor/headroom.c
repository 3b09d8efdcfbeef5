/*
 * headroom.c: memory and processors as the kernel reports them. Sources: proc(5), the
 * kernel's documentation of cgroup v1 (memory.rst), v2 (cgroup-v2.rst) and PSI.
 */
#include "kit/compile/governor/headroom.h"

#include "kit/compile/governor/govern.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES 65536u
#define KIB 1024

/* The number after `key` at the start of a line of `text`; false if there is none. */
static bool field(const char *text, const char *key, uint64_t *number_out)
{
    size_t len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, len) == 0) {
            *number_out = strtoull(line + len, NULL, 10);
            return true;
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return false;
}

static const char *read_text(const struct af_probe *probe, const char *path)
{
    struct af_span bytes;
    const char *file = af_probe_path(probe, path);
    if (file == NULL ||
        af_file_read_start(probe->arena, file, FILE_BYTES, &bytes, NULL) != ANYFLASH_OK)
        return "";
    return bytes.data;
}

static void apply_limit(struct af_headroom *headroom, uint64_t limit, uint64_t used)
{
    uint64_t left = limit > used ? limit - used : 0;
    if (left < headroom->left_bytes) {
        headroom->left_bytes = left;
        headroom->limit_bytes = limit;
    }
}

static void read_system(const struct af_probe *probe, struct af_headroom *headroom)
{
    const char *text = read_text(probe, "/proc/meminfo");
    uint64_t total;
    uint64_t available;
    if (field(text, "MemTotal:", &total) && field(text, "MemAvailable:", &available) &&
        available <= total)
        apply_limit(headroom, total * KIB, (total - available) * KIB);
    if (field(read_text(probe, "/proc/vmstat"), "oom_kill ", &total))
        headroom->kills += total;
}

static const char *group_text(const struct af_probe *probe, const struct af_cgroup *cgroup,
                              const char *file)
{
    const char *text = af_cgroup_text(probe, cgroup, file);
    return text == NULL ? "" : text;
}

/* Memory that the kernel cannot reclaim: anonymous memory, and tmpfs. */
static uint64_t group_used(const struct af_probe *probe, const struct af_cgroup *cgroup)
{
    const char *text = group_text(probe, cgroup, "memory.stat");
    uint64_t anonymous = 0;
    uint64_t shared = 0;
    field(text, cgroup->v2 ? "anon " : "total_rss ", &anonymous);
    field(text, cgroup->v2 ? "shmem " : "total_shmem ", &shared);
    return anonymous + shared;
}

/* The number of files that could be read. */
static unsigned read_groups(const struct af_probe *probe, const char *group,
                            struct af_headroom *headroom)
{
    struct af_cgroup cgroup;
    unsigned files = 0;
    if (!af_cgroup_find(probe, "memory", &cgroup))
        return 0;
    if (group != NULL)
        cgroup.folder = group;
    do {
        int64_t limit;
        const char *limit_file = cgroup.v2 ? "memory.max" : "memory.limit_in_bytes";
        files += group_text(probe, &cgroup, "memory.stat")[0] != '\0';
        files += group_text(probe, &cgroup, limit_file)[0] != '\0';
        uint64_t number = 0;
        if (af_cgroup_number(probe, &cgroup, limit_file, &limit))
            apply_limit(headroom, (uint64_t)limit, group_used(probe, &cgroup));
        if (cgroup.v2 && af_cgroup_number(probe, &cgroup, "memory.high", &limit))
            apply_limit(headroom, (uint64_t)limit,
                        group_used(probe, &cgroup)); /* above it all processes are throttled */
        const char *events =
            group_text(probe, &cgroup, cgroup.v2 ? "memory.events" : "memory.oom_control");
        files += events[0] != '\0';
        if (field(events, "oom_kill ", &number))
            headroom->kills += number;
        if (field(events, "under_oom ", &number) && number != 0)
            headroom->waits = true;
        if (cgroup.v2 && field(events, "max ", &number))
            headroom->limit_hits += number;
        if (cgroup.v2 && field(events, "high ", &number))
            headroom->limit_hits += number;
        if (!cgroup.v2 && af_cgroup_number(probe, &cgroup, "memory.failcnt", &limit))
            headroom->limit_hits += (uint64_t)limit;
    } while (af_cgroup_up(probe, &cgroup));
    return files;
}

static double pressure(const char *text)
{
    double share;
    const char *full = strstr(text, "full avg10=");
    return full != NULL && sscanf(full, "full avg10=%lf", &share) == 1 ? share / 100 : -1;
}

/*
 * Processor time of processes that are not nice. These are other programs',
 * because ours are nice. Only cores that we may use count, because a container
 * sees those of the whole host.
 */
static bool busy_ticks(const char *text, uint64_t *ticks_out)
{
    cpu_set_t set;
    unsigned cpu;
    unsigned long long user;
    uint64_t ticks = 0;
    bool found = false;
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    for (const char *line = strstr(text, "\ncpu"); known && line != NULL;
         line = strstr(line + 1, "\ncpu")) {
        if (sscanf(line, "\ncpu%u %llu", &cpu, &user) != 2 || cpu >= CPU_SETSIZE ||
            !CPU_ISSET(cpu, &set))
            continue;
        ticks += user;
        found = true;
    }
    if (!found && sscanf(text, "cpu %llu", &user) == 1) {
        ticks = user;
        found = true;
    }
    *ticks_out = ticks;
    return found;
}

static void read_others(const struct af_probe *probe, struct af_headroom_previous *before,
                        struct af_headroom *headroom)
{
    uint64_t ticks;
    double seconds = af_govern_now();
    if (!busy_ticks(read_text(probe, "/proc/stat"), &ticks))
        return;
    if (before->seconds > 0 && seconds > before->seconds && ticks >= before->busy_ticks)
        headroom->others_cores = (double)(ticks - before->busy_ticks) /
                                 (double)sysconf(_SC_CLK_TCK) / (seconds - before->seconds);
    before->busy_ticks = ticks;
    before->seconds = seconds;
}

void af_headroom_read(const char *root, const char *group, struct af_headroom_previous *before,
                      struct af_headroom *headroom_out)
{
    struct af_arena arena;
    af_arena_init(&arena);
    const struct af_probe_options options = {.root = root};
    const struct af_probe probe = {.arena = &arena, .options = &options};
    struct af_headroom headroom = {.left_bytes = AF_HEADROOM_UNLIMITED,
                                   .limit_bytes = AF_HEADROOM_UNLIMITED};
    read_system(&probe, &headroom);
    unsigned files = read_groups(&probe, group, &headroom);
    if (files < before->files) {
        headroom.left_bytes = 0;
        headroom.limit_bytes = before->limit_bytes;
        headroom.waits = true;
    } else {
        before->files = files;
        before->limit_bytes = headroom.limit_bytes;
    }
    headroom.stalled = pressure(read_text(&probe, "/proc/pressure/memory"));
    read_others(&probe, before, &headroom);
    af_arena_release(&arena);
    *headroom_out = headroom;
}
