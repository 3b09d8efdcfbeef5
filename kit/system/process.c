/*
 * process.c: children with a time limit and a short answer; one that is asked again and again,
 * whose stdin is a socket rather than a pipe, so that writing to a program that has ended is an
 * error and not a signal; then long-running programs whose output is read while they run.
 */
#include "kit/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/progress.h"

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

#define POLL_MS 100 /* how often it is looked at whether the user interrupts */

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

#define END_LIMIT_MS 1000

struct dialog_start {
    const char *const *argv;
    int in_fd;
};

static int become_program(int out_fd, void *context)
{
    const struct dialog_start *start = context;
    dup2(start->in_fd, STDIN_FILENO);
    dup2(out_fd, STDOUT_FILENO);
    execvp(start->argv[0], (char *const *)(uintptr_t)start->argv);
    return 127;
}

enum anyflash_status af_dialog_start(const char *const *argv, struct af_dialog *dialog_out,
                                     struct anyflash_error *err)
{
    int ends[2];
    *dialog_out = (struct af_dialog){0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot create a socket: %s", strerror(errno));
    struct dialog_start start = {argv, ends[1]};
    enum anyflash_status status =
        af_child_start_fork(become_program, &start, &dialog_out->child, err);
    close(ends[1]);
    if (status != ANYFLASH_OK)
        close(ends[0]);
    else
        dialog_out->in_fd = ends[0];
    return status;
}

bool af_dialog_is_open(const struct af_dialog *dialog)
{
    return dialog->child.pid != 0;
}

/* Waits for the end of a program that said too little, and fails with the reason. */
static enum anyflash_status fail_ended(struct af_dialog *dialog, struct af_arena *arena,
                                       struct anyflash_error *err)
{
    struct af_span output;
    int code = 0;
    close(dialog->in_fd);
    enum anyflash_status status =
        af_child_collect(&dialog->child, END_LIMIT_MS, arena, &output, &code, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_fail(err, code == 127 ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_IO, "exit code %d",
                   code);
}

void af_dialog_end(struct af_dialog *dialog)
{
    struct af_span output;
    struct af_arena arena;
    int code = 0;
    if (!af_dialog_is_open(dialog))
        return;
    close(dialog->in_fd);
    af_arena_init(&arena);
    af_child_collect(&dialog->child, 0, &arena, &output, &code, NULL);
    af_arena_release(&arena);
}

static bool send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/*
 * Reads until a newline; *len_out is the length without it. TIMEOUT, LIMIT, or IO at the end of
 * the output. A program says nothing after its newline until it is asked again.
 */
static enum anyflash_status read_line(int fd, int limit_ms, char *buffer, size_t *len_out,
                                      struct anyflash_error *err)
{
    const int64_t deadline_ms = af_clock_ms() + limit_ms;
    for (size_t len = 0; len < AF_CHILD_OUTPUT_BYTES;) {
        int64_t got = af_child_read(fd, deadline_ms, buffer + len, AF_CHILD_OUTPUT_BYTES - len);
        if (got < 0)
            return af_fail(err, ANYFLASH_E_TIMEOUT, "no answer within %d s", limit_ms / 1000);
        if (got == 0)
            return ANYFLASH_E_IO; /* the caller learns why it ended */
        len += (size_t)got;
        if (buffer[len - 1] == '\n') {
            *len_out = len - 1;
            return ANYFLASH_OK;
        }
    }
    return af_fail(err, ANYFLASH_E_LIMIT, "the program printed more than %u bytes",
                   AF_CHILD_OUTPUT_BYTES);
}

enum anyflash_status af_dialog_ask(struct af_dialog *dialog, struct af_arena *arena,
                                   const char *question, int limit_ms,
                                   struct af_span *answer_out, struct anyflash_error *err)
{
    char buffer[AF_CHILD_OUTPUT_BYTES];
    size_t len = 0;
    kill(-dialog->child.pid, SIGCONT);
    if (!send_all(dialog->in_fd, question, strlen(question)) ||
        !send_all(dialog->in_fd, "\n", 1))
        return fail_ended(dialog, arena, err);
    enum anyflash_status status = read_line(dialog->child.out_fd, limit_ms, buffer, &len, err);
    if (status == ANYFLASH_E_IO)
        return fail_ended(dialog, arena, err);
    if (status != ANYFLASH_OK) {
        af_dialog_end(dialog);
        return status;
    }
    kill(-dialog->child.pid, SIGSTOP);
    *answer_out = (struct af_span){af_arena_text_n(arena, buffer, len), len};
    return ANYFLASH_OK;
}

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
