/*
 * run_torch.c: which torch there will be, and the plan for it.
 */
#include "kit/cli/run_torch.h"

#include <string.h>

#include "kit/catalog/tables.h"
#include "kit/install/own_package.h"
#include "kit/system/progress.h"

#define PACKAGE AF_CLI_RUN_PACKAGE

/* The plan for this torch (NULL: the installed one) and version of flash-attn (NULL: any). */
static enum anyflash_status ask(struct af_cli_wanted *wanted, const char *torch,
                                const char *version, struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    const char *remark;
    enum anyflash_status status = ANYFLASH_OK;
    if (torch != NULL) {
        const char *given = af_arena_format(arena, "torch=%s", torch);
        status =
            af_machine_given_strictly(&wanted->inputs.machines.items[0], given, &remark, err);
    }
    if (status != ANYFLASH_OK)
        return status;
    af_plan_answer_release(&wanted->answer);
    wanted->answer = (struct af_plan_answer){.has_plan = false};
    wanted->inputs.request.fit.version = version;
    wanted->inputs.request.fit.has_preference = false;
    return af_plan_answer_make(&wanted->inputs.request, &wanted->answer, err);
}

bool af_cli_wanted_has_wheel(const struct af_cli_wanted *wanted)
{
    const struct af_rung *rung = af_plan_answer_rung(&wanted->answer);
    return rung != NULL && wanted->answer.has_plan && rung->kind == AF_RUNG_WHEEL &&
           af_cli_wanted_allows(wanted, PACKAGE, rung->wheel->version);
}

/* Asks for the version that is pinned, else for the newest allowed one that fits. */
static enum anyflash_status ask_versions(struct af_cli_wanted *wanted, const char *torch,
                                         struct anyflash_error *err)
{
    const char *pin = af_cli_wanted_version(wanted, false);
    enum anyflash_status status = ask(wanted, torch, pin, err);
    const struct af_catalog_wheel *next = NULL;
    const struct af_rung *rung =
        status == ANYFLASH_OK ? af_plan_answer_rung(&wanted->answer) : NULL;
    /* a wheel fits, but perhaps not one that the project allows */
    bool open = pin == NULL && rung != NULL && rung->kind == AF_RUNG_WHEEL;
    while (open && status == ANYFLASH_OK && !af_cli_wanted_has_wheel(wanted) &&
           (next = af_cli_wanted_next_version(
                wanted, next == NULL ? INT32_MAX : next->version_rank)) != NULL)
        status = ask(wanted, torch, next->version, err);
    return status;
}

/*
 * The newest torch that is allowed and has a wheel; wanted->torch is NULL without one. `latest`
 * is its version without a build.
 */
static enum anyflash_status newest_with_wheel(struct af_cli_wanted *wanted,
                                              const char **latest_out,
                                              struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    *latest_out = NULL;
    for (size_t i = af_tables.torch_count; i-- > 0 && status == ANYFLASH_OK;) {
        const char *latest = af_tables.torch[i].latest;
        if (!af_cli_wanted_allows(wanted, "torch", latest))
            continue;
        wanted->torch = af_cli_torch_with_build(wanted, latest);
        status = ask_versions(wanted, wanted->torch, err);
        if (status != ANYFLASH_OK || af_cli_wanted_has_wheel(wanted)) {
            *latest_out = latest;
            return status;
        }
    }
    wanted->torch = NULL;
    return status;
}

/* Nobody else needs torch and none is there: the newest with a wheel, else the newest. */
static enum anyflash_status choose_torch(struct af_cli_wanted *wanted,
                                         struct anyflash_error *err)
{
    const char *latest;
    enum anyflash_status status = newest_with_wheel(wanted, &latest, err);
    if (status != ANYFLASH_OK || latest != NULL)
        return status;
    for (size_t i = af_tables.torch_count; i-- > 0 && wanted->torch == NULL;)
        if (af_cli_wanted_allows(wanted, "torch", af_tables.torch[i].latest))
            wanted->torch = af_cli_torch_with_build(wanted, af_tables.torch[i].latest);
    return wanted->torch == NULL ? status : ask_versions(wanted, wanted->torch, err);
}

static const char *installer(const struct af_cli_wanted *wanted)
{
    return wanted->command.uv ? "uv" : "pip";
}

/*
 * The installer's own torch has no wheel, often because it is the newest. An older one with a
 * wheel serves as well if all other packages are the same with it.
 */
