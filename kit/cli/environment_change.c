/*
 * environment_change.c: state, lock and messages of `install` and `undo`; also
 * the check for killed runs, which every command makes that looks at
 * environments.
 */
#include "kit/cli/environment_change.h"
#include "kit/probe/probe.h"

#include <stdio.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/progress.h"
#include "kit/system/state.h"

#define MIB (1024.0 * 1024.0)

static void clear_progress(struct af_change *change)
{
    if (change->progress_shown)
        fprintf(stderr, "\r\033[K");
    change->progress_shown = false;
}

static void message(void *context, const char *sentence)
{
    struct af_change *change = context;
    clear_progress(change);
    af_cli_remark(change->cli, "%s", sentence);
}

/* One progress line, rewritten in place; only on a terminal. */
static void transfer(void *context, const char *what, uint64_t done, uint64_t total)
{
    struct af_change *change = context;
    if (isatty(STDERR_FILENO) != 1 || af_option_given(&change->cli->options, AF_OPTION_QUIET))
        return;
    clear_progress(change);
    if (total > 0)
        fprintf(stderr, "%5.1f of %.1f MiB (%2.0f %%)  %.50s", (double)done / MIB,
                (double)total / MIB, 100.0 * (double)done / (double)total, what);
    else
        fprintf(stderr, "%5.1f MiB  %.50s", (double)done / MIB, what);
    fflush(stderr);
    change->progress_shown = true;
}

struct af_progress af_cli_progress(struct af_change *change)
{
    return (struct af_progress){.context = change, .message = message, .transfer = transfer};
}

enum anyflash_status af_change_open(struct af_change *change, struct af_cli *cli,
                                    struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    struct af_probe_options probe = {.python = options->values[AF_OPTION_PYTHON]};
    change->cli = cli;
    change->run = (struct af_run){
        .arena = &cli->arena,
        .progress = af_cli_progress(change),
        .offline = af_option_given(options, AF_OPTION_OFFLINE),
        .allow_http = af_option_given(options, AF_OPTION_ALLOW_HTTP),
        .from = options->values[AF_OPTION_FROM],
        .python = options->values[AF_OPTION_PYTHON],
        .arch = options->values[AF_OPTION_ARCH],
        .torch_change = options->values[AF_OPTION_TORCH_CHANGE],
        .allow_content = {options->allowed.items, options->allowed.count},
    };
    af_interrupt_catch();
    af_machine_init(&change->machine, "this machine", "not looked at");
    change->has_machine = true;
    return af_probe_machine(&change->machine, &probe, err);
}

enum anyflash_status af_change_begin(struct af_change *change, struct af_cli *cli,
                                     struct anyflash_error *err)
{
    enum anyflash_status status = af_change_open(change, cli, err);
    if (status != ANYFLASH_OK)
        return status;
    change->run.site = af_install_site(&change->machine, &cli->arena);
    if (change->run.site != NULL)
        return ANYFLASH_OK;
    const struct af_reason *problem = af_fit_environment_problem(&change->machine, &cli->arena);
    if (problem == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "no Python environment was found: name one with --python");
    cli->hint = af_reason_advice(problem);
    return af_fail(err, ANYFLASH_E_NOT_FOUND, "%s: %s", af_reasons[problem->id].message,
                   problem->detail);
}

enum anyflash_status af_change_lock(struct af_change *change, struct anyflash_error *err)
{
    struct af_cli *cli = change->cli;
    const char *remark;
    enum af_lock_wait wait =
        af_option_given(&cli->options, AF_OPTION_NO_WAIT) ? AF_LOCK_NO_WAIT : AF_LOCK_WAIT;
    enum anyflash_status status =
        af_state_open(AF_STATE_WRITE, &cli->arena, &change->run.state, &remark, err);
    if (status != ANYFLASH_OK)
        return status;
    if (remark != NULL)
        af_cli_remark(cli, "%s", remark);
    status = af_lock_take(&change->lock, change->run.site,
                          af_command_rows[cli->options.command].name, wait,
                          &change->run.progress, &cli->arena, err);
    if (status == ANYFLASH_OK)
        status =
            af_recover_held(change->run.state, change->run.site, &change->run.progress, err);
    return status;
}

void af_change_end(struct af_change *change)
{
    clear_progress(change);
    af_lock_release(&change->lock);
    af_state_close(change->run.state);
    if (change->has_machine)
        af_machine_release(&change->machine);
    *change = (struct af_change){.cli = change->cli};
}

/* Opens the existing state; if it cannot be read, nothing is known to be unfinished. */
static struct af_state *open_unfinished(struct af_cli *cli, struct af_operation **list_out,
                                        size_t *count_out)
{
    struct af_state *state = NULL;
    const char *remark = NULL;
    struct anyflash_error err;
    *count_out = 0;
    enum anyflash_status status =
        af_state_open(AF_STATE_READ, &cli->arena, &state, &remark, &err);
    if (status == ANYFLASH_OK)
        status = af_recover_list(state, &cli->arena, list_out, count_out, &err);
    if (status != ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_VERBOSE))
        af_cli_remark(cli, "%s", err.message);
    return state;
}

size_t af_cli_recover(struct af_cli *cli)
{
    struct af_change change = {.cli = cli};
    struct af_progress progress = af_cli_progress(&change);
    struct af_operation *list;
    size_t count;
    struct anyflash_error err;
    struct af_state *state = open_unfinished(cli, &list, &count);
    if (count > 0 && af_recover(state, &progress, &err) != ANYFLASH_OK)
        af_cli_remark(cli, "%s", err.message);
    af_state_close(state);
    return count;
}

size_t af_cli_warn_unfinished(struct af_cli *cli)
{
    struct af_operation *list;
    size_t count;
    struct af_state *state = open_unfinished(cli, &list, &count);
    for (size_t i = 0; i < count; i++)
        af_cli_remark(cli,
                      "'%s' was interrupted in '%s' and is unfinished: `anyflash undo "
                      "--recover` repairs it",
                      af_text_scrub(&cli->arena, list[i].title, 200),
                      af_text_scrub(&cli->arena, list[i].site, 400));
    af_state_close(state);
    return count;
}
