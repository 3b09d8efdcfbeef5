/*
 * install.h: carries out a plan, and undoes it.
 *
 * A plan (answer/plan.h) is a list of steps as data. Each step that installs files is done in
 * this order: get the exact file (downloaded and hashed, or found in a folder), prove its
 * extensions, let uv or pip unpack it into a folder of ours inside the site folder, check every
 * line of RECORD, write the journal, rename the entries into place, keep the old ones for undo.
 * Until the first rename the environment is unchanged. If there is a failure, a signal or a
 * power cut after that, af_recover() restores the old state or completes the new one.
 */
#ifndef AF_KIT_INSTALL_INSTALL_H
#define AF_KIT_INSTALL_INSTALL_H

#include "kit/answer/plan.h"
#include "kit/formats/binary.h"
#include "kit/install/journal.h"
#include "kit/install/record.h"
#include "kit/install/verify.h"
#include "kit/machine/machine.h"
#include "kit/system/progress.h"
#include "kit/system/state.h"

/*
 * The caller must hold the lock of `site` (system/lock.h) and must have read the machine while
 * holding it.
 */
struct af_run {
    struct af_state *state; /* opened with AF_STATE_WRITE */
    const struct af_machine *machine;
    const char *site; /* the folder that packages are installed to, absolute */
    struct af_progress progress;
    struct af_arena *arena; /* for all results */
    bool offline;
    bool allow_http;
    const char *from; /* folder to read files from instead of the network; or NULL */
    /* --python and --arch, which the commands in hints repeat; or NULL */
    const char *python;
    const char *arch;
    const char *hash_source; /* who states the hashes of the plan: "the catalog" */
    /* --allow-torch-change: the torch version that may be installed; or NULL */
    const char *torch_change;
    /* --allow-content: what wheels may contain beside their packages */
    struct af_texts allow_content;
};

/* What a run did. Texts in the run's arena. */
struct af_install_result {
    enum af_answer answer; /* NO: refused, see `reason`; nothing was changed */
    const char *reason;
    const char *hint;   /* what the user can do about it; or NULL */
    const char *title;  /* what was done, as in the journal */
    const char *wheel;  /* downloaded, with its folder; or NULL */
    const char *sha256; /* of that file */
    bool changed;
    int64_t id; /* the operation's id in the journal; 0: nothing had to be done */
    /* Check after the installation; row_count is 0 if these packages have none. */
    struct af_verify_report verified;
};

/*
 * "anyflash COMMAND WORD" for a POSIX shell, with the environment and the GPU that this run was
 * told to use. WORD may be NULL. Returns arena text.
 */
const char *af_run_command(const struct af_run *run, const char *command, const char *word);

/*
 * Carries out the plan. A refusal (a proof answers no, a wheel contains more than its package,
 * torch would change, the environment is managed by the distribution) is not a failure:
 * done->answer is NO. Fails with IO, NOT_FOUND, TIMEOUT, DATA or UNSUPPORTED; all
 * steps are rolled back then, and done->hint says what to do, or is NULL.
 */
enum anyflash_status af_install(struct af_run *run, const struct af_plan *plan,
                                struct af_install_result *done, struct anyflash_error *err);

/*
 * Only downloads: gets the files of the plan, and those that uv or pip would choose, into
 * `folder`, which is created. With run->from they can be installed on another machine. Needs
 * neither lock nor state. Requirements must have pure Python wheels.
 */
enum anyflash_status af_install_download(struct af_run *run, const struct af_plan *plan,
                                         const char *folder, struct af_install_result *done,
                                         struct anyflash_error *err);

/*
 * The folder of the environment that packages are installed to: the first of its site folders,
 * as a real path. NULL when it is not known.
 */
const char *af_install_site(const struct af_machine *machine, struct af_arena *arena);

/*
 * Undoes installation `id` (0: the last one) of run->site. Refuses (answer NO) when a later
 * installation changed the same files, or when the files have changed since, unless `force` is
 * set.
 */
enum anyflash_status af_undo(struct af_run *run, int64_t id, bool force,
                             struct af_install_result *done, struct anyflash_error *err);

/*
 * Discards what is kept for undoing installation `id` (0: all) of run->site: the old files are
 * removed, the installed ones remain. done->id is the number of installations.
 */
enum anyflash_status af_forget(struct af_run *run, int64_t id, struct af_install_result *done,
                               struct anyflash_error *err);

/*
 * A change that another program, such as pip, makes to flash-attn. It is recorded as if
 * anyflash had made it, so that `anyflash undo` takes it back; other packages that the program
 * changes are not recorded. Zero-initialised: nothing is observed. Texts in the run's arena.
 */
struct af_observed {
    struct af_operation operation;
    struct af_distribution before; /* folder NULL: not installed */
    struct af_distribution after;  /* set by af_observed_look() */
    bool changed;                  /* set by af_observed_look() */
};

/*
 * Before the program starts: keeps the files of the installed package, by links where possible.
 * `title` names the change in the journal. run->site must be locked and run->state open.
 */
enum anyflash_status af_observed_begin(struct af_run *run, const char *title,
                                       struct af_observed *observed,
                                       struct anyflash_error *err);

/* After it ended, however it did: looks at what is there. */
enum anyflash_status af_observed_look(struct af_run *run, struct af_observed *observed,
                                      struct anyflash_error *err);

/*
 * Records the change, or discards what was kept if the package is the same as before. After a
 * killed run, recovery does both. Does nothing if `observed` was not begun.
 */
enum anyflash_status af_observed_end(struct af_run *run, struct af_observed *observed,
                                     struct anyflash_error *err);

/* Bytes on disk that are kept to undo an installation of the journal's list. */
uint64_t af_undo_bytes(const struct af_operation *operation, struct af_arena *arena);

/*
 * Installations that a killed process left unfinished, in environments that no process is
 * changing now, newest first, in `arena`. Changes nothing. Fails when the state cannot be read.
 */
enum anyflash_status af_recover_list(struct af_state *state, struct af_arena *arena,
                                     struct af_operation **list_out, size_t *count_out,
                                     struct anyflash_error *err);

/*
 * Completes or rolls back what a killed process left unfinished, in every environment of the
 * journal whose lock is free. Fast when there is nothing to do. Reports each operation by
 * `progress`; fails only when the state cannot be read.
 */
enum anyflash_status af_recover(struct af_state *state, const struct af_progress *progress,
                                struct anyflash_error *err);

/*
 * The same for one environment whose lock the caller holds; here a failed recovery is a failure
 * of the call.
 */
enum anyflash_status af_recover_held(struct af_state *state, const char *site,
                                     const struct af_progress *progress,
                                     struct anyflash_error *err);

#endif
