/*
 * build_cgroup.c: groups by their files. Sources: the kernel's documentation of
 * cgroup v1 (memory.rst) and v2 (cgroup-v2.rst, cgroup.kill since Linux 5.14).
 */
#include "kit/build/governor/build_cgroup.h"

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

#include "kit/build/governor/systemd_scope.h"
#include "kit/probe/cgroup.h"
#include "kit/system/file.h"

#define PATH_BYTES (AF_GOVERN_BUILD_CGROUP_BYTES + 64)
#define PROCESSES_BYTES 65536
#define ROUNDS 100
#define GIB 1073741824.0
#define NAME "anyflash-build-"

static void path_of(const struct af_govern_build_cgroup *cgroup, const char *file,
                    char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", cgroup->folder, file);
}

static bool write_word(const struct af_govern_build_cgroup *cgroup, const char *file,
                       const char *word)
{
    char path[PATH_BYTES];
    path_of(cgroup, file, path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = write(fd, word, strlen(word)) == (ssize_t)strlen(word);
    close(fd);
    return good;
}

void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] != '\0')
        write_word(cgroup, "cgroup.procs", "0");
}

/* Kills those whose numbers stand in cgroup.procs; false when there was none. */
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
    if (cgroup->folder[0] != '\0' && !write_word(cgroup, "cgroup.kill", "1"))
        kill_listed(cgroup);
}

void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup)
{
    if (cgroup->folder[0] == '\0')
        return;
    af_govern_build_cgroup_kill(cgroup);
    for (int i = 0;
         i < ROUNDS && !cgroup->scope && rmdir(cgroup->folder) != 0 && errno == EBUSY; i++) {
        kill_listed(cgroup);
        poll(NULL, 0, 20); /* the dead leave it when they are reaped */
    }
    cgroup->folder[0] = '\0';
}

/* Removes groups of builds that were killed: what is in them, too. */
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
        cgroup->limits = write_word(cgroup, "memory.max", number);
    else if (limit_bytes > 0)
        cgroup->limits = write_word(cgroup, "memory.limit_in_bytes", number);
    if (cgroup->limits)
        write_word(cgroup, "memory.swap.max", "0"); /* where there is one */
}

void af_govern_build_cgroup_make(const char *root, uint64_t limit_bytes,
                                 struct af_govern_build_cgroup *confine_out)
{
    struct af_arena arena;
    struct af_cgroup cgroup;
    const struct af_probe_options options = {.root = root};
    af_arena_init(&arena);
    const struct af_probe probe = {.arena = &arena, .options = &options};
    *confine_out = (struct af_govern_build_cgroup){.limits = false};
    if (af_cgroup_find(&probe, "memory", &cgroup)) {
        remove_old(cgroup.folder);
        make_in(&cgroup, limit_bytes, confine_out);
    }
    af_arena_release(&arena);
}

void af_govern_build_cgroup_use_scope(struct af_govern_build_cgroup *cgroup,
                                      const struct af_systemd_scope *words)
{
    if (words->problem != NULL)
        snprintf(cgroup->scope_reason, sizeof cgroup->scope_reason, "%s", words->problem);
    if (words->argv == NULL || (cgroup->folder[0] != '\0' && !words->limits))
        return;
    af_govern_build_cgroup_remove(cgroup);
    cgroup->scope = true;
    cgroup->limits = words->limits;
}

void af_govern_build_cgroup_text(const struct af_govern_build_cgroup *cgroup,
                                 uint64_t limit_bytes, char *text, size_t text_bytes)
{
    const char *what = cgroup->scope ? "a systemd scope" : "a control group of its own";
    const char *refused = cgroup->scope ? "" : cgroup->scope_reason;
    const char *by = refused[0] == '\0' ? "" : "; systemd-run: ";
    if (!cgroup->scope && cgroup->folder[0] == '\0')
        snprintf(text, text_bytes, "the build has no control group of its own (%s%s%s)",
                 cgroup->reason == 0 ? "this system has none" : strerror(cgroup->reason), by,
                 refused);
    else if (limit_bytes > 0 && cgroup->limits)
        snprintf(text, text_bytes, "the build runs in %s, limited to %.1f GiB", what,
                 (double)limit_bytes / GIB);
    else
        snprintf(text, text_bytes, "the build runs in %s, which does not limit its memory%s%s",
                 what, by, refused);
}