static enum anyflash_status try_older(struct af_cli_wanted *wanted, const char *flash,
                                      const struct af_cli_resolved *free_answer,
                                      struct anyflash_error *err)
{
    struct af_cli_resolved answer = {.failure = ""};
    const char *torch = wanted->torch, *latest;
    enum anyflash_status status = newest_with_wheel(wanted, &latest, err);
    if (status == ANYFLASH_OK && latest != NULL)
        status = af_cli_resolver_ask(wanted, flash, latest, &answer, err);
    if (status != ANYFLASH_OK)
        return status;
    if (answer.failure == NULL && af_cli_resolved_agree(free_answer, &answer)) {
        wanted->torch_why =
            af_arena_format(&wanted->cli->arena,
                            "torch %s has no wheel, and this one suits the others, too", torch);
        return ANYFLASH_OK;
    }
    wanted->torch = torch;
    return ask_versions(wanted, torch, err);
}

static void refuse_unresolved(struct af_cli_wanted *wanted, const char *failure)
{
    struct af_arena *arena = &wanted->cli->arena;
    af_cli_wanted_refuse(
        wanted,
        af_arena_format(arena, "%s does not say which torch the other requirements need: %s",
                        installer(wanted), failure),
        wanted->command.uv
            ? "without flash-attn the command fails in the same way, and says more"
            : "without flash-attn the command fails in the same way, and says more; pip "
              "answers since 22.2");
}

/* Why torch is the one that the installer chose. */
static const char *why(struct af_cli_wanted *wanted, const struct af_cli_resolved *answer)
{
    struct af_arena *arena = &wanted->cli->arena;
    return answer->needs_torch != NULL
               ? af_arena_format(arena, "%s needs it", answer->needs_torch)
               : af_arena_format(arena, "as %s resolves the other requirements",
                                 installer(wanted));
}

enum anyflash_status af_cli_torch_resolve(struct af_cli_wanted *wanted, const char *flash,
                                          struct af_cli_resolved *answer_out,
                                          struct anyflash_error *err)
{
    const char *installed = af_fact_text_or(&wanted->change.machine.torch.version, NULL);
    af_progress_message(&wanted->change.run.progress,
                        "asking %s which torch the other requirements need", installer(wanted));
    enum anyflash_status status = af_cli_resolver_ask(wanted, flash, NULL, answer_out, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *torch = af_cli_resolved_version(answer_out, "torch");
    if (answer_out->failure != NULL)
        refuse_unresolved(wanted, answer_out->failure);
    wanted->torch_stays = torch == NULL && installed != NULL;
    wanted->torch = torch != NULL ? af_cli_torch_with_build(wanted, torch) : installed;
    wanted->torch_why = torch == NULL ? NULL : why(wanted, answer_out);
    return ANYFLASH_OK;
}

/* The torch of the installer, and what fits it. */
static enum anyflash_status choose_resolved(struct af_cli_wanted *wanted,
                                            struct anyflash_error *err)
{
    const struct af_catalog_wheel *newest = af_cli_wanted_newest(wanted);
    const char *prefer = wanted->cli->options.values[AF_OPTION_PREFER];
    const char *flash = af_cli_wanted_version(wanted, true);
    struct af_cli_resolved answer;
    if (flash == NULL)
        flash = newest != NULL ? newest->version : AF_OWN_PACKAGE_STAND_IN;
    enum anyflash_status status = af_cli_torch_resolve(wanted, flash, &answer, err);
    if (status != ANYFLASH_OK || wanted->refusal != NULL)
        return status;
    if (wanted->torch == NULL)
        return choose_torch(wanted, err);
    status = ask_versions(wanted, wanted->torch_stays ? NULL : wanted->torch, err);
    bool serves = af_cli_wanted_has_wheel(wanted) || wanted->torch_stays ||
                  (prefer != NULL && strcmp(prefer, "wheel") != 0);
    return status == ANYFLASH_OK && !serves ? try_older(wanted, flash, &answer, err) : status;
}

enum anyflash_status af_cli_torch_choose(struct af_cli_wanted *wanted,
                                         struct anyflash_error *err)
{
    const char *pin = af_cli_wanted_pin(wanted, "torch");
    const char *named = wanted->cli->options.values[AF_OPTION_TORCH_CHANGE];
    const char *installed = af_fact_text_or(&wanted->change.machine.torch.version, NULL);
    if (named == NULL && af_cli_resolver_matters(wanted))
        return choose_resolved(wanted, err);
    wanted->torch_stays =
        named == NULL && installed != NULL && af_cli_wanted_allows(wanted, "torch", installed);
    if (wanted->torch_stays) {
        wanted->torch = installed;
        return ask_versions(wanted, NULL, err);
    }
    if (pin == NULL && named == NULL)
        return choose_torch(wanted, err);
    wanted->torch = af_cli_torch_with_build(wanted, named != NULL ? named : pin);
    return ask_versions(wanted, wanted->torch, err);
}
