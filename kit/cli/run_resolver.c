/*
 * run_resolver.c: the question to pip or uv, whose answer run_resolver_answer.c reads. Nothing
 * is installed. pip before 23.3 downloads wheels for its answer, and takes them from its cache
 * later.
 */
#include "kit/cli/run_resolver.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/url.h"
#include "kit/cli/run_offer.h"
#include "kit/formats/wheel_archive.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/process.h"
#include "kit/system/progress.h"

#define PACKAGE AF_CLI_RUN_PACKAGE
#define LIMIT_MS (10 * 60 * 1000)
#define NO_PROGRAM 127 /* the exit code if the program does not exist (process.h) */
#define OWN_WORDS 3    /* --dry-run --report FILE */

/* Whether the requirement may depend on torch or limit its version. */
static bool may_decide(const struct af_project_requirement *requirement,
                       const struct af_marker_environment *here)
{
    const char *name = requirement->name;
    const struct af_span marker = {requirement->marker, strlen(requirement->marker)};
    if (requirement->constraint || requirement->is_read ||
        af_marker_holds(marker, here) == AF_NO)
        return false;
    return name == NULL || (strcmp(name, "torch") != 0 && strcmp(name, PACKAGE) != 0);
}

bool af_cli_resolver_matters(const struct af_cli_wanted *wanted)
{
    static const char *const variables[] = {"PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_OVERRIDE"};
    const struct af_project *project = &wanted->project;
    const struct af_project_requirement *at = NULL;
    while ((at = af_project_next(project, at, "torch", &wanted->here)) != NULL)
        if (af_project_pinned_version(project->arena, at->specifier) != NULL)
            return false;
    for (at = project->requirements; at != NULL; at = at->next)
        if (may_decide(at, &wanted->here))
            return true;
    for (size_t i = 0; i < AF_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (af_starts_with(variables[i], "UV") == wanted->command.uv && value != NULL &&
            value[0] != '\0')
            return true;
    }
    return af_project_next_option(project, NULL, AF_PROJECT_MEANS_FILE) != NULL ||
           af_project_next_option(project, NULL, AF_PROJECT_MEANS_CONSTRAINT) != NULL;
}

/* Writes a wheel of this version that contains and needs nothing: *path_out. */
static enum anyflash_status write_empty(struct af_cli_wanted *wanted, const char *version,
                                        const char **path_out, struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    struct af_wheel_pack *pack = af_arena_alloc(arena, sizeof *pack);
    const struct af_span *pieces;
    size_t count;
    pack->arena = arena;
    pack->count = 0;
    pack->information = af_arena_format(arena, "flash_attn-%s.dist-info", version);
    af_wheel_pack_information(
        pack, "METADATA",
        af_arena_format(arena, "Metadata-Version: 2.1\nName: flash-attn\nVersion: %s\n",
                        version));
    af_wheel_pack_information(pack, "WHEEL",
                              "Wheel-Version: 1.0\nGenerator: anyflash\nRoot-Is-Purelib: "
                              "true\nTag: py3-none-any\n");
    *path_out =
        af_arena_format(arena, "%s/flash_attn-%s-py3-none-any.whl", wanted->folder, version);
    enum anyflash_status status = af_wheel_pack_archive(pack, &pieces, &count, err);
    return status == ANYFLASH_OK ? af_file_write(arena, *path_out, pieces, count, err) : status;
}

/* Writes the constraints of the question to *path_out, which is NULL without any. */
static enum anyflash_status write_limits(struct af_cli_wanted *wanted, const char *flash,
                                         const char *torch, const char **path_out,
                                         struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    const char *wheel = NULL;
    char sha256[AF_SHA256_HEX_BYTES];
    struct af_text text = {0};
    enum anyflash_status status = ANYFLASH_OK;
    if (flash != NULL)
        status = write_empty(wanted, flash, &wheel, err);
    if (status == ANYFLASH_OK && wheel != NULL)
        status = af_file_sha256(wheel, sha256, NULL, err);
    if (status != ANYFLASH_OK)
        return status;
    if (wheel != NULL)
        af_text_format(&text, PACKAGE " @ file://%s#sha256=%s\n",
                       af_url_encode_path(arena, wheel), sha256);
    if (torch != NULL)
        af_text_format(&text, "torch==%.*s\n", (int)strcspn(torch, "+"), torch);
    const char *path = af_path_join(arena, wanted->folder, "question.txt");
    status = af_file_write_text(arena, path, af_text_get(&text), err);
    *path_out = text.len > 0 ? path : NULL;
    af_text_release(&text);
    return status;
}

