/*
 * rung_torch_change.c: the smallest change of torch after which a wheel fits;
 * package_changes.c says what else has to change with it.
 */
#include <string.h>

#include "kit/base/sort.h"
#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/rung.h"
#include "kit/fit/verdict.h"

/*
 * The smallest change of torch after which a wheel fits: the same minor in
 * another build, then newer minors, nearest first, then older ones. A torch is
 * considered if PyTorch publishes it for this Python and platform, and glibc,
 * driver and GPUs support it; then all wheels are checked against it.
 *
 * If no torch is installed: the newest one with an official wheel, else the
 * newest with any wheel.
 */

#define TORCH_DISK_BYTES INT64_C(5000000000) /* torch with its CUDA libraries, unpacked */
#define CHOICES_MAX 256

struct choice {
    const struct af_catalog_torch_release *release;
    const struct af_catalog_torch_variant *variant;
    bool partly; /* it has no code for some of the GPUs */
    int order;   /* smaller: a smaller change */
};

struct found {
    struct af_candidate candidate;
    const struct choice *choice;
};

static bool serves_python(const struct af_view *view,
                          const struct af_catalog_torch_release *release)
{
    char text[16];
    if (!view->python_known)
        return true;
    af_text_quote(text, sizeof text, view->python_text, strcspn(view->python_text, "td"));
    return af_words_have(view->interpreter.free_threaded ? release->python_free_threaded
                                                         : release->python,
                         text);
}

static bool serves_system(const struct af_view *view,
                          const struct af_catalog_torch_variant *variant)
{
    struct af_dotted need;
    const char *unused;
    if (view->glibc.count > 0 && af_dotted_parse(variant->glibc_min, &need) &&
        af_dotted_compare(&view->glibc, &need) < 0)
        return false;
    return af_driver_serves(view, variant->cuda_major, &unused) != AF_NO;
}

/* Whether it has code for a GPU of the view; partly: for others it has none. */
static bool serves_gpus(const struct af_view *view, struct choice *choice)
{
    bool any = view->gpu_count == 0;
    for (size_t g = 0; g < view->gpu_count; g++) {
        int sm = view->gpus[g].sm;
        bool lacks = sm >= 0 && af_sm_in_torch(choice->variant, sm) == AF_NO;
        any = any || !lacks;
        choice->partly = choice->partly || lacks;
    }
    return any;
}

static bool serves(const struct af_fit_context *fit, struct choice *choice)
{
    for (size_t i = 0; i < fit->view_count; i++) {
        const struct af_view *view = &fit->views[i];
        if (view->platform == NULL || view->musl || !view->cpython ||
            strcmp(view->platform, choice->variant->platform) != 0 ||
            choice->variant->cuda_major < 0 || !serves_python(view, choice->release) ||
            !serves_system(view, choice->variant) || !serves_gpus(view, choice))
            return false;
    }
    return true;
}

/* How large the change is: minors first, then whether the CUDA build stays. Last are those
   that do not serve all GPUs. */
static int order_of(const struct af_view *view, const struct choice *choice, bool is_default)
{
    const struct af_view_torch *torch = &view->torch;
    int minor = choice->release->torch_minor;
    int step = torch->state != AF_FACT_KNOWN ? 100 - minor
               : minor >= torch->minor       ? minor - torch->minor
                                             : 100 + torch->minor - minor;
    int build = choice->variant->cuda_major * 10 + choice->variant->cuda_minor;
    int here = torch->cuda_major * 10 + torch->cuda_minor;
    int cuda = torch->cuda_major >= 0 && build == here            ? 0
               : is_default                                       ? 1
               : choice->variant->cuda_major == torch->cuda_major ? 2
                                                                  : 3;
    return choice->partly * 1000000 + step * 1000 + cuda * 200 +
           (199 - (build > 199 ? 199 : build));
}

static int compare_choices(const void *a, const void *b, const void *context)
{
    (void)context;
    return ((const struct choice *)a)->order - ((const struct choice *)b)->order;
}

