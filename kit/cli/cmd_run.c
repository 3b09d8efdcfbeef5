/*
 * cmd_run.c: `anyflash run -- pip install ...`: runs the user's own command, and gives its
 * installer exactly one wheel of flash-attn. run_choice.h decides which, run_offer.h gives it.
 * The project's files and all other packages stay as they are.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/url.h"
#include "kit/cli/run_offer.h"
#include "kit/cli/run_settings.h"
#include "kit/install/install.h"
#include "kit/system/process.h"

#define PACKAGE AF_CLI_RUN_PACKAGE

/* Runs the command, with what was prepared for it. */
static enum anyflash_status start(struct af_cli_wanted *wanted, int *exit_code_out,
                                  struct anyflash_error *err)
{
    const struct af_program program = {.argv = af_cli_offer_words(wanted)};
    return af_program_run_foreground(&program, &wanted->cli->arena, exit_code_out, err);
}

/* Imports and calls what is there. False if it fails, after saying how. */
static bool verify(struct af_cli_wanted *wanted, const struct af_observed *observed)
{
    struct af_run *run = &wanted->change.run;
    struct af_verify_report report = {.row_count = 0};
    const struct af_verify_options options = {
        .python = af_fact_text_or(&run->machine->python.executable, NULL),
        .module = "flash_attn",
        .version = observed->after.version};
    af_verify_calls(&options, run->arena, &report);
    for (size_t i = 0; i < report.row_count; i++)
        if (report.rows[i].answer == AF_NO)
            af_progress_message(&run->progress, "%s: no, %s", report.rows[i].name,
                                report.rows[i].evidence);
    return af_verify_answer(&report) != AF_NO;
}

/* Whether the command only says what it would do. */
static bool is_trial(const struct af_project_command *command)
{
    for (size_t i = 0; i < command->word_count; i++)
        if (strcmp(command->words[i], "--dry-run") == 0)
            return true;
    return false;
}

/* What is there is not what was given to the installer; NULL: it is, or nothing was given. */
static enum anyflash_status compare(struct af_cli_wanted *wanted,
                                    const struct af_observed *observed,
                                    const char **difference_out, struct anyflash_error *err)
{
    *difference_out = NULL;
    if (wanted->wheel.path != NULL)
        return af_cli_offer_compare(wanted, observed, difference_out, err);
    if (observed->changed)
        *difference_out = wanted->flash != NULL
                              ? "the installed one fitted, and the command replaced it"
                              : "the command does not name it";
    return ANYFLASH_OK;
}

static void tell_result(struct af_cli_wanted *wanted, const struct af_observed *observed,
                        const char *difference, bool fails)
{
    struct af_run *run = &wanted->change.run;
    const char *version = observed->after.version;
    bool recorded = observed->operation.phase == AF_PHASE_DONE;
    if (difference != NULL && observed->changed)
        af_progress_message(&run->progress,
                            "flash-attn %s is not the wheel that was checked: %s", version,
                            difference);
    else if (difference != NULL || (fails && !observed->changed))
        af_progress_message(&run->progress,
                            "flash-attn %s was there before and stays, because its version is "
                            "the right one%s: uninstall it, then run this again",
                            version,
                            difference == NULL
                                ? ""
                                : af_arena_format(run->arena,
                                                  "; but it differs from the wheel (%s)",
                                                  difference));
    if (observed->changed && recorded)
        af_progress_message(&run->progress, "installed: %s %s; `%s` takes it back",
                            observed->operation.title, version,
                            af_run_command(run, "undo",
                                           af_arena_format(run->arena, "%jd",
                                                           (intmax_t)observed->operation.id)));
}

/* Fails what ended well without flash-attn in the environment: nothing could be compared. */
static void tell_elsewhere(struct af_cli_wanted *wanted, int *exit_code)
{
    struct af_run *run = &wanted->change.run;
    if (*exit_code != 0 || is_trial(&wanted->command) || wanted->flash == NULL)
        return;
    *exit_code = AF_EXIT_NO;
    af_progress_message(&run->progress,
                        "the command ended well, but flash-attn is not in '%s': it may have "
                        "gone elsewhere",
                        af_text_scrub(run->arena, run->site, 400));
}

/*
 * After the command: what it did to flash-attn is compared with what it was given, recorded,
 * and called. What differs or does not load makes the command fail.
 */
