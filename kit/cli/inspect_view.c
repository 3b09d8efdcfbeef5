/*
 * inspect_view.c: prints an inspection as text and as JSON: the proof of each extension, the
 * GPU code in it, and what else a wheel contains.
 */
#include "kit/cli/inspect_view.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/cli/screen.h"
#include "kit/fit/fit.h"

#define CHECK_COLUMNS 10
#define MISSING_SHOWN 3

/* ---- GPU code: targets, then the kernels as operations with their head dimensions ---- */

static const struct {
    unsigned bit;
    const char *text;
} features[] = {{AF_FLASH_CAUSAL, "causal"},   {AF_FLASH_DROPOUT, "dropout"},
                {AF_FLASH_LOCAL, "window"},    {AF_FLASH_ALIBI, "alibi"},
                {AF_FLASH_SOFTCAP, "softcap"}, {AF_FLASH_APPEND, "append"}};

/* "SASS: sm_80, sm_90a in 72" for one kind; with the ISA for PTX. */
static void add_targets(struct af_text *text, const struct af_gpu_code *code,
                        enum af_gpu_kind kind)
{
    for (size_t i = 0; i < code->target_count; i++) {
        const struct af_gpu_target *target = &code->targets[i];
        char name[AF_GPU_TARGET_TEXT];
        if (target->kind != kind)
            continue;
        if (text->len == 0)
            af_text_format(text, "%s: ", af_gpu_kind_text(kind));
        else
            af_text_add(text, ", ");
        af_text_add(text, af_gpu_target_text(target, name));
        if (kind == AF_GPU_PTX)
            af_text_format(text, " (ISA %u.%u)", target->version_major, target->version_minor);
        size_t units = code->container_count - code->relocatable_container_count;
        if (target->container_count != units)
            af_text_format(text, " in %zu", target->container_count);
    }
}

static void show_targets(struct af_screen *screen, int indent, const struct af_gpu_code *code)
{
    static const enum af_gpu_kind kinds[] = {AF_GPU_SASS, AF_GPU_PTX, AF_GPU_LTOIR,
                                             AF_GPU_OTHER};
    for (size_t i = 0; i < AF_COUNT(kinds); i++) {
        struct af_text text = {0};
        add_targets(&text, code, kinds[i]);
        if (text.len > 0)
            af_screen_take(screen, indent, "", AF_TONE_PLAIN, &text);
    }
}

/* Whether two families go on one line: they differ only in the head dimension. */
static bool is_same_line(const struct af_flash_kernel *a, const struct af_flash_kernel *b)
{
    return a->operation == b->operation && a->generation == b->generation &&
           a->sm_min == b->sm_min && a->dtype == b->dtype;
}

static void show_line(struct af_screen *screen, int indent, const struct af_flash_family *first,
                      size_t count)
{
    const struct af_flash_kernel *kernel = &first->kernel;
    struct af_text text = {0};
    unsigned all = 0;
    af_text_add(&text, af_flash_operation_text(kernel->operation));
    if (kernel->generation == 3)
        af_text_add(&text, " (3)");
    if (kernel->dtype != NULL)
        af_text_format(&text, " %s", kernel->dtype);
    for (size_t i = 0; i < count; i++) {
        all |= first[i].kernel.features;
        if (first[i].kernel.head_dim >= 0)
            af_text_format(&text, "%s%d", i == 0 ? ": head dim " : " ",
                           first[i].kernel.head_dim);
    }
    for (size_t i = 0, shown = 0; i < AF_COUNT(features); i++) {
        if ((all & features[i].bit) != 0)
            af_text_format(&text, "%s%s", shown++ == 0 ? "; " : ", ", features[i].text);
    }
    if (kernel->sm_max > 0)
        af_text_format(&text, "; for %d.%d to %d.%d", kernel->sm_min / 10, kernel->sm_min % 10,
                       kernel->sm_max / 10, kernel->sm_max % 10);
    af_screen_take(screen, indent + 2, "", AF_TONE_PLAIN, &text);
}

static void show_kernels(struct af_screen *screen, int indent,
                         const struct af_flash_kernels *kernels)
{
    for (size_t i = 0; i < kernels->family_count;) {
        size_t end = i + 1;
        while (end < kernels->family_count &&
               is_same_line(&kernels->families[i].kernel, &kernels->families[end].kernel))
            end++;
        show_line(screen, indent, &kernels->families[i], end - i);
        i = end;
    }
    if (kernels->problem != NULL)
        af_screen_format(screen, indent + 2, "", AF_TONE_BAD, "some kernels were not read: %s",
                         kernels->problem);
}

