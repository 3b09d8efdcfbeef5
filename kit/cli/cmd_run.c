/*
 * cmd_run.c: `anyflash run -- pip install ...`: runs the user's own command, and gives its
 * installer exactly one wheel of flash-attn. It does that by environment variables; where uv
 * has none, or ignores it because the command has the same option, the option is added. The
 * project's files and all other packages stay as they are. run_choice.h decides which wheel.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "kit/cli/run_choice.h"
#include "kit/install/install.h"
#include "kit/install/own_package.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/process.h"

#define PACKAGE AF_CLI_RUN_PACKAGE
#define OLD_FOLDERS_MAX 1000

/* ---- the folder of the wheel ---- */

/* Whether a path can be one of several in a variable, between blanks or commas. */
static bool is_plain(const char *path)
{
    return path != NULL && path[strcspn(path, " \t\r\n,")] == '\0';
}

/* Removes folders of runs that were killed. */
static void remove_old(struct af_arena *arena, const char *base)
{
    const char **names;
    size_t count;
    if (af_folder_list(arena, base, OLD_FOLDERS_MAX, &names, &count, NULL, NULL) != ANYFLASH_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        int pid = 0;
        if (sscanf(names[i], "anyflash-run-%d-", &pid) != 1 || pid <= 0 ||
            kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        const char *path = af_path_join(arena, base, names[i]);
        if (path != NULL)
            af_folder_remove(path, NULL);
    }
}

static enum anyflash_status make_folder(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    const char *base = af_cache_folder(arena);
    if (!is_plain(base) || af_folder_make(base, 0755, NULL) != ANYFLASH_OK)
        base = "/tmp";
    remove_old(arena, base);
    char *folder =
        af_arena_format(arena, "%s/anyflash-run-%jd-XXXXXX", base, (intmax_t)getpid());
    if (folder == NULL)
        return af_fail_memory(err);
    if (mkdtemp(folder) == NULL)
        return af_fail(err, ANYFLASH_E_IO, "cannot create a folder in '%s': %s", base,
                       strerror(errno));
    wanted->folder = folder;
    return ANYFLASH_OK;
}

/* Gets the wheel, unless none is needed, and writes the constraints beside it. */
static enum anyflash_status prepare(struct af_cli_wanted *wanted, struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    const char *version = NULL;
    enum anyflash_status status = make_folder(wanted, err);
    if (status == ANYFLASH_OK && wanted->chosen != NULL)
        status = af_offered_wheel_make(&wanted->change.run, wanted->chosen, wanted->folder,
                                       wanted->torch_stays ? NULL : wanted->torch,
                                       &wanted->wheel, err);
    if (status == ANYFLASH_OK && wanted->stand_in != NULL) {
        wanted->wheel.version = wanted->stand_in;
        status = af_own_package_stand_in(&wanted->change.run, wanted->stand_in, wanted->folder,
                                         &wanted->wheel.path, err);
    }
    if (status != ANYFLASH_OK && wanted->chosen != NULL)
        wanted->cli->hint = "with the wheel in a folder, add --from FOLDER before --";
    if (status != ANYFLASH_OK)
        return status;
    if (wanted->wheel.refusal != NULL)
        af_cli_wanted_refuse(wanted, wanted->wheel.refusal, wanted->wheel.hint);
    else if (wanted->chosen != NULL)
        af_cli_wanted_check_hashes(wanted, wanted->wheel.sha256);
    version = wanted->wheel.version;
    struct af_text text = {0};
    if (wanted->torch != NULL)
        af_text_format(&text, "torch==%.*s\n", (int)strcspn(wanted->torch, "+"), wanted->torch);
    if (version != NULL)
        af_text_format(&text, PACKAGE "==%s\n", version);
    const char *path = af_path_join(arena, wanted->folder, "constraints.txt");
    status = text.failed || path == NULL
                 ? af_fail_memory(err)
                 : af_file_write_text(arena, path, af_text_get(&text), err);
    wanted->has_constraints = text.len > 0;
    af_text_release(&text);
    return status;
}

/* ---- the command ---- */

/* "NAME=VALUE", behind what the user has set. */
static const char *variable(struct af_arena *arena, const char *name, char separator,
                            const char *value)
{
    const char *set = getenv(name);
    return set == NULL || set[0] == '\0'
               ? af_arena_format(arena, "%s=%s", name, value)
               : af_arena_format(arena, "%s=%s%c%s", name, set, separator, value);
}

/* What the installer is told: an option, the variable that is its default, and its value. */
struct told {
    const char *option;
    const char *letter; /* its short form; NULL: none */
    const char *name;   /* NULL: there is none */
    char separator;     /* between several values of the variable */
    const char *value;
};

/* Whether the command itself has the option: uv then ignores the variable. */
static bool has_option(const struct af_word_list *words, const struct told *told)
{
    for (size_t i = 0; i < words->count; i++)
        if (af_starts_with(words->items[i], told->option) ||
            (told->letter != NULL && af_starts_with(words->items[i], told->letter)))
            return true;
    return false;
}

static enum anyflash_status start(struct af_cli_wanted *wanted, int *exit_code_out,
                                  struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    const struct af_word_list *words = &wanted->cli->options.words;
    const char *file = wanted->folder == NULL || !wanted->has_constraints
                           ? NULL
                           : af_path_join(arena, wanted->folder, "constraints.txt");
    const char *links = wanted->wheel.path == NULL ? NULL : wanted->folder;
    const char *package = links == NULL ? NULL : PACKAGE;
    const struct told pip[] = {
        {"--constraint", "-c", "PIP_CONSTRAINT", ' ', file},
        {"--only-binary", NULL, "PIP_ONLY_BINARY", ',', package},
        {"--find-links", "-f", "PIP_FIND_LINKS", ' ', links},
    };
    const struct told uv[] = {
        {"--constraint", "-c", "UV_CONSTRAINT", ' ', file},
        {"--only-binary", NULL, NULL, ' ', package},
        {"--find-links", "-f", "UV_FIND_LINKS", ',', links},
    };
    const struct told *told = wanted->command.uv ? uv : pip;
    const char **argv =
        af_arena_array(arena, words->count + 2 * AF_COUNT(uv) + 1, sizeof *argv);
    const char *set[AF_COUNT(uv) + 1] = {NULL};
    size_t set_count = 0;
    size_t count = words->count;
    if (argv == NULL)
        return af_fail_memory(err);
    memcpy(argv, words->items, count * sizeof *argv);
    for (size_t i = 0; i < AF_COUNT(uv); i++) {
        if (told[i].value == NULL)
            continue;
        if (told[i].name == NULL || (wanted->command.uv && has_option(words, &told[i]))) {
            argv[count++] = told[i].option;
            argv[count++] = told[i].value;
        } else {
            set[set_count++] = variable(arena, told[i].name, told[i].separator, told[i].value);
        }
    }
    if (arena->failed)
        return af_fail_memory(err);
    const struct af_program program = {.argv = argv, .environment = set};
    return af_program_run_foreground(&program, arena, exit_code_out, err);
}

/*
 * Checks what the command installed; a package that does not load is a failure of it. So is one
 * that should have been replaced, but has the version that was asked for.
 */
static enum anyflash_status verify(struct af_cli_wanted *wanted,
                                   const struct af_observed *observed, int *exit_code,
                                   struct anyflash_error *err)
{
    struct af_run *run = &wanted->change.run;
    struct af_verify_report report = {.row_count = 0};
    bool kept = !observed->changed && *exit_code == 0 && wanted->wheel.path != NULL &&
                af_machine_flash_attn(run->machine) != NULL;
    if (observed->after.folder == NULL || (!observed->changed && !kept))
        return ANYFLASH_OK;
    const struct af_verify_options options = {
        .python = af_fact_text_or(&run->machine->python.executable, NULL),
        .module = "flash_attn",
        .version = observed->after.version};
    enum anyflash_status status = af_verify_calls(&options, run->arena, &report, err);
    for (size_t i = 0; i < report.row_count; i++)
        if (report.rows[i].answer == AF_NO)
            af_progress_message(&run->progress, "%s: no, %s", report.rows[i].name,
                                report.rows[i].evidence);
    bool fails = report.row_count > 0 && af_verify_answer(&report) == AF_NO;
    if (*exit_code == 0 && fails)
        *exit_code = AF_EXIT_NO;
    if (observed->changed)
        af_progress_message(&run->progress, "installed: %s %s; `%s` takes it back",
                            observed->operation.title, observed->after.version,
                            af_run_command(run, "undo",
                                           af_arena_format(run->arena, "%jd",
                                                           (intmax_t)observed->operation.id)));
    else if (fails)
        af_progress_message(&run->progress,
                            "flash-attn %s was there before and stays, because its version is "
                            "the right one: uninstall it, then run this again",
                            observed->after.version);
    return status;
}

/* Runs the command while the environment is locked, and records what it does to flash-attn. */
static enum anyflash_status run_observed(struct af_cli_wanted *wanted, int *exit_code_out,
                                         struct anyflash_error *err)
{
    struct af_observed observed = {.package = NULL};
    struct af_run *run = &wanted->change.run;
    enum anyflash_status status = prepare(wanted, err);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    if (af_fact_truth(&run->machine->python.writable) != AF_NO) {
        status = af_change_lock(&wanted->change, err);
        if (status == ANYFLASH_OK)
            status = af_observed_begin(
                run, PACKAGE,
                wanted->stand_in == NULL ? PACKAGE : "anyflash's stand-in for " PACKAGE,
                &observed, err);
    }
    if (status != ANYFLASH_OK)
        return status;
    status = start(wanted, exit_code_out, err);
    enum anyflash_status ended =
        af_observed_end(run, &observed, status == ANYFLASH_OK ? err : NULL);
    if (status == ANYFLASH_OK)
        status = ended;
    return status == ANYFLASH_OK ? verify(wanted, &observed, exit_code_out, err) : status;
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

static void tell_choice(struct af_cli_wanted *wanted)
{
    const struct af_progress *progress = &wanted->change.run.progress;
    if (wanted->torch != NULL)
        af_progress_message(progress, "torch %s%s", wanted->torch,
                            wanted->torch_stays ? " stays" : "");
    if (wanted->stand_in != NULL)
        tell_stand_in(wanted);
    else if (wanted->chosen != NULL)
        af_progress_message(progress, "flash-attn: %s", wanted->chosen->filename);
    else if (wanted->refusal == NULL && wanted->flash->url == NULL &&
             wanted->flash->path == NULL)
        af_progress_message(progress, "flash-attn: the installed one fits");
}

/* What is done for a command that asks for flash-attn. */
static enum anyflash_status act_for_flash(struct af_cli_wanted *wanted, int *exit_code_out,
                                          struct anyflash_error *err)
{
    bool dry = af_option_given(&wanted->cli->options, AF_OPTION_DRY_RUN);
    bool placed = wanted->flash->url != NULL || wanted->flash->path != NULL;
    enum anyflash_status status =
        placed ? af_cli_wanted_check_place(wanted, err) : af_cli_wanted_decide(wanted, err);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    tell_choice(wanted);
    return dry ? ANYFLASH_OK : run_observed(wanted, exit_code_out, err);
}

static enum anyflash_status act(struct af_cli_wanted *wanted, int *exit_code_out,
                                struct anyflash_error *err)
{
    enum anyflash_status status = af_cli_check_from(wanted->cli, err);
    if (status == ANYFLASH_OK)
        status = af_cli_wanted_read(wanted, err);
    if (status == ANYFLASH_OK && wanted->refusal == NULL && wanted->command.installs)
        status = af_cli_wanted_look(wanted, err);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    if (wanted->flash != NULL)
        return act_for_flash(wanted, exit_code_out, err);
    af_cli_remark(wanted->cli, "the command does not ask for flash-attn: it runs unchanged");
    return af_option_given(&wanted->cli->options, AF_OPTION_DRY_RUN)
               ? ANYFLASH_OK
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
    if (wanted.folder != NULL)
        af_folder_remove(wanted.folder, NULL);
    af_change_end(&wanted.change);
    if (status == ANYFLASH_OK && wanted.refusal != NULL) {
        view_refusal(&wanted);
        exit_code = AF_EXIT_NO;
    }
    *exit_out = (enum af_exit)exit_code; /* the command's own, whatever it is */
    af_plan_answer_release(&wanted.answer);
    af_cli_inputs_release(&wanted.inputs);
    return status == ANYFLASH_OK ? af_cli_finish(cli, err) : status;
}
