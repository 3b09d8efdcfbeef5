/*
 * process_tree.c: process groups and marked processes, read from /proc. Source: proc(5),
 * /proc/PID/stat and /proc/PID/environ.
 */
#include "kit/compile/governor/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_BYTES 1024
#define ENVIRONMENT_BYTES (1 << 20)
#define KILL_ATTEMPTS 500
#define KILL_PAUSE_MS 10
#define NAME_BYTES 16 /* TASK_COMM_LEN */

struct process {
    pid_t group;
    char name[NAME_BYTES];
    double user_seconds, system_seconds;
};

/* Reads a small file of /proc/PID into `text`; false if the process is gone. */
static bool read_small(const char *pid, const char *name, char text[STAT_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, STAT_BYTES - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The command's name may contain anything; it ends with the last ')'. */
static bool read_process(const char *pid, struct process *process)
{
    char text[STAT_BYTES];
    long group = 0;
    unsigned long user = 0;
    unsigned long kernel = 0;
    long children_user = 0;
    long children_system = 0;
    if (!read_small(pid, "stat", text))
        return false;
    const char *rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest + 1, " %*c %*d %ld %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &group,
               &user, &kernel, &children_user, &children_system) != 5)
        return false;
    double tick = (double)sysconf(_SC_CLK_TCK);
    *process = (struct process){
        .group = (pid_t)group,
        .user_seconds = (double)(user + (unsigned long)children_user) / tick,
        .system_seconds = (double)(kernel + (unsigned long)children_system) / tick};
    const char *name = strchr(text, '(');
    if (name != NULL && name < rest)
        snprintf(process->name, sizeof process->name, "%.*s", (int)(rest - name - 1), name + 1);
    return true;
}

static uint64_t read_resident(const char *pid)
{
    char text[STAT_BYTES];
    unsigned long long resident = 0;
    unsigned long long shared = 0;
    if (!read_small(pid, "statm", text) ||
        sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || resident < shared)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct af_tree *find(struct af_tree *trees, size_t count, pid_t group)
{
    for (size_t i = 0; i < count; i++) {
        if (trees[i].group == group)
            return &trees[i];
    }
    return NULL;
}

void af_tree_sample(struct af_tree *trees, size_t count)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    for (size_t i = 0; i < count; i++)
        trees[i] = (struct af_tree){.group = trees[i].group, .tail = trees[i].tail};
    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL) {
        struct process process;
        struct af_tree *tree;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !read_process(entry->d_name, &process) ||
            (tree = find(trees, count, process.group)) == NULL)
            continue;
        tree->count++;
        tree->tail_runs |= tree->tail != NULL && strcmp(process.name, tree->tail) == 0;
        tree->resident_bytes += read_resident(entry->d_name);
        tree->user_seconds += process.user_seconds;
        tree->system_seconds += process.system_seconds;
    }
    closedir(folder);
}

void af_tree_kill(pid_t group)
{
    if (group > 1)
        kill(-group, SIGKILL);
}

char *af_tree_mark(char mark[AF_TREE_MARK_BYTES], pid_t governor, size_t number)
{
    snprintf(mark, AF_TREE_MARK_BYTES, "ANYFLASH_JOB=%ld.%zu.", (long)governor, number);
    return mark;
}

char *af_tree_mark_all(char mark[AF_TREE_MARK_BYTES], pid_t governor)
{
    snprintf(mark, AF_TREE_MARK_BYTES, "ANYFLASH_JOB=%ld.", (long)governor);
    return mark;
}

static bool is_marked(const char *pid, const char *mark)
{
    static char text[ENVIRONMENT_BYTES];
    char path[64];
    size_t len = 0;
    ssize_t got = 0;
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (len < sizeof text && (got = read(fd, text + len, sizeof text - len)) > 0)
        len += (size_t)got;
    close(fd);
    return memmem(text, len, mark, strlen(mark)) != NULL;
}

/* Kills the marked processes that exist now; returns their number. */
static size_t kill_marked(const char *mark)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !is_marked(entry->d_name, mark))
            continue;
        kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
        count++;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

void af_tree_kill_marked(const char *mark)
{
    for (int i = 0; i < KILL_ATTEMPTS && kill_marked(mark) > 0; i++)
        poll(NULL, 0, KILL_PAUSE_MS); /* they may have started others meanwhile */
}
