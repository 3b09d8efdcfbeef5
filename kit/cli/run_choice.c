/*
 * run_choice.c: torch and the wheel or the stand-in that `anyflash run` gives to the command,
 * or why there is none. run_command.c reads the command and its environment.
 */
#include "kit/cli/run_choice.h"

#include <string.h>

#include "kit/base/url.h"
#include "kit/cli/run_torch.h"
#include "kit/install/own_package.h"

#define PACKAGE AF_CLI_RUN_PACKAGE

void af_cli_wanted_refuse(struct af_cli_wanted *wanted, const char *reason, const char *hint)
{
    wanted->refusal = reason != NULL ? reason : "";
    wanted->hint = hint;
}

/*
 * A machine without a GPU may make an image for others: the wheel is then chosen without one.
 * --arch names one.
 */
static void forget_missing_gpu(struct af_cli_wanted *wanted)
{
    static const char why[] = "this machine has none, and another one may run it";
    struct af_machine *machine = &wanted->inputs.machines.items[0];
    if (machine->gpus.count > 0 || af_option_given(&wanted->cli->options, AF_OPTION_ARCH))
        return;
    machine->gpus.state = AF_FACT_UNKNOWN;
    machine->gpus.source = why;
    af_fact_unknown(&machine->arena, &machine->driver.kernel_version, "%s", why);
    af_fact_unknown(&machine->arena, &machine->driver.user_version, "%s", why);
    af_fact_unknown(&machine->arena, &machine->driver.cuda_api, "%s", why);
}

static const char *place_text(struct af_cli_wanted *wanted,
                              const struct af_project_requirement *requirement)
{
    const struct af_project_place *place = &requirement->place;
    return place->file == NULL
               ? requirement->text
               : af_arena_format(&wanted->cli->arena, "%s:%jd",
                                 af_text_scrub(&wanted->cli->arena, place->file, 200),
                                 (intmax_t)place->line);
}

#define BUILD "`anyflash build --head-dim 128 --dtype bf16` makes a wheel for every torch"

/* A torch without CUDA, which the index or --torch-backend=cpu asks for, has no flash-attn. */
static void refuse_cpu(struct af_cli_wanted *wanted)
{
    af_cli_wanted_refuse(
        wanted,
        af_arena_format(&wanted->cli->arena,
                        "%s: torch %s has no CUDA, and flash-attn computes only on GPUs",
                        place_text(wanted, wanted->flash), wanted->torch),
        "without flash-attn, torch's own attention (attn_implementation=\"sdpa\") and "
        "anyflash's engine compute on this CPU; for a GPU, take an index with CUDA");
}

/* Why there is no wheel to give, and what would help. */
static void refuse_answer(struct af_cli_wanted *wanted)
{
    struct af_arena *arena = &wanted->cli->arena;
    const struct af_decision *decision = &wanted->answer.decision;
    const struct af_rung *change = &decision->rungs[AF_RUNG_TORCH_CHANGE];
    const struct af_reason *problem = decision->environment_problem;
    const char *torch = wanted->torch == NULL ? "this torch" : wanted->torch;
    bool builds = decision->rungs[AF_RUNG_BUILD].answer == AF_YES;
    const char *before = builds ? BUILD "; " : "";
    const char *other =
        change->torch_cuda == NULL
            ? change->torch_version
            : af_arena_format(arena, "%s+%s", change->torch_version, change->torch_cuda);
    if (problem != NULL) {
        af_cli_wanted_refuse(
            wanted,
            af_arena_format(arena, "%s: %s", af_reasons[problem->id].message, problem->detail),
            af_reason_advice(problem));
        return;
    }
    af_cli_wanted_refuse(
        wanted,
        af_arena_format(arena, "%s: no wheel of flash-attn%s fits torch %s here",
                        place_text(wanted, wanted->flash), wanted->flash->specifier, torch),
        builds ? BUILD "; `anyflash plan` shows every option"
               : "`anyflash plan` shows every option");
    if (change->answer == AF_NO || change->torch_version == NULL || change->wheel == NULL ||
        !af_cli_wanted_allows(wanted, PACKAGE, change->wheel->version))
        return;
    if (af_cli_wanted_allows(wanted, "torch", change->torch_version))
        wanted->hint =
            af_arena_format(arena, "%storch %s has one: add --allow-torch-change %s before --",
                            before, other, other);
    else
        wanted->hint = af_arena_format(arena,
                                       "%storch %s has one: change the version that the "
                                       "project pins",
                                       before, other);
}

bool af_cli_wanted_has_hashes(const struct af_cli_wanted *wanted)
{
    const struct af_project_requirement *found = NULL;
    while ((found = af_project_next(&wanted->project, found, PACKAGE, &wanted->here)) != NULL)
        if (found->hashes[0] != '\0')
            return true;
    return false;
}

