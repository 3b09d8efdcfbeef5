/*
 * torch.h: the parts of the torch probe. Private to this module. `folder` is
 * the torch package's own folder; facts go to machine->torch.
 */
#ifndef AF_KIT_PROBE_TORCH_H
#define AF_KIT_PROBE_TORCH_H

#include "kit/probe/probes.h"

/*
 * The library `name` of torch: in torch/lib, else where conda and
 * distributions put it (then perhaps as NAME.2.6). A path that does not exist
 * when it is nowhere; NULL only for lack of memory.
 */
const char *af_probe_torch_library(const struct af_probe *probe, const char *torch_folder,
                                   const char *name);

/* Fills cudart_soname and cudart_path. */
void af_probe_torch_probe_cudart(const struct af_probe *probe, const char *folder);

/* Fills gpu_targets. */
void af_probe_torch_probe_targets(const struct af_probe *probe, const char *folder);

#endif
