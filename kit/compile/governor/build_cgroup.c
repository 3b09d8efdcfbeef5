/*
 * build_cgroup.c: makes control groups through their files, and scopes through
 * systemd-run. Sources: the kernel's documentation of cgroup v1 (memory.rst)
 * and v2 (cgroup-v2.rst; cgroup.kill since Linux 5.14); systemd-run(1),
 * systemd.resource-control(5), systemd.scope(5).
 */
#include "kit/compile/governor/build_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/probe/cgroup.h"
#include "kit/system/file.h"
#include "kit/system/process.h"

#define NAME "anyflash-build-"
#define PATH_BYTES (AF_GOVERN_BUILD_CGROUP_BYTES + 64)
#define PROCESSES_BYTES 65536
#define REMOVE_ATTEMPTS 100
#define GIB 1073741824.0
#define TRIAL_MS 5000
#define PREFIX_MAX 12
#define CGROUP_FILE_BYTES 4096u
#define PROBLEM_BYTES 160
#define NOT_FOUND 127

static void path_of(const struct af_govern_build_cgroup *cgroup, const char *file,
                    char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", cgroup->folder, file);
}

static bool write_file(const struct af_govern_build_cgroup *cgroup, const char *file,
                       const char *text)
{
    char path[PATH_BYTES];
    path_of(cgroup, file, path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] != '\0')
        write_file(cgroup, "cgroup.procs", "0");
}

/* Kills the processes that cgroup.procs lists; false if it lists none. */
static bool kill_listed(const struct af_govern_build_cgroup *cgroup)
{
    char path[PATH_BYTES];
    struct af_span list;
    struct af_span line;
    struct af_arena arena;
    bool any = false;
    af_arena_init(&arena);
    path_of(cgroup, "cgroup.procs", path);
    if (af_file_read(&arena, path, PROCESSES_BYTES, &list, NULL) == ANYFLASH_OK) {
        while (af_text_line(&list, &line)) {
            long pid = strtol(line.data, NULL, 10);
            any = any || pid > 1;
            if (pid > 1)
                kill((pid_t)pid, SIGKILL);
        }
    }
    af_arena_release(&arena);
    return any;
}

void af_govern_build_cgroup_kill(const struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] != '\0' && !write_file(cgroup, "cgroup.kill", "1"))
        kill_listed(cgroup);
}

void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] == '\0')
        return;
    af_govern_build_cgroup_kill(cgroup);
    for (int i = 0;
         i < REMOVE_ATTEMPTS && !cgroup->scope && rmdir(cgroup->folder) != 0 && errno == EBUSY;
         i++) {
        kill_listed(cgroup);
        poll(NULL, 0, 20); /* killed processes leave the group when they are reaped */
    }
    cgroup->folder[0] = '\0';
}

/* Removes the groups of builds that were killed, with the processes in them. */
static void remove_old(const char *parent)
{
    DIR *folder = opendir(parent);
    struct dirent *entry;
    long pid;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct af_govern_build_cgroup old = {.reason = 0};
        if (sscanf(entry->d_name, NAME "%ld", &pid) != 1 || pid < 2 ||
            kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        int len = snprintf(old.folder, sizeof old.folder, "%s/%s", parent, entry->d_name);
        if (len > 0 && (size_t)len < sizeof old.folder)
            af_govern_build_cgroup_remove(&old);
    }
    if (folder != NULL)
        closedir(folder);
}

static void make_in(const struct af_cgroup *parent, uint64_t limit_bytes,
                    struct af_govern_build_cgroup *cgroup)
{
    char number[32];
    int len = snprintf(cgroup->folder, sizeof cgroup->folder, "%s/" NAME "%ld", parent->folder,
                       (long)getpid());
    if (len < 0 || (size_t)len >= sizeof cgroup->folder || mkdir(cgroup->folder, 0755) != 0) {
        cgroup->reason = errno;
        cgroup->folder[0] = '\0';
        return;
    }
    snprintf(number, sizeof number, "%" PRIu64, limit_bytes);
    if (limit_bytes > 0 && parent->v2)
        cgroup->limits = write_file(cgroup, "memory.max", number);
    else if (limit_bytes > 0)
        cgroup->limits = write_file(cgroup, "memory.limit_in_bytes", number);
    if (cgroup->limits)
        write_file(cgroup, "memory.swap.max", "0"); /* fails in version 1, harmlessly */
}

