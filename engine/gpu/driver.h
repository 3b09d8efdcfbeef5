/*
 * driver.h: NVIDIA's driver library, which is opened when it is first needed, and the kernels
 * that it has compiled from the pack. No toolkit and no CUDA runtime are used.
 *
 *     struct af_nvidia_scope scope;
 *     af_nvidia_enter(device, &scope, err);        the device's context is current
 *     af_nvidia_launch(&scope, pack, &list, stream, err);
 *     af_nvidia_leave(&scope);
 *
 * Thread-safe. Kernels stay loaded for the life of their context.
 */
#ifndef AF_ENGINE_GPU_DRIVER_H
#define AF_ENGINE_GPU_DRIVER_H

#include "engine/gpu/launch.h"
#include "engine/gpu/pack.h"

struct af_nvidia_scope {
    struct af_launch_device device;
    uint64_t context; /* tells contexts apart, also one after another at one address */
    bool pushed;      /* the primary context of another device is current until leave */
};

/*
 * Makes the context of device number `device` current, that of the calling thread if it is
 * this device's or `device` is -1, else the device's primary context. It makes no context: a
 * device without one holds no memory of this process. Fails with NOT_FOUND without a driver, a
 * device or a context; UNSUPPORTED for a GPU before compute capability 8.0; else IO. If it
 * fails there is nothing to leave.
 */
enum anyflash_status af_nvidia_enter(int32_t device, struct af_nvidia_scope *scope,
                                     struct anyflash_error *err);
void af_nvidia_leave(struct af_nvidia_scope *scope);

/* Loads the kernels of the list that are not. Fails with UNSUPPORTED while `stream` records a
 * graph, if the pack lacks one, or if the driver is too old for it; else as the pack, or IO. */
enum anyflash_status af_nvidia_load(const struct af_nvidia_scope *scope, struct af_pack *pack,
                                    const struct af_launch_list *list, void *stream,
                                    struct anyflash_error *err);

/* Loads what is not loaded, then starts everything on the stream. */
enum anyflash_status af_nvidia_launch(const struct af_nvidia_scope *scope, struct af_pack *pack,
                                      struct af_launch_list *list, void *stream,
                                      struct anyflash_error *err);

bool af_nvidia_is_loaded(const struct af_nvidia_scope *scope,
                         const struct af_launch_kernel *kernel);

#endif