static enum anyflash_status finish(struct af_cli_wanted *wanted, struct af_observed *observed,
                                   int *exit_code, struct anyflash_error *err)
{
    const char *difference = NULL;
    bool fails = false;
    struct af_run *run = &wanted->change.run;
    enum anyflash_status status = af_observed_look(run, observed, err);
    bool looks = status == ANYFLASH_OK && observed->after.folder != NULL &&
                 (observed->changed || (*exit_code == 0 && wanted->wheel.path != NULL));
    if (looks)
        status = compare(wanted, observed, &difference, err);
    enum anyflash_status ended =
        af_observed_end(run, observed, status == ANYFLASH_OK ? err : NULL);
    if (status == ANYFLASH_OK)
        status = ended;
    if (looks && status == ANYFLASH_OK && difference == NULL)
        fails = !verify(wanted, observed);
    if (*exit_code == 0 && (difference != NULL || fails))
        *exit_code = AF_EXIT_NO;
    if (looks)
        tell_result(wanted, observed, difference, fails);
    if (status == ANYFLASH_OK && observed->after.folder == NULL)
        tell_elsewhere(wanted, exit_code);
    return status;
}

/* Refuses a folder or a link that no package owns: an installer would write into it. */
static void check_unowned(struct af_cli_wanted *wanted)
{
    struct stat facts;
    struct af_run *run = &wanted->change.run;
    const char *path = af_path_join(run->arena, run->site, "flash_attn");
    const bool is_owned =
        af_machine_flash_attn(run->machine) != NULL || af_machine_shim(run->machine) != NULL;
    if (lstat(path, &facts) != 0 || (is_owned && !S_ISLNK(facts.st_mode)))
        return;
    af_cli_wanted_refuse(wanted,
                         af_arena_format(run->arena, "'%s' is %s that no package owns",
                                         af_text_scrub(run->arena, path, 400),
                                         S_ISLNK(facts.st_mode) ? "a link" : "a folder"),
                         "move it away: the installer would write into it");
}