void af_govern_build_cgroup_make(const char *root, uint64_t limit_bytes,
                                 struct af_govern_build_cgroup *cgroup_out)
{
    struct af_arena arena;
    struct af_cgroup cgroup;
    const struct af_probe_options options = {.root = root};
    af_arena_init(&arena);
    const struct af_probe probe = {.arena = &arena, .options = &options};
    *cgroup_out = (struct af_govern_build_cgroup){.limits = false};
    if (af_cgroup_find(&probe, "memory", &cgroup)) {
        remove_old(cgroup.folder);
        make_in(&cgroup, limit_bytes, cgroup_out);
    }
    af_arena_release(&arena);
}

/* Options by systemd version: older versions get fewer. All levels need 236 (--collect). */
enum level { PLAIN, KILLS_ONE, LITERAL };

/*
 * Result of trying a scope. USELESS: systemd-run is missing or hangs, so fewer
 * options would not help.
 */
enum trial { WORKS, REFUSED, USELESS };

/* A shell line that prints the memory limit of its own group, version 2 or 1. */
#define PRINT_LIMIT                                                                            \
    "cat \"/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max\" "                  \
    "\"/sys/fs/cgroup/memory$(sed -n s/^.*:memory://p /proc/self/cgroup)"                      \
    "/memory.limit_in_bytes\" 2>/dev/null; :"

/* The arguments before the command. */
static size_t scope_prefix(struct af_arena *arena, uint64_t limit_bytes, const char *unit,
                           enum level level, const char *words[PREFIX_MAX])
{
    size_t count = 0;
    words[count++] = "systemd-run";
    if (geteuid() != 0)
        words[count++] = "--user";
    words[count++] = "--scope";
    words[count++] = "--quiet";
    words[count++] = "--collect";
    words[count++] = "--description=anyflash build";
    words[count++] = unit;
    if (limit_bytes > 0)
        words[count++] = af_arena_format(arena, "--property=MemoryMax=%" PRIu64, limit_bytes);
    if (limit_bytes > 0)
        words[count++] = "--property=MemorySwapMax=0";
    if (level >= KILLS_ONE) /* since 253; without it one killed compiler ends the whole scope */
        words[count++] = "--property=OOMPolicy=continue";
    if (level >= LITERAL) /* since 254, which would expand a "$" in the command */
        words[count++] = "--expand-environment=no";
    words[count++] = "--";
    return count;
}

/* Whether one of the lines is a number of at most the limit (0: none wanted). */
static bool is_limited(struct af_arena *arena, struct af_span lines, uint64_t limit_bytes)
{
    struct af_span line;
    while (limit_bytes > 0 && af_text_line(&lines, &line)) {
        int64_t number;
        const char *text = af_arena_text_n(arena, line.data, line.len);
        if (text != NULL && af_parse_i64(text, 0, INT64_MAX, &number) &&
            (uint64_t)number <= limit_bytes)
            return true;
    }
    return false;
}

/* The last line that is not empty, scrubbed; NULL if there is none. */
static const char *last_line(struct af_arena *arena, struct af_span lines)
{
    struct af_span line;
    struct af_span last = {NULL, 0};
    while (af_text_line(&lines, &line)) {
        if (af_text_trim(line).len > 0)
            last = af_text_trim(line);
    }
    const char *text = last.len == 0 ? NULL : af_arena_text_n(arena, last.data, last.len);
    return text == NULL ? NULL : af_text_scrub(arena, text, PROBLEM_BYTES);
}

static enum trial try_scope(struct af_arena *arena, uint64_t limit_bytes, enum level level,
                            struct af_systemd_scope *out)
{
    const char *words[PREFIX_MAX + 4];
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld-try", (long)getpid());
    struct af_program_result result;
    struct anyflash_error err;
    size_t count = scope_prefix(arena, limit_bytes, unit, level, words);
    words[count++] = "sh";
    words[count++] = "-c";
    words[count++] = PRINT_LIMIT;
    words[count] = NULL;
    const struct af_program program = {.argv = words, .limit_ms = TRIAL_MS};
    out->problem = NULL;
    if (arena->failed)
        return USELESS;
    if (af_program_run(&program, arena, &result, &err) != ANYFLASH_OK) {
        out->problem = af_arena_text(arena, err.message);
        return USELESS;
    }
    if (result.exit_code == NOT_FOUND)
        return USELESS;
    if (result.exit_code != 0) {
        out->problem = last_line(arena, result.errors);
        return REFUSED;
    }
    out->limits = is_limited(arena, result.output, limit_bytes);
    return WORKS;
}

