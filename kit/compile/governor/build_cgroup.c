/*
 * build_cgroup.c: a control group or systemd scope for the build, so that if memory runs out,
 * only processes of this build are killed, and so that the whole build can be ended at once.
 *
 * First choice is a control group below our own, for the compilers. It needs no root where the
 * group is ours (containers, delegated units); version 2 limits memory only where the memory
 * controller is delegated to us. Second choice, for sessions of a desktop or of ssh, whose
 * groups belong to systemd, is a scope: this program starts again as "systemd-run --scope ...
 * ANYFLASH BUILD ARGUMENTS". Root asks the system manager, others the user manager. Sources:
 * the kernel's cgroup-v1/memory.rst and cgroup-v2.rst; systemd-run(1),
 * systemd.resource-control(5), systemd.scope(5).
 */
#include "kit/compile/governor/jobs.h"

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
#include "kit/probe/probes.h"
#include "kit/system/file.h"
#include "kit/system/process.h"

#define NAME "anyflash-build-"
#define PATH_BYTES (sizeof((struct af_govern_build_cgroup *)0)->folder + 64)
#define PROCESSES_BYTES 65536
#define REMOVE_ATTEMPTS 100
#define GIB 1073741824.0
#define TRIAL_MS 5000
#define PREFIX_MAX 12
#define PROBLEM_BYTES 160
#define NOT_FOUND 127
#define ARGUMENTS_BYTES (1u << 20)

/* Set once systemd was asked: what kind of scope this is, or why there is none. */
#define SCOPE_VARIABLE "ANYFLASH_SCOPE"
#define SCOPE_LIMITED "limited"
#define SCOPE_UNLIMITED "unlimited"

static void path_of(const struct af_govern_build_cgroup *cgroup, const char *file,
                    char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", cgroup->folder, file);
}

bool af_govern_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

static bool write_file(const struct af_govern_build_cgroup *cgroup, const char *file,
                       const char *text)
{
    char path[PATH_BYTES];
    path_of(cgroup, file, path);
    return af_govern_write(path, text);
}

void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] != '\0')
        write_file(cgroup, "cgroup.procs", "0");
}

/* Kills the processes that cgroup.procs lists. */
static void kill_listed(const struct af_govern_build_cgroup *cgroup)
{
    char path[PATH_BYTES];
    struct af_span list;
    struct af_span line;
    struct af_arena arena;
    af_arena_init(&arena);
    path_of(cgroup, "cgroup.procs", path);
    if (af_file_read(&arena, path, PROCESSES_BYTES, &list, NULL) == ANYFLASH_OK) {
        while (af_text_line(&list, &line)) {
            long pid = strtol(line.data, NULL, 10);
            if (pid > 1)
                kill((pid_t)pid, SIGKILL);
        }
    }
    af_arena_release(&arena);
}

void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] == '\0')
        return;
    write_file(cgroup, "cgroup.kill", "1");
    for (int i = 0; i < REMOVE_ATTEMPTS && rmdir(cgroup->folder) != 0 && errno == EBUSY; i++) {
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
    const char *tried = getenv(SCOPE_VARIABLE);
    *cgroup_out = (struct af_govern_build_cgroup){.scope = af_equal(tried, SCOPE_LIMITED) ||
                                                           af_equal(tried, SCOPE_UNLIMITED),
                                                  .limits = af_equal(tried, SCOPE_LIMITED)};
    if (cgroup_out->scope)
        return;
    if (tried != NULL)
        snprintf(cgroup_out->scope_reason, sizeof cgroup_out->scope_reason, "%s", tried);
    af_arena_init(&arena);
    const struct af_probe probe = {.arena = &arena, .options = &options};
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

struct scope {
    bool limits;         /* memory is really limited in it */
    const char *problem; /* systemd-run's error message; NULL: it is not installed */
};

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
                            struct scope *out)
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

/* The arguments of this process; NULL if they cannot be read. */
static const char **own_arguments(struct af_arena *arena, size_t room, size_t *count_out)
{
    struct af_span text;
    size_t count = 0;
    if (af_file_read(arena, "/proc/self/cmdline", ARGUMENTS_BYTES, &text, NULL) != ANYFLASH_OK)
        return NULL;
    const char **words = af_arena_array(arena, text.len + room + 1, sizeof *words);
    for (const char *at = text.data; words != NULL && at < text.data + text.len;
         at += strlen(at) + 1)
        words[room + count++] = at;
    *count_out = count;
    return words;
}

/* Becomes "systemd-run ... THIS PROGRAM ITS ARGUMENTS"; returns if that is not possible. */
static void start_again(struct af_arena *arena, uint64_t limit_bytes, enum level level)
{
    const char *prefix[PREFIX_MAX];
    size_t own = 0;
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld", (long)getpid());
    const char *program = af_file_link_text(arena, "/proc/self/exe");
    size_t count = scope_prefix(arena, limit_bytes, unit, level, prefix);
    const char **words = own_arguments(arena, PREFIX_MAX, &own);
    if (words == NULL || own == 0 || program == NULL || arena->failed)
        return;
    words += PREFIX_MAX - count;
    memcpy(words, prefix, count * sizeof *words);
    words[count] = program;
    words[count + own] = NULL;
    execvp(words[0], (char *const *)(uintptr_t)words);
}

/* Whether a control group that does what is wanted can be made without systemd. */
static bool can_make_group(const char *root, uint64_t limit_bytes)
{
    struct af_govern_build_cgroup cgroup;
    af_govern_build_cgroup_make(root, limit_bytes, &cgroup);
    bool good = cgroup.folder[0] != '\0' && (cgroup.limits || limit_bytes == 0);
    af_govern_build_cgroup_remove(&cgroup);
    return good;
}

void af_govern_enter_scope(uint64_t memory_bytes, const char *root)
{
    struct af_arena arena;
    struct scope scope = {.problem = NULL};
    int level = LITERAL;
    if (getenv(SCOPE_VARIABLE) != NULL || can_make_group(root, memory_bytes) ||
        (geteuid() != 0 && getenv("XDG_RUNTIME_DIR") == NULL &&
         getenv("DBUS_SESSION_BUS_ADDRESS") == NULL))
        return;
    af_arena_init(&arena);
    enum trial trial = try_scope(&arena, memory_bytes, (enum level)level, &scope);
    while (trial == REFUSED && level > PLAIN)
        trial = try_scope(&arena, memory_bytes, (enum level)-- level, &scope);
    if (trial == WORKS) {
        setenv(SCOPE_VARIABLE, scope.limits ? SCOPE_LIMITED : SCOPE_UNLIMITED, 1);
        start_again(&arena, memory_bytes, (enum level)level);
        unsetenv(SCOPE_VARIABLE);
    } else if (scope.problem != NULL) {
        setenv(SCOPE_VARIABLE, scope.problem, 1);
    }
    af_arena_release(&arena);
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
