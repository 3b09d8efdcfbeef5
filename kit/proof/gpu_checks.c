/*
 * gpu_checks.c: makes the three checks that follow from how the code covers each GPU, which
 * gpu_cover.c decides. Called by proof.c.
 */
#include "kit/proof/gpu_checks.h"

#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"

#define LISTED_TARGETS_MAX 12u

/* The inputs of the three checks. */
struct question {
    const struct af_gpu_code *code;
    const struct af_view *view;
    struct af_arena *arena;
    struct af_proof_gpu_coverage gpus[AF_VIEW_GPUS_MAX]; /* one entry for each SM */
    size_t gpu_count;
};

static void set(struct af_proof_check *check, enum af_proof_check_id id, enum af_answer answer,
                const char *evidence)
{
    *check = (struct af_proof_check){id, answer, evidence};
}

/* Appends a part of a list, with a separator before all but the first part. */
static void add_part(struct af_text *text, const char *part)
{
    af_text_format(text, "%s%s", text->len == 0 ? "" : "; ", part);
}

/* The targets of the code: "sm_80, sm_90a, compute_90". */
static const char *list_targets(struct question *question)
{
    const struct af_gpu_code *code = question->code;
    struct af_text text = {0};
    for (size_t i = 0; i < code->target_count && i < LISTED_TARGETS_MAX; i++) {
        char one[AF_GPU_TARGET_TEXT];
        af_text_format(&text, "%s%s", i == 0 ? "" : ", ",
                       af_gpu_target_text(&code->targets[i], one));
    }
    if (code->target_count > LISTED_TARGETS_MAX)
        af_text_add(&text, ", ...");
    return af_text_take(&text, question->arena);
}

static void cover_gpus(struct question *question, const struct af_flash_kernels *kernels)
{
    for (size_t i = 0; i < question->view->gpu_count; i++) {
        const struct af_view_gpu *gpu = &question->view->gpus[i];
        bool is_known = false;
        for (size_t k = 0; k < question->gpu_count; k++)
            is_known = is_known || question->gpus[k].sm == gpu->sm;
        if (is_known)
            continue;
        struct af_proof_gpu_coverage *coverage = &question->gpus[question->gpu_count++];
        af_proof_gpu_cover(question->code, kernels, gpu->sm, question->arena, coverage);
        coverage->name = gpu->name;
    }
}

/* "8.9 (NVIDIA GeForce RTX 4090)" */
static const char *gpu_text(struct question *question, const struct af_proof_gpu_coverage *gpu)
{
    if (gpu->sm < 0)
        return gpu->name == NULL ? "a GPU of unknown SM" : gpu->name;
    return af_arena_format(question->arena, gpu->name == NULL ? "%d.%d" : "%d.%d (%s)",
                           gpu->sm / 10, gpu->sm % 10, gpu->name);
}

/* For example "" or " and 3 more families of kernels". */
static const char *more_text(struct af_arena *arena, size_t more)
{
    return more == 0 ? ""
                     : af_arena_format(arena, " and %zu more famil%s of kernels", more,
                                       more == 1 ? "y" : "ies");
}

/* How one GPU is covered, as part of a sentence. */
static const char *code_text(struct question *question, const struct af_proof_gpu_coverage *gpu)
{
    struct af_arena *arena = question->arena;
    const char *name = gpu_text(question, gpu);
    if (gpu->sm < 0)
        return af_arena_format(arena, "%s: it is unknown which code it can run", name);
    if (gpu->lacking_family_count > 0)
        return af_arena_format(
            arena, "%s: no code for %s%s; there is %s", name,
            gpu->lacking_families.count == 0 ? "its kernels" : gpu->lacking_families.items[0],
            more_text(arena, gpu->lacking_family_count - 1), list_targets(question));
    if (gpu->lacking_count > 0)
        return af_arena_format(arena,
                               "%s: no code in %zu of %zu translation units; there is %s", name,
                               gpu->lacking_count, gpu->unit_count, list_targets(question));
    if (gpu->runs == AF_NO)
        return af_arena_format(arena, "%s: no code; there is %s", name, list_targets(question));
    if (gpu->runs == AF_UNKNOWN)
        return af_arena_format(arena, "%s: unknown whether it runs code for %s", name,
                               list_targets(question));
    return af_arena_format(arena, "%s runs %s in %zu of %zu translation units", name,
                           gpu->best == NULL ? "no kernel" : gpu->best,
                           gpu->sass_count + gpu->ptx_count, gpu->unit_count);
}

/* Why GPUs cannot be checked; NULL: there are some to check. */
static const char *no_gpu(struct question *question)
{
    const struct af_view *view = question->view;
    if (view->gpu_count > 0)
        return NULL;
    if (view->gpu == AF_FACT_ABSENT)
        return "no NVIDIA GPU is visible";
    return view->gpu_source[0] == '\0'
               ? "GPUs are not known"
               : af_arena_format(question->arena, "GPUs are not known: %s", view->gpu_source);
}