void af_systemd_scope_find(struct af_arena *arena, const char *const *argv,
                           uint64_t limit_bytes, struct af_systemd_scope *out)
{
    size_t argc = 0;
    int level = LITERAL;
    *out = (struct af_systemd_scope){.argv = NULL};
    if (geteuid() != 0 && getenv("XDG_RUNTIME_DIR") == NULL &&
        getenv("DBUS_SESSION_BUS_ADDRESS") == NULL)
        return;
    enum trial trial = try_scope(arena, limit_bytes, (enum level)level, out);
    while (trial == REFUSED && level > PLAIN)
        trial = try_scope(arena, limit_bytes, (enum level)-- level, out);
    if (trial != WORKS)
        return;
    while (argv[argc] != NULL)
        argc++;
    const char **words = af_arena_alloc(arena, (argc + PREFIX_MAX + 1) * sizeof *words);
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld", (long)getpid());
    if (words == NULL || unit == NULL)
        return;
    size_t count = scope_prefix(arena, limit_bytes, unit, (enum level)level, words);
    memcpy(words + count, argv, (argc + 1) * sizeof *words);
    out->argv = arena->failed ? NULL : words;
}

/* `path` if it is one of our scopes, else NULL. */
static const char *scope_path(const char *path)
{
    const char *name = strrchr(path, '/');
    bool ours = name != NULL && af_starts_with(name, "/" NAME) && af_ends_with(name, ".scope");
    return ours ? path : NULL;
}

const char *af_systemd_scope_folder(struct af_arena *arena, const char *root, pid_t pid)
{
    struct af_span text;
    struct af_span line;
    const char *unified = NULL;
    const char *before = root == NULL ? "" : root;
    const char *file = af_arena_format(arena, "%s/proc/%ld/cgroup", before, (long)pid);
    if (file == NULL ||
        af_file_read(arena, file, CGROUP_FILE_BYTES, &text, NULL) != ANYFLASH_OK)
        return NULL;
    while (af_text_line(&text, &line)) {
        const char *group = af_arena_text_n(arena, line.data, line.len);
        const char *rest = group == NULL ? NULL : strchr(group, ':');
        if (rest != NULL &&
            af_starts_with(rest,
                           ":memory:")) { /* version 1; then version 2 does not limit memory */
            const char *path = scope_path(rest + strlen(":memory:"));
            return path == NULL
                       ? NULL
                       : af_arena_format(arena, "%s/sys/fs/cgroup/memory%s", before, path);
        }
        if (rest != NULL && af_starts_with(rest, "::"))
            unified = scope_path(rest + strlen("::"));
    }
    return unified == NULL ? NULL
                           : af_arena_format(arena, "%s/sys/fs/cgroup%s", before, unified);
}

void af_govern_build_cgroup_use_scope(struct af_govern_build_cgroup *cgroup,
                                      const struct af_systemd_scope *scope)
{
    if (scope->problem != NULL)
        snprintf(cgroup->scope_reason, sizeof cgroup->scope_reason, "%s", scope->problem);
    if (scope->argv == NULL || (cgroup->folder[0] != '\0' && !scope->limits))
        return;
    af_govern_build_cgroup_remove(cgroup);
    cgroup->scope = true;
    cgroup->limits = scope->limits;
}

void af_govern_build_cgroup_text(const struct af_govern_build_cgroup *cgroup,
                                 uint64_t limit_bytes, char *text, size_t text_bytes)
{
    const char *what = cgroup->scope ? "a systemd scope" : "a control group of its own";
    const char *refused = cgroup->scope ? "" : cgroup->scope_reason;
    const char *by = refused[0] == '\0' ? "" : "; systemd-run: ";
    if (!cgroup->scope && cgroup->folder[0] == '\0')
        snprintf(text, text_bytes, "the build has no control group of its own (%s%s%s)",
                 cgroup->reason == 0 ? "this system has no control groups"
                                     : strerror(cgroup->reason),
                 by, refused);
    else if (limit_bytes > 0 && cgroup->limits)
        snprintf(text, text_bytes, "the build runs in %s, limited to %.1f GiB", what,
                 (double)limit_bytes / GIB);
    else
        snprintf(text, text_bytes, "the build runs in %s, which does not limit its memory%s%s",
                 what, by, refused);
}
