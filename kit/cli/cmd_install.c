/*
 * cmd_install.c: `anyflash install`: carries out the plan for this machine, or
 * installs one wheel that the user names, while it holds the lock of the
 * environment. `anyflash package install` is the same with a plan of its own.
 */
#include <string.h>

#include "kit/answer/plan_answer.h"
#include "kit/base/json.h"
#include "kit/base/url.h"
#include "kit/cli/decision_view.h"
#include "kit/cli/environment_change.h"
#include "kit/install/named_wheel.h"
#include "kit/proof/prover.h"
#include "kit/system/file.h"

#define KEPT_BYTES_TOLD (UINT64_C(1) << 30)

struct install {
    struct af_change change;
    struct af_cli_inputs inputs;
    struct af_plan_answer answer; /* empty unless the plan comes from a decision */
    struct af_plan other;         /* the plan for a named wheel */
    bool has_other;
    struct af_plan shown;       /* for printing: addresses without secrets; nothing is owned */
    const struct af_plan *plan; /* points to one of the three above; NULL: no plan */
    struct af_install_result done;
};

/* Refuses words that cannot be a wheel, such as the name of a package. */
static enum anyflash_status check_wheel(struct af_cli *cli, const char *word,
                                        struct anyflash_error *err)
{
    char shown[AF_URL_SHOWN_BYTES];
    af_url_show(shown, sizeof shown, word);
    if (af_url_is_http(word) || af_file_exists(word))
        return ANYFLASH_OK;
    if (strstr(word, "://") != NULL) {
        cli->hint = "download the wheel, or build it, and give its path";
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "'%s' is not an http or https address of a wheel", shown);
    }
    if (strchr(word, '/') != NULL || af_ends_with(word, ".whl"))
        return ANYFLASH_OK; /* a file that does not exist */
    cli->hint = "`anyflash install` alone installs the one that fits";
    return af_fail(err, ANYFLASH_E_ARGUMENT,
                   "'%s' is neither the file nor the address of a wheel", shown);
}

static enum anyflash_status check_words(struct af_cli *cli, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    const char *sha256 = options->values[AF_OPTION_SHA256];
    enum anyflash_status status = af_cli_check_from(cli, err);
    if (status != ANYFLASH_OK)
        return status;
    if (options->words.count > 1)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'install' takes one wheel at a time");
    if (options->words.count > 0) {
        status = check_wheel(cli, options->words.items[0], err);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (options->words.count > 0 && af_option_given(options, AF_OPTION_DOWNLOAD_ONLY) &&
        af_file_is_regular(options->words.items[0])) {
        cli->hint = "copy the file to the other machine: `anyflash install FILE` needs no "
                    "network for it";
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "nothing to download: WHEEL is already a local file");
    }
    if (options->words.count == 0 && sha256 != NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--sha256 needs a WHEEL argument");
    if (sha256 != NULL && !af_sha256_is_hex(sha256))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--sha256 takes 64 hexadecimal digits");
    if (options->givens.count > 0 && !af_option_given(options, AF_OPTION_HERE)) {
        cli->hint = "--here starts from this machine and lets --given change facts";
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "'install' works on this machine only: add --here to use --given");
    }
    return ANYFLASH_OK;
}

/* Makes the plan for the wheel that the user names; a URL may be in the catalog. */
static enum anyflash_status name_wheel(struct af_cli *cli, struct install *install,
                                       struct anyflash_error *err)
{
    const char *word = cli->options.words.items[0];
    struct af_cli_inputs *inputs = &install->inputs;
    enum anyflash_status status = af_machines_load(cli, &inputs->machines, err);
    if (status == ANYFLASH_OK && af_url_is_http(word)) {
        status = af_cli_catalog_load(cli, &inputs->catalog, err);
        inputs->has_catalog = status == ANYFLASH_OK;
    }
    if (status != ANYFLASH_OK)
        return status;
    install->change.run.machine = inputs->machines.pointers[0];
    status =
        af_named_wheel_plan(&install->change.run, word, cli->options.values[AF_OPTION_SHA256],
                            &inputs->catalog, &install->other, &cli->hint, err);
    install->has_other = status == ANYFLASH_OK;
    return status;
}

