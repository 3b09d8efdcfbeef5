/*
 * gpu_targets.c: which GPU code runs on which GPUs and drivers, independent of
 * any wheel.
 *
 * Source: NVIDIA's CUDA compatibility guide (a cubin runs on the same major
 * with the same or a higher minor; a driver at or above the minimum for a CUDA
 * major runs every program of that major). The integrated parts 8.7 and 10.1
 * are treated separately: it is not known whether desktop cubins run on them.
 */
#include "kit/fit/gpu_targets.h"

#include "kit/base/text.h"
#include "kit/fit/gpu_generation.h"

#include <string.h>

static bool is_integrated(int sm)
{
    return af_sm_generation_of(sm).is_integrated;
}

/* Thor was 10.1 up to CUDA 12.9 and is 11.0 since then. */
static bool are_one_chip(int sm, int other)
{
    return sm == other || af_sm_generation_of(sm).same_chip == other;
}

bool af_sm_is_jetson(int sm)
{
    struct af_sm_generation generation = af_sm_generation_of(sm);
    return generation.is_integrated && generation.same_chip == 0;
}

enum af_answer af_sm_runs(int code, int gpu)
{
    if (code == gpu)
        return AF_YES;
    if (are_one_chip(code, gpu))
        return AF_UNKNOWN;
    if (code / 10 != gpu / 10 || code % 10 > gpu % 10)
        return AF_NO;
    return is_integrated(gpu) || is_integrated(code) ? AF_UNKNOWN : AF_YES;
}

enum af_answer af_image_runs(const struct af_gpu_image *image, int gpu)
{
    if (image->kind == AF_GPU_LTOIR)
        return AF_NO;
    if (image->kind == AF_GPU_OTHER)
        return AF_UNKNOWN;
    if (image->suffix == 'a')
        return image->sm == gpu ? AF_YES : are_one_chip(image->sm, gpu) ? AF_UNKNOWN : AF_NO;
    if (image->kind == AF_GPU_PTX && image->suffix == '\0')
        return image->sm <= gpu ? AF_YES : AF_NO;
    return af_sm_runs(image->sm, gpu);
}

enum af_answer af_sm_list_covers(const char *const *items, size_t count, int sm)
{
    enum af_answer best = AF_NO;
    for (size_t i = 0; i < count && best != AF_YES; i++) {
        bool ptx = af_starts_with(items[i], "compute_") || af_ends_with(items[i], "+PTX");
        int code = af_sm_parse(items[i] + strcspn(items[i], "0123456789"));
        enum af_answer runs = code < 0            ? AF_NO
                              : ptx && code <= sm ? AF_YES
                                                  : af_sm_runs(code, sm);
        best = runs == AF_NO ? best : runs;
    }
    return best;
}

enum af_answer af_sm_in_torch(const struct af_catalog_torch_variant *variant, int sm)
{
    if (variant->sm.count > 0)
        return af_sm_list_covers(variant->sm.items, variant->sm.count, sm);
    /* Older builds of torch have no PTX. */
    int cuda = variant->cuda_major * 10 + variant->cuda_minor;
    return variant->cuda_major > 0 && cuda < af_sm_generation_of(sm).first_cuda ? AF_NO
                                                                                : AF_UNKNOWN;
}

/* Whether the CUDA of this torch is older than the first CUDA that supports the GPU. */
static bool is_cuda_too_old(const struct af_view_torch *torch, int sm)
{
    return torch->cuda == AF_FACT_KNOWN && torch->cuda_major > 0 && torch->cuda_minor >= 0 &&
           torch->cuda_major * 10 + torch->cuda_minor < af_sm_generation_of(sm).first_cuda;
}

enum af_answer af_sm_in_view_torch(const struct af_view *view, int sm)
{
    const struct af_fact *targets = &view->machine->torch.gpu_targets;
    const struct af_catalog_torch_variant *variant = view->torch.variant;
    if (targets->state == AF_FACT_KNOWN && targets->value.list.count > 0)
        return af_sm_list_covers(targets->value.list.items, targets->value.list.count, sm);
    if (variant == NULL)
        return is_cuda_too_old(&view->torch, sm) ? AF_NO : AF_UNKNOWN;
    return af_sm_in_torch(variant, sm);
}

