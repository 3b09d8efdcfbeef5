/*
 * rules_torch.c: whether the extension loads into this torch: minor release,
 * CUDA runtime, C++ ABI.
 *
 * An extension binds to C++ symbols of one torch minor. `neighbours` in data/torch.json
 * lists the pairs for which an import and the object layout were tested
 * (docs/decisions/0010-torch-neighbours.md). Every other pair does not load,
 * unless the wheel's own bytes prove that it does (verdict.c). A torch that is
 * not a PyTorch release matches no public wheel.
 */
#include "kit/base/text.h"
#include "kit/fit/verdict.h"

#include <string.h>

/*
 * Both torch releases lay out objects alike, so an extension that uses few
 * functions may load.
 */
static bool is_laid_out_alike(const struct af_catalog_wheel *wheel,
                              const struct af_view_torch *torch)
{
    const struct af_catalog_torch_release *built =
        af_tables_torch(wheel->torch_major, wheel->torch_minor);
    const struct af_catalog_torch_release *here = af_tables_torch(torch->major, torch->minor);
    return built != NULL && here != NULL && built->layout >= 0 && built->layout == here->layout;
}

/* Whether flash-attn 2 built for the one torch was tested with the other. */
static bool was_tested(int major, int minor, int here_major, int here_minor)
{
    const struct af_catalog_torch_release *built = af_tables_torch(major, minor);
    const struct af_catalog_torch_release *here = af_tables_torch(here_major, here_minor);
    for (size_t i = 0; built != NULL && here != NULL && i < built->neighbours.count; i++)
        if (strcmp(built->neighbours.items[i], here->torch) == 0)
            return true;
    return false;
}

/* flash-attn 2 was tested; for other packages only the layout is known. */
static bool is_neighbour(const struct af_catalog_wheel *wheel,
                         const struct af_view_torch *torch)
{
    return strcmp(wheel->package, "flash_attn") == 0
               ? was_tested(wheel->torch_major, wheel->torch_minor, torch->major, torch->minor)
               : is_laid_out_alike(wheel, torch);
}

/* The oldest torch 2.N of a wheel that also works with later ones; -1: no such wheel. */
static int stable_minor(const struct af_fit_wheel_check *check)
{
    struct af_dotted oldest;
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        const struct af_trap *trap = &af_tables.traps[i];
        if (trap->effect == AF_TRAP_TORCH_MIN && af_trap_matches(trap, check->wheel) &&
            af_dotted_parse(trap->value, &oldest) && oldest.count > 1)
            return oldest.part[1];
    }
    return -1;
}

bool af_fit_are_neighbours(const char *built_for, const char *torch)
{
    struct af_dotted built, here;
    return af_dotted_parse(built_for, &built) && af_dotted_parse(torch, &here) &&
           built.count >= 2 && here.count >= 2 &&
           was_tested(built.part[0], built.part[1], here.part[0], here.part[1]);
}

static void match_unnamed(struct af_fit_wheel_check *check)
{
    const struct af_view_torch *torch = &check->view->torch;
    int oldest = stable_minor(check);
    if (oldest < 0)
        af_fit_wheel_check_add_reason(check, AF_REASON_WHEEL_TORCH_UNKNOWN, "torch %s",
                                      torch->text);
    else if (torch->major == 2 && torch->minor < oldest)
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_MINOR,
                                      "torch 2.%d or newer, but torch %s is installed", oldest,
                                      torch->text);
}

static void match_minor(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    const struct af_view_torch *torch = &check->view->torch;
    if (wheel->torch_major < 0)
        match_unnamed(check);
    else if (wheel->torch_major == torch->major && wheel->torch_minor == torch->minor)
        return;
    else if (is_neighbour(wheel, torch))
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_NEIGHBOUR,
                                      "torch %s, but torch %s is installed", wheel->torch,
                                      torch->text);
    else
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_MINOR,
                                      "torch %s, but torch %s is installed", wheel->torch,
                                      torch->text);
}

/* Compiled against a nightly, or against a patch release that differs. */
static void match_build(struct af_fit_wheel_check *check)
{
    const struct af_view_torch *torch = &check->view->torch;
    struct af_version built;
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        const struct af_trap *trap = &af_tables.traps[i];
        if (trap->effect != AF_TRAP_TORCH_BUILD || !af_trap_matches(trap, check->wheel) ||
            !af_version_parse(trap->value, strlen(trap->value), &built))
            continue;
        if (af_version_is_prerelease(&built))
            af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_NIGHTLY_WHEEL, "%s",
                                          trap->detail);
        else if (torch->patch >= 0 && built.release_count > 2 &&
                 built.release[2] != torch->patch)
            af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_PATCH,
                                          "%s; torch %s is installed", trap->detail,
                                          torch->text);
    }
}

static void refuse_build(struct af_fit_wheel_check *check)
{
    const struct af_view_torch *torch = &check->view->torch;
    if (torch->build == AF_FIT_TORCH_VENDOR)
        af_fit_wheel_check_add_reason(check, AF_REASON_NGC_PRERELEASE, "torch %s", torch->text);
    else if (torch->build == AF_FIT_TORCH_PRERELEASE)
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_NIGHTLY, "torch %s", torch->text);
    else if (torch->own_sonames == AF_NO)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_TORCH_SONAME, "%s",
            af_fact_text_or(&check->view->machine->torch.c10_soname, torch->text));
    else if (torch->build == AF_FIT_TORCH_OTHER)
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_OWN_BUILD, "torch %s",
                                      torch->text);
}

