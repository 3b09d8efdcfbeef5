/*
 * gpu_targets.h: which GPU code runs on which GPU and driver. SMs are numbers: 8.9 is 89.
 */
#ifndef AF_KIT_FIT_GPU_TARGETS_H
#define AF_KIT_FIT_GPU_TARGETS_H

#include "kit/fit/view.h"
#include "kit/formats/fatbin.h"

/* Whether a cubin of SM `code` runs on a GPU of SM `gpu`; UNKNOWN: not settled. */
enum af_answer af_sm_runs(int code, int gpu);

/*
 * Whether a GPU of SM `gpu` can load the image, driver apart. Cubins: as
 * af_sm_runs(), 'a' on that SM only, 'f' on SMs of the same major from it on.
 * PTX: on every SM from its own on; 'a' and 'f' as cubins. Kinds that are not
 * known are UNKNOWN, LTO-IR is NO: it must be linked first.
 */
enum af_answer af_image_runs(const struct af_gpu_image *image, int gpu);

/*
 * Whether the view's driver compiles PTX of ISA major.minor; UNKNOWN when the
 * driver or the ISA is not known. *cuda_out (in the arena) becomes the CUDA it
 * takes, as "12.8", or NULL.
 */
enum af_answer af_driver_compiles(const struct af_view *view, const struct af_tables *tables,
                                  int isa_major, int isa_minor, struct af_arena *arena,
                                  const char **cuda_out);

/*
 * Whether the view's driver unpacks `packing` ("lz4", "zstd"); on NO and UNKNOWN
 * *need_out (borrowed from the tables) is the oldest driver that does, or NULL.
 */
enum af_answer af_driver_unpacks(const struct af_view *view, const struct af_tables *tables,
                                 const char *packing, const char **need_out);

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
