/*
 * gpu_facts.h: rules about GPUs that need no GPU: which GPUs CUDA_VISIBLE_DEVICES
 * leaves visible, which CUDA a driver supports, how people write a compute
 * capability. Shared by the GPU probe and --given.
 */
#ifndef AF_KIT_MACHINE_GPU_FACTS_H
#define AF_KIT_MACHINE_GPU_FACTS_H

#include "kit/machine/machine.h"

/*
 * Sets `visible` of every GPU row from CUDA_VISIBLE_DEVICES `value` (NULL: not
 * set, all are visible), as the CUDA programming guide says: indices or UUID
 * beginnings, up to the first entry that names no device; MIG-... names a part
 * of a device, whose row cannot be told from it, so rows become unknown.
 */
void af_machine_gpu_visibility(struct af_machine *machine, const char *value,
                               const char *source);

/* The CUDA that a driver "580.95.05" supports, as "13.0", in the arena; or NULL. */
const char *af_machine_gpu_driver_cuda(struct af_arena *arena, const char *driver_version);

/* "sm_90a", "90", "9.0", "compute_120" as "9.0"; "gfx942" as it is; else false. */
bool af_machine_gpu_sm_parse(const char *text, char *sm, size_t size_bytes);

/* Vendor and compute capability of the longest product name in lower-case
 * `text`, in the arena; false when there is none. */
bool af_machine_gpu_name_find(struct af_arena *arena, const char *text, const char **vendor_out,
                              const char **sm_out);

#endif
