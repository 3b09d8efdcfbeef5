/*
 * process.c: children with a time limit.
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

struct program_call {
    const char *const *argv;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In the child: silence, own group, then the body. Never returns. */
static void child_run(int parent, int out_fd, int (*body)(int out_fd, void *context),
                      void *context)
{
    setpgid(0, 0);
    /* An interrupted parent collects nothing; it may be gone already. */
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
        return af_fail(err, ANYFLASH_E_IO, "cannot make a pipe: %s", strerror(errno));
    int parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        int number = errno;
        close(ends[0]);
        close(ends[1]);
        return af_fail(err, ANYFLASH_E_IO, "cannot start a child: %s", strerror(number));
    }
    if (pid == 0) {
        close(ends[0]);
        child_run(parent, ends[1], body, context);
    }
    setpgid(pid, pid); /* both sides set it, so that neither can be too early */
    close(ends[1]);
    *child_out = (struct af_child){.pid = pid, .out_fd = ends[0]};
    return ANYFLASH_OK;
}

static int program_body(int out_fd, void *context)
{
    struct program_call *call = context;
    dup2(out_fd, STDOUT_FILENO);
    execvp(call->argv[0], (char *const *)(uintptr_t)call->argv);
    return 127;
}

enum anyflash_status af_child_start_program(const char *const *argv, struct af_child *child_out,
                                            struct anyflash_error *err)
{
    struct program_call call = {argv};
    return af_child_start_fork(program_body, &call, child_out, err);
}

/* Reads until the end, the deadline or a full buffer; true at the end. */
static bool read_answer(int fd, int64_t deadline_ms, char *buffer, size_t *len)
{
    for (;;) {
        int64_t left_ms = deadline_ms - now_ms();
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int ready = poll(&waiting, 1, left_ms < 0 ? 0 : (int)left_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        ssize_t got = read(fd, buffer + *len, AF_CHILD_OUTPUT_BYTES - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        *len += (size_t)got;
        if (*len == AF_CHILD_OUTPUT_BYTES)
            return false;
    }
}

/* Reaps within the deadline; false when it still runs then. */
static bool reap(pid_t pid, int64_t deadline_ms, int *wait_status)
{
    for (;;) {
        pid_t got = waitpid(pid, wait_status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (now_ms() >= deadline_ms)
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
    int64_t deadline_ms = now_ms() + limit_ms;
    bool in_time = read_answer(child->out_fd, deadline_ms, buffer, &len) &&
                   reap(child->pid, deadline_ms, &wait_status);
    kill(-child->pid, SIGKILL); /* whatever the child left behind, or itself */
    if (!in_time) {
        while (waitpid(child->pid, &wait_status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(child->out_fd);
    *child = (struct af_child){0};
    char *copy = af_arena_text_n(arena, buffer, len);
    *output_out = (struct af_span){copy, copy != NULL ? len : 0};
    if (len == AF_CHILD_OUTPUT_BYTES)
        return af_fail(err, ANYFLASH_E_LIMIT, "said more than %u bytes", AF_CHILD_OUTPUT_BYTES);
    if (!in_time)
        return af_fail(err, ANYFLASH_E_TIMEOUT, "no answer within %d ms", limit_ms);
    if (!WIFEXITED(wait_status))
        return af_fail(err, ANYFLASH_E_IO, "ended by signal %d", WTERMSIG(wait_status));
    if (copy == NULL)
        return af_fail_memory(err);
    *exit_code_out = WEXITSTATUS(wait_status);
    return ANYFLASH_OK;
}
