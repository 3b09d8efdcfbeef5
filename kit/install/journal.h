/*
 * journal.h: records every change of an environment before it is made.
 *
 * An operation (an installation, or undoing one) moves entries of a site folder: the old file
 * or folder is moved aside, and the new one is moved into its place. All entries are in the
 * journal before the first one is moved, each move is one rename(2), and the place of an entry
 * shows whether it was moved. So after a crash at any point, recovery reads the phase and looks
 * at the files, and moves them back (before COMMITTED) or only cleans up (from COMMITTED on).
 *
 *   PREPARING   the operation's own folders exist: recovery removes them
 *   MOVING      entries are being moved: recovery moves them back
 *   COMMITTED   all are moved and on disk: recovery removes what is not needed
 *   DONE        an installation that can be undone
 *   GONE        rolled back, undone, or its old files were discarded
 *
 * An observed operation goes from PREPARING to COMMITTED. Once the old files are kept, `aside`
 * is in the journal; recovery then looks at what the other program did (observed.c).
 *
 * Paths of entries are relative to the site folder, as in RECORD; they may begin with "../"
 * (scripts). Functions of this file do not change an environment: operation.h does that.
 */
#ifndef AF_KIT_INSTALL_JOURNAL_H
#define AF_KIT_INSTALL_JOURNAL_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/system/state.h"

#define AF_ENTRIES_MAX 200000u
#define AF_OWN_PREFIX ".anyflash-" /* of the names of our folders in a site folder */

enum af_operation_kind {
    AF_OPERATION_INSTALL = 1,
    AF_OPERATION_UNDO = 2,
    AF_OPERATION_OBSERVED = 3 /* another program makes the change: nothing of it is moved */
};

enum af_phase {
    AF_PHASE_PREPARING = 1,
    AF_PHASE_MOVING = 2,
    AF_PHASE_COMMITTED = 3,
    AF_PHASE_DONE = 4,
    AF_PHASE_GONE = 5
};

/* One file or folder that is replaced as a whole. */
struct af_entry {
    const char *path;
    bool has_old; /* there is an old one, which is moved to `aside` */
    bool has_new; /* there is a new one, from `fresh` */
};

/*
 * Folders are absolute. `fresh` and `aside` are in folders of our own inside the site folder,
 * deep enough for the "../" of entries; `fresh_root` and `aside_root` are the folders that are
 * removed in the end.
 */
struct af_operation {
    int64_t id; /* 0: not in the journal yet */
    enum af_operation_kind kind;
    enum af_phase phase;
    int64_t undoes;    /* the id of the installation that this one undoes; else 0 */
    const char *title; /* "flash-attn 2.8.3 from ..." */
    const char *time;  /* when it began, "2026-08-22T10:00:00Z" */
    const char *site;
    const char *fresh_root;
    const char *fresh;
    const char *aside_root;
    const char *aside;
    const char *fingerprint; /* of the new files when they were in place; NULL before that */
    const struct af_entry *entries;
    size_t entry_count;
};

/*
 * Writes a new operation in phase PREPARING, and sets operation->id and time.
 * It is on disk when this returns, as with every function here that changes
 * something. Fails with IO (naming the file).
 */
enum anyflash_status af_journal_begin(struct af_state *state, struct af_operation *operation,
                                      struct af_arena *arena, struct anyflash_error *err);

/* Writes fresh, aside, fingerprint, all entries and the phase in one transaction. */
enum anyflash_status af_journal_write(struct af_state *state, struct af_operation *operation,
                                      enum af_phase phase, struct anyflash_error *err);

/*
 * Writes phase and fingerprint. With GONE the operation's entries are deleted. When an undo
 * becomes COMMITTED, the installation that it undoes becomes GONE in the same transaction.
 */
enum anyflash_status af_journal_phase(struct af_state *state, struct af_operation *operation,
                                      enum af_phase phase, struct anyflash_error *err);

/*
 * Operations whose phase is within [first, last], newest first, in the arena;
 * `site` NULL: of every environment. Entries are read with af_journal_entries(). Both fail with
 * DATA if the state file would have anything moved or removed outside the environment.
 */
enum anyflash_status af_journal_list(struct af_state *state, enum af_phase first,
                                     enum af_phase last, const char *site,
                                     struct af_arena *arena, struct af_operation **list_out,
                                     size_t *count_out, struct anyflash_error *err);
enum anyflash_status af_journal_entries(struct af_state *state, struct af_operation *operation,
                                        struct af_arena *arena, struct anyflash_error *err);

/*
 * Called after every write to the journal and every rename. In builds with
 * AF_TEST_HOOKS the ANYFLASH_KILL_AT-th call (1 = the first) kills the process
 * with SIGKILL; in others it does nothing.
 */
void af_install_step_hook(void);

#endif
