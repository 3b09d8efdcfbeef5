/*
 * process_program.c: long-running programs, whose output is read while they run, and commands
 * of the user's in the foreground.
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
#include <unistd.h>

#include "kit/base/text.h"

#define POLL_MS 100 /* how often it is looked at whether the program must end */
#define READ_BYTES 16384

struct stream {
    int fd; /* -1: end of file was reached */
    struct af_text text;
};

/* Whether `change` sets or removes the variable of `word` ("NAME=value"). */
static bool concerns(const char *change, const char *word)
{
    size_t name_len = strcspn(word, "=");
    size_t len = strcspn(change, "=*");
    return strncmp(change, word, len) == 0 && (change[len] == '*' || len == name_len);
}

static const char **make_environment(struct af_arena *arena, const char *const *changes)
{
    size_t count = 0;
    size_t change_count = 0;
    while (environ[count] != NULL)
        count++;
    while (changes != NULL && changes[change_count] != NULL)
        change_count++;
    const char **made = af_arena_array(arena, count + change_count + 1, sizeof *made);
    size_t made_count = 0;
    for (size_t i = 0; i < count; i++) {
        bool kept = true;
        for (size_t j = 0; j < change_count; j++)
            kept = kept && !concerns(changes[j], environ[i]);
        if (kept)
            made[made_count++] = environ[i];
    }
    for (size_t j = 0; j < change_count; j++)
        if (strchr(changes[j], '=') != NULL)
            made[made_count++] = changes[j];
    return made;
}

/* Runs in the child; never returns. */
static void become(const struct af_program *program, const char **environment, int parent,
                   const int *outputs)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    dup2(outputs[0], STDOUT_FILENO);
    dup2(outputs[1], STDERR_FILENO);
    if (program->folder != NULL && chdir(program->folder) != 0)
        _exit(126);
    execvpe(program->argv[0], (char *const *)(uintptr_t)program->argv,
            (char *const *)(uintptr_t)environment);
    _exit(127);
}

static enum anyflash_status start(const struct af_program *program, const char **environment,
                                  pid_t *pid_out, struct stream streams[2],
                                  struct anyflash_error *err)
{
    int out[2];
    int errors[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot create a pipe: %s", strerror(errno));
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return af_fail(err, ANYFLASH_E_IO, "cannot create a pipe: %s", strerror(errno));
    }
    int parent = getpid();
    pid_t pid = fork();
    int number = errno;
    if (pid == 0)
        become(program, environment, parent, (const int[]){out[1], errors[1]});
    close(out[1]);
    close(errors[1]);
    if (pid < 0) {
        close(out[0]);
        close(errors[0]);
        return af_fail(err, ANYFLASH_E_IO, "cannot start a child process: %s",
                       strerror(number));
    }
    setpgid(pid, pid);
    streams[0].fd = out[0];
    streams[1].fd = errors[0];
    *pid_out = pid;
    return ANYFLASH_OK;
}

/* Reads one piece of output; only the end of a long output is kept. */
static void take(struct stream *stream)
{
    char bytes[READ_BYTES];
    struct af_text *text = &stream->text;
    ssize_t got = read(stream->fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        close(stream->fd);
        stream->fd = -1;
        return;
    }
    if (text->len + (size_t)got > AF_PROGRAM_OUTPUT_BYTES) {
        size_t kept = AF_PROGRAM_OUTPUT_BYTES / 2;
        memmove(text->data, text->data + text->len - kept, kept + 1);
        text->len = kept;
    }
    af_text_add_n(text, bytes, (size_t)got);
}

