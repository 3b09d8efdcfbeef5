/*
 * cmd_verify.c: `anyflash verify`: tests the installed flash-attn: compares its
 * files with RECORD, then imports it, calls it and compares the results.
 */
#include <string.h>

#include "kit/base/json.h"
#include "kit/cli/machine_inputs.h"
#include "kit/cli/screen.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/record.h"
#include "kit/install/verify.h"
#include "kit/system/file.h"
#include "kit/system/progress.h"

#define LABEL_COLUMNS 20

/* The distributions that provide FlashAttention, and the module to import for each. */
static const struct {
    const char *package;
    const char *module;
} known[] = {
    {"flash-attn", "flash_attn"},
    {"flash-attn-3", "flash_attn_interface"},
    {"flashattn-hopper", "flash_attn_interface"},
    {"flash-attn-4", "flash_attn.cute"},
};

struct verify {
    const struct af_machine *machine;
    const struct af_package *package;
    const char *module;
    struct af_verify_report report;
};

/* The package to verify: --package, or the first known one that is installed. */
static enum anyflash_status choose(const struct af_cli *cli, struct verify *verify,
                                   struct anyflash_error *err)
{
    const char *wanted = cli->options.values[AF_OPTION_PACKAGE];
    bool is_known = false;
    for (size_t i = 0; i < AF_COUNT(known) && verify->package == NULL; i++) {
        if (wanted != NULL &&
            !af_name_is((struct af_span){wanted, strlen(wanted)}, known[i].package))
            continue;
        is_known = true;
        verify->package = af_machine_package(verify->machine, known[i].package);
        verify->module = known[i].module;
    }
    if (!is_known)
        return af_fail(
            err, ANYFLASH_E_ARGUMENT,
            "--package must be flash-attn, flash-attn-3, flashattn-hopper or flash-attn-4");
    return ANYFLASH_OK;
}

/* "3 of 812 files: a.py is missing, ..." */
static const char *faults_text(struct af_cli *cli, const struct af_record_result *result)
{
    struct af_text text = {0};
    af_text_format(&text, "%zu of %zu files: ", result->fault_count, result->line_count);
    for (size_t i = 0; i < result->fault_count && i < 3; i++)
        af_text_format(&text, "%s%s: %s", i > 0 ? "; " : "", result->faults[i].path,
                       af_record_fault_text(result->faults[i].kind));
    if (result->fault_count > 3)
        af_text_add(&text, "; ...");
    return af_text_take(&text, &cli->arena);
}

static void verify_files(struct af_cli *cli, struct verify *verify)
{
    const struct af_package *package = verify->package;
    struct af_record_result result;
    struct anyflash_error problem = {0};
    const char *site = af_fact_text_or(&package->folder, NULL);
    const char *metadata = package->version.source;
    if (site == NULL || metadata == NULL) {
        af_verify_row_add(&verify->report, "files", AF_UNKNOWN, "its folder is unknown");
        return;
    }
    const char *info = af_path_folder(&cli->arena, metadata);
    if (af_record_check(site, info, &cli->arena, &result, &problem) != ANYFLASH_OK)
        af_verify_row_add(&verify->report, "files", AF_UNKNOWN,
                          af_arena_text(&cli->arena, problem.message));
    else if (result.fault_count > 0)
        af_verify_row_add(&verify->report, "files", AF_NO, faults_text(cli, &result));
    else
        af_verify_row_add(
            &verify->report, "files", AF_YES,
            af_arena_format(&cli->arena, "all %zu files match RECORD, %.1f MiB hashed%s",
                            result.line_count, (double)result.hashed_bytes / 1048576,
                            result.has_installer
                                ? ""
                                : "; no INSTALLER: was the installation interrupted?"));
}

static void run_checks(struct af_cli *cli, struct verify *verify)
{
    struct af_verify_options options = {
        .python = af_fact_text_or(&verify->machine->python.executable, NULL),
        .module = verify->module,
        .version = af_fact_text_or(&verify->package->version, NULL),
        .device = cli->options.values[AF_OPTION_DEVICE],
    };
    verify_files(cli, verify);
    if (options.python == NULL) {
        af_verify_row_add(&verify->report, "import", AF_UNKNOWN,
                          "cannot find the environment's Python");
        return;
    }
    af_verify_calls(&options, &cli->arena, &verify->report);
}

static const char *conclusion(enum af_answer answer)
{
    return answer == AF_YES  ? "it works: every check passed"
           : answer == AF_NO ? "it does not work here"
                             : "no problem was found, but some checks could not run here";
}

