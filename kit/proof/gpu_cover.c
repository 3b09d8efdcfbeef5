/*
 * gpu_cover.c: decides which code runs on one GPU, translation unit by translation unit, and
 * FlashAttention kernels family by family.
 */
#include <string.h>

#include "kit/fit/gpu_targets.h"
#include "kit/proof/gpu_checks.h"

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
