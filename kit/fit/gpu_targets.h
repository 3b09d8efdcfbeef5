/*
 * gpu_targets.h: which GPU code runs on which GPU and driver. SMs are numbers: 8.9 is 89.
 */
#ifndef AF_KIT_FIT_GPU_TARGETS_H
#define AF_KIT_FIT_GPU_TARGETS_H

#include "kit/fit/view.h"
#include "kit/formats/fatbin.h"

/* Whether a cubin of SM `code` runs on a GPU of SM `gpu`; UNKNOWN: undocumented. */
enum af_answer af_sm_runs(int code, int gpu);

/*
 * Whether `sm` is an integrated GPU with a CUDA of its own: a Jetson before Thor, which shares
 * CUDA 13 with servers. Source: "jetson" in the rules of data/cuda.json.
 */
bool af_sm_is_jetson(int sm);

/*
 * Whether a GPU of SM `gpu` can load the image, ignoring the driver. Cubins: as
 * af_sm_runs(); with 'a' only on that SM; with 'f' on SMs of the same major,
 * from that SM on. PTX: on its own SM and every later one; 'a' and 'f' as for
 * cubins. Unknown kinds are UNKNOWN. LTO-IR is NO, because it must be linked
 * first.
 */
enum af_answer af_image_runs(const struct af_gpu_image *image, int gpu);

/*
 * Whether the view's driver compiles PTX of ISA major.minor; UNKNOWN if the
 * driver or the ISA is not known. *cuda_out (in the arena) is set to the CUDA
 * version that is needed ("12.8"), or NULL, as it is without an arena.
 */
enum af_answer af_driver_compiles(const struct af_view *view, int isa_major, int isa_minor,
                                  struct af_arena *arena, const char **cuda_out);

/*
 * Whether the view's driver can unpack `packing` ("lz4", "zstd"). On NO and
 * UNKNOWN *need_out (borrowed from the tables) is the oldest driver that can,
 * or NULL.
 */
enum af_answer af_driver_unpacks(const struct af_view *view, const char *packing,
                                 const char **need_out);

/*
 * Whether any item runs on `sm`. Accepts torch's "sm_80 sm_90 compute_120" and
 * the tables' "8.0 12.0+PTX". PTX runs on every newer GPU.
 */
enum af_answer af_sm_list_covers(const char *const *items, size_t count, int sm);

/* Whether this build of torch has code for `sm`; by its CUDA version if its list is unknown. */
enum af_answer af_sm_in_torch(const struct af_catalog_torch_variant *variant, int sm);

/*
 * The same of the view's torch: by what the machine's record says of it, else by its build,
 * else by its CUDA, which is too old for GPUs that came later, whoever built it.
 */
enum af_answer af_sm_in_view_torch(const struct af_view *view, int sm);

/*
 * Whether the view's driver runs programs of CUDA `major` (minor versions do
 * not matter for cubins); UNKNOWN if neither the driver nor the CUDA it
 * supports is known. On NO *need_out (borrowed from the tables) is the driver
 * that is needed: "525.60.13".
 */
enum af_answer af_driver_serves(const struct af_view *view, int major, const char **need_out);

#endif