/* Nothing was found that could be checked. */
static void view_absent(struct af_screen *screen, struct af_cli *cli, const char *prefix)
{
    const char *wanted = cli->options.values[AF_OPTION_PACKAGE];
    af_screen_format(screen, 0, "", AF_TONE_BAD, "%s is not installed in %s",
                     wanted != NULL ? wanted : "flash-attn", prefix);
    af_screen_format(screen, 6, "Next: ", AF_TONE_PLAIN, "`%s` says which one fits",
                     af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
}

/* The answer first; then the package, as "flash-attn 2.8.3 in FOLDER", and each check. */
static void view(struct af_cli *cli, const struct verify *verify)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    const struct af_package *package = verify->package;
    const char *prefix = af_fact_text_or(&verify->machine->python.prefix, "this environment");
    enum af_answer answer = af_verify_answer(&verify->report);
    if (package == NULL) {
        view_absent(&screen, cli, prefix);
        return;
    }
    af_screen_add(&screen, 0, "", af_tone_of(answer), conclusion(answer));
    af_screen_gap(&screen);
    af_screen_format(
        &screen, 0, "", AF_TONE_STRONG, "%s %s%s in %s", af_fact_text_or(&package->name, "?"),
        af_fact_text_or(&package->version, "of unknown version"),
        package == af_machine_shim(verify->machine) ? " (anyflash's stand-in)" : "",
        af_fact_text_or(&package->folder, prefix));
    for (size_t i = 0; i < verify->report.row_count; i++) {
        const struct af_verify_row *row = &verify->report.rows[i];
        const char *label = af_arena_format(&cli->arena, "  %s", row->name);
        af_screen_format(&screen, LABEL_COLUMNS, label, af_tone_of(row->answer), "%s: %s",
                         af_answer_text(row->answer), row->evidence);
    }
}

static enum anyflash_status write_json(struct af_cli *cli, const struct verify *verify,
                                       struct anyflash_error *err)
{
    const struct af_package *package = verify->package;
    json_t *rows = json_array();
    for (size_t i = 0; i < verify->report.row_count; i++) {
        const struct af_verify_row *row = &verify->report.rows[i];
        rows = af_json_append(rows, json_pack("{s:s, s:s, s:s}", "check", row->name, "answer",
                                              af_answer_text(row->answer), "evidence",
                                              row->evidence));
    }
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s?, s:s?, s:s, s:o}", "schema", "anyflash-verify/1", "package",
                  package != NULL ? af_fact_text_or(&package->name, NULL) : NULL, "version",
                  package != NULL ? af_fact_text_or(&package->version, NULL) : NULL, "answer",
                  af_answer_text(af_verify_answer(&verify->report)), "checks", rows),
        err);
}

enum anyflash_status af_cmd_verify(struct af_cli *cli, enum af_exit *exit_out,
                                   struct anyflash_error *err)
{
    struct af_machines machines = {0};
    struct verify verify = {0};
    af_interrupt_catch(); /* so that the Python that it starts is ended */
    enum anyflash_status status = af_machines_load(cli, &machines, err);
    if (status != ANYFLASH_OK)
        return status;
    verify.machine = machines.pointers[0];
    status = choose(cli, &verify, err);
    if (status == ANYFLASH_OK && verify.package == NULL)
        af_verify_row_add(&verify.report, "installed", AF_NO,
                          af_arena_format(&cli->arena,
                                          "not installed; `%s` says which one fits",
                                          af_cli_next_command(cli, AF_COMMAND_PLAN, NULL)));
    else if (status == ANYFLASH_OK)
        run_checks(cli, &verify);
    if (status == ANYFLASH_OK && verify.package != NULL &&
        verify.package != af_machine_shim(verify.machine)) /* it has no models */
        af_cli_remark_advisory(cli, af_fact_text_or(&verify.package->name, NULL),
                               af_fact_text_or(&verify.package->version, NULL));
    if (status == ANYFLASH_OK && af_interrupted())
        status = af_fail(err, ANYFLASH_E_TIMEOUT,
                         "interrupted: the checks were not finished, and nothing was changed");
    if (status == ANYFLASH_OK && af_verify_answer(&verify.report) == AF_NO)
        *exit_out = AF_EXIT_NO;
    if (status == ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_JSON)) {
        status = write_json(cli, &verify, err);
    } else if (status == ANYFLASH_OK) {
        view(cli, &verify);
    }
    af_machines_release(&machines);
    return status;
}