/* Runs the command while the environment is locked, and records what it does to flash-attn. */
static enum anyflash_status run_observed(struct af_cli_wanted *wanted, int *exit_code_out,
                                         struct anyflash_error *err)
{
    struct af_observed observed = {.changed = false};
    struct af_run *run = &wanted->change.run;
    if (wanted->flash != NULL)
        check_unowned(wanted);
    if (wanted->refusal != NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_cli_offer_make(wanted, err);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    if (af_fact_truth(&run->machine->python.writable) == AF_NO) {
        /* Its installer says why it cannot, or, as pip does, takes a folder of the user. */
        status = start(wanted, exit_code_out, err);
        if (status == ANYFLASH_OK)
            tell_elsewhere(wanted, exit_code_out);
        return status;
    }
    status = af_change_lock(&wanted->change, err);
    if (status == ANYFLASH_OK)
        status = af_observed_begin(
            run, wanted->stand_in == NULL ? PACKAGE : "anyflash's stand-in for " PACKAGE,
            &observed, err);
    if (status != ANYFLASH_OK)
        return status;
    status = start(wanted, exit_code_out, err);
    enum anyflash_status ended =
        finish(wanted, &observed, exit_code_out, status == ANYFLASH_OK ? err : NULL);
    return status == ANYFLASH_OK ? ended : status;
}

static void tell_stand_in(struct af_cli_wanted *wanted)
{
    const char *preferred = wanted->cli->options.values[AF_OPTION_PREFER];
    const char *why = preferred != NULL ? ""
                                        : af_arena_format(&wanted->cli->arena,
                                                          "no flash-attn wheel fits torch %s; ",
                                                          wanted->torch);
    af_cli_remark(wanted->cli,
                  "%sinstalling anyflash's stand-in as flash-attn %s, which computes with "
                  "torch's own kernels",
                  why, wanted->stand_in);
}

/* ", a community build by mjun0812"; "" for the authors' own. */
static const char *publisher(struct af_cli_wanted *wanted)
{
    const struct af_rung *rung = af_plan_answer_rung(&wanted->answer);
    if (rung == NULL || rung->wheel == NULL || rung->wheel->official ||
        rung->wheel->path != NULL)
        return "";
    return af_arena_format(&wanted->cli->arena, ", a community build by %s",
                           af_fit_publisher(&wanted->cli->arena, rung->wheel));
}

static void tell_choice(struct af_cli_wanted *wanted)
{
    const struct af_progress *progress = &wanted->change.run.progress;
    if (wanted->torch != NULL)
        af_progress_message(progress, "torch %s%s%s%s", wanted->torch,
                            wanted->torch_stays ? " stays" : "",
                            wanted->torch_why != NULL ? ": " : "",
                            wanted->torch_why != NULL ? wanted->torch_why : "");
    if (wanted->stand_in != NULL)
        tell_stand_in(wanted);
    else if (wanted->chosen != NULL)
        af_progress_message(progress, "flash-attn: %s%s", wanted->chosen->filename,
                            wanted->placed ? ", which the project names: it is checked first, "
                                             "and compared afterwards"
                                           : publisher(wanted));
    else if (wanted->refusal == NULL)
        af_progress_message(progress, "flash-attn: the installed one fits");
}

/* Whether the installer would install again what is there. */
static bool reinstalls(const struct af_project_command *command)
{
    static const char *const words[] = {"--force-reinstall", "--ignore-installed", "-I",
                                        "--reinstall", "--reinstall-package"};
    static const char *const variables[] = {"PIP_FORCE_REINSTALL", "PIP_IGNORE_INSTALLED",
                                            "UV_REINSTALL", "UV_REINSTALL_PACKAGE"};
    for (size_t i = command->option_place; i < command->word_count; i++)
        for (size_t w = 0; w < AF_COUNT(words); w++) {
            const size_t len = strlen(words[w]);
            if (strncmp(command->words[i], words[w], len) == 0 &&
                (command->words[i][len] == '\0' || command->words[i][len] == '='))
                return true;
        }
    for (size_t v = 0; v < AF_COUNT(variables); v++)
        if (getenv(variables[v]) != NULL)
            return true;
    return false;
}

/* The index has the version, perhaps with another content, and would be asked for it. */
static void check_reinstall(struct af_cli_wanted *wanted)
{
    if (wanted->refusal == NULL && wanted->chosen == NULL && wanted->stand_in == NULL &&
        reinstalls(&wanted->command))
        af_cli_wanted_refuse(
            wanted, "the installed flash-attn fits, and the command would install it again",
            "leave out what says so, or uninstall flash-attn first");
}

/* What is done for a command that asks for flash-attn. */
static enum anyflash_status act_for_flash(struct af_cli_wanted *wanted, int *exit_code_out,
                                          struct anyflash_error *err)
{
    bool dry = af_option_given(&wanted->cli->options, AF_OPTION_DRY_RUN);
    bool placed = wanted->flash->url != NULL || wanted->flash->path != NULL;
    enum anyflash_status status =
        placed ? af_cli_wanted_take_place(wanted, err) : af_cli_wanted_decide(wanted, err);
    if (status == ANYFLASH_OK)
        check_reinstall(wanted);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    tell_choice(wanted);
    return dry ? ANYFLASH_OK : run_observed(wanted, exit_code_out, err);
}

/* What is built says what it needs: flash-attn that is not named gets no wheel. */
static void tell_unread(struct af_cli_wanted *wanted)
{
    char shown[AF_URL_SHOWN_BYTES];
    af_url_show(shown, sizeof shown, wanted->project.unread);
    af_cli_remark(wanted->cli,
                  "unknown whether the command asks for flash-attn, because only building '%s' "
                  "tells what it needs: it runs unchanged; for a wheel that fits, name "
                  "flash-attn in the command",
                  shown);
}

static enum anyflash_status act(struct af_cli_wanted *wanted, int *exit_code_out,
                                struct anyflash_error *err)
{
    enum anyflash_status status = af_cli_check_from(wanted->cli, err);
    if (status == ANYFLASH_OK)
        status = af_cli_wanted_read(wanted, err);
    if (status == ANYFLASH_OK && wanted->refusal == NULL && wanted->command.installs)
        status = af_cli_wanted_look(wanted, err);
    if (status == ANYFLASH_OK && wanted->refusal == NULL && wanted->command.installs)
        af_cli_settings_check(wanted);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    if (wanted->flash != NULL)
        return act_for_flash(wanted, exit_code_out, err);
    if (wanted->project.unread != NULL)
        tell_unread(wanted);
    else
        af_cli_remark(wanted->cli,
                      "the command does not ask for flash-attn: it runs unchanged");
    if (af_option_given(&wanted->cli->options, AF_OPTION_DRY_RUN))
        return ANYFLASH_OK;
    return wanted->command.installs ? run_observed(wanted, exit_code_out, err)
                                    : start(wanted, exit_code_out, err);
}

static void view_refusal(struct af_cli_wanted *wanted)
{
    struct af_text *out = &wanted->cli->out;
    af_text_format(out, "not run: %s\n", wanted->refusal);
    if (wanted->hint != NULL)
        af_text_format(out, "  %s\n", wanted->hint);
}

enum anyflash_status af_cmd_run(struct af_cli *cli, enum af_exit *exit_out,
                                struct anyflash_error *err)
{
    struct af_cli_wanted wanted = {.cli = cli, .change = {.cli = cli}};
    int exit_code = 0;
    enum anyflash_status status = act(&wanted, &exit_code, err);
    af_cli_offer_end(&wanted);
    af_change_end(&wanted.change);
    if (status == ANYFLASH_OK && wanted.refusal != NULL) {
        view_refusal(&wanted);
        exit_code = AF_EXIT_NO;
    }
    *exit_out = (enum af_exit)exit_code; /* the command's own, whatever it is */
    af_plan_answer_release(&wanted.answer);
    af_cli_inputs_release(&wanted.inputs);
    return status;
}
