/*
 * environment_change.h: what the commands that change an environment share: the state,
 * the lock, and how a run talks.
 */
#ifndef AF_KIT_CLI_ENVIRONMENT_CHANGE_H
#define AF_KIT_CLI_ENVIRONMENT_CHANGE_H

#include "kit/cli/load.h"
#include "kit/install/install.h"
#include "kit/system/lock.h"

/* Zero-initialised it is nothing. */
struct af_change {
    struct af_cli *cli;
    struct af_run run;
    struct af_machine machine; /* read before the lock */
    bool has_machine;
    struct af_lock lock;
    bool progress_shown; /* the cursor stands behind a line of progress */
};

/*
 * Looks where packages go: change->machine and change->run, without state and
 * lock. From here on signals only ask to stop.
 */
enum anyflash_status af_change_begin(struct af_change *change, struct af_cli *cli,
                                     struct anyflash_error *err);

/*
 * Opens the state, takes the folder's lock, and takes back what a killed run
 * left there. Facts that the change rests on are read after this.
 */
enum anyflash_status af_change_lock(struct af_change *change, struct anyflash_error *err);
void af_change_end(struct af_change *change);

/* Remarks of a run go to stderr, as those of a command. */
struct af_progress af_cli_progress(struct af_change *change);

/*
 * What killed runs left unfinished: af_cli_recover() repairs it and says so,
 * af_cli_warn_unfinished() changes nothing and names the command that repairs it.
 * Both return how many runs there were and never fail: a state that cannot be read
 * is a remark with -v.
 */
size_t af_cli_recover(struct af_cli *cli);
size_t af_cli_warn_unfinished(struct af_cli *cli);

#endif
