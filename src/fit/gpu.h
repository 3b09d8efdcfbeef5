/*
 * gpu.h: which GPU code runs on which GPU and driver. SMs are numbers: 8.9 is 89.
 */
#ifndef AF_FIT_GPU_H
#define AF_FIT_GPU_H

#include "fit/view.h"

/* Whether a cubin of SM `code` runs on a GPU of SM `gpu`; UNKNOWN: not settled. */
enum af_answer af_sm_runs(int code, int gpu);

/*
 * Whether some item runs on `sm`: torch's "sm_80 sm_90 compute_120" and the
 * tables' "8.0 12.0+PTX" are both understood; PTX runs on every newer GPU.
 */
enum af_answer af_sm_list_covers(const char *const *items, size_t count, int sm);

/*
 * Whether the view's driver serves programs of CUDA `major` (minor versions do
 * not matter for cubins); UNKNOWN when neither the driver nor what it serves is
 * known. On NO *need_out (borrowed from the tables) says what
 * is needed: "525.60.13".
 */
enum af_answer af_driver_serves(const struct af_view *view, const struct af_tables *tables,
                                int major, const char **need_out);

#endif
