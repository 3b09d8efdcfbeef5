/*
 * gpu_facts.h: rules about GPUs that need no GPU: which GPUs
 * CUDA_VISIBLE_DEVICES leaves visible, which CUDA a driver supports, how users
 * write a compute capability. Shared by the GPU probe and --given.
 */
#ifndef AF_KIT_MACHINE_GPU_FACTS_H
#define AF_KIT_MACHINE_GPU_FACTS_H

#include "kit/machine/machine.h"

/*
 * Sets `visible` of every GPU row from CUDA_VISIBLE_DEVICES `value` (NULL: not
 * set, all are visible), as the CUDA programming guide says: indices or UUID
 * prefixes, up to the first entry that names no device. An entry MIG-... does
 * not identify the row of its device, so the rows become unknown.
 */
void af_machine_gpu_visibility(struct af_machine *machine, const char *value,
                               const char *source);

/* The CUDA version that a driver supports ("13.0" for "580.95.05"), a constant; or NULL. */
const char *af_machine_gpu_driver_cuda(const char *driver_version);

/*
 * Parses "sm_90a", "90", "9.0" or "compute_120" to "9.0" and so on; copies
 * "gfx942" unchanged. False for anything else.
 */
bool af_machine_gpu_sm_parse(const char *text, char *sm, size_t size_bytes);

/*
 * Bytes of the longest product name at the start of lower-case `text`, ignoring blanks and
 * dashes; 0: none. *row_out is its row of af_embedded_gpu_names: vendor, name, compute
 * capability.
 */
size_t af_machine_gpu_name_at(const char *text, const char *const **row_out);

/*
 * Finds the longest product name in lower-case `text` and returns its vendor and
 * compute capability (NULL: GPUs of this vendor have none), constants; false
 * when there is none.
 */
bool af_machine_gpu_name_find(const char *text, const char **vendor_out, const char **sm_out);

#endif
