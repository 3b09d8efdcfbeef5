/*
 * gpu_files.h: drivers and GPUs as files of /proc and /sys show them, for when
 * the driver library cannot be asked. Private to this module.
 */
#ifndef AF_KIT_PROBE_GPU_FILES_H
#define AF_KIT_PROBE_GPU_FILES_H

#include "kit/probe/probes.h"

/* Fills driver.kernel_version. */
void af_probe_gpu_files_driver(struct af_probe *probe);

/* Fills driver.rocm and adds a row for each AMD GPU that ROCm's driver serves. */
void af_probe_gpu_files_amd(struct af_probe *probe);

/*
 * Adds a row for each NVIDIA display device on the PCI bus, its compute
 * capability unknown because of `why`; returns their number. A Jetson's is on
 * no bus.
 */
size_t af_probe_gpu_files_nvidia(struct af_probe *probe, const char *why);

#endif
