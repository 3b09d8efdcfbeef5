/*
 * inspect_view.c: an inspection as a page for people and as JSON.
 */
#include "kit/cli/inspect_view.h"

#include <string.h>

#include "kit/cli/gpu_code_view.h"
#include "kit/cli/inspect_next.h"
#include "kit/cli/json_parts.h"
#include "kit/cli/page.h"
#include "kit/cli/proof_view.h"

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

/* Of a wheel; what is read twice counts once. */
static uint64_t bytes_read(const struct af_inspect_target *target)
{
    const struct af_source *source = target->source;
    return source->bytes_read < source->size_bytes ? source->bytes_read : source->size_bytes;
}

/* What the wheel says about itself, and how much of it was fetched. */
static void view_wheel(struct af_page *page, const struct af_inspection *inspection)
{
    const struct af_inspect_target *target = &inspection->target;
    const struct af_inspect_wheel *wheel = target->wheel;
    if (wheel == NULL)
        return;
    af_page_format(page, 9, "wheel", AF_TONE_PLAIN, "%s", wheel->filename);
    if (target->archive->zip.members != NULL && inspection->http != NULL)
        af_page_format(page, 9, "", AF_TONE_PLAIN, "%.1f of %.1f MB were fetched",
                       (double)bytes_read(target) / 1e6,
                       (double)target->source->size_bytes / 1e6);
    for (size_t i = 0; i < wheel->contradictions.count; i++)
        af_page_format(page, 9, "", AF_TONE_BAD, "contradiction: %s",
                       wheel->contradictions.items[i]);
}

/* GPU code is shown of what is alone on the page or with `all`, if it is of use here. */
static void view_extension(struct af_page *page, const struct af_inspect_extension *extension,
                           const struct af_proof *proof, bool alone, bool all)
{
    af_cli_proof_view(page, extension->path, proof, alone, all);
    if (extension->facts.gpu_code != NULL && (all || (alone && proof->loads != AF_NO)))
        af_cli_gpu_code_show(page, 2, extension->facts.gpu_code, extension->facts.kernels);
}

/* Why no extension is shown. */
static const char *nothing_text(const struct af_inspection *inspection)
{
    if (af_inspection_is_pure(inspection))
        return "no compiled extension is in it: Python code only, which no torch can refuse";
    if (inspection->target.wheel != NULL)
        return "no compiled extension is in it, although its name says that it was built for "
               "one platform";
    return inspection->target.is_package ? "none of the packages that use attention kernels "
                                           "has a compiled extension there"
                                         : "no compiled extension is in it";
}

/* The one thing to do about the answer. */
static void view_next(struct af_page *page, struct af_cli *cli,
                      const struct af_inspection *inspection)
{
    const char *next = af_cli_inspect_next(cli, inspection);
    if (next == NULL)
        return;
    af_page_gap(page);
    size_t len = strlen(next);
    if (len < 2 || next[0] != '`' || memchr(next + 1, '`', len - 1) != next + len - 1) {
        af_page_add(page, 9, "next", AF_TONE_PLAIN, next);
        return;
    }
    /* Nothing but a command: whole, to be copied. */
    const char *command = af_arena_text_n(&cli->arena, next + 1, len - 2);
    af_page_add(page, 0, "", AF_TONE_PLAIN, "next");
    if (command != NULL)
        af_page_command(page, 9, command);
}

/* Libraries that a package brings for its own use are no news unless they fail. */
static bool is_hidden(const struct af_inspect_extension *extension,
                      const struct af_proof *proof, bool all)
{
    return extension->is_bundled && !all && extension->problem == NULL &&
           proof->answer != AF_NO;
}

static void view_one(struct af_page *page, const struct af_inspect_extension *extension,
                     const struct af_proof *proof, bool alone, bool all)
{
    if (extension->unread != NULL) {
        af_page_format(page, 2, "", AF_TONE_PLAIN, "%s: %s", extension->path,
                       extension->unread);
    } else if (extension->problem != NULL) {
        af_page_gap(page);
        af_page_add(page, 0, "", AF_TONE_STRONG, extension->path);
        af_page_format(page, 2, "  ", AF_TONE_BAD, "does not load: %s", extension->problem);
    } else {
        view_extension(page, extension, proof, alone, all);
    }
}