void af_cli_wanted_refuse_wheel(struct af_cli_wanted *wanted, const char *reason,
                                const char *hint)
{
    static const char other[] = "name the version instead, as flash-attn==VERSION: the wheel "
                                "that fits is then chosen";
    if (wanted->placed)
        reason = af_arena_format(&wanted->cli->arena, "%s: %s",
                                 place_text(wanted, wanted->flash), reason);
    af_cli_wanted_refuse(wanted, reason, hint == NULL && wanted->placed ? other : hint);
}

void af_cli_wanted_check_hashes(struct af_cli_wanted *wanted, const char *sha256)
{
    const struct af_project_requirement *found = NULL;
    while ((found = af_project_next(&wanted->project, found, PACKAGE, &wanted->here)) != NULL) {
        if (found->hashes[0] == '\0' ||
            (sha256 != NULL && strstr(found->hashes, sha256) != NULL))
            continue;
        struct af_arena *arena = &wanted->cli->arena;
        if (wanted->stand_in != NULL)
            af_cli_wanted_refuse(
                wanted,
                af_arena_format(arena,
                                "%s: no wheel of flash-attn fits torch %s here, "
                                "and no stand-in can have these hashes",
                                place_text(wanted, wanted->flash), wanted->torch),
                "without the hashes the stand-in is installed; `anyflash plan` "
                "shows every option");
        else
            af_cli_wanted_refuse(
                wanted,
                af_arena_format(arena,
                                "%s: none of the hashes is that of the wheel that fits, %s",
                                place_text(wanted, wanted->flash), wanted->chosen->filename),
                sha256 == NULL ? "its hash is not known before it is downloaded"
                               : af_arena_format(arena, "add --hash=sha256:%s", sha256));
        return;
    }
}

/*
 * The version under which anyflash's own flash_attn satisfies the project: the pinned one, that
 * of its modules, or the newest that is allowed. NULL: it cannot compute here, or has another
 * interface than the versions that the project allows.
 */
static const char *stand_in_version(struct af_cli_wanted *wanted)
{
    const struct af_decision *decision = &wanted->answer.decision;
    const struct af_catalog_wheel *newest = af_cli_wanted_newest(wanted);
    const char *version = af_cli_wanted_version(wanted, true);
    if (version == NULL && af_cli_wanted_allows(wanted, PACKAGE, AF_OWN_PACKAGE_STAND_IN))
        version = AF_OWN_PACKAGE_STAND_IN;
    else if (version == NULL && newest != NULL)
        version = newest->version;
    bool serves =
        decision->environment_problem == NULL && wanted->torch != NULL &&
        decision->rungs[AF_RUNG_TORCH_KERNELS].answer != AF_NO &&
        !wanted->inputs.request.fit.lacks_package &&
        af_plan_package_refusal(wanted->change.run.machine, false, &wanted->cli->arena) == NULL;
    return serves && version != NULL && af_starts_with(version, "2.") &&
                   af_cli_wanted_allows(wanted, PACKAGE, version)
               ? version
               : NULL;
}

/* Why there is no stand-in for a user who asks for it. */
static void refuse_stand_in(struct af_cli_wanted *wanted)
{
    struct af_arena *arena = &wanted->cli->arena;
    const struct af_rung *kernels = &wanted->answer.decision.rungs[AF_RUNG_TORCH_KERNELS];
    const char *why = af_plan_package_refusal(wanted->change.run.machine, false, arena);
    if (why == NULL)
        why = kernels->answer == AF_NO ? kernels->summary
              : wanted->inputs.request.fit.lacks_package
                  ? "the files of the stand-in are not beside this program; `make install` and "
                    "the Python wheel both bring them"
                  : "no stand-in has a version that is allowed";
    af_cli_wanted_refuse(
        wanted, af_arena_format(arena, "%s: %s", place_text(wanted, wanted->flash), why),
        "`anyflash plan` shows every option");
}

