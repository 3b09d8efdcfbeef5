/*
 * inspect_view.c: prints an inspection as text and as JSON: the proof of each extension, and
 * what else a wheel contains. gpu_code_view.c prints the GPU code.
 */
#include "kit/cli/inspect_view.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
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
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", name, "verdict",
        af_json_answer(proof->answer), "imports", af_json_answer(proof->imports), "loads",
        af_json_answer(proof->loads), "runs", af_json_answer(proof->runs), "headline",
        headline(proof), "built_for", af_json_text(proof->built_for), "built_for_source",
        af_json_text(proof->built_for_source), "checks", checks_json(proof), "missing",
        af_json_texts(proof->missing.items, proof->missing.count), "missing_libraries",
        af_json_texts(proof->missing_libraries.items, proof->missing_libraries.count),
        "gpu_code", gpu_code);
}

static const char *place_text(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_machine *machine = inspection->machine;
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

/* Why no extension is shown. */
static const char *nothing_text(const struct af_inspection *inspection)
{
    if (inspection->is_pure)
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
    const char *next = inspection->next;
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
    af_screen_command(screen, 9, AF_SHELL_POSIX, command);
}

/* Libraries that a package brings for its own use are shown only if they fail. */
static bool is_hidden(const struct af_inspect_extension *extension,
                      const struct af_proof *proof, bool all)
{
    return extension->is_bundled && !all && extension->problem == NULL &&
           proof->answer != AF_NO;
}

/*
 * GPU code is shown if the extension is the only one, or with `all`, and if it
 * can be used on this machine.
 */
static void view_one(struct af_screen *screen, const struct af_inspect_extension *extension,
                     const struct af_proof *proof, bool alone, bool all)
{
    if (extension->problem != NULL) {
        af_screen_heading(screen, extension->path);
        af_screen_format(screen, 2, "  ", AF_TONE_BAD, "does not load: %s", extension->problem);
        return;
    }
    view_proof(screen, extension->path, proof, alone, all);
    if (extension->facts.gpu_code != NULL && (all || (alone && proof->loads != AF_NO)))
        af_cli_gpu_code_show(screen, 2, extension->facts.gpu_code, extension->facts.kernels);
}

/* The answer in half a sentence; what `install` refuses comes before what loads. */
static const char *answer_text(struct af_arena *arena, const struct af_inspection *inspection)
{
    const struct af_inspect_target *target = &inspection->target;
    const struct af_proof *proof = inspection->deciding;
    if (target->count == 0 && !inspection->is_pure)
        return nothing_text(inspection);
    const char *text = inspection->answer == AF_NO        ? "does not load"
                       : inspection->answer == AF_UNKNOWN ? "not proven"
                                                          : "loads";
    if (proof != NULL && proof->answer == inspection->answer)
        text = headline(proof);
    if (target->count == 0)
        text = nothing_text(inspection);
    if (inspection->answer == AF_NO || !inspection->is_refused)
        return text;
    return af_arena_format(arena, "%s, but contains what `anyflash install` refuses", text);
}

/* The first line: the name of the target and the answer. */
static void view_answer(struct af_screen *screen, struct af_cli *cli,
                        const struct af_inspection *inspection)
{
    const char *text = answer_text(&cli->arena, inspection);
    enum af_tone tone = inspection->is_refused ? AF_TONE_BAD : af_tone_of(inspection->answer);
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
    return json_pack("{s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "filename",
                     wheel->filename, "publisher", af_json_text(inspection->publisher),
                     "size_bytes", (json_int_t)target->mapping.len, "metadata_name",
                     af_json_text(wheel->metadata_name), "metadata_version",
                     af_json_text(wheel->metadata_version), "tag", af_json_text(wheel->tag),
                     "needs_torch", af_json_text(wheel->needs_torch), "stated_torch",
                     af_json_text(wheel->stated_torch), "lies",
                     af_json_texts(wheel->contradictions.items, wheel->contradictions.count),
                     "content", content_json(&inspection->content));
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
                  af_fit_json_machine(inspection->machine), "torch", inspection->torch,
                  "torch_note", inspection->prover.choice.note, "verdict",
                  af_json_answer(inspection->answer), "extensions", list),
        err);
}
