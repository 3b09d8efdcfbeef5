/*
 * compiler_process.c: a running compiler: its processes, their memory, its output and its
 * object. Source: proc(5), /proc/PID/stat, statm and environ.
 *
 * A compiler and everything that it starts are one process group. A variable of its
 * environment marks them, also those that leave the group. An object gets its name when its
 * compiler has succeeded and its bytes are on the disk, so one with its name is
 * complete, whatever happened to the build.
 */
#include "kit/compile/governor/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_IDLE (3 << 13)
#define NICE 10
#define OUTPUT_RESERVE 65536
#define OOM_SCORE "500" /* the kernel kills compilers before the user's programs */
#define STAT_BYTES 1024
#define ENVIRONMENT_BYTES (1 << 20)
#define KILL_ATTEMPTS 500
#define KILL_PAUSE_MS 10
#define NAME_BYTES 16 /* TASK_COMM_LEN */
#define MARK_BYTES 64

/* The start of the marks of a governor: "ANYFLASH_JOB=GOVERNOR.NUMBER." */
#define MARK "ANYFLASH_JOB=%ld."

struct process {
    pid_t group;
    char name[NAME_BYTES];
    double user_seconds, system_seconds;
};

/* Reads a file of /proc/PID into `text`, which a zero ends; 0 if the process is gone. */
static size_t read_file(const char *pid, const char *name, char *text, size_t text_bytes)
{
    char path[64];
    size_t len = 0;
    ssize_t got = 0;
    snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len + 1 < text_bytes &&
           (got = read(fd, text + len, text_bytes - 1 - len)) > 0)
        len += (size_t)got;
    if (fd >= 0)
        close(fd);
    text[len] = '\0';
    return len;
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
    if (read_file(pid, "stat", text, sizeof text) == 0)
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
    if (read_file(pid, "statm", text, sizeof text) == 0 ||
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

static bool is_marked(const char *pid, const char *mark)
{
    static char text[ENVIRONMENT_BYTES];
    size_t len = read_file(pid, "environ", text, sizeof text);
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

/* Kills every process whose mark starts like this, until there is none. */
static void kill_all_marked(const char *mark)
{
    for (int i = 0; i < KILL_ATTEMPTS && kill_marked(mark) > 0; i++)
        poll(NULL, 0, KILL_PAUSE_MS); /* they may have started others meanwhile */
}

void af_tree_kill_all(pid_t governor)
{
    char mark[MARK_BYTES];
    snprintf(mark, sizeof mark, MARK, (long)governor);
    kill_all_marked(mark);
}

static char *mark_of(const struct af_governor *governor, const struct af_job *job, pid_t parent,
                     char mark[MARK_BYTES])
{
    snprintf(mark, MARK_BYTES, MARK "%zu.", (long)parent, (size_t)(job - governor->jobs));
    return mark;
}

static void path_of(const struct af_job *job, const char *end, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s%s", job->call->object, end);
}

/* Becomes the compiler. */
static void become(const struct af_governor *governor, const struct af_job *job, pid_t parent)
{
    char mark[MARK_BYTES];
    const char *const *variable = governor->options->environment;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    af_govern_build_cgroup_enter(&governor->cgroup);
    af_govern_write("/proc/self/oom_score_adj", OOM_SCORE);
    setpriority(PRIO_PROCESS, 0, NICE);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
    for (; variable != NULL && *variable != NULL; variable++)
        putenv((char *)(uintptr_t)*variable);
    putenv(mark_of(governor, job, parent, mark));
    sigprocmask(SIG_SETMASK, &governor->before, NULL);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(job->output, STDOUT_FILENO) < 0 ||
        dup2(job->output, STDERR_FILENO) < 0 || getppid() != parent)
        _exit(126);
    execvp(job->call->argv[0], (char *const *)(uintptr_t)job->call->argv);
    dprintf(STDERR_FILENO, "error: cannot start '%s': %s\n", job->call->argv[0],
            strerror(errno));
    _exit(127);
}

/* Reserves space for what it prints, so that it can say that the disk is full. */
static bool reserve(int output)
{
    return fallocate(output, FALLOC_FL_KEEP_SIZE, 0, OUTPUT_RESERVE) == 0 || errno != ENOSPC;
}

bool af_compiler_start(const struct af_governor *governor, struct af_job *job)
{
    char path[PATH_BYTES];
    pid_t parent = getpid();
    path_of(job, AF_GOVERN_OUTPUT, path);
    job->output = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    bool good = job->output >= 0 && reserve(job->output);
    job->group = good ? fork() : -1;
    if (job->group == 0)
        become(governor, job, parent);
    if (job->group > 0) {
        setpgid(job->group, job->group); /* the child does the same; one of them is first */
        return true;
    }
    int reason = errno;
    if (job->output >= 0)
        close(job->output);
    errno = reason;
    return false;
}

void af_compiler_end(const struct af_governor *governor, const struct af_job *job)
{
    char mark[MARK_BYTES];
    kill_all_marked(mark_of(governor, job, getpid(), mark));
}

/* Copies the next part of a file that starts at *from; false at its end or on failure. */
static bool copy_some(int to, int from_fd, off_t *from)
{
    char part[PATH_BYTES];
    ssize_t got = pread(from_fd, part, sizeof part, *from);
    *from += got > 0 ? got : 0;
    return got > 0 && write(to, part, (size_t)got) == got;
}

void af_compiler_keep_output(const struct af_governor *governor, struct af_job *job,
                             bool failed)
{
    char path[PATH_BYTES];
    off_t from = 0;
    path_of(job, AF_GOVERN_OUTPUT, path);
    dprintf(governor->options->output, "anyflash: output of %s\n", job->prediction.file);
    while (copy_some(governor->options->output, job->output, &from))
        continue;
    if (ftruncate(job->output, from) != 0)
        errno = 0; /* the reserve stays until the next build */
    close(job->output);
    if (!failed)
        unlink(path);
}

bool af_compiler_keep_object(const struct af_job *job)
{
    char path[PATH_BYTES];
    path_of(job, AF_GOVERN_NEW, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool kept = fd >= 0 && fsync(fd) == 0 && rename(path, job->call->object) == 0;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return kept;
}