/* The plan of `anyflash package install`. */
static enum anyflash_status make_package_plan(struct af_cli *cli, struct install *install,
                                              struct anyflash_error *err)
{
    enum anyflash_status status = af_machines_load(cli, &install->inputs.machines, err);
    if (status != ANYFLASH_OK)
        return status;
    af_plan_make_package(install->inputs.machines.pointers[0],
                         af_option_given(&cli->options, AF_OPTION_STAND_IN), &install->other);
    install->has_other = true;
    install->plan = &install->other;
    return ANYFLASH_OK;
}

/* Adds what the wheels in the folder of --from prove, in front of stored proofs. */
static enum anyflash_status prove_folder(struct af_cli *cli, struct af_cli_inputs *inputs,
                                         struct anyflash_error *err)
{
    const char *from = cli->options.values[AF_OPTION_FROM];
    struct af_fit_options *fit = &inputs->request.fit;
    struct af_fit_options unproved = *fit;
    struct af_proved_wheel *known;
    size_t count;
    if (from == NULL || !inputs->is_here)
        return ANYFLASH_OK;
    unproved.known_count = 0;
    enum anyflash_status status =
        af_proof_folder_wheels(from, inputs->machines.pointers[0], &inputs->catalog, &unproved,
                               &cli->arena, &known, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_proved_wheel *all =
        af_arena_array(&cli->arena, count + fit->known_count + 1, sizeof *all);
    memcpy(all, known, count * sizeof *all);
    if (fit->known_count > 0)
        memcpy(all + count, fit->known, fit->known_count * sizeof *all);
    fit->known = all;
    fit->known_count += count;
    return ANYFLASH_OK;
}

/* Makes the plan from the machine's current facts. */
static enum anyflash_status make_plan(struct af_cli *cli, struct install *install,
                                      struct anyflash_error *err)
{
    if (cli->options.command == AF_COMMAND_PACKAGE)
        return make_package_plan(cli, install, err);
    if (cli->options.words.count == 1) {
        enum anyflash_status status = name_wheel(cli, install, err);
        install->plan = install->has_other ? &install->other : NULL;
        return status;
    }
    enum anyflash_status status = af_cli_inputs_load(
        cli, AF_CLI_INPUT_MACHINES | AF_CLI_INPUT_PROOFS | AF_CLI_INPUT_FILES, &install->inputs,
        err);
    if (status == ANYFLASH_OK)
        status = prove_folder(cli, &install->inputs, err);
    if (status == ANYFLASH_OK)
        status = af_plan_answer_make(&install->inputs.request, &install->answer, err);
    install->plan = install->answer.has_plan ? &install->answer.plan : NULL;
    return status;
}

/* Makes install->plan fit to be printed: from here on it cannot be carried out. */
static void hide_addresses(struct af_cli *cli, struct install *install)
{
    if (install->plan == NULL)
        return;
    bool is_hidden = af_plan_hide_addresses(install->plan, &cli->arena, &install->shown);
    install->plan = &install->shown;
    if (is_hidden)
        af_cli_remark(cli, "addresses are printed without user, password and query");
}

static void view_plan(struct af_cli *cli, const struct install *install)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_add(&screen, 0, "", AF_TONE_STRONG, "Steps");
    af_cli_steps_view(&screen, install->plan, SIZE_MAX, &cli->arena);
}

static bool brings_something(const struct af_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        enum af_step_kind kind = plan->steps[i].kind;
        if (kind != AF_STEP_ADVICE && kind != AF_STEP_TRY)
            return true;
    }
    return false;
}

/* What speaks against any installation into this environment is the answer. */
static void refuse(struct af_cli *cli, struct install *install, const struct af_reason *problem)
{
    install->done = (struct af_install_result){
        .answer = AF_NO,
        .reason = af_arena_format(&cli->arena, "%s: %s", af_reasons[problem->id].message,
                                  problem->detail),
        .hint = af_reason_advice(problem)};
}