/* Reads both streams. True when both ended, false when the program must be killed. */
static bool attend(const struct af_program *program, struct stream streams[2])
{
    int64_t deadline_ms = program->limit_ms > 0 ? af_clock_ms() + program->limit_ms : INT64_MAX;
    while (streams[0].fd >= 0 || streams[1].fd >= 0) {
        struct pollfd waiting[] = {{.fd = streams[0].fd, .events = POLLIN},
                                   {.fd = streams[1].fd, .events = POLLIN}};
        if (af_clock_ms() >= deadline_ms ||
            (program->go_on != NULL && !program->go_on(program->context)))
            return false;
        if (poll(waiting, 2, POLL_MS) <= 0)
            continue;
        for (size_t i = 0; i < 2; i++)
            if (streams[i].fd >= 0 && waiting[i].revents != 0)
                take(&streams[i]);
    }
    return true;
}

static struct af_span keep(struct stream *stream, struct af_arena *arena)
{
    size_t len = stream->text.len;
    const char *copy = af_arena_text_n(arena, af_text_get(&stream->text), len);
    if (stream->fd >= 0)
        close(stream->fd);
    af_text_release(&stream->text);
    return (struct af_span){copy, len};
}

enum anyflash_status af_program_run(const struct af_program *program, struct af_arena *arena,
                                    struct af_program_result *result_out,
                                    struct anyflash_error *err)
{
    struct stream streams[2] = {{.fd = -1}, {.fd = -1}};
    struct af_program_result result = {0};
    pid_t pid = 0;
    int wait_status = 0;
    const char **environment = make_environment(arena, program->environment);
    enum anyflash_status status = start(program, environment, &pid, streams, err);
    if (status != ANYFLASH_OK)
        return status;
    bool ended = attend(program, streams);
    if (!ended)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR)
        continue;
    kill(-pid, SIGKILL); /* kills all processes that it started */
    result.output = keep(&streams[0], arena);
    result.errors = keep(&streams[1], arena);
    if (!ended)
        return af_fail(err, ANYFLASH_E_TIMEOUT, "'%s' took too long or was interrupted",
                       program->argv[0]);
    if (!WIFEXITED(wait_status))
        return af_fail(err, ANYFLASH_E_IO, "'%s' was killed by signal %d", program->argv[0],
                       WTERMSIG(wait_status));
    result.exit_code = WEXITSTATUS(wait_status);
    *result_out = result;
    return ANYFLASH_OK;
}

/* Only the handler below reads it. It is global because signal handlers get no context. */
static volatile sig_atomic_t foreground_pid;

/* The terminal signals the whole group; what one process sent to us alone is passed on. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0 && foreground_pid > 0)
        kill((pid_t)foreground_pid, number);
}

static const int foreground_signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

/* Handles these signals, unless they are ignored; *before has what was set. */
static void take_signals(struct sigaction before[AF_COUNT(foreground_signals)])
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (size_t i = 0; i < AF_COUNT(foreground_signals); i++) {
        sigaction(foreground_signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(foreground_signals[i], &action, NULL);
    }
}

enum anyflash_status af_program_run_foreground(const struct af_program *program,
                                               struct af_arena *arena, int *exit_code_out,
                                               struct anyflash_error *err)
{
    struct sigaction before[AF_COUNT(foreground_signals)];
    sigset_t all;
    sigset_t mask;
    int wait_status = 0;
    const char **environment = make_environment(arena, program->environment);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask); /* until the handler knows the child */
    take_signals(before);
    int parent = getpid();
    pid_t pid = fork();
    int number = errno;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        sigprocmask(SIG_SETMASK, &mask, NULL); /* execve() resets the handlers */
        if (getppid() == parent)
            execvpe(program->argv[0], (char *const *)(uintptr_t)program->argv,
                    (char *const *)(uintptr_t)environment);
        _exit(127);
    }
    foreground_pid = pid;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    while (pid > 0 && waitpid(pid, &wait_status, 0) < 0 && errno == EINTR)
        continue;
    foreground_pid = 0;
    for (size_t i = 0; i < AF_COUNT(foreground_signals); i++)
        sigaction(foreground_signals[i], &before[i], NULL);
    if (pid < 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot start '%s': %s", program->argv[0],
                       strerror(number));
    *exit_code_out =
        WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    return ANYFLASH_OK;
}
