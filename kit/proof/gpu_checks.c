/*
 * gpu_checks.c: decides which code runs on one GPU, translation unit by translation unit;
 * then makes the three checks that follow from it. Called by proof.c.
 */
#include "kit/proof/gpu_checks.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"

#define LISTED_TARGETS_MAX 12u
#define USED_MAX 16u
#define LACKING_MAX 64u

/* The images that were chosen for units, and how many units each of them covers. */
struct used {
    const struct af_gpu_image *image;
    size_t count;
};

struct cover {
    const struct af_gpu_code *code;
    int sm;
    const unsigned char *in_family; /* per container: it holds FlashAttention kernels */
    struct used used[USED_MAX];
    size_t used_count;
};

/* Whether an image counts: it may hold kernels that a driver could load. */
static bool is_code(const struct af_gpu_image *image)
{
    return image->has_entry != AF_NO && image->kind != AF_GPU_LTOIR;
}

/* Whether the container holds kernels. If it has SASS, only its SASS is looked at. */
static bool holds_kernels(const struct af_gpu_code *code,
                          const struct af_gpu_container *container)
{
    bool has_sass = false;
    bool has_code = false;
    for (uint32_t i = 0; i < container->image_count; i++) {
        const struct af_gpu_image *image = &code->images[container->image_first + i];
        if (image->kind == AF_GPU_SASS && is_code(image))
            return true;
        has_sass = has_sass || image->kind == AF_GPU_SASS;
        has_code = has_code || is_code(image);
    }
    return has_code && !has_sass;
}

/* Rank of an image, lower is better: SASS before PTX, certain before uncertain answers. */
static int rank_of(const struct af_gpu_image *image, enum af_answer runs)
{
    return runs == AF_UNKNOWN ? 2 : image->kind == AF_GPU_SASS ? 0 : 1;
}

/*
 * The best image of the container for the GPU, compiled for an SM within [sm_min, sm_max]
 * unless both are 0; NULL when no image could run. Of equal ones it is the image nearest to the
 * GPU's SM, as the driver chooses.
 */
static const struct af_gpu_image *choose(const struct cover *cover, size_t container,
                                         int sm_min, int sm_max, int *rank_out)
{
    const struct af_gpu_container *unit = &cover->code->containers[container];
    const struct af_gpu_image *best = NULL;
    for (uint32_t i = 0; i < unit->image_count; i++) {
        const struct af_gpu_image *image = &cover->code->images[unit->image_first + i];
        enum af_answer runs = is_code(image) ? af_image_runs(image, cover->sm) : AF_NO;
        bool is_shell = sm_max > 0 && (image->sm < sm_min || image->sm > sm_max);
        if (runs == AF_NO || is_shell)
            continue;
        int rank = rank_of(image, runs);
        if (best == NULL || rank < *rank_out || (rank == *rank_out && image->sm > best->sm)) {
            best = image;
            *rank_out = rank;
        }
    }
    return best;
}

static void note_used(struct cover *cover, const struct af_gpu_image *image)
{
    for (size_t i = 0; i < cover->used_count; i++) {
        struct used *used = &cover->used[i];
        if (used->image->kind == image->kind && used->image->sm == image->sm &&
            used->image->suffix == image->suffix) {
            used->count++;
            return;
        }
    }
    if (cover->used_count < USED_MAX)
        cover->used[cover->used_count++] = (struct used){image, 1};
}

/*
 * Whether the container is not meant for the GPU: all its machine code is for one SM or family
 * only, or the image compiled for this GPU is empty.
 */
static bool is_for_others(const struct cover *cover, size_t container)
{
    const struct af_gpu_container *unit = &cover->code->containers[container];
    bool has_plain = false;
    for (uint32_t i = 0; i < unit->image_count; i++) {
        const struct af_gpu_image *image = &cover->code->images[unit->image_first + i];
        if (image->kind != AF_GPU_SASS)
            continue;
        if (!is_code(image) && af_image_runs(image, cover->sm) == AF_YES)
            return true;
        has_plain = has_plain || (is_code(image) && image->suffix == '\0');
    }
    return !has_plain;
}

static void cover_unit(struct cover *cover, size_t container, struct af_proof_gpu_coverage *out)
{
    int rank = 0;
    const struct af_gpu_image *image = choose(cover, container, 0, 0, &rank);
    if (image == NULL && !cover->in_family[container] && is_for_others(cover, container)) {
        out->special_count++;
        return;
    }
    out->unit_count++;
    if (image == NULL) {
        out->lacking_count += cover->in_family[container] ? 0 : 1;
        return;
    }
    if (rank == 2) {
        out->open_count++;
        return;
    }
    out->zstd_count += image->packing == AF_GPU_ZSTD ? 1 : 0;
    note_used(cover, image);
    if (rank == 0) {
        out->sass_count++;
        return;
    }
    out->ptx_count++;
    if (image->version_major > out->ptx_major ||
        (image->version_major == out->ptx_major && image->version_minor > out->ptx_minor)) {
        out->ptx_major = image->version_major;
        out->ptx_minor = image->version_minor;
    }
}