/* Gives the answers that need neither lock nor state; true if one was given. */
static bool answered(struct af_cli *cli, struct install *install)
{
    const struct af_decision *decision = &install->answer.decision;
    bool is_preferred = cli->options.values[AF_OPTION_PREFER] != NULL;
    if (install->done.answer == AF_NO)
        return true;
    if (decision->environment_problem != NULL) {
        refuse(cli, install, decision->environment_problem);
        return true;
    }
    if (install->plan == NULL) {
        install->done = (struct af_install_result){
            .answer = AF_NO,
            .reason = decision->missing_fact != NULL
                          ? "a fact that the decision depends on is unknown"
                      : is_preferred ? "the preferred option is not possible"
                                     : "no option works on this machine",
            .hint = af_arena_format(&cli->arena, "`%s` says why",
                                    af_cli_next_command(cli, AF_COMMAND_PLAN, NULL))};
        return true;
    }
    if (brings_something(install->plan))
        return false;
    bool is_there = install->plan->rung == AF_RUNG_WHEEL ||
                    af_plan_package_is_there(install->inputs.machines.pointers[0]);
    install->done = (struct af_install_result){
        .answer = is_there ? AF_YES : AF_NO,
        .reason = is_there ? NULL : "the decision needs nothing to be installed",
        .hint = is_there ? NULL
                         : af_arena_format(&cli->arena, "run `%s` to see what to do",
                                           af_cli_next_command(cli, AF_COMMAND_PLAN, NULL))};
    return true;
}

static void view_done(struct af_cli *cli, const struct install *install)
{
    const struct af_install_result *done = &install->done;
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    if (done->answer == AF_NO) {
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not installed: %s", done->reason);
        if (done->hint != NULL)
            af_screen_format(&screen, 2, "  ", AF_TONE_PLAIN, "%s", done->hint);
        return;
    }
    if (af_option_given(&cli->options, AF_OPTION_DOWNLOAD_ONLY)) {
        af_screen_format(&screen, 0, "", AF_TONE_GOOD, "downloaded to %s", done->title);
        const char *words[] = {"--from",   done->title,  done->wheel,
                               "--sha256", done->sha256, NULL};
        af_screen_add(&screen, 2, "  ", AF_TONE_PLAIN,
                      "this installs from there, without a network:");
        af_screen_command(&screen, 4, AF_SHELL_POSIX,
                          af_cli_next_command(cli, AF_COMMAND_INSTALL, words));
        return;
    }
    if (!done->changed) {
        af_screen_add(&screen, 0, "", AF_TONE_GOOD, "nothing to do: it is already installed");
        return;
    }
    af_screen_format(&screen, 0, "", AF_TONE_GOOD, "installed: %s", done->title);
    for (size_t i = 0; i < done->verified.row_count; i++) {
        const struct af_verify_row *row = &done->verified.rows[i];
        af_screen_format(&screen, 4, row->answer == AF_YES ? "  + " : "  - ",
                         row->answer == AF_NO ? AF_TONE_BAD : AF_TONE_PLAIN, "%s: %s, %s",
                         row->name, af_answer_text(row->answer), row->evidence);
    }
    const char *words[] = {af_arena_format(&cli->arena, "%jd", (intmax_t)done->id), NULL};
    af_screen_format(&screen, 2, "  ", AF_TONE_PLAIN, "`%s` undoes this",
                     af_cli_next_command(cli, AF_COMMAND_UNDO, words));
}

static json_t *verified_json(const struct af_verify_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->row_count; i++)
        list = af_json_append(list, json_pack("{s:s, s:o, s:s}", "name", report->rows[i].name,
                                              "answer", af_json_answer(report->rows[i].answer),
                                              "evidence", report->rows[i].evidence));
    return list;
}

static enum anyflash_status write_json(struct af_cli *cli, const struct install *install,
                                       struct anyflash_error *err)
{
    const struct af_install_result *done = &install->done;
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
                  "anyflash-install/1", "answer", af_json_answer(done->answer), "changed",
                  done->changed, "id", done->id > 0 ? json_integer(done->id) : json_null(),
                  "title", af_json_text(done->title), "reason", af_json_text(done->reason),
                  "hint", af_json_text(done->hint), "steps",
                  install->plan != NULL ? af_plan_steps_json(install->plan, &cli->arena)
                                        : json_array(),
                  "verified", verified_json(&done->verified)),
        err);
}

