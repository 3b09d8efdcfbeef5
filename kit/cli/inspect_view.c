/*
 * inspect_view.c: prints an inspection as text and as JSON: the proof of
 * each extension, and the next step, chosen by the first check that says no,
 * else by the first that is open.
 */
#include "kit/cli/inspect_view.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/cli/gpu_code_view.h"
#include "kit/cli/screen.h"
#include "kit/fit/fit.h"

#define CHECK_COLUMNS 10
#define MISSING_SHOWN 3

static const char *headline(const struct af_proof *proof)
{
    if (proof->imports == AF_NO)
        return "does not load";
    if (proof->loads == AF_NO)
        return "must not be used here";
    if (proof->runs == AF_NO)
        return "loads, but does not run on this GPU";
    if (proof->loads == AF_UNKNOWN)
        return "not proven";
    return "loads";
}

static void view_check(struct af_screen *screen, const struct af_proof_check *check)
{
    char lead[16];
    snprintf(lead, sizeof lead, "  %s", af_answer_text(check->answer));
    af_screen_format(screen, CHECK_COLUMNS, lead, af_tone_of(check->answer), "%s: %s",
                     af_proof_check_title(check->id), check->evidence);
}

static void view_missing(struct af_screen *screen, const struct af_proof *proof, bool all)
{
    size_t shown =
        all || proof->missing.count < MISSING_SHOWN ? proof->missing.count : MISSING_SHOWN;
    for (size_t i = 0; i < shown; i++)
        af_screen_format(screen, CHECK_COLUMNS, "", AF_TONE_DIM, "%s", proof->missing.items[i]);
    if (shown < proof->missing.count)
        af_screen_format(screen, CHECK_COLUMNS, "", AF_TONE_DIM, "and %zu more (-v shows them)",
                         proof->missing.count - shown);
}

/* Whether to show the line: GPU code does not matter if the extension does not load. */
static bool is_shown(const struct af_proof *proof, const struct af_proof_check *check, bool all)
{
    if (check->answer == AF_YES)
        return false;
    return all || proof->loads != AF_NO || af_proof_check_is_about_loading(check->id);
}

static void view_proof(struct af_screen *screen, const char *name, const struct af_proof *proof,
                       bool alone, bool all)
{
    if (proof->answer == AF_YES && !alone && !all) {
        af_screen_format(screen, 2, "", AF_TONE_PLAIN, "%s: %s", name, headline(proof));
        return;
    }
    af_screen_heading(screen, name);
    if (!alone) /* else the first line has said it */
        af_screen_format(screen, 2, "  ", af_tone_of(proof->answer), "%s", headline(proof));
    if (proof->built_for != NULL)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "built for %s (%s)", proof->built_for,
                         proof->built_for_source);
    if (proof->stated_torch_is_wrong)
        af_screen_add(screen, 2, "  ", AF_TONE_BAD,
                      "the name is wrong: it states another torch");
    for (size_t i = 0; i < proof->check_count; i++) {
        const struct af_proof_check *check = &proof->checks[i];
        if (all || (alone && check->answer == AF_YES) || is_shown(proof, check, all))
            view_check(screen, check);
        if (check->id == AF_CHECK_SYMBOLS)
            view_missing(screen, proof, all);
    }
}

static json_t *texts_json(struct af_texts texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts.count; i++)
        list = af_json_append(list, json_string(texts.items[i]));
    return list;
}

static json_t *checks_json(const struct af_proof *proof)
{
    json_t *list = json_array();
    for (size_t i = 0; i < proof->check_count; i++) {
        const struct af_proof_check *check = &proof->checks[i];
        list = af_json_append(
            list, json_pack("{s:s, s:o, s:s, s:s}", "id", af_proof_check_name(check->id),
                            "answer", af_json_answer(check->answer), "title",
                            af_proof_check_title(check->id), "evidence", check->evidence));
    }
    return list;
}

