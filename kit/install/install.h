/*
 * install.h: does what a plan says, and takes it back.
 *
 * A plan (plan/plan.h) is a list of steps as data. Each step that brings files
 * is done so: exact file (downloaded and hashed, or found in a folder), proof
 * from its bytes, uv or pip unpack it into a folder of ours inside the site
 * folder, RECORD is checked line by line, the journal is written, entries are
 * renamed into place, and what lay there is kept for undo. Until the first
 * rename nothing of the environment has changed; from then on a failure, a
 * signal or a power cut leaves the old state or the new one after the next
 * run (af_recover()).
 */
#ifndef AF_KIT_INSTALL_INSTALL_H
#define AF_KIT_INSTALL_INSTALL_H

#include "kit/install/journal.h"
#include "kit/install/verify.h"
#include "kit/machine/machine.h"
#include "kit/plan/plan.h"
#include "kit/system/progress.h"
#include "kit/system/state.h"

/* The caller holds the lock of `site` (run/lock.h), and read the machine under it. */
struct af_run {
    struct af_state *state; /* opened with AF_STATE_WRITE */
    const struct af_machine *machine;
    const char *site; /* the folder that packages are installed to, absolute */
    struct af_progress progress;
    struct af_arena *arena; /* for all results */
    bool offline;
    bool allow_http;
    const char *from;         /* folder to take files from, in place of the network; or NULL */
    const char *torch_change; /* --allow-torch-change: the version that may come; or NULL */
};

/* What a run did. Texts in the run's arena. */
struct af_install_result {
    enum af_answer answer; /* NO: refused, see `reason`; nothing has changed */
    const char *reason;
    const char *hint;  /* the one thing to do about it; or NULL */
    const char *title; /* of what was done, as in the journal */
    bool changed;
    int64_t id; /* of the operation in the journal; 0: none was needed */
    /* What was installed, imported and called: row_count 0 where that is not known how. */
    struct af_verify_report verified;
};

/*
 * Does the plan. A refusal that is an answer (a proof that says no, a torch
 * that would change, an environment that the distribution manages) is no
 * failure: done->answer is NO. Else fails as the world does (IO, NOT_FOUND,
 * TIMEOUT, DATA, UNSUPPORTED, NO_MEMORY); what was done before is taken back.
 */
enum anyflash_status af_install(struct af_run *run, const struct af_plan *plan,
                                struct af_install_result *done, struct anyflash_error *err);

/*
 * Only gets the files of the plan, also those that uv or pip would choose, into
 * `folder`, which is made, and writes the plan with their hashes beside them
 * (AF_INSTALL_DOWNLOAD_PLAN): run->from and the plan do the rest elsewhere. Needs
 * neither lock nor state. Requirements must have wheels for every platform.
 */
#define AF_INSTALL_DOWNLOAD_PLAN "plan.json"
enum anyflash_status af_install_download(struct af_run *run, const struct af_plan *plan,
                                         const char *folder, struct af_install_result *done,
                                         struct anyflash_error *err);

/*
 * The folder of the environment that packages are installed to: the first of
 * its site folders, as a real path. NULL when it is not known.
 */
const char *af_install_site(const struct af_machine *machine, struct af_arena *arena);

/*
 * Takes back installation `id` (0: the last one) of run->site. Refuses (answer NO)
 * when a later one lies on top of it, or when files changed since, unless
 * `force`.
 */
enum anyflash_status af_undo(struct af_run *run, int64_t id, bool force,
                             struct af_install_result *done, struct anyflash_error *err);

/*
 * Gives up what is kept for undo of installation `id` (0: of all) of run->site:
 * the old files are removed, what is installed stays. done->id counts them.
 */
enum anyflash_status af_forget(struct af_run *run, int64_t id, struct af_install_result *done,
                               struct anyflash_error *err);

/* Bytes on disk that are kept for undo of an installation of the journal's list. */
uint64_t af_undo_bytes(const struct af_operation *operation, struct af_arena *arena);

/*
 * What killed runs left unfinished in environments that no process is changing
 * now, newest first, in `arena`. Only reads. Fails when the state cannot be read.
 */
enum anyflash_status af_recover_list(struct af_state *state, struct af_arena *arena,
                                     struct af_operation **list_out, size_t *count_out,
                                     struct anyflash_error *err);

/*
 * Finishes or takes back what a killed run left, in every environment of the
 * journal whose lock is free. Cheap when there is nothing to do. One sentence
 * for each by `progress`; fails only when the state cannot be read.
 */
enum anyflash_status af_recover(struct af_state *state, const struct af_progress *progress,
                                struct anyflash_error *err);

/* The same for one environment whose lock the caller holds; failing is a failure. */
enum anyflash_status af_recover_held(struct af_state *state, const char *site,
                                     const struct af_progress *progress,
                                     struct anyflash_error *err);

#endif