/* flash-attn's Python files register their operators by torch.library, from 2.4 on. */
static void match_oldest(struct af_fit_wheel_check *check)
{
    const struct af_view_torch *torch = &check->view->torch;
    if (torch->major < 2 || (torch->major == 2 && torch->minor < 4))
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_MINOR,
                                      "torch 2.4 or newer, but torch %s is installed",
                                      torch->text);
}

void af_rule_torch(struct af_fit_wheel_check *check)
{
    const struct af_view_torch *torch = &check->view->torch;
    if (torch->state == AF_FACT_ABSENT)
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_MISSING, "%s",
                                      check->view->machine->torch.version.source);
    if (torch->state == AF_FACT_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_TORCH,
                                      "the wheel is for torch %s",
                                      af_catalog_is_torch_free(check->wheel) ? "2.4 and newer"
                                      : check->wheel->torch == NULL ? "that it does not name"
                                                                    : check->wheel->torch);
    if (torch->state != AF_FACT_KNOWN || af_fit_wheel_is_pure(check->wheel))
        return;
    if (af_catalog_is_torch_free(check->wheel)) {
        match_oldest(check);
        return;
    }
    refuse_build(check);
    match_minor(check);
    if (af_verdict_answer(check->bits) != AF_NO || check->arena != NULL)
        match_build(check);
}

/* Whether a build of this release for this platform uses CUDA `major`. */
static bool release_has_cuda(const struct af_view *view, int major)
{
    const struct af_catalog_torch_release *release = view->torch.release;
    if (release == NULL || view->platform == NULL || view->torch.build != AF_FIT_TORCH_RELEASE)
        return true;
    for (size_t i = 0; i < release->variants_count; i++) {
        if (release->variants[i].cuda_major == major &&
            strcmp(release->variants[i].platform, view->platform) == 0)
            return true;
    }
    return false;
}

static void match_cuda(struct af_fit_wheel_check *check, int major)
{
    const struct af_view_torch *torch = &check->view->torch;
    bool other = torch->cuda == AF_FACT_KNOWN ? torch->cuda_major != major
                                              : !release_has_cuda(check->view, major);
    if (major < 0)
        af_fit_wheel_check_add_reason(check, AF_REASON_WHEEL_CUDA_UNKNOWN, "%s",
                                      check->wheel->filename);
    else if (other && torch->cuda == AF_FACT_KNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_CUDA_MAJOR, "CUDA %d, torch has CUDA %d",
                                      major, torch->cuda_major);
    else if (other)
        af_fit_wheel_check_add_reason(check, AF_REASON_CUDA_MAJOR,
                                      "CUDA %d, but torch %s has no such build", major,
                                      torch->text);
    else if (torch->cuda == AF_FACT_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_TORCH_CUDA,
                                      "the wheel needs CUDA %d, and nothing says which one "
                                      "torch %s has",
                                      major, torch->text);
}

void af_rule_cuda(struct af_fit_wheel_check *check)
{
    const struct af_view_torch *torch = &check->view->torch;
    if (torch->state != AF_FACT_KNOWN)
        return;
    if (torch->cuda == AF_FACT_ABSENT && !af_view_uses_rocm(check->view))
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_WITHOUT_CUDA, "torch %s",
                                      torch->text);
    else if (!af_fit_wheel_is_pure(check->wheel) && !check->wheel->rocm &&
             !af_catalog_is_torch_free(check->wheel)) /* has a CUDA runtime of its own */
        match_cuda(check, af_fit_wheel_cuda_major(check->wheel));
}

/*
 * The C++ ABI of the extension; if all builds of a torch minor have the same,
 * it is that one.
 */
static enum af_answer wheel_abi(const struct af_catalog_wheel *wheel)
{
    return wheel->cxx11abi_effective != AF_UNKNOWN
               ? wheel->cxx11abi_effective
               : af_tables_torch_abi(wheel->torch_major, wheel->torch_minor);
}

static const char *abi_name(enum af_answer abi)
{
    return abi == AF_YES ? "new" : "old";
}

void af_rule_abi(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    const struct af_view_torch *torch = &check->view->torch;
    enum af_answer abi = wheel_abi(wheel);
    bool applies = torch->state == AF_FACT_KNOWN && !af_fit_wheel_is_pure(wheel) &&
                   !af_starts_with(wheel->platform, "win") && wheel->torch_major >= 0;
    if (!applies || torch->cuda == AF_FACT_ABSENT || (abi != AF_UNKNOWN && abi == torch->abi))
        return;
    if (torch->abi == AF_UNKNOWN)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_UNKNOWN_ABI,
            "the wheel has %s ABI, and nothing says which one torch %s has",
            abi == AF_UNKNOWN ? "an unknown"
            : abi == AF_YES   ? "the new"
                              : "the old",
            torch->text);
    else if (abi == AF_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_WHEEL_ABI_UNKNOWN,
                                      "torch has the %s ABI", abi_name(torch->abi));
    else if (wheel->cxx11abi == torch->abi)
        af_fit_wheel_check_add_reason(check, AF_REASON_MISLABELLED,
                                      "the wheel has the %s ABI, but torch has the %s ABI (%s)",
                                      abi_name(abi), abi_name(torch->abi), torch->abi_source);
    else
        af_fit_wheel_check_add_reason(check, AF_REASON_ABI,
                                      "the wheel has the %s ABI, but torch has the %s ABI (%s)",
                                      abi_name(abi), abi_name(torch->abi), torch->abi_source);
}