static json_t *proof_json(const char *name, const struct af_proof *proof, json_t *gpu_code)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     name, "verdict", af_json_answer(proof->answer), "imports",
                     af_json_answer(proof->imports), "loads", af_json_answer(proof->loads),
                     "runs", af_json_answer(proof->runs), "headline", headline(proof),
                     "built_for", af_json_text(proof->built_for), "built_for_source",
                     af_json_text(proof->built_for_source), "checks", checks_json(proof),
                     "missing", texts_json(proof->missing), "missing_libraries",
                     texts_json(proof->missing_libraries), "gpu_code", gpu_code);
}

#define SHOWN_BYTES 2000u

/* The proof that decides the answer: the first that says no, else the first that is
   unknown. */
static const struct af_proof *deciding(const struct af_inspection *inspection)
{
    const struct af_proof *open = NULL;
    for (size_t i = 0; i < inspection->target.count; i++) {
        const struct af_proof *proof = &inspection->proofs[i];
        if (proof->check_count > 0 && proof->answer == AF_NO)
            return proof;
        if (open == NULL && proof->check_count > 0 && proof->answer == AF_UNKNOWN)
            open = proof;
    }
    return open;
}

static bool says(const struct af_proof *proof, enum af_proof_check_id id, enum af_answer answer)
{
    return proof->checks[id].answer == answer;
}

static bool is_flash(const struct af_inspection *inspection)
{
    const struct af_inspect_wheel *wheel = inspection->target.wheel;
    return wheel != NULL && wheel->has_name &&
           af_starts_with(wheel->name.package, "flash_attn");
}

/* The torch version that the proof was made against; NULL if there is none. */
static const char *torch_version(const struct af_inspection *inspection)
{
    return inspection->prover.has_scope ? inspection->prover.scope.torch.version : NULL;
}

/* "Python 3.12 and torch 2.15.0+cu132" */
static const char *python_and_torch(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_machine *machine = af_inspection_machine(inspection);
    const char *python = af_fact_text_or(&machine->python.version, "of another version");
    const char *dot = strchr(python, '.');
    size_t minor = dot == NULL ? strlen(python) : (size_t)(dot - python) + 1;
    minor += dot == NULL ? 0 : strcspn(dot + 1, ".");
    const char *torch = torch_version(inspection);
    return af_arena_format(&cli->arena, "Python %.*s%s%s", (int)minor, python,
                           torch == NULL ? "" : " and torch ", torch == NULL ? "" : torch);
}

/* Whether the problem is torch, so that another torch may help. */
static bool is_about_torch(const struct af_proof *proof)
{
    return proof->built_for != NULL &&
           (says(proof, AF_CHECK_SYMBOLS, AF_NO) || says(proof, AF_CHECK_LAYOUT, AF_NO) ||
            says(proof, AF_CHECK_CXX_ABI, AF_NO) || says(proof, AF_CHECK_CUDA_RUNTIME, AF_NO));
}

