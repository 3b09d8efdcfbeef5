/* package.h: facts of one installed package. Private to packages.c and package.c. */
#ifndef AF_KIT_PROBE_PACKAGE_H
#define AF_KIT_PROBE_PACKAGE_H

#include "kit/probe/probes.h"

/* Whether the package's own files are examined in detail: flash-attn itself. */
bool af_probe_package_is_flash_attn(const char *name);

/*
 * Fills installer, origin, wheel_tag, purelib and built_for_torch of `package` from the files
 * beside its METADATA in `info` (a .dist-info folder). For flash-attn it also fills extensions,
 * extension_sha256, the files that differ from RECORD, and missing_libraries; for packages
 * with attention kernels of their own, xformers and vllm, only extensions.
 */
void af_probe_package_read_info(const struct af_probe *probe, struct af_package *package,
                                const char *name, const char *site, const char *info);

/*
 * Fills flash_attn_min and flash_attn_max of a package that uses flash-attn, from its source
 * code under `site`; absent for packages that check no version.
 */
void af_probe_package_read_window(const struct af_probe *probe, struct af_package *package,
                                  const char *name, const char *site);

/*
 * Compares the main files of torch with RECORD in `info`, if `site` has the torch that is
 * imported; fills missing_files, changed_files and broken_files of machine->torch.
 */
void af_probe_package_read_torch(const struct af_probe *probe, const char *site,
                                 const char *info);

/*
 * Whether a package whose .dist-info `info` is there has lost what it is imported from: RECORD
 * lists NAME/__init__.py, which `site` does not have. False if RECORD cannot be read.
 */
bool af_probe_package_is_gone(const char *site, const char *info);

#endif
