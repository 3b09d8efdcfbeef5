/*
 * process_dialog.c: a program that is asked again and again. Its stdin is a socket rather than
 * a pipe, so that writing to a program that has ended is an error and not a signal.
 */
#include "kit/system/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

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