/* If no torch is installed, one whose wheels are known: it came out before they were listed. */
static size_t list_choices(const struct af_fit_context *fit, struct choice *choices)
{
    bool fresh = fit->views[0].torch.state != AF_FACT_KNOWN;
    size_t count = 0;
    for (size_t r = 0; r < af_tables.torch_count; r++) {
        const struct af_catalog_torch_release *release = &af_tables.torch[r];
        bool unlisted = fresh && af_catalog_predates_torch(fit->catalog, release->torch_major,
                                                           release->torch_minor);
        for (size_t v = 0; v < release->variants_count && count < CHOICES_MAX; v++) {
            struct choice choice = {release, &release->variants[v], false, 0};
            bool here = fit->views[0].torch.variant == choice.variant;
            if (here || unlisted || !serves(fit, &choice))
                continue;
            choice.order = order_of(&fit->views[0], &choice, choice.variant->is_default);
            choices[count++] = choice;
        }
    }
    af_sort(choices, count, sizeof choices[0], compare_choices, NULL);
    return count;
}

/* Whether its name states the installed torch minor, but its bytes do not load with that. */
static bool states_wrong_torch(const struct af_fit_context *fit,
                               const struct af_candidate *candidate)
{
    return (candidate->reason_bits & AF_REASON_BIT(AF_REASON_PROVED_NOT)) != 0 &&
           candidate->wheel->torch_minor == fit->views[0].torch.minor;
}

/* Lists the wheels that only a wrong torch could exclude; returns their number. */
static size_t list_wheels(const struct af_rung_context *context,
                          const struct af_catalog_wheel **wheels)
{
    const struct af_decision *decision = context->decision;
    size_t count = 0;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (af_verdict_group(candidate->reason_bits) >= AF_REASON_GROUP_TORCH &&
            !states_wrong_torch(context->fit, candidate))
            wheels[count++] = candidate->wheel;
    }
    return count;
}

/* The best wheel for the changed torch in `fit`; its answer is NO if there is none. */
static struct af_candidate best_wheel(const struct af_fit_context *fit,
                                      const struct af_catalog_wheel *const *wheels,
                                      size_t count)
{
    struct af_fit_wheel_check check = {.fit = fit};
    struct af_candidate best = {.answer = AF_NO};
    int minor = fit->views[0].torch.minor;
    for (size_t i = 0; i < count; i++) {
        if (wheels[i]->torch_minor != minor || wheels[i]->torch_major != 2)
            continue;
        struct af_candidate candidate = {.wheel = wheels[i]};
        for (size_t v = 0; v < fit->view_count; v++)
            candidate.reason_bits |= af_verdict(&check, &fit->views[v], wheels[i]);
        candidate.answer = af_verdict_answer(candidate.reason_bits);
        if (candidate.answer != AF_NO &&
            (best.wheel == NULL || af_rank_compare(fit, &candidate, &best) < 0))
            best = candidate;
    }
    return best;
}

/* Whether to prefer `a`, although `b` is the smaller change. */
static bool better(const struct af_candidate *a, const struct af_candidate *b, bool fresh)
{
    if (b->wheel == NULL || (a->answer == AF_YES && b->answer != AF_YES))
        return true;
    return fresh && a->answer == b->answer && a->wheel->official && !b->wheel->official;
}

/* Whether the wheel's name gives the same CUDA as this torch build. */
static bool is_exact(const struct found *found)
{
    return found->candidate.wheel->cuda_minor < 0 ||
           found->candidate.wheel->cuda_minor == found->choice->variant->cuda_minor;
}

/*
 * Whether it is open if the driver serves this build: the driver is unknown, and no installed
 * torch uses its major of CUDA already. *need_out: the oldest driver that serves it.
 */
static bool driver_is_open(const struct af_fit_context *fit,
                           const struct af_catalog_torch_variant *variant,
                           const char **need_out)
{
    const struct af_view *view = &fit->views[0];
    return view->torch.cuda_major != variant->cuda_major &&
           af_driver_serves(view, variant->cuda_major, need_out) == AF_UNKNOWN;
}

/*
 * Whether to prefer `a` to `b`, another build of the same release: if no torch is installed,
 * its wheel is of a newer flash-attn; if the driver is unknown, it works with older ones; or
 * its wheel has exactly the same CUDA.
 */
static bool better_build(const struct af_fit_context *fit, const struct found *a,
                         const struct found *b, bool fresh)
{
    const char *unused;
    const struct af_catalog_torch_variant *a_torch = a->choice->variant;
    const struct af_catalog_torch_variant *b_torch = b->choice->variant;
    const struct af_catalog_wheel *new = a->candidate.wheel;
    const struct af_catalog_wheel *old = b->candidate.wheel;
    if (a->choice->release != b->choice->release ||
        a->candidate.answer != b->candidate.answer || new->official != old->official)
        return false;
    if (new->version_rank != old->version_rank)
        return fresh && new->version_rank > old->version_rank;
    if (a_torch->cuda_major != b_torch->cuda_major && driver_is_open(fit, a_torch, &unused) &&
        driver_is_open(fit, b_torch, &unused))
        return a_torch->cuda_major < b_torch->cuda_major;
    return is_exact(a) && !is_exact(b);
}

