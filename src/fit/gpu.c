/*
 * gpu.c: GPU code, GPUs and drivers, without regard to any wheel.
 *
 * Source: NVIDIA's CUDA compatibility guide (cubins run within a major on the
 * same or a higher minor; a driver at or above the floor of a CUDA major runs
 * every program of that major). The integrated parts 8.7 and 10.1 stand apart:
 * whether desktop cubins run there is not settled.
 */
#include "fit/gpu.h"

#include "base/text.h"

#include <string.h>

#define SM_ORIN 87
#define SM_THOR_OLD 101

enum af_answer af_sm_runs(int code, int gpu)
{
    if (code == gpu)
        return AF_YES;
    if (code / 10 != gpu / 10 || code % 10 > gpu % 10)
        return AF_NO;
    return gpu == SM_ORIN || gpu == SM_THOR_OLD || code == SM_ORIN ? AF_UNKNOWN : AF_YES;
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

/* The lowest driver of a CUDA major, NULL when the tables do not say. */
static const char *driver_floor(const struct af_tables *tables, int major)
{
    for (size_t i = 0; i < tables->cuda_count; i++) {
        if (tables->cuda[i].major == major)
            return tables->cuda[i].driver_linux_floor;
    }
    return NULL;
}

enum af_answer af_driver_serves(const struct af_view *view, const struct af_tables *tables,
                                int major, const char **need_out)
{
    struct af_dotted floor;
    if (major < 0)
        return AF_UNKNOWN;
    const char *text = af_equal(view->os, "linux") ? driver_floor(tables, major) : NULL;
    *need_out = text != NULL ? text : "of that CUDA";
    if (view->driver_cuda.count > 0)
        return view->driver_cuda.part[0] >= major ? AF_YES : AF_NO;
    if (view->driver.count == 0 || !af_dotted_parse(text, &floor))
        return AF_UNKNOWN;
    return af_dotted_compare(&view->driver, &floor) >= 0 ? AF_YES : AF_NO;
}
