/*
 * process.c: children with a time limit and a short answer. Programs that are asked again and
 * again are in process_dialog.c, long-running ones in process_program.c.
 */
#include "kit/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/system/progress.h"

#define POLL_MS 100 /* how often it is looked at whether the user interrupts */

struct program_call {
    const char *const *argv;
    const char *folder;
};

int64_t af_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Runs in the child: silences it, makes its process group, calls the body. Never returns. */
static void child_run(int parent, int out_fd, int (*body)(int out_fd, void *context),
                      void *context)
{
    setpgid(0, 0);
    /* Die with the parent, because nobody would reap this child. The parent may already be
       gone. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0) {
        dup2(null_fd, STDIN_FILENO);
        dup2(null_fd, STDERR_FILENO);
    }
    _exit(body(out_fd, context));
}

enum anyflash_status af_child_start_fork(int (*body)(int out_fd, void *context), void *context,
                                         struct af_child *child_out, struct anyflash_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot create a pipe: %s", strerror(errno));
    int parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        int number = errno;
        close(ends[0]);
        close(ends[1]);
        return af_fail(err, ANYFLASH_E_IO, "cannot start a child process: %s",
                       strerror(number));
    }
    if (pid == 0) {
        close(ends[0]);
        child_run(parent, ends[1], body, context);
    }
    setpgid(pid, pid); /* both sides set it, because either of them may run first */
    close(ends[1]);
    *child_out = (struct af_child){.pid = pid, .out_fd = ends[0]};
    return ANYFLASH_OK;
}

static int program_body(int out_fd, void *context)
{
    struct program_call *call = context;
    dup2(out_fd, STDOUT_FILENO);
    if (call->folder != NULL && chdir(call->folder) != 0)
        return 127;
    execvp(call->argv[0], (char *const *)(uintptr_t)call->argv);
    return 127;
}

enum anyflash_status af_child_start_program(const char *const *argv, const char *folder,
                                            struct af_child *child_out,
                                            struct anyflash_error *err)
{
    struct program_call call = {argv, folder};
    return af_child_start_fork(program_body, &call, child_out, err);
}

int64_t af_child_read(int out_fd, int64_t deadline_ms, char *buffer, size_t size_bytes)
{
    while (!af_interrupted()) {
        int64_t left_ms = deadline_ms - af_clock_ms();
        struct pollfd waiting = {.fd = out_fd, .events = POLLIN};
        int64_t wait_ms = left_ms < POLL_MS ? left_ms : POLL_MS;
        int ready = poll(&waiting, 1, wait_ms < 0 ? 0 : (int)wait_ms);
        if ((ready < 0 && errno == EINTR) || (ready == 0 && left_ms > POLL_MS))
            continue;
        if (ready <= 0)
            return -1;
        ssize_t got = read(out_fd, buffer, size_bytes);
        if (got < 0 && errno == EINTR)
            continue;
        return got > 0 ? got : 0;
    }
    return -1;
}

/* Reads until end of file, the deadline or a full buffer; true at end of file. */
static bool read_answer(int fd, int64_t deadline_ms, char *buffer, size_t *len)
{
    while (*len < AF_CHILD_OUTPUT_BYTES) {
        int64_t got =
            af_child_read(fd, deadline_ms, buffer + *len, AF_CHILD_OUTPUT_BYTES - *len);
        if (got <= 0)
            return got == 0;
        *len += (size_t)got;
    }
    return false;
}

/* Waits for the child until the deadline; false when it still runs then. */
static bool reap(pid_t pid, int64_t deadline_ms, int *wait_status)
{
    for (;;) {
        pid_t got = waitpid(pid, wait_status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (af_clock_ms() >= deadline_ms)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

enum anyflash_status af_child_collect(struct af_child *child, int limit_ms,
                                      struct af_arena *arena, struct af_span *output_out,
                                      int *exit_code_out, struct anyflash_error *err)
{
    char buffer[AF_CHILD_OUTPUT_BYTES];
    size_t len = 0;
    int wait_status = 0;
    int64_t deadline_ms = af_clock_ms() + limit_ms;
    bool in_time = read_answer(child->out_fd, deadline_ms, buffer, &len) &&
                   reap(child->pid, deadline_ms, &wait_status);
    kill(-child->pid, SIGKILL); /* the child, if it still runs, and all that it started */
    if (!in_time) {
        while (waitpid(child->pid, &wait_status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(child->out_fd);
    *child = (struct af_child){0};
    *output_out = (struct af_span){af_arena_text_n(arena, buffer, len), len};
    if (len == AF_CHILD_OUTPUT_BYTES)
        return af_fail(err, ANYFLASH_E_LIMIT, "the program printed more than %u bytes",
                       AF_CHILD_OUTPUT_BYTES);
    if (!in_time && af_interrupted())
        return af_fail(err, ANYFLASH_E_TIMEOUT, "interrupted");
    if (!in_time)
        return af_fail(err, ANYFLASH_E_TIMEOUT, "no answer within %d ms", limit_ms);
    if (!WIFEXITED(wait_status))
        return af_fail(err, ANYFLASH_E_IO, "killed by signal %d", WTERMSIG(wait_status));
    *exit_code_out = WEXITSTATUS(wait_status);
    return ANYFLASH_OK;
}