/* pip takes constraints with an address since 21.1, and none for a requirement with extras. */
static void check_pip(struct af_cli_wanted *wanted)
{
    struct af_arena *arena = &wanted->cli->arena;
    const struct af_machine *machine = &wanted->change.machine;
    const struct af_project_requirement *found = NULL;
    for (size_t i = 0; i < machine->tools.count; i++) {
        const struct af_tool *tool = &machine->tools.rows[i];
        const char *version = af_fact_text_or(&tool->version, NULL);
        if (af_fact_is(&tool->name, "pip") && version != NULL &&
            af_project_allows(">=21.1", version) == AF_NO)
            af_cli_wanted_refuse(
                wanted,
                af_arena_format(arena, "pip %s takes no address as a constraint",
                                af_text_scrub(arena, version, 40)),
                "update pip to 21.1 or newer, or first run `anyflash install`");
    }
    while ((found = af_project_next(&wanted->project, found, PACKAGE, &wanted->here)) != NULL)
        if (found->extras[0] != '\0')
            af_cli_wanted_refuse(wanted,
                                 af_arena_format(arena, "%s: flash-attn has no extras '%s'",
                                                 place_text(wanted, found),
                                                 af_text_scrub(arena, found->extras, 80)),
                                 "ask for flash-attn without them");
}

enum anyflash_status af_cli_wanted_decide(struct af_cli_wanted *wanted,
                                          struct anyflash_error *err)
{
    struct af_options *options = &wanted->cli->options;
    options->values[AF_OPTION_HERE] = "";
    enum anyflash_status status = af_cli_inputs_load(
        wanted->cli, AF_CLI_INPUT_MACHINES | AF_CLI_INPUT_PROOFS | AF_CLI_INPUT_FILES,
        &wanted->inputs, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_fit_options *fit = &wanted->inputs.request.fit;
    enum af_rung_kind prefer = fit->has_preference ? fit->preference : AF_RUNG_COUNT;
    if (fit->has_preference && prefer != AF_RUNG_WHEEL && prefer != AF_RUNG_TORCH_KERNELS)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'run' takes --prefer wheel or torch-kernels");
    forget_missing_gpu(wanted);
    wanted->change.run.machine = wanted->inputs.machines.pointers[0];
    if (!wanted->command.uv)
        check_pip(wanted);
    if (wanted->refusal == NULL)
        status = af_cli_torch_choose(wanted, err);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    if (!af_cli_wanted_has_wheel(wanted) || prefer == AF_RUNG_TORCH_KERNELS) {
        wanted->stand_in = prefer == AF_RUNG_WHEEL ? NULL : stand_in_version(wanted);
        if (wanted->stand_in == NULL && wanted->torch != NULL &&
            af_ends_with(wanted->torch, "+cpu"))
            refuse_cpu(wanted);
        else if (wanted->stand_in == NULL && prefer == AF_RUNG_TORCH_KERNELS)
            refuse_stand_in(wanted);
        else if (wanted->stand_in == NULL)
            refuse_answer(wanted);
        else
            af_cli_wanted_check_hashes(wanted, NULL);
        return ANYFLASH_OK;
    }
    for (size_t i = 0; i < wanted->answer.plan.step_count; i++)
        if (wanted->answer.plan.steps[i].wheel != NULL)
            wanted->chosen = wanted->answer.plan.steps[i].wheel;
    if (wanted->chosen != NULL && wanted->chosen->sha256 != NULL)
        af_cli_wanted_check_hashes(wanted, wanted->chosen->sha256);
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_wanted_take_place(struct af_cli_wanted *wanted,
                                              struct anyflash_error *err)
{
    const struct af_project_requirement *flash = wanted->flash;
    struct af_arena *arena = &wanted->cli->arena;
    struct af_step_wheel *named = &wanted->named;
    const char *url = flash->url;
    const char *pin = af_cli_wanted_pin(wanted, "torch");
    named->package = PACKAGE;
    named->filename = af_url_file_name(arena, url != NULL ? url : flash->path);
    wanted->torch = pin == NULL ? af_fact_text_or(&wanted->change.machine.torch.version, NULL)
                                : af_cli_torch_with_build(wanted, pin);
    wanted->torch_stays = pin == NULL;
    wanted->placed = true;
    if (!af_ends_with(named->filename, ".whl")) {
        af_cli_wanted_refuse(
            wanted,
            af_arena_format(arena, "%s names sources, which would be compiled",
                            place_text(wanted, wanted->flash)),
            "name the version instead, as flash-attn==VERSION: a wheel is then chosen");
        return ANYFLASH_OK;
    }
    const char *hash = url == NULL ? NULL : strstr(url, "#sha256=");
    if (hash != NULL && af_sha256_is_hex(hash + strlen("#sha256=")))
        named->sha256 = hash + strlen("#sha256=");
    if (url != NULL && af_url_is_http(url))
        named->url = af_arena_text_n(arena, url, strcspn(url, "#"));
    else
        named->path = url == NULL ? flash->path : af_url_file_path(arena, url);
    wanted->chosen = named;
    struct af_cli_resolved answer;
    return af_cli_resolver_matters(wanted) ? af_cli_torch_resolve(wanted, NULL, &answer, err)
                                           : ANYFLASH_OK;
}
