/*
 * torch.h: the parts of the torch probe. Private to this module. `folder` is the folder of the
 * torch package; facts are written to machine->torch.
 */
#ifndef AF_KIT_PROBE_TORCH_H
#define AF_KIT_PROBE_TORCH_H

#include "kit/probe/probes.h"

/*
 * The path of torch's library `name`: in torch/lib, else where conda and distributions install
 * it (possibly as NAME.2.6). If it is nowhere, the result is a path that does not exist; NULL
 * only if memory runs out.
 */
const char *af_probe_torch_library(const struct af_probe *probe, const char *torch_folder,
                                   const char *name);

/* Fills cudart_soname and cudart_path. */
void af_probe_torch_probe_cudart(const struct af_probe *probe, const char *folder);

/* Fills missing_libraries; after af_probe_torch_probe_cudart(). */
void af_probe_torch_probe_missing(const struct af_probe *probe, const char *folder);

/* Fills gpu_targets. */
void af_probe_torch_probe_targets(const struct af_probe *probe, const char *folder);

#endif
