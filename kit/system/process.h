/*
 * process.h: running other programs, without a shell. There are three ways:
 *
 * af_child_* starts a program or a fork of this process whose answer is short. Several can run
 * while the caller continues; af_child_collect() waits with a time limit. af_program_run() runs
 * a program that takes long and prints a lot, such as an installer, and waits for it.
 * af_program_run_foreground() runs a command of the user's.
 *
 * The first two run each in a process group of their own. The whole group is killed at the end,
 * so no process outlives the call. If this process dies, its children are killed.
 */
#ifndef AF_KIT_SYSTEM_PROCESS_H
#define AF_KIT_SYSTEM_PROCESS_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_CHILD_OUTPUT_BYTES 262144u

/* A started child; zero-initialised: none. Start several, then collect each one. */
struct af_child {
    int pid;
    int out_fd;
};

/*
 * Starts `argv` (argv[0] searched on PATH, NULL-terminated) in `folder` (NULL: the current one)
 * with stdin and stderr on /dev/null and stdout to a pipe. Fails with IO when the system cannot
 * start it; if the program or the folder does not exist, its exit code at collection is 127.
 */
enum anyflash_status af_child_start_program(const char *const *argv, const char *folder,
                                            struct af_child *child_out,
                                            struct anyflash_error *err);

/* Milliseconds of a clock that only moves forward. */
int64_t af_clock_ms(void);

/*
 * Reads what a child prints next into `buffer`; waits for it until `deadline_ms`, a time of
 * af_clock_ms(). Returns the number of bytes, 0 at the end of the output, or -1 after the
 * deadline or when the user interrupts (progress.h).
 */
int64_t af_child_read(int out_fd, int64_t deadline_ms, char *buffer, size_t size_bytes);

/*
 * Starts a fork of this process that runs body(out_fd, context) and exits with its return
 * value. The body must not touch locks, stdio or atexit handlers.
 */
enum anyflash_status af_child_start_fork(int (*body)(int out_fd, void *context), void *context,
                                         struct af_child *child_out,
                                         struct anyflash_error *err);

/*
 * Waits at most `limit_ms`, reads at most AF_CHILD_OUTPUT_BYTES of the child's stdout into the
 * arena, and reaps it. TIMEOUT when it was killed at the limit, LIMIT when it printed more than
 * that, IO when a signal ended it; else *exit_code_out is its exit code. *output_out is its
 * output, also when it was killed. In every case the child has ended when this returns.
 */
enum anyflash_status af_child_collect(struct af_child *child, int limit_ms,
                                      struct af_arena *arena, struct af_span *output_out,
                                      int *exit_code_out, struct anyflash_error *err);

#define AF_PROGRAM_OUTPUT_BYTES (4u * 1024u * 1024u)

struct af_program {
    const char *const *argv; /* argv[0] searched on PATH; NULL-terminated */
    /*
     * "NAME=value" sets, "NAME" removes, "NAME*" removes all that start with NAME;
     * NULL-terminated.
     */
    const char *const *environment;
    const char *folder; /* working folder; NULL: ours */
    int limit_ms;       /* 0: no limit */
    /* Called about ten times a second while it runs; returning false kills it. May be NULL. */
    bool (*go_on)(void *context);
    void *context;
};

/* The output: the last AF_PROGRAM_OUTPUT_BYTES of each stream, in the arena. */
struct af_program_result {
    int exit_code; /* 127: the program does not exist */
    struct af_span output;
    struct af_span errors;
};

/*
 * Runs the program and waits until it ends, with stdin on /dev/null. OK for every exit code.
 * TIMEOUT when it was killed at the limit or because go_on() returned false, IO when a signal
 * ended it or the system cannot start it.
 */
enum anyflash_status af_program_run(const struct af_program *program, struct af_arena *arena,
                                    struct af_program_result *result_out,
                                    struct anyflash_error *err);

/*
 * Runs the program in the foreground: it has our terminal, streams and process group, and no
 * time limit. Ctrl-C reaches it as it reaches us; it decides what to do, and this call waits
 * for its end. A signal that only we were sent is passed on. *exit_code_out is 128 plus the
 * number of the signal that ended it; 127: the program does not exist. Fails with IO if it
 * cannot be started.
 */
enum anyflash_status af_program_run_foreground(const struct af_program *program,
                                               struct af_arena *arena, int *exit_code_out,
                                               struct anyflash_error *err);

#endif