static const char *after_no(struct af_cli *cli, const struct af_inspection *inspection,
                            const struct af_proof *proof)
{
    struct af_arena *arena = &cli->arena;
    if (says(proof, AF_CHECK_FORMAT, AF_NO) || says(proof, AF_CHECK_MACHINE, AF_NO))
        return "use a file that was built for this system";
    if (is_flash(inspection))
        return af_arena_format(arena, "`%s` shows what fits here",
                               af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
    if (is_about_torch(proof) && torch_version(inspection) == NULL)
        return af_arena_format(arena,
                               "install %s, which this file belongs to (`--torch "
                               "VERSION` proves it against any torch)",
                               proof->built_for);
    if (is_about_torch(proof))
        return af_arena_format(arena,
                               "use a file built for %s; this one belongs to %s (`--torch "
                               "VERSION` proves it against another torch)",
                               python_and_torch(cli, inspection), proof->built_for);
    if (says(proof, AF_CHECK_PYTHON, AF_NO))
        return af_arena_format(arena, "use a file built for %s",
                               python_and_torch(cli, inspection));
    if (proof->runs == AF_NO)
        return "use a build that has code for this GPU";
    if (says(proof, AF_CHECK_SYMBOL_VERSIONS, AF_NO))
        return "use a file built for an older system (a lower manylinux), or "
               "another image";
    if (says(proof, AF_CHECK_CUDA_RUNTIME, AF_NO))
        return af_arena_format(arena, "use a file built for %s and its CUDA",
                               python_and_torch(cli, inspection));
    if (proof->missing_libraries.count > 0)
        return af_arena_format(arena, "install the package that provides %s",
                               proof->missing_libraries.items[0]);
    if (says(proof, AF_CHECK_SYMBOLS, AF_NO))
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

/* How the target is named in a command. Passwords and signatures are not printed again. */
static const char *target_word(struct af_cli *cli)
{
    const char *word = cli->options.words.items[0];
    const char *shown = af_url_is_http(word) ? af_url_without_secrets(&cli->arena, word) : word;
    return shown == NULL || strcmp(shown, word) == 0 ? word : "ADDRESS";
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
    return shown != NULL && strcmp(shown, command) == 0 ? command : NULL;
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

/* Whether `install` would refuse the wheel for what else is in it. */
static bool is_refused(const struct af_content *content)
{
    bool found = content->unlisted_refused_count > 0;
    for (size_t i = 0; i < content->count; i++)
        found = found || content->findings[i].is_refused;
    return found;
}

static const char *next_step(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_proof *proof = deciding(inspection);
    if (proof != NULL && proof->answer == AF_NO)
        return after_no(cli, inspection, proof);
    if (is_refused(&inspection->content))
        return "read the unexpected files before you install this wheel; `anyflash install` "
               "refuses it unless --allow-content names each of them";
    if (inspection->answer == AF_UNKNOWN)
        return after_unknown(cli, inspection);
    const char *command = install_text(cli);
    if (inspection->answer == AF_YES && can_install(cli, inspection) && command != NULL)
        return af_arena_format(&cli->arena, "`%s`", command);
    return NULL;
}

static const char *place_text(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_machine *machine = af_inspection_machine(inspection);
    const char *torch = af_fact_text_or(&machine->torch.version, NULL);
    if (af_option_given(&cli->options, AF_OPTION_TORCH))
        torch = inspection->prover.choice.version != NULL
                    ? inspection->prover.choice.version
                    : cli->options.values[AF_OPTION_TORCH];
    return af_arena_format(&cli->arena, "%s: Python %s, %s%s",
                           af_fact_text_or(&machine->python.prefix, machine->name),
                           af_fact_text_or(&machine->python.version, "not known"),
                           torch != NULL ? "torch " : "no torch", torch != NULL ? torch : "");
}

/* What the wheel contains beside what its package's own wheels contain: a line for each. */
static void view_content(struct af_screen *screen, const struct af_content *content)
{
    if (content->count == 0 && content->package != NULL)
        af_screen_format(screen, 9, "content", AF_TONE_PLAIN,
                         "nothing beside what %s's own wheels contain", content->package);
    for (size_t i = 0; i < content->count; i++) {
        const struct af_content_finding *finding = &content->findings[i];
        af_screen_format(
            screen, 9, i == 0 ? "content" : "",
            finding->is_refused ? AF_TONE_BAD : AF_TONE_PLAIN, "%s%s: %s%s%s%s",
            finding->is_refused ? "unexpected: " : "", finding->name,
            af_content_kind_why(finding->kind), finding->detail != NULL ? " (" : "",
            finding->detail != NULL ? finding->detail : "", finding->detail != NULL ? ")" : "");
    }
    if (content->unlisted_count > 0)
        af_screen_format(screen, 9, "", AF_TONE_BAD, "and %zu more", content->unlisted_count);
}

/* What the wheel says about itself. */
static void view_wheel(struct af_screen *screen, const struct af_inspection *inspection)
{
    const struct af_inspect_target *target = &inspection->target;
    const struct af_inspect_wheel *wheel = target->wheel;
    if (wheel == NULL)
        return;
    af_screen_format(screen, 9, "wheel", AF_TONE_PLAIN, "%s", wheel->filename);
    if (inspection->publisher != NULL)
        af_screen_format(screen, 9, "", AF_TONE_PLAIN, "published by %s",
                         inspection->publisher);
    for (size_t i = 0; i < wheel->contradictions.count; i++)
        af_screen_format(screen, 9, "", AF_TONE_BAD, "contradiction: %s",
                         wheel->contradictions.items[i]);
    view_content(screen, &inspection->content);
}

/*
 * GPU code is shown if the extension is the only one, or with `all`, and if it
 * can be used on this machine.
 */
static void view_extension(struct af_screen *screen,
                           const struct af_inspect_extension *extension,
                           const struct af_proof *proof, bool alone, bool all)
{
    view_proof(screen, extension->path, proof, alone, all);
    if (extension->facts.gpu_code != NULL && (all || (alone && proof->loads != AF_NO)))
        af_cli_gpu_code_show(screen, 2, extension->facts.gpu_code, extension->facts.kernels);
}

/* Why no extension is shown. */
static const char *nothing_text(const struct af_inspection *inspection)
{
    if (af_inspection_is_pure(inspection))
        return "contains Python code only, which does not depend on the torch build";
    if (inspection->target.wheel != NULL)
        return "contains no compiled extension, although its name says that it was built for "
               "one platform";
    return inspection->target.is_package ? "no package with attention kernels has a "
                                           "compiled extension there"
                                         : "contains no compiled extension";
}

/* What to do about the answer. */
static void view_next(struct af_screen *screen, struct af_cli *cli,
                      const struct af_inspection *inspection)
{
    const char *next = next_step(cli, inspection);
    if (next == NULL)
        return;
    af_screen_gap(screen);
    size_t len = strlen(next);
    if (len < 2 || next[0] != '`' || memchr(next + 1, '`', len - 1) != next + len - 1) {
        af_screen_add(screen, 9, "next", AF_TONE_PLAIN, next);
        return;
    }
    /* Only a command: print it uncut, so that it can be copied. */
    const char *command = af_arena_text_n(&cli->arena, next + 1, len - 2);
    af_screen_add(screen, 0, "", AF_TONE_PLAIN, "next");
    if (command != NULL)
        af_screen_command(screen, 9, AF_SHELL_POSIX, command);
}

/* Libraries that a package brings for its own use are shown only if they fail. */
static bool is_hidden(const struct af_inspect_extension *extension,
                      const struct af_proof *proof, bool all)
{
    return extension->is_bundled && !all && extension->problem == NULL &&
           proof->answer != AF_NO;
}

static void view_one(struct af_screen *screen, const struct af_inspect_extension *extension,
                     const struct af_proof *proof, bool alone, bool all)
{
    if (extension->problem != NULL) {
        af_screen_heading(screen, extension->path);
        af_screen_format(screen, 2, "  ", AF_TONE_BAD, "does not load: %s", extension->problem);
    } else {
        view_extension(screen, extension, proof, alone, all);
    }
}

/* The answer in half a sentence; what `install` refuses comes before what loads. */
static const char *answer_text(struct af_arena *arena, const struct af_inspection *inspection)
{
    const struct af_inspect_target *target = &inspection->target;
    const struct af_proof *proof = deciding(inspection);
    if (target->count == 0 && !af_inspection_is_pure(inspection))
        return nothing_text(inspection);
    const char *text = inspection->answer == AF_NO        ? "does not load"
                       : inspection->answer == AF_UNKNOWN ? "not proven"
                                                          : "loads";
    if (proof != NULL && proof->answer == inspection->answer)
        text = headline(proof);
    if (target->count == 0)
        text = nothing_text(inspection);
    if (inspection->answer == AF_NO || !is_refused(&inspection->content))
        return text;
    return af_arena_format(arena, "%s, but contains what `anyflash install` refuses", text);
}

/* The first line: the name of the target and the answer. */
static void view_answer(struct af_screen *screen, struct af_cli *cli,
                        const struct af_inspection *inspection)
{
    const char *text = answer_text(&cli->arena, inspection);
    enum af_tone tone =
        is_refused(&inspection->content) ? AF_TONE_BAD : af_tone_of(inspection->answer);
    if (text != NULL)
        af_screen_format(screen, 0, "", tone, "%s: %s", af_path_name(inspection->target.name),
                         text);
}

void af_cli_inspect_view(struct af_cli *cli, const struct af_inspection *inspection)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    const struct af_inspect_target *target = &inspection->target;
    bool all = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    size_t hidden = 0;
    view_answer(&screen, cli, inspection);
    af_screen_format(&screen, 9, "against", AF_TONE_PLAIN, "%s", place_text(cli, inspection));
    view_wheel(&screen, inspection);
    if (inspection->prover.choice.note != NULL)
        af_screen_add(&screen, 9, "", AF_TONE_PLAIN, inspection->prover.choice.note);
    for (size_t i = 0; i < target->count; i++)
        hidden += is_hidden(&target->extensions[i], &inspection->proofs[i], all);
    for (size_t i = 0; i < target->count; i++)
        if (!is_hidden(&target->extensions[i], &inspection->proofs[i], all))
            view_one(&screen, &target->extensions[i], &inspection->proofs[i],
                     target->count - hidden == 1, all);
    if (hidden > 0)
        af_screen_format(&screen, 2, "", AF_TONE_DIM,
                         "%zu librar%s bundled for the package's own use: no problem found "
                         "(-v shows %s)",
                         hidden, hidden == 1 ? "y" : "ies", hidden == 1 ? "it" : "them");
    view_next(&screen, cli, inspection);
}

static json_t *extension_json(const struct af_inspect_extension *extension,
                              const struct af_proof *proof)
{
    if (extension->problem == NULL)
        return proof_json(
            extension->path, proof,
            extension->facts.gpu_code != NULL
                ? af_cli_gpu_code_json(extension->facts.gpu_code, extension->facts.kernels)
                : json_null());
    return json_pack("{s:s, s:s, s:s, s:[], s:[], s:n}", "name", extension->path, "verdict",
                     "no", "problem", extension->problem, "checks", "missing", "gpu_code");
}

static json_t *content_json(const struct af_content *content)
{
    json_t *list = json_array();
    for (size_t i = 0; i < content->count; i++) {
        const struct af_content_finding *finding = &content->findings[i];
        list = af_json_append(
            list,
            json_pack("{s:s, s:s, s:s, s:o, s:b}", "kind", af_content_kind_name(finding->kind),
                      "name", finding->name, "why", af_content_kind_why(finding->kind),
                      "detail", af_json_text(finding->detail), "refused", finding->is_refused));
    }
    return json_pack("{s:o, s:o, s:I}", "package", af_json_text(content->package), "unexpected",
                     list, "unlisted", (json_int_t)content->unlisted_count);
}

/* What a wheel says about itself, or null. */
static json_t *wheel_json(const struct af_inspection *inspection)
{
    const struct af_inspect_target *target = &inspection->target;
    const struct af_inspect_wheel *wheel = target->wheel;
    if (wheel == NULL)
        return json_null();
    json_t *lies = json_array();
    for (size_t i = 0; i < wheel->contradictions.count; i++)
        lies = af_json_append(lies, json_string(wheel->contradictions.items[i]));
    return json_pack("{s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "filename",
                     wheel->filename, "publisher", af_json_text(inspection->publisher),
                     "size_bytes", (json_int_t)target->mapping.len, "metadata_name",
                     af_json_text(wheel->metadata_name), "metadata_version",
                     af_json_text(wheel->metadata_version), "tag", af_json_text(wheel->tag),
                     "needs_torch", af_json_text(wheel->needs_torch), "stated_torch",
                     af_json_text(wheel->stated_torch), "lies", lies, "content",
                     content_json(&inspection->content));
}

enum anyflash_status af_cli_inspect_json(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err)
{
    const struct af_inspect_target *target = &inspection->target;
    json_t *list = json_array();
    for (size_t i = 0; i < target->count; i++)
        list = af_json_append(list,
                              extension_json(&target->extensions[i], &inspection->proofs[i]));
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:o, s:o, s:s?, s:s?, s:o, s:o}", "schema", "anyflash-inspect/1",
                  "name", target->name, "wheel", wheel_json(inspection), "machine",
                  af_fit_json_machine(af_inspection_machine(inspection)), "torch",
                  torch_version(inspection), "torch_note", inspection->prover.choice.note,
                  "verdict", af_json_answer(inspection->answer), "extensions", list),
        err);
}
