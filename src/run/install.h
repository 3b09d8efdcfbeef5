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
#ifndef AF_RUN_INSTALL_H
#define AF_RUN_INSTALL_H

#include "machine/machine.h"
#include "plan/plan.h"
#include "run/journal.h"
#include "run/state.h"
#include "run/talk.h"

struct af_run {
    struct af_state *state; /* opened with AF_STATE_WRITE */
    const struct af_machine *machine;
    struct af_talk talk;
    struct af_arena *arena; /* for all results */
    bool no_wait;           /* fail when another run holds the environment */
    bool offline;
    bool allow_http;
    const char *from;         /* folder to take files from, in place of the network; or NULL */
    const char *torch_change; /* --allow-torch-change: the version that may come; or NULL */
};

/* What a run did. Texts in the run's arena. */
struct af_done {
    enum af_answer answer; /* NO: refused, see `reason`; nothing has changed */
    const char *reason;
    bool changed;
    int64_t first_id; /* operations in the journal, first_id <= id <= last_id */
    int64_t last_id;
};

/*
 * Does the plan. A refusal that is an answer (a proof that says no, a torch
 * that would change, an environment that the distribution manages) is no
 * failure: done->answer is NO. Else fails as the world does (IO, NOT_FOUND,
 * TIMEOUT, DATA, UNSUPPORTED, NO_MEMORY); what was done before is taken back.
 */
enum anyflash_status af_install(struct af_run *run, const struct af_plan *plan,
                                struct af_done *done, struct anyflash_error *err);

/* Only gets the files of the plan into `folder`, with their hashes in plan.json. */
enum anyflash_status af_install_download(struct af_run *run, const struct af_plan *plan,
                                         const char *folder, struct af_done *done,
                                         struct anyflash_error *err);

/*
 * Takes back installation `id` (0: the last one of `site`). Refuses (answer NO)
 * when a later one lies on top of it, or when files changed since, unless
 * `force`.
 */
enum anyflash_status af_undo(struct af_run *run, const char *site, int64_t id, bool force,
                             struct af_done *done, struct anyflash_error *err);

/*
 * Finishes or takes back what a killed run left, in every environment of the
 * journal whose lock is free. Cheap when there is nothing to do. One sentence
 * for each by talk->say; fails only when the state cannot be read.
 */
enum anyflash_status af_recover(struct af_state *state, const struct af_talk *talk,
                                struct anyflash_error *err);

#endif
