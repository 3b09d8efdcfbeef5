/*
 * compiler_process.c: a running compiler: its process, its output and its object.
 *
 * A compiler is the leader of a process group. A variable of its environment marks
 * everything that it starts (process_tree.h). An object gets its name when its
 * compiler has succeeded and its bytes are on the disk, so one with its name is
 * complete, whatever happened to the build.
 */
#include "kit/compile/governor/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/compile/governor/process_tree.h"

#define PATH_BYTES 4096
#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_IDLE (3 << 13)
#define NICE 10
#define OUTPUT_RESERVE 65536
#define OOM_SCORE "500" /* the kernel kills compilers before the user's programs */

static void path_of(const struct af_job *job, const char *end, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s%s", job->call->object, end);
}

/* Writes a small file of /proc about this process. */
static void write_own(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, text, strlen(text));
    (void)ignored;
    close(fd);
}

/* Becomes the compiler. */
static void become(const struct af_governor *governor, const struct af_job *job, pid_t parent)
{
    char mark[AF_TREE_MARK_BYTES];
    const char *const *variable = governor->options->environment;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    af_govern_build_cgroup_enter(&governor->cgroup);
    write_own("/proc/self/oom_score_adj", OOM_SCORE);
    setpriority(PRIO_PROCESS, 0, NICE);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
    for (; variable != NULL && *variable != NULL; variable++)
        putenv((char *)(uintptr_t)*variable);
    putenv(af_tree_mark(mark, parent, (size_t)(job - governor->jobs)));
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
    char mark[AF_TREE_MARK_BYTES];
    af_tree_kill_marked(af_tree_mark(mark, getpid(), (size_t)(job - governor->jobs)));
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
