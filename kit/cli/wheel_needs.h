/*
 * wheel_needs.h: what a wheel asks for in its METADATA, beside what is installed.
 */
#ifndef AF_KIT_CLI_WHEEL_NEEDS_H
#define AF_KIT_CLI_WHEEL_NEEDS_H

#include "kit/cli/commands.h"
#include "kit/machine/machine.h"

#define AF_CLI_WHEEL_NEEDS_MAX 8

/* Zero-initialised it is empty. Texts in the cli's arena. */
struct af_cli_wheel_needs {
    const char *missing[AF_CLI_WHEEL_NEEDS_MAX]; /* "einops>=0.6": not installed */
    size_t missing_count;
};

/*
 * Adds what METADATA `text` requires and `machine` has not; requirements whose
 * marker is for another system are none. What is there in another version
 * stays, and is told, as is torch, what is not a name with a version, and what
 * its marker leaves open.
 */
void af_cli_wheel_needs_read(struct af_cli *cli, const struct af_machine *machine,
                             struct af_span text, struct af_cli_wheel_needs *needs);

#endif