/*
 * The oldest driver for a CUDA major; NULL if the tables do not have it. On Windows that of the
 * major's first toolkit. NVIDIA states none for CUDA 13 there; its branch is that of Linux.
 */
static const char *driver_floor(int major, bool windows)
{
    for (size_t i = 0; i < af_tables.cuda_count; i++) {
        const struct af_cuda_toolkit *toolkit = &af_tables.cuda[i];
        if (toolkit->cuda_major == major)
            return windows && toolkit->driver_windows_min != NULL ? toolkit->driver_windows_min
                                                                  : toolkit->driver_linux_floor;
    }
    return NULL;
}

enum af_answer af_driver_serves(const struct af_view *view, int major, const char **need_out)
{
    struct af_dotted floor;
    if (major < 0)
        return AF_UNKNOWN;
    const char *text = driver_floor(major, af_equal(view->os, "windows"));
    *need_out = text != NULL ? text : "for that CUDA";
    if (view->driver_cuda.count > 0)
        return view->driver_cuda.part[0] >= major ? AF_YES : AF_NO;
    if (!af_equal(view->os, "linux") || view->driver.count == 0 ||
        !af_dotted_parse(text, &floor))
        return AF_UNKNOWN;
    return af_dotted_compare(&view->driver, &floor) >= 0 ? AF_YES : AF_NO;
}

/* <0, 0, >0 */
static int compare_pair(int a_major, int a_minor, int b_major, int b_minor)
{
    return a_major != b_major ? a_major - b_major : a_minor - b_minor;
}

/* The row of a PTX version, or of the next newer one; NULL if there is none. */
static const struct af_ptx_isa *find_isa(int major, int minor)
{
    for (size_t i = 0; i < af_tables.ptx_isa_count; i++) {
        const struct af_ptx_isa *isa = &af_tables.ptx_isa[i];
        if (compare_pair(isa->ptx_major, isa->ptx_minor, major, minor) >= 0)
            return isa;
    }
    return NULL;
}

enum af_answer af_driver_compiles(const struct af_view *view, int isa_major, int isa_minor,
                                  struct af_arena *arena, const char **cuda_out)
{
    const struct af_ptx_isa *isa = find_isa(isa_major, isa_minor);
    struct af_dotted first;
    *cuda_out = NULL;
    if (isa == NULL)
        return AF_UNKNOWN;
    if (arena != NULL)
        *cuda_out = af_arena_format(arena, "%d.%d", isa->cuda_major, isa->cuda_minor);
    const struct af_dotted *serves = &view->driver_cuda;
    if (serves->count > 0)
        return compare_pair(serves->part[0], serves->part[1], isa->cuda_major,
                            isa->cuda_minor) >= 0
                   ? AF_YES
                   : AF_NO;
    const struct af_cuda_toolkit *toolkit = af_tables_cuda(isa->cuda_major, isa->cuda_minor);
    if (!af_equal(view->os, "linux") || view->driver.count == 0 || toolkit == NULL ||
        !af_dotted_parse(toolkit->driver_linux_min, &first))
        return AF_UNKNOWN;
    /* A driver branch supports the toolkit from the branch's first release on. */
    return view->driver.part[0] >= first.part[0] ? AF_YES : AF_NO;
}

enum af_answer af_driver_unpacks(const struct af_view *view, const char *packing,
                                 const char **need_out)
{
    struct af_dotted first;
    const char *need = NULL;
    for (size_t i = 0; i < af_tables.unpacking_count; i++) {
        if (af_equal(af_tables.unpacking[i].packing, packing))
            need = af_tables.unpacking[i].driver_linux_min;
    }
    *need_out = need;
    if (need == NULL)
        return AF_YES;
    if (!af_equal(view->os, "linux") || view->driver.count == 0 ||
        !af_dotted_parse(need, &first))
        return AF_UNKNOWN;
    return af_dotted_compare(&view->driver, &first) >= 0 ? AF_YES : AF_NO;
}