void af_cli_inspect_view(struct af_cli *cli, const struct af_inspection *inspection)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    const struct af_inspect_target *target = &inspection->target;
    bool all = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    size_t hidden = 0;
    af_page_format(&page, 9, "against", AF_TONE_PLAIN, "%s", place_text(cli, inspection));
    view_wheel(&page, inspection);
    if (inspection->prover.choice.note != NULL)
        af_page_add(&page, 9, "", AF_TONE_PLAIN, inspection->prover.choice.note);
    if (target->count == 0)
        af_page_add(&page, 0, "", AF_TONE_PLAIN, nothing_text(inspection));
    for (size_t i = 0; i < target->count; i++)
        hidden += is_hidden(&target->extensions[i], &inspection->proofs[i], all);
    for (size_t i = 0; i < target->count; i++)
        if (!is_hidden(&target->extensions[i], &inspection->proofs[i], all))
            view_one(&page, &target->extensions[i], &inspection->proofs[i],
                     target->count - hidden == 1, all);
    if (hidden > 0)
        af_page_format(
            &page, 2, "", AF_TONE_DIM,
            "%zu librar%s that the package brings for its own use: nothing wrong (-v "
            "shows %s)",
            hidden, hidden == 1 ? "y" : "ies", hidden == 1 ? "it" : "them");
    view_next(&page, cli, inspection);
}

static json_t *extension_json(const struct af_inspect_extension *extension,
                              const struct af_proof *proof)
{
    bool is_unread = extension->unread != NULL;
    if (extension->problem == NULL && !is_unread)
        return af_cli_proof_json(
            extension->path, proof,
            extension->facts.gpu_code != NULL
                ? af_cli_gpu_code_json(extension->facts.gpu_code, extension->facts.kernels)
                : json_null());
    return json_pack("{s:s, s:s, s:s, s:[], s:[], s:n}", "name", extension->path, "verdict",
                     is_unread ? "unknown" : "no", "problem",
                     is_unread ? extension->unread : extension->problem, "checks", "missing",
                     "gpu_code");
}

/* What a wheel says about itself, or null. */
static json_t *wheel_json(const struct af_inspect_target *target)
{
    const struct af_inspect_wheel *wheel = target->wheel;
    if (wheel == NULL)
        return json_null();
    json_t *lies = json_array();
    for (size_t i = 0; i < wheel->contradictions.count; i++)
        lies = af_cli_json_append(lies, json_string(wheel->contradictions.items[i]));
    return json_pack(
        "{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "filename", wheel->filename,
        "size_bytes", (json_int_t)target->source->size_bytes, "bytes_read",
        (json_int_t)bytes_read(target), "metadata_name", af_cli_json_text(wheel->metadata_name),
        "metadata_version", af_cli_json_text(wheel->metadata_version), "tag",
        af_cli_json_text(wheel->tag), "needs_torch", af_cli_json_text(wheel->needs_torch),
        "stated_torch", af_cli_json_text(wheel->stated_torch), "lies", lies);
}

/* The torch that the proofs are about; NULL: none is known. */
static const char *torch_of(const struct af_inspection *inspection)
{
    return inspection->prover.has_scope ? inspection->prover.scope.torch.version : NULL;
}

enum anyflash_status af_cli_inspect_json(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err)
{
    const struct af_inspect_target *target = &inspection->target;
    json_t *list = json_array();
    for (size_t i = 0; i < target->count; i++)
        list = af_cli_json_append(
            list, extension_json(&target->extensions[i], &inspection->proofs[i]));
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:o, s:o, s:s?, s:s?, s:o, s:o}", "schema", "anyflash-inspect/1",
                  "name", target->name, "wheel", wheel_json(target), "machine",
                  af_fit_json_machine(af_inspection_machine(inspection)), "torch",
                  torch_of(inspection), "torch_note", inspection->prover.choice.note, "verdict",
                  af_cli_json_answer(inspection->answer), "extensions", list),
        err);
}