/* Mentions kept old versions: of large packages they can silently fill a disk. */
static void tell_kept(struct af_cli *cli, struct install *install)
{
    static const char *const words[] = {"--forget", NULL};
    struct af_run *run = &install->change.run;
    struct af_operation *list;
    size_t count;
    uint64_t bytes = 0;
    if (af_journal_list(run->state, AF_PHASE_DONE, AF_PHASE_DONE, run->site, run->arena, &list,
                        &count, NULL) != ANYFLASH_OK)
        return;
    for (size_t i = 0; i < count; i++)
        bytes += af_undo_bytes(&list[i], run->arena);
    if (bytes > KEPT_BYTES_TOLD)
        af_progress_message(&run->progress,
                            "the files kept for undoing the last %zu installations take up "
                            "%.1f GiB; to delete them: `%s`",
                            count, (double)bytes / (1024.0 * 1024.0 * 1024.0),
                            af_cli_next_command(cli, AF_COMMAND_UNDO, words));
}

/* Who states the hash that the wheel must have. */
static const char *hash_source(struct af_cli *cli)
{
    const struct af_word_list *words = &cli->options.words;
    if (af_option_given(&cli->options, AF_OPTION_SHA256))
        return "--sha256";
    if (words->count > 0 && strstr(words->items[0], "#sha256=") != NULL)
        return "the address";
    return "the catalog";
}

static enum anyflash_status act(struct af_cli *cli, struct install *install,
                                struct anyflash_error *err)
{
    const char *folder = cli->options.values[AF_OPTION_DOWNLOAD_ONLY];
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    enum anyflash_status status = af_change_begin(&install->change, cli, err);
    const struct af_reason *problem =
        status == ANYFLASH_OK && folder == NULL
            ? af_fit_environment_problem(&install->change.machine, &cli->arena)
            : NULL;
    if (problem != NULL) {
        refuse(cli, install, problem);
        return ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK && !dry && folder == NULL &&
        af_fact_truth(&install->change.machine.python.writable) != AF_NO &&
        af_fact_truth(&install->change.machine.python.externally_managed) != AF_YES)
        status = af_change_lock(&install->change, err);
    if (status == ANYFLASH_OK)
        status = make_plan(cli, install, err);
    if (status != ANYFLASH_OK || (dry && install->plan != NULL) || answered(cli, install))
        return status;
    install->change.run.machine = install->inputs.machines.pointers[0];
    if (folder != NULL)
        return af_install_download(&install->change.run, install->plan, folder, &install->done,
                                   err);
    install->change.run.hash_source = hash_source(cli);
    status = af_install(&install->change.run, install->plan, &install->done, err);
    if (status != ANYFLASH_OK && install->done.hint != NULL)
        cli->hint = install->done.hint;
    if (status == ANYFLASH_OK && install->done.changed)
        tell_kept(cli, install);
    return status;
}

static enum anyflash_status report(struct af_cli *cli, struct install *install,
                                   enum af_exit *exit_out, struct anyflash_error *err)
{
    hide_addresses(cli, install);
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    bool bad = install->done.verified.row_count > 0 &&
               af_verify_answer(&install->done.verified) == AF_NO;
    *exit_out = install->done.answer == AF_NO || bad ? AF_EXIT_NO : AF_EXIT_YES;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(cli, install, err);
    if (dry && install->plan != NULL && install->done.answer != AF_NO)
        view_plan(cli, install);
    else
        view_done(cli, install);
    return ANYFLASH_OK;
}

static enum anyflash_status run(struct af_cli *cli, enum af_exit *exit_out,
                                struct anyflash_error *err)
{
    struct install install = {.done = {.answer = AF_YES}};
    enum anyflash_status status = act(cli, &install, err);
    af_change_end(&install.change);
    if (status == ANYFLASH_OK)
        status = report(cli, &install, exit_out, err);
    if (install.has_other)
        af_plan_release(&install.other);
    af_plan_answer_release(&install.answer);
    af_cli_inputs_release(&install.inputs);
    return status;
}

enum anyflash_status af_cmd_install(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    enum anyflash_status status = check_words(cli, err);
    return status == ANYFLASH_OK ? run(cli, exit_out, err) : status;
}

enum anyflash_status af_cmd_package(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    if (words->count == 1 && af_equal(words->items[0], "install"))
        return run(cli, exit_out, err);
    cli->hint = "write `anyflash package install --python ENV`; `anyflash undo` removes the "
                "package again";
    if (words->count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "missing action of 'package'");
    return af_fail(err, ANYFLASH_E_ARGUMENT, "'package' takes one action, install");
}
