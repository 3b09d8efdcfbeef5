/*
 * program.h: running a program that works for long and talks: an installer. No
 * shell is involved. (Questions with a short answer: process.h.)
 */
#ifndef AF_KIT_SYSTEM_PROGRAM_H
#define AF_KIT_SYSTEM_PROGRAM_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_PROGRAM_OUTPUT_BYTES (4u * 1024u * 1024u)

struct af_program {
    const char *const *argv; /* argv[0] searched on PATH; NULL-terminated */
    /* "NAME=value" sets, "NAME" removes, "NAME*" removes all that start so; NULL-terminated. */
    const char *const *environment;
    const char *folder; /* to run in; NULL: ours */
    int limit_ms;       /* 0: none */
    /* Asked some ten times a second while it runs; false ends it. May be NULL. */
    bool (*go_on)(void *context);
    void *context;
};

/* What it left. Texts are the last AF_PROGRAM_OUTPUT_BYTES, in the arena. */
struct af_program_result {
    int exit_code; /* 127: no such program */
    struct af_span output;
    struct af_span errors;
};

/*
 * Runs it to its end, with stdin on /dev/null, in a process group of its own
 * that dies with us. OK whatever its exit code is. TIMEOUT when it was killed
 * at the limit or because go_on() said so, IO when a signal ended it or the
 * system refuses. Nothing of the group runs afterwards.
 */
enum anyflash_status af_program_run(const struct af_program *program, struct af_arena *arena,
                                    struct af_program_result *result_out,
                                    struct anyflash_error *err);

#endif
