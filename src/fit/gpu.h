/*
 * gpu.h: which GPU code runs on which GPU. SMs are numbers: 8.9 is 89.
 */
#ifndef AF_FIT_GPU_H
#define AF_FIT_GPU_H

#include "base/base.h"

/* Whether a cubin of SM `code` runs on a GPU of SM `gpu`; UNKNOWN: not settled. */
enum af_answer af_sm_runs(int code, int gpu);

#endif
