/*
 * package_changes.c: what a change of torch does to other packages. torchvision and torchaudio
 * are compiled against one torch each; other packages require certain versions of torch.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/rung.h"

static bool moves_along(const char *name)
{
    return af_equal(name, "torchvision") || af_equal(name, "torchaudio");
}

static bool runtime_of_torch(const char *name)
{
    return af_starts_with(name, "nvidia-") || af_equal(name, "triton");
}

/* Whether `package` requires a torch that `version` is not. */
static bool breaks(const struct af_package *package, const struct af_version *version)
{
    const char *needs = af_fact_text_or(&package->needs_torch, "");
    return needs[0] != '\0' && af_specifier_contains(needs, version) == AF_NO;
}

static struct af_fit_package_change move_of(struct af_rung_context *context,
                                            const struct af_package *package,
                                            const char *version)
{
    const char *name = package->name.value.text;
    struct af_fit_package_change move = {
        .name = af_arena_text(context->arena, name),
        .from = af_arena_text(context->arena, af_fact_text_or(&package->version, NULL))};
    if (moves_along(name)) {
        move.to = af_arena_format(context->arena, "the release for torch %s", version);
        move.why = "is compiled against one torch";
    } else {
        move.why = af_arena_format(context->arena, "needs torch %s",
                                   af_fact_text_or(&package->needs_torch, ""));
        af_rung_add_reason(context, AF_REASON_TORCH_PINNED, "%s %s", name, move.why);
    }
    return move;
}

void af_rung_add_package_changes(struct af_rung_context *context, const char *version,
                                 const char *cuda)
{
    const struct af_view *view = &context->fit->views[0];
    const struct af_machine *machine = view->machine;
    struct af_version parsed;
    size_t count = 0;
    struct af_fit_package_change *moves =
        af_arena_array(context->arena, machine->packages.count + 1, sizeof *moves);
    if (!af_version_parse(version, strlen(version), &parsed))
        return;
    moves[count++] = (struct af_fit_package_change){
        .name = "torch",
        .from = view->torch.state == AF_FACT_KNOWN
                    ? af_arena_text(context->arena, view->torch.text)
                    : NULL,
        .to = af_arena_format(context->arena, "%s+%s", version, cuda)};
    for (size_t i = 0; i < machine->packages.count; i++) {
        const struct af_package *package = &machine->packages.rows[i];
        const char *name = af_fact_text_or(&package->name, NULL);
        if (name == NULL || strcmp(name, "torch") == 0 || runtime_of_torch(name) ||
            (!moves_along(name) && !breaks(package, &parsed)))
            continue;
        moves[count++] = move_of(context, package, version);
    }
    context->rung->moves = moves;
    context->rung->move_count = count;
}
