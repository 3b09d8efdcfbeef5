/*
 * environment_change.h: what the commands that change an environment share: the
 * state, the lock, and the messages of a run.
 */
#ifndef AF_KIT_CLI_ENVIRONMENT_CHANGE_H
#define AF_KIT_CLI_ENVIRONMENT_CHANGE_H

#include "kit/cli/command_inputs.h"
#include "kit/install/install.h"
#include "kit/system/lock.h"

/* Empty when zero-initialised. */
struct af_change {
    struct af_cli *cli;
    struct af_run run;
    struct af_machine machine; /* read before the lock was taken */
    bool has_machine;
    struct af_lock lock;
    bool progress_shown; /* the cursor is after a progress line */
};

/*
 * Reads the facts of the machine and the options: sets change->machine and change->run. From
 * here on a signal only requests a stop.
 */
enum anyflash_status af_change_open(struct af_change *change, struct af_cli *cli,
                                    struct anyflash_error *err);

/* The same, and finds out where packages go, without state and lock. */
enum anyflash_status af_change_begin(struct af_change *change, struct af_cli *cli,
                                     struct anyflash_error *err);

/*
 * Opens the state, locks the folder, and undoes what a killed run left there.
 * Read the facts that the change depends on after this call.
 */
enum anyflash_status af_change_lock(struct af_change *change, struct anyflash_error *err);
void af_change_end(struct af_change *change);

/* Writes a run's messages to stderr, like a command's remarks. */
struct af_progress af_cli_progress(struct af_change *change);

/*
 * Unfinished changes of killed runs: af_cli_recover() repairs them and reports
 * it; af_cli_warn_unfinished() changes nothing and names the command that
 * repairs them. Both return the number of such runs and never fail: with -v
 * they mention a state that cannot be read.
 */
size_t af_cli_recover(struct af_cli *cli);
size_t af_cli_warn_unfinished(struct af_cli *cli);

#endif
