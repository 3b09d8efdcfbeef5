/*
 * cmd_undo.c: `anyflash undo`: undoes an installation, lists those that can be
 * undone, or repairs what an interrupted run left.
 */
#include "kit/base/json.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/screen.h"

static enum anyflash_status read_id(const struct af_cli *cli, int64_t *id_out,
                                    struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    *id_out = 0;
    if (af_option_given(&cli->options, AF_OPTION_FORGET) &&
        (af_option_given(&cli->options, AF_OPTION_LIST) ||
         af_option_given(&cli->options, AF_OPTION_FORCE)))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--forget cannot be used with --list or --force");
    if (af_option_given(&cli->options, AF_OPTION_RECOVER) &&
        (words->count > 0 || af_option_given(&cli->options, AF_OPTION_FORGET) ||
         af_option_given(&cli->options, AF_OPTION_LIST)))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--recover takes no ID and cannot be used with --list or --forget");
    if (words->count > 1)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'undo' takes only one ID");
    if (words->count == 1 && !af_parse_i64(words->items[0], 1, INT64_MAX, id_out))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "'undo' takes the ID of an installation; `undo --list` shows them");
    return ANYFLASH_OK;
}

static json_t *operation_json(const struct af_operation *operation, struct af_arena *arena)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:I}", "id", (json_int_t)operation->id, "title",
                     operation->title, "time", operation->time, "site", operation->site,
                     "kept_bytes", (json_int_t)af_undo_bytes(operation, arena));
}

static enum anyflash_status list(struct af_cli *cli, struct af_change *change,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    struct af_operation *operations;
    size_t count;
    const char *remark;
    enum anyflash_status status =
        af_state_open(AF_STATE_READ, &cli->arena, &change->run.state, &remark, err);
    if (status == ANYFLASH_OK)
        status = af_journal_list(change->run.state, AF_PHASE_DONE, AF_PHASE_DONE,
                                 change->run.site, &cli->arena, &operations, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    *exit_out = count > 0 ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON)) {
        json_t *items = json_array();
        for (size_t i = 0; i < count; i++)
            items = af_json_append(items, operation_json(&operations[i], &cli->arena));
        return af_cli_json_take(
            cli,
            json_pack("{s:s, s:o}", "schema", "anyflash-undo-list/1", "installations", items),
            err);
    }
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    for (size_t i = 0; i < count; i++)
        af_screen_format(
            &screen, 6, af_arena_format(&cli->arena, "%4jd  ", (intmax_t)operations[i].id),
            AF_TONE_PLAIN, "%s  %s (%s kept)", operations[i].time, operations[i].title,
            af_text_bytes(&cli->arena, (int64_t)af_undo_bytes(&operations[i], &cli->arena)));
    if (count == 0)
        af_screen_add(&screen, 0, "", AF_TONE_PLAIN, "no installation here can be undone");
    return ANYFLASH_OK;
}

/*
 * Whether the journal has no operation for `id` (0: any) or to repair here, and nobody is just
 * making one. Then there is nothing to change, so neither a lock nor a new state is needed:
 * without permission to write, too, the answer is that there is nothing. The state stays open.
 */
static bool has_nothing_to_undo(struct af_change *change, int64_t id)
{
    struct af_arena *arena = change->run.arena;
    struct af_operation *list;
    size_t count = 0;
    const char *remark;
    bool found = af_lock_is_held(change->run.site, arena);
    enum anyflash_status status =
        af_state_open(AF_STATE_READ, arena, &change->run.state, &remark, NULL);
    if (status == ANYFLASH_OK && change->run.state != NULL)
        status = af_journal_list(change->run.state, AF_PHASE_PREPARING, AF_PHASE_DONE,
                                 change->run.site, arena, &list, &count, NULL);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        found |= list[i].phase != AF_PHASE_DONE || id == 0 || list[i].id == id;
    if (status == ANYFLASH_OK && !found)
        return true;
    af_state_close(change->run.state);
    change->run.state = NULL;
    return false;
}

