/*
 * inspect_next.c: what the user of `anyflash inspect` does now: by the check that decides the
 * answer, else by what else the wheel contains, else to install it.
 */
#include "kit/cli/inspect_view.h"

#include <string.h>

#include "kit/base/url.h"

#define SHOWN_BYTES 2000u

static bool fails(const struct af_proof *proof, enum af_proof_check_id id)
{
    return proof->checks[id].answer == AF_NO;
}

static bool is_flash(const struct af_inspection *inspection)
{
    const struct af_inspect_wheel *wheel = inspection->target.wheel;
    return wheel != NULL && wheel->has_name &&
           af_starts_with(wheel->name.package, "flash_attn");
}

/* "Python 3.12 and torch 2.15.0+cu132" */
static const char *python_and_torch(struct af_cli *cli, const struct af_inspection *inspection)
{
    const char *python =
        af_fact_text_or(&inspection->machine->python.version, "of another version");
    const char *dot = strchr(python, '.');
    size_t minor = dot == NULL ? strlen(python) : (size_t)(dot - python) + 1;
    minor += dot == NULL ? 0 : strcspn(dot + 1, ".");
    const char *torch = inspection->torch;
    return af_arena_format(&cli->arena, "Python %.*s%s%s", (int)minor, python,
                           torch == NULL ? "" : " and torch ", torch == NULL ? "" : torch);
}

/* Whether the problem is torch, so that another torch may help. */
static bool is_about_torch(const struct af_proof *proof)
{
    return proof->built_for != NULL &&
           (fails(proof, AF_CHECK_SYMBOLS) || fails(proof, AF_CHECK_LAYOUT) ||
            fails(proof, AF_CHECK_CXX_ABI) || fails(proof, AF_CHECK_CUDA_RUNTIME));
}

static const char *after_no(struct af_cli *cli, const struct af_inspection *inspection,
                            const struct af_proof *proof)
{
    struct af_arena *arena = &cli->arena;
    if (fails(proof, AF_CHECK_FORMAT) || fails(proof, AF_CHECK_MACHINE))
        return "use a file that was built for this system";
    if (is_flash(inspection))
        return af_arena_format(arena, "`%s` shows what fits here",
                               af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
    if (is_about_torch(proof) && inspection->torch == NULL)
        return af_arena_format(arena,
                               "install %s, which this file belongs to (`--torch "
                               "VERSION` proves it against any torch)",
                               proof->built_for);
    if (is_about_torch(proof))
        return af_arena_format(arena,
                               "use a file built for %s; this one belongs to %s (`--torch "
                               "VERSION` proves it against another torch)",
                               python_and_torch(cli, inspection), proof->built_for);
    if (fails(proof, AF_CHECK_PYTHON))
        return af_arena_format(arena, "use a file built for %s",
                               python_and_torch(cli, inspection));
    if (proof->runs == AF_NO)
        return "use a build that has code for this GPU";
    if (fails(proof, AF_CHECK_SYMBOL_VERSIONS))
        return "use a file built for an older system (a lower manylinux), or "
               "another image";
    if (fails(proof, AF_CHECK_CUDA_RUNTIME))
        return af_arena_format(arena, "use a file built for %s and its CUDA",
                               python_and_torch(cli, inspection));
    if (proof->missing_libraries.count > 0)
        return af_arena_format(arena, "install the package that provides %s",
                               proof->missing_libraries.items[0]);
    if (fails(proof, AF_CHECK_SYMBOLS))
        return af_arena_format(arena, "use a file built for %s",
                               python_and_torch(cli, inspection));
    return NULL;
}

/* Whether the wheel can be installed into the environment that it was checked for. */
static bool can_install(const struct af_cli *cli, const struct af_inspection *inspection)
{
    return inspection->target.wheel != NULL && inspection->target.wheel->has_name &&
           inspection->target.wheel->contradictions.count == 0 &&
           cli->options.values[AF_OPTION_TORCH] == NULL && cli->options.machines.count == 0 &&
           cli->options.givens.count == 0;
}

/* The target as a word of a command to print, without passwords and signatures. */
static const char *target_word(struct af_cli *cli)
{
    const char *word = cli->options.words.items[0];
    const char *shown = af_url_is_http(word) ? af_url_without_secrets(&cli->arena, word) : word;
    return strcmp(shown, word) == 0 ? word : "ADDRESS";
}

/*
 * "anyflash install FILE", into the environment that was checked; NULL for names that cannot be
 * printed.
 */
static const char *install_text(struct af_cli *cli)
{
    const char *words[3] = {NULL};
    size_t count = 0;
    if (af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP))
        words[count++] = "--allow-http";
    words[count++] = target_word(cli);
    const char *command = af_cli_next_command(cli, AF_COMMAND_INSTALL, words);
    const char *shown = af_text_scrub(&cli->arena, command, SHOWN_BYTES);
    return strcmp(shown, command) == 0 ? command : NULL;
}

/* How to settle an unknown check. */
static const char *after_unknown(struct af_cli *cli, const struct af_inspection *inspection)
{
    if (!inspection->prover.has_scope)
        return "name a torch with --torch VERSION, or an environment with "
               "--against ENV";
    if (!can_install(cli, inspection))
        return NULL;
    const char *command = install_text(cli);
    return command == NULL
               ? NULL
               : af_arena_format(&cli->arena, "`%s` tries the import before anything is final",
                                 command);
}

const char *af_cli_inspect_next(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_proof *proof = inspection->deciding;
    if (proof != NULL && proof->answer == AF_NO)
        return after_no(cli, inspection, proof);
    if (inspection->is_refused)
        return "read the unexpected files before you install this wheel; `anyflash install` "
               "refuses it unless --allow-content names each of them";
    if (inspection->answer == AF_UNKNOWN)
        return after_unknown(cli, inspection);
    const char *command = install_text(cli);
    if (inspection->answer == AF_YES && can_install(cli, inspection) && command != NULL)
        return af_arena_format(&cli->arena, "`%s`", command);
    return NULL;
}