/* Fills the views of `changed`: those of `fit`, but with the chosen torch. */
static void change_views(struct af_fit_context *changed, const struct af_fit_context *fit,
                         const struct choice *choice, struct af_arena *arena)
{
    for (size_t i = 0; i < fit->view_count; i++) {
        changed->views[i] = fit->views[i];
        af_view_change_torch(&changed->views[i], choice->release, choice->variant, arena);
    }
}

static struct found search(struct af_rung_context *context, const struct choice *choices,
                           size_t count)
{
    const struct af_fit_context *fit = context->fit;
    struct found found = {.choice = NULL};
    struct af_fit_options options = *fit->options;
    options.known_count = 0; /* proofs apply only to the installed torch */
    struct af_fit_context changed = *fit;
    changed.options = &options;
    bool fresh = fit->views[0].torch.state != AF_FACT_KNOWN;
    const struct af_catalog_wheel **wheels =
        af_arena_array(context->arena, context->decision->candidate_count + 1,
                       sizeof(struct af_catalog_wheel *));
    changed.views = af_arena_array(context->arena, fit->view_count, sizeof *changed.views);
    size_t wheel_count = list_wheels(context, wheels);
    for (size_t i = 0; i < count; i++) {
        change_views(&changed, fit, &choices[i], context->arena);
        bool done = found.choice != NULL && found.candidate.answer == AF_YES &&
                    (!fresh || found.candidate.wheel->official);
        if (done && (found.choice->release != choices[i].release ||
                     found.choice->partly != choices[i].partly))
            break;
        struct found next = {best_wheel(&changed, wheels, wheel_count), &choices[i]};
        if (next.candidate.wheel == NULL)
            continue;
        if (found.choice == NULL || better_build(fit, &next, &found, fresh) ||
            better(&next.candidate, &found.candidate, fresh))
            found = next;
    }
    return found;
}

static void report_open(struct af_rung_context *context, uint64_t bits)
{
    for (int id = 0; id < 64; id++) {
        if ((bits >> id & 1) != 0 && af_reasons[id].effect == AF_REASON_OPEN)
            af_rung_add_reason(context, (enum af_reason_id)id, NULL);
    }
}

/* Reports which GPUs the wheel does not support when the new torch is installed. */
static void report_partly(struct af_rung_context *context, const struct found *found)
{
    size_t count;
    struct af_fit_context changed = *context->fit;
    changed.views = af_arena_array(context->arena, changed.view_count, sizeof *changed.views);
    change_views(&changed, context->fit, found->choice, context->arena);
    const struct af_reason *reasons =
        af_verdict_explain(&changed, found->candidate.wheel, context->arena, &count);
    for (size_t i = 0; i < count; i++)
        if (reasons[i].id == AF_REASON_GPU_PARTLY)
            af_rung_take_reason(context, &reasons[i]);
}

/* What is published is PyTorch's build, even where the torch in use is another one. */
static void report_jetson(struct af_rung_context *context)
{
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view *view = &context->fit->views[i];
        context->view = view;
        for (size_t g = 0; g < view->gpu_count; g++)
            if (af_sm_is_jetson(view->gpus[g].sm))
                af_rung_add_reason(context, AF_REASON_UNKNOWN_JETSON_TORCH, "%s",
                                   view->gpus[g].name);
    }
    context->view = NULL;
}

static void report_driver(struct af_rung_context *context,
                          const struct af_catalog_torch_variant *variant)
{
    const char *need;
    if (driver_is_open(context->fit, variant, &need))
        af_rung_add_reason(context, AF_REASON_UNKNOWN_DRIVER,
                           "CUDA %d needs NVIDIA driver %s or newer", variant->cuda_major,
                           need);
}