/* Whether two families differ only in the SMs that their code is for. */
static bool is_same_family(const struct af_flash_kernel *a, const struct af_flash_kernel *b)
{
    return a->operation == b->operation && a->generation == b->generation &&
           a->head_dim == b->head_dim &&
           (a->dtype == b->dtype ||
            (a->dtype != NULL && b->dtype != NULL && strcmp(a->dtype, b->dtype) == 0));
}

/* Whether some unit covers the GPU for this family. */
static enum af_answer family_runs(const struct cover *cover,
                                  const struct af_flash_family *family)
{
    enum af_answer runs = AF_NO;
    for (size_t i = 0; i < family->container_count && runs != AF_YES; i++) {
        int rank = 0;
        const struct af_gpu_image *image = choose(
            cover, family->containers[i], family->kernel.sm_min, family->kernel.sm_max, &rank);
        if (image != NULL)
            runs = rank == 2 ? AF_UNKNOWN : AF_YES;
    }
    return runs;
}

/* The best answer over all families that differ only in their SMs. */
static enum af_answer any_runs(const struct cover *cover,
                               const struct af_flash_kernels *kernels, size_t family)
{
    enum af_answer best = AF_NO;
    for (size_t i = 0; i < kernels->family_count && best != AF_YES; i++) {
        if (!is_same_family(&kernels->families[i].kernel, &kernels->families[family].kernel))
            continue;
        enum af_answer runs = family_runs(cover, &kernels->families[i]);
        best = runs == AF_NO ? best : runs;
    }
    return best;
}

/* Whether an earlier family differs from this one only in its SMs. */
static bool is_repeated(const struct af_flash_kernels *kernels, size_t family)
{
    for (size_t i = 0; i < family; i++) {
        if (is_same_family(&kernels->families[i].kernel, &kernels->families[family].kernel))
            return true;
    }
    return false;
}

static void cover_families(const struct cover *cover, const struct af_flash_kernels *kernels,
                           struct af_arena *arena, struct af_proof_gpu_coverage *out)
{
    const char **lacking = af_arena_array(arena, LACKING_MAX, sizeof *lacking);
    size_t listed = 0;
    for (size_t i = 0; i < kernels->family_count; i++) {
        char text[AF_FLASH_FAMILY_TEXT];
        enum af_answer runs = is_repeated(kernels, i) ? AF_YES : any_runs(cover, kernels, i);
        out->lacking_family_count += runs == AF_NO ? 1 : 0;
        out->open_family_count += runs == AF_UNKNOWN ? 1 : 0;
        if (runs == AF_NO && listed < LACKING_MAX)
            lacking[listed++] =
                af_arena_text(arena, af_flash_family_text(&kernels->families[i], text));
    }
    out->lacking_families = (struct af_texts){lacking, listed};
}

static unsigned char *mark_families(const struct af_gpu_code *code,
                                    const struct af_flash_kernels *kernels,
                                    struct af_arena *arena)
{
    unsigned char *marks = af_arena_alloc(arena, code->container_count + 1);
    for (size_t f = 0; kernels != NULL && f < kernels->family_count; f++) {
        for (size_t i = 0; i < kernels->families[f].container_count; i++)
            marks[kernels->families[f].containers[i]] = 1;
    }
    return marks;
}

static const char *most_used(const struct cover *cover, struct af_arena *arena)
{
    const struct used *best = NULL;
    char text[AF_GPU_TARGET_TEXT];
    for (size_t i = 0; i < cover->used_count; i++) {
        if (best == NULL || cover->used[i].count > best->count)
            best = &cover->used[i];
    }
    if (best == NULL)
        return NULL;
    struct af_gpu_target target = {.kind = best->image->kind,
                                   .kind_number = best->image->kind_number,
                                   .sm = best->image->sm,
                                   .suffix = best->image->suffix};
    return af_arena_text(arena, af_gpu_target_text(&target, text));
}

void af_proof_gpu_cover(const struct af_gpu_code *code, const struct af_flash_kernels *kernels,
                        int sm, struct af_arena *arena, struct af_proof_gpu_coverage *out)
{
    struct cover cover = {.code = code, .sm = sm};
    *out = (struct af_proof_gpu_coverage){.sm = sm, .runs = AF_UNKNOWN};
    cover.in_family = mark_families(code, kernels, arena);
    if (sm < 0)
        return;
    for (size_t i = 0; i < code->container_count; i++) {
        if (!code->containers[i].is_relocatable && holds_kernels(code, &code->containers[i]))
            cover_unit(&cover, i, out);
    }
    if (kernels != NULL)
        cover_families(&cover, kernels, arena, out);
    out->best = most_used(&cover, arena);
    bool is_useless = out->unit_count == 0 && out->special_count > 0;
    if (out->lacking_count > 0 || out->lacking_family_count > 0 || is_useless)
        out->runs = AF_NO;
    else
        out->runs = out->open_count > 0 || out->open_family_count > 0 ? AF_UNKNOWN : AF_YES;
}

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