void af_cli_gpu_code_show(struct af_screen *screen, int indent, const struct af_gpu_code *code,
                          const struct af_flash_kernels *kernels)
{
    if (code->container_count == 0 && code->problem == NULL)
        return;
    size_t units = code->container_count - code->relocatable_container_count;
    af_screen_format(screen, indent, "", AF_TONE_PLAIN, "%zu translation unit%s with GPU code",
                     units, units == 1 ? "" : "s");
    show_targets(screen, indent, code);
    if (code->empty_count > 0)
        af_screen_format(screen, indent, "", AF_TONE_DIM, "%zu cubin%s without any kernel",
                         code->empty_count, code->empty_count == 1 ? "" : "s");
    if (code->relocatable_container_count > 0)
        af_screen_format(screen, indent, "", AF_TONE_DIM,
                         "%zu translation units for a later device link, never loaded",
                         code->relocatable_container_count);
    if (code->problem != NULL)
        af_screen_add(screen, indent, "", AF_TONE_BAD, code->problem);
    if (kernels != NULL && kernels->family_count > 0) {
        af_screen_format(screen, indent, "", AF_TONE_PLAIN, "FlashAttention kernels:");
        show_kernels(screen, indent, kernels);
    }
}

static json_t *version_json(const struct af_gpu_target *target)
{
    char text[16];
    if (target->kind != AF_GPU_PTX)
        return json_null();
    snprintf(text, sizeof text, "%u.%u", target->version_major, target->version_minor);
    return json_string(text);
}

static json_t *target_json(const struct af_gpu_target *target)
{
    char name[AF_GPU_TARGET_TEXT];
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I}", "kind",
                     af_gpu_kind_text(target->kind), "target", af_gpu_target_text(target, name),
                     "ptx_isa", version_json(target), "images", (json_int_t)target->image_count,
                     "translation_units", (json_int_t)target->container_count, "lz4",
                     (json_int_t)target->lz4_count, "zstd", (json_int_t)target->zstd_count,
                     "bytes", (json_int_t)target->stored_bytes);
}

static json_t *features_json(unsigned bits)
{
    json_t *list = json_array();
    for (size_t i = 0; i < AF_COUNT(features); i++) {
        if ((bits & features[i].bit) != 0)
            list = af_json_append(list, json_string(features[i].text));
    }
    return list;
}

static json_t *family_json(const struct af_flash_family *family)
{
    const struct af_flash_kernel *kernel = &family->kernel;
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "operation",
                     af_flash_operation_text(kernel->operation), "generation",
                     kernel->generation, "head_dim", af_json_count(kernel->head_dim), "dtype",
                     af_json_text(kernel->dtype), "features", features_json(kernel->features),
                     "sm_min", kernel->sm_max > 0 ? json_integer(kernel->sm_min) : json_null(),
                     "sm_max", kernel->sm_max > 0 ? json_integer(kernel->sm_max) : json_null(),
                     "kernels", (json_int_t)family->kernel_count, "translation_units",
                     (json_int_t)family->container_count);
}

static json_t *families_json(const struct af_flash_kernels *kernels)
{
    if (kernels == NULL)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < kernels->family_count; i++)
        list = af_json_append(list, family_json(&kernels->families[i]));
    return list;
}

json_t *af_cli_gpu_code_json(const struct af_gpu_code *code,
                             const struct af_flash_kernels *kernels)
{
    json_t *targets = json_array();
    for (size_t i = 0; i < code->target_count; i++)
        targets = af_json_append(targets, target_json(&code->targets[i]));
    json_t *problem = af_json_text(code->problem != NULL ? code->problem
                                   : kernels != NULL     ? kernels->problem
                                                         : NULL);
    return json_pack("{s:I, s:o, s:I, s:{s:I, s:I}, s:o, s:o, s:o}", "translation_units",
                     (json_int_t)(code->container_count - code->relocatable_container_count),
                     "targets", targets, "empty_images", (json_int_t)code->empty_count,
                     "relocatable", "translation_units",
                     (json_int_t)code->relocatable_container_count, "images",
                     (json_int_t)code->relocatable_image_count, "registered",
                     af_json_count(code->wrapper_count), "flash_kernels",
                     families_json(kernels), "problem", problem);
}

/* ---- proofs ---- */

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