static void report_found(struct af_rung_context *context, const struct found *found)
{
    struct af_rung *rung = context->rung;
    const char *version = found->choice->release->latest;
    const char *cuda = found->choice->variant->cuda;
    af_rung_set_wheel(context, found->candidate.wheel, found->choice->variant->cuda_major);
    rung->torch_version = af_arena_text(context->arena, version);
    rung->torch_cuda = af_arena_text(context->arena, cuda);
    report_open(context, found->candidate.reason_bits);
    report_partly(context, found);
    report_jetson(context);
    report_driver(context, found->choice->variant);
    af_rung_add_package_changes(context, version, cuda);
    rung->price = (struct af_rung_cost){-1, 10, 0, TORCH_DISK_BYTES};
    rung->summary = af_arena_format(context->arena, "use torch %s+%s for %s %s (%s)", version,
                                    cuda, rung->wheel->package, rung->wheel->version,
                                    af_fit_publisher(context->arena, rung->wheel));
}

/* Reports what no change of torch could fix, and what can never fit. */
static bool report_obstacles(struct af_rung_context *context)
{
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view *view = &context->fit->views[i];
        context->view = view;
        if (view->torch.build == AF_FIT_TORCH_VENDOR)
            af_rung_add_reason(context, AF_REASON_VENDOR_TORCH, "torch %s", view->torch.text);
        if (view->amd)
            af_rung_add_reason(context, AF_REASON_MACHINE_ROCM, NULL);
        else if (context->fit->options->version == NULL && af_view_gpus_are_too_old(view))
            af_rung_add_reason(context, AF_REASON_SM_UNSUPPORTED, "%s", view->gpus[0].name);
        else if (view->gpu == AF_FACT_ABSENT)
            af_rung_add_reason(context, view->gpu_lack, "%s", view->gpu_source);
        if (view->os == NULL || view->arch == NULL)
            af_rung_add_reason(context, af_view_unknown_platform(view), NULL);
        else if (view->platform == NULL || view->musl)
            af_rung_add_reason(context, AF_REASON_NO_WHEEL_PLATFORM, "%s %s%s", view->os,
                               view->arch, view->musl ? " musl" : "");
        if (view->torch.state == AF_FACT_UNKNOWN)
            af_rung_add_reason(context, AF_REASON_UNKNOWN_TORCH, NULL);
    }
    context->view = NULL;
    return context->reason_count > 0;
}

static void report_none(struct af_rung_context *context)
{
    const struct af_view *view = &context->fit->views[0];
    if (af_view_gpus_are_too_old(view))
        af_rung_add_reason(context, AF_REASON_SM_UNSUPPORTED, "%s", view->gpus[0].name);
    af_rung_add_reason(context, AF_REASON_NO_TORCH_CHANGE, NULL);
}

/* The first choice whose list of GPUs is known; NULL: there is none. */
static const struct choice *first_choice(const struct af_fit_context *fit,
                                         struct choice choices[CHOICES_MAX])
{
    size_t count = list_choices(fit, choices);
    for (size_t i = 0; i < count; i++)
        if (choices[i].variant->sm.count > 0)
            return &choices[i];
    return NULL;
}

void af_rung_torch_for_gpu(struct af_rung_context *context, size_t at)
{
    struct choice choices[CHOICES_MAX];
    struct af_fit_context alone = *context->fit;
    alone.views = &context->fit->views[at];
    alone.view_count = 1;
    const struct choice *choice = first_choice(context->fit, choices);
    if (alone.views[0].torch.build == AF_FIT_TORCH_VENDOR)
        return;
    if (choice != NULL) {
        context->rung->torch_version = af_arena_text(context->arena, choice->release->latest);
        context->rung->torch_cuda = af_arena_text(context->arena, choice->variant->cuda);
    } else if (first_choice(&alone, choices) == NULL) {
        af_rung_add_reason(context, AF_REASON_NO_TORCH_FOR_GPU, "%s",
                           af_view_torch_lacks_all(&alone.views[0])->text);
    }
}

void af_rung_torch_change(struct af_rung_context *context)
{
    struct choice choices[CHOICES_MAX];
    af_rung_start(context, AF_RUNG_TORCH_CHANGE);
    context->rung->summary = "no change of torch makes a wheel fit";
    if (context->decision->rungs[AF_RUNG_WHEEL].answer == AF_YES) {
        context->rung->summary = "not needed";
        af_rung_add_reason(context, AF_REASON_NOT_NEEDED, NULL);
    } else if (!report_obstacles(context)) {
        size_t count = list_choices(context->fit, choices);
        struct found found = search(context, choices, count);
        if (found.choice == NULL)
            report_none(context);
        else
            report_found(context, &found);
    }
    af_rung_finish(context);
    if (context->rung->answer == AF_UNKNOWN && context->rung->wheel == NULL)
        context->rung->summary = "unknown whether a change of torch makes a wheel fit";
}