/* Whether the option hides uv's output, which is needed, or is added here anyway. */
static bool is_quiet(const char *word)
{
    return strcmp(word, "--quiet") == 0 || strcmp(word, "--dry-run") == 0 ||
           (word[0] == '-' && word[1] == 'q' && word[1 + strspn(word + 1, "q")] == '\0');
}

/* The word without the letters q of "-qr", which would silence uv. */
static const char *without_quiet(struct af_arena *arena, const char *word)
{
    size_t count = word[0] == '-' ? strspn(word + 1, "q") : 0;
    return count == 0 ? word : af_arena_format(arena, "-%s", word + 1 + count);
}

/* The command with `limits` as a trial whose answer can be read. */
static const char **question_words(struct af_cli_wanted *wanted, const char *limits,
                                   const char *report)
{
    struct af_arena *arena = &wanted->cli->arena;
    const char *kept = wanted->constraints;
    size_t count = 0, from = 0, read = 0;
    wanted->constraints = limits;
    const char **words = af_cli_offer_words(wanted);
    wanted->constraints = kept;
    while (words[from] != NULL)
        from++;
    const char **argv = af_arena_array(arena, from + OWN_WORDS + 1, sizeof *argv);
    for (bool options = true; read < from; read++) {
        if (read == wanted->command.option_place) {
            argv[count++] = "--dry-run";
            argv[count++] = wanted->command.uv ? "--no-progress" : "--report";
            if (!wanted->command.uv)
                argv[count++] = report;
        }
        options = options && strcmp(words[read], "--") != 0;
        bool own = options && read >= wanted->command.prefix_count;
        if (!own || !is_quiet(words[read]))
            argv[count++] = own ? without_quiet(arena, words[read]) : words[read];
    }
    argv[count] = NULL;
    return argv;
}

static bool go_on(void *context)
{
    (void)context;
    return !af_interrupted();
}

enum anyflash_status af_cli_resolver_ask(struct af_cli_wanted *wanted, const char *flash,
                                         const char *torch,
                                         struct af_cli_resolved *resolved_out,
                                         struct anyflash_error *err)
{
    static const char *const variables[] = {
        "NO_COLOR=1", "FORCE_COLOR", "CLICOLOR_FORCE", "PIP_NO_INPUT=1", "PIP_QUIET",
        "PIP_REPORT", NULL};
    struct af_arena *arena = &wanted->cli->arena;
    const char *limits = NULL;
    struct af_program_result result = {0};
    *resolved_out =
        (struct af_cli_resolved){.packages = af_arena_array(arena, AF_CLI_RESOLVED_PACKAGES_MAX,
                                                            sizeof *resolved_out->packages)};
    enum anyflash_status status = af_cli_offer_begin(wanted, err);
    if (status == ANYFLASH_OK)
        status = write_limits(wanted, flash, torch, &limits, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *report = af_path_join(arena, wanted->folder, "report.json");
    const struct af_program program = {.argv = question_words(wanted, limits, report),
                                       .environment = variables,
                                       .limit_ms = LIMIT_MS,
                                       .go_on = go_on};
    status = af_program_run(&program, arena, &result, err);
    if (status == ANYFLASH_E_TIMEOUT && !af_interrupted()) {
        resolved_out->failure = "it has not answered within ten minutes";
        return ANYFLASH_OK;
    }
    if (status != ANYFLASH_OK)
        return status;
    if (result.exit_code == NO_PROGRAM && result.errors.len == 0)
        resolved_out->failure = "there is no such program";
    else if (result.exit_code != 0)
        resolved_out->failure = af_cli_resolved_last_error(arena, result.errors);
    else if (wanted->command.uv)
        af_cli_resolved_read_uv(resolved_out, arena, result.errors);
    else
        af_cli_resolved_read_pip(wanted, report, resolved_out);
    return ANYFLASH_OK;
}
