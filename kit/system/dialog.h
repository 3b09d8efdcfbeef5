/*
 * dialog.h: a program that stays alive and answers each line on its stdin with one line on its
 * stdout.
 */
#ifndef AF_KIT_SYSTEM_DIALOG_H
#define AF_KIT_SYSTEM_DIALOG_H

#include "kit/system/process.h"

/*
 * A program that is being asked. Zero-initialised: none. Between two questions all its threads
 * are stopped (SIGSTOP), so that it uses no processor time. It is killed if this process dies.
 */
struct af_dialog {
    struct af_child child; /* pid 0: none */
    int in_fd;
};

/*
 * Starts `argv` (argv[0] searched on PATH, NULL-terminated) with stderr on /dev/null. Fails
 * with IO when the system cannot start it; a program that does not exist fails at the first
 * question.
 */
enum anyflash_status af_dialog_start(const char *const *argv, struct af_dialog *dialog_out,
                                     struct anyflash_error *err);

/*
 * Asks `question`, which has no newline, and waits at most `limit_ms` for the line that answers
 * it; *answer_out is in the arena, without its newline. A failure ends the program: NOT_FOUND
 * if it does not exist, TIMEOUT, LIMIT for an answer of more than AF_CHILD_OUTPUT_BYTES, IO if
 * it ended, with its exit code or signal, NO_MEMORY.
 */
enum anyflash_status af_dialog_ask(struct af_dialog *dialog, struct af_arena *arena,
                                   const char *question, int limit_ms,
                                   struct af_span *answer_out, struct anyflash_error *err);

/* Whether it can be asked. */
bool af_dialog_is_open(const struct af_dialog *dialog);

/* Kills the program and all that it started. Nothing to do for one that has ended. */
void af_dialog_end(struct af_dialog *dialog);

#endif