static void check_code(struct question *question, struct af_proof_check *check)
{
    struct af_text text = {0};
    enum af_answer answer = AF_YES;
    const char *reason = no_gpu(question);
    if (reason != NULL) {
        answer = AF_UNKNOWN;
        af_text_format(&text, "%s; there is code for %s", reason, list_targets(question));
    }
    for (size_t i = 0; i < question->gpu_count; i++) {
        const struct af_proof_gpu_coverage *gpu = &question->gpus[i];
        enum af_answer runs = gpu->runs;
        if (runs == AF_NO && question->code->problem != NULL)
            runs = AF_UNKNOWN;
        answer = af_proof_worse(answer, runs);
        add_part(&text, code_text(question, gpu));
    }
    if (question->code->problem != NULL)
        add_part(&text, question->code->problem);
    set(check, AF_CHECK_GPU_CODE, answer, af_text_take(&text, question->arena));
}

/* The driver's version, as text for messages. */
static const char *driver_text(struct question *question)
{
    const struct af_view *view = question->view;
    if (view->driver_cuda.count > 0)
        return af_arena_format(question->arena, "the driver supports CUDA %d.%d",
                               view->driver_cuda.part[0], view->driver_cuda.part[1]);
    if (view->driver_text != NULL)
        return af_arena_format(question->arena, "the driver is %s", view->driver_text);
    return "the driver is not known";
}

static void check_ptx(struct question *question, struct af_proof_check *check)
{
    struct af_text text = {0};
    enum af_answer answer = AF_YES;
    for (size_t i = 0; i < question->gpu_count; i++) {
        const struct af_proof_gpu_coverage *gpu = &question->gpus[i];
        const char *cuda = NULL;
        if (gpu->ptx_count == 0)
            continue;
        enum af_answer compiles = af_driver_compiles(question->view, gpu->ptx_major,
                                                     gpu->ptx_minor, question->arena, &cuda);
        answer = af_proof_worse(answer, compiles);
        add_part(&text,
                 af_arena_format(question->arena,
                                 "%s needs PTX %d.%d (a driver for CUDA %s) for %zu of "
                                 "%zu translation units; %s",
                                 gpu_text(question, gpu), gpu->ptx_major, gpu->ptx_minor,
                                 cuda == NULL ? "newer than any known one" : cuda,
                                 gpu->ptx_count, gpu->unit_count, driver_text(question)));
    }
    if (text.len > 0)
        set(check, AF_CHECK_PTX_DRIVER, answer, af_text_take(&text, question->arena));
    else if (question->gpu_count > 0)
        set(check, AF_CHECK_PTX_DRIVER, AF_YES, "no PTX is needed");
    else
        set(check, AF_CHECK_PTX_DRIVER, AF_UNKNOWN, no_gpu(question));
}

static void check_compression(struct question *question, struct af_proof_check *check)
{
    const char *need = NULL;
    size_t packed = 0;
    size_t needed = 0;
    for (size_t i = 0; i < question->code->target_count; i++)
        packed += question->code->targets[i].zstd_count;
    for (size_t i = 0; i < question->gpu_count; i++)
        needed += question->gpus[i].zstd_count;
    if (packed == 0) {
        set(check, AF_CHECK_COMPRESSION_DRIVER, AF_YES,
            "no image uses a compression that older drivers lack");
        return;
    }
    enum af_answer unpacks = question->gpu_count == 0
                                 ? AF_UNKNOWN
                                 : af_driver_unpacks(question->view, "zstd", &need);
    if (unpacks == AF_NO && needed == 0)
        unpacks = AF_UNKNOWN; /* the driver may never read the compressed images */
    const char *reason = no_gpu(question);
    set(check, AF_CHECK_COMPRESSION_DRIVER, unpacks,
        af_arena_format(question->arena, "%zu images are packed with zstd%s%s; %s", packed,
                        need == NULL ? "" : ", which needs driver ", need == NULL ? "" : need,
                        reason != NULL ? reason : driver_text(question)));
}

/* Sets the same answer for all three checks. */
static void set_all(struct af_proof_check *checks, enum af_answer answer, const char *evidence)
{
    set(&checks[0], AF_CHECK_GPU_CODE, answer, evidence);
    set(&checks[1], AF_CHECK_PTX_DRIVER, answer, evidence);
    set(&checks[2], AF_CHECK_COMPRESSION_DRIVER, answer, evidence);
}

void af_proof_gpu(const struct af_gpu_code *code, const struct af_flash_kernels *kernels,
                  const struct af_view *view, struct af_arena *arena,
                  struct af_proof_check checks[AF_PROOF_GPU_CHECKS])
{
    if (code == NULL) {
        set_all(checks, AF_UNKNOWN, "its GPU code was not read");
        return;
    }
    if (code->target_count == 0 && code->problem == NULL) {
        set_all(checks, AF_YES, "none is needed, the file holds no GPU code");
        return;
    }
    struct question *question = af_arena_alloc(arena, sizeof *question);
    *question = (struct question){.code = code, .view = view, .arena = arena};
    cover_gpus(question, kernels);
    check_code(question, &checks[0]);
    check_ptx(question, &checks[1]);
    check_compression(question, &checks[2]);
}