static json_t *forget_json(const struct af_install_result *done)
{
    return json_pack("{s:s, s:o, s:I, s:o}", "schema", "anyflash-undo-forget/1", "answer",
                     af_json_answer(done->answer), "count", (json_int_t)done->id, "reason",
                     af_json_text(done->reason));
}

static enum anyflash_status report(struct af_cli *cli, const struct af_install_result *done,
                                   enum af_exit *exit_out, struct anyflash_error *err)
{
    bool forgets = af_option_given(&cli->options, AF_OPTION_FORGET);
    *exit_out = done->answer == AF_NO ? AF_EXIT_NO : AF_EXIT_YES;
    if (forgets && af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli, forget_json(done), err);
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "schema", "anyflash-undo/1", "answer",
                      af_json_answer(done->answer), "id",
                      done->id > 0 ? json_integer(done->id) : json_null(), "title",
                      af_json_text(done->title), "reason", af_json_text(done->reason), "hint",
                      af_json_text(done->hint)),
            err);
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    if (done->answer == AF_YES && forgets && done->id == 1)
        af_screen_format(&screen, 0, "", AF_TONE_GOOD,
                         "backup files deleted; still installed: %s", done->title);
    else if (done->answer == AF_YES && forgets)
        af_screen_format(&screen, 0, "", AF_TONE_GOOD,
                         "backup files of %jd installations deleted; the packages stay "
                         "installed",
                         (intmax_t)done->id);
    else if (done->answer == AF_YES)
        af_screen_format(&screen, 0, "", AF_TONE_GOOD, "undone: %s", done->title);
    else
        af_screen_format(&screen, 0, "", AF_TONE_BAD, forgets ? "%s" : "not undone: %s",
                         done->reason);
    if (done->hint != NULL)
        af_screen_format(&screen, 2, "  ", AF_TONE_PLAIN, "%s", done->hint);
    return ANYFLASH_OK;
}

/* --recover: repairs every environment, even if its Python cannot be found. */
static enum anyflash_status recover(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    size_t found = af_cli_recover(cli);
    size_t left = found > 0 ? af_cli_warn_unfinished(cli) : 0;
    *exit_out = left > 0 ? AF_EXIT_NO : AF_EXIT_YES;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli,
            json_pack("{s:s, s:s, s:n, s:n, s:s?, s:n}", "schema", "anyflash-undo/1", "answer",
                      left > 0 ? "no" : "yes", "id", "title", "reason",
                      left > 0 ? "an interrupted run could not be repaired" : NULL, "hint"),
            err);
    if (left > 0)
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not repaired: %zu interrupted run%s",
                         left, left == 1 ? "" : "s");
    else if (found > 0)
        af_screen_format(&screen, 0, "", AF_TONE_GOOD, "repaired: %zu interrupted run%s", found,
                         found == 1 ? "" : "s");
    else
        af_screen_add(&screen, 0, "", AF_TONE_GOOD,
                      "nothing to repair: no run was interrupted");
    return ANYFLASH_OK;
}

enum anyflash_status af_cmd_undo(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    struct af_change change = {.cli = cli};
    struct af_install_result done = {0};
    int64_t id;
    bool lists = af_option_given(&cli->options, AF_OPTION_LIST);
    enum anyflash_status status = read_id(cli, &id, err);
    if (status == ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_RECOVER))
        return recover(cli, exit_out, err);
    if (status == ANYFLASH_OK)
        status = af_change_begin(&change, cli, err);
    if (status == ANYFLASH_OK && lists)
        status = list(cli, &change, exit_out, err);
    if (status == ANYFLASH_OK && !lists && !has_nothing_to_undo(&change, id))
        status = af_change_lock(&change, err);
    bool forgets = af_option_given(&cli->options, AF_OPTION_FORGET);
    if (status == ANYFLASH_OK && forgets && !lists)
        status = af_forget(&change.run, id, &done, err);
    if (status == ANYFLASH_OK && !lists && !forgets)
        status = af_undo(&change.run, id, af_option_given(&cli->options, AF_OPTION_FORCE),
                         &done, err);
    af_change_end(&change);
    if (status == ANYFLASH_OK && !lists)
        status = report(cli, &done, exit_out, err);
    return status;
}
