/* operation.c: the order of journal entries, renames and cleaning up. */
#include "kit/install/operation.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/install/journal.h"
#include "kit/install/swap.h"

static enum anyflash_status make_root(const char *root, mode_t mode, struct anyflash_error *err)
{
    if (mkdir(root, mode) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot create the folder '%s': %s", root,
                       strerror(errno));
    af_install_step_hook();
    return ANYFLASH_OK;
}

enum anyflash_status af_operation_begin(struct af_run *run, struct af_operation *operation,
                                        struct anyflash_error *err)
{
    operation->site = run->site;
    operation->aside_root = af_swap_name(
        run->arena, run->site, operation->kind == AF_OPERATION_UNDO ? "dropped" : "old");
    if (operation->kind == AF_OPERATION_INSTALL)
        operation->fresh_root = af_swap_name(run->arena, run->site, "new");
    if (run->arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status = af_journal_begin(run->state, operation, run->arena, err);
    if (status == ANYFLASH_OK)
        status = make_root(operation->aside_root, 0755, err);
    if (status == ANYFLASH_OK && operation->kind == AF_OPERATION_INSTALL)
        status = make_root(operation->fresh_root, 0700, err);
    return status;
}

enum anyflash_status af_operation_move(struct af_run *run, struct af_operation *operation,
                                       enum anyflash_status (*look)(void *context,
                                                                    struct anyflash_error *err),
                                       void *context, struct anyflash_error *err)
{
    enum anyflash_status status = af_swap_prepare(operation, err);
    if (status != ANYFLASH_OK)
        return status;
    af_swap_flush(run->site); /* all files must be on disk before they are moved into place */
    status = af_journal_moving(run->state, operation, err);
    if (status != ANYFLASH_OK)
        return status;
    operation->phase = AF_PHASE_MOVING;
    status = af_swap_forward(operation, err);
    if (status == ANYFLASH_OK && look != NULL)
        status = look(context, err);
    if (status == ANYFLASH_OK)
        status = af_swap_fingerprint(operation, run->arena, &operation->fingerprint, err);
    if (status != ANYFLASH_OK)
        return status;
    af_swap_flush(run->site);
    return af_journal_phase(run->state, operation, AF_PHASE_COMMITTED, err);
}

static enum anyflash_status remove_root(const char *root, struct anyflash_error *err)
{
    bool gone = af_swap_remove(root);
    af_install_step_hook();
    return gone ? ANYFLASH_OK : af_fail(err, ANYFLASH_E_IO, "cannot remove all of '%s'", root);
}

/* Rolls back. An abandoned undo keeps the files that it was to restore. */
static enum anyflash_status abandon(struct af_state *state, struct af_operation *operation,
                                    struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (operation->phase == AF_PHASE_MOVING) {
        status = af_swap_back(operation, err);
        af_swap_flush(operation->site);
    }
    if (status == ANYFLASH_OK && operation->kind == AF_OPERATION_INSTALL)
        status = remove_root(operation->fresh_root, err);
    if (status == ANYFLASH_OK)
        status = remove_root(operation->aside_root, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(state, operation, AF_PHASE_GONE, err);
    return status;
}

/*
 * Completes a committed operation: an installation keeps the files that it moved aside, an undo
 * removes them.
 */
static enum anyflash_status complete(struct af_state *state, struct af_operation *operation,
                                     struct anyflash_error *err)
{
    bool undo = operation->kind == AF_OPERATION_UNDO;
    enum anyflash_status status = remove_root(operation->fresh_root, err);
    if (status == ANYFLASH_OK && undo)
        status = remove_root(operation->aside_root, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(state, operation, undo ? AF_PHASE_GONE : AF_PHASE_DONE, err);
    return status;
}

enum anyflash_status af_operation_end(struct af_state *state, struct af_operation *operation,
                                      struct anyflash_error *err)
{
    if (operation->phase < AF_PHASE_COMMITTED)
        return abandon(state, operation, err);
    if (operation->phase == AF_PHASE_COMMITTED)
        return complete(state, operation, err);
    return ANYFLASH_OK;
}

void af_operation_finish(struct af_run *run, struct af_operation *operation)
{
    struct anyflash_error err;
    if (operation->id != 0 && af_operation_end(run->state, operation, &err) != ANYFLASH_OK)
        af_progress_message(&run->progress, "the next run will finish the cleanup: %s",
                            err.message);
}
