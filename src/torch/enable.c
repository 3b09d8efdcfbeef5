/*
 * enable.c: registering and taking back. A client of anyflash.h.
 */
#include "anyflash/anyflash_torch.h"

#include <pthread.h>

#include "torch/sdpa.h"
#include "torch/threads.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static af_torch_library registration; /* NULL: not registered */

static enum anyflash_status enroll(struct anyflash_error *err)
{
    af_torch_library library = NULL;
    if (af_torch.aoti_torch_library_init_impl("aten", "CPU", "anyflash", 1, &library) != 0)
        return af_fail(err, ANYFLASH_E_IO, "torch refuses a library for aten on the CPU");
    if (af_torch.aoti_torch_library_impl(library, "_scaled_dot_product_flash_attention_for_cpu",
                                         af_torch_sdpa_forward) != 0 ||
        af_torch.aoti_torch_library_impl(library,
                                         "_scaled_dot_product_flash_attention_for_cpu_backward",
                                         af_torch_sdpa_backward) != 0) {
        af_torch.aoti_torch_delete_library_object(library);
        return af_fail(err, ANYFLASH_E_IO, "torch refuses a kernel for its CPU attention");
    }
    registration = library;
    return ANYFLASH_OK;
}

enum anyflash_status anyflash_torch_enable(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    struct af_torch_shim shim;
    if (libtorch_cpu == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "libtorch_cpu is NULL");
    pthread_mutex_lock(&turn);
    if (registration == NULL) {
        status = af_torch_shim_load(libtorch_cpu, true, &shim, err);
        if (status == ANYFLASH_OK) {
            af_torch = shim;
            status = enroll(err);
        }
    }
    pthread_mutex_unlock(&turn);
    return status;
}

void anyflash_torch_disable(void)
{
    pthread_mutex_lock(&turn);
    if (registration != NULL)
        af_torch.aoti_torch_delete_library_object(registration);
    registration = NULL;
    pthread_mutex_unlock(&turn);
}

enum anyflash_status anyflash_torch_kernels(void *libtorch_cpu,
                                            anyflash_torch_kernel **forward_out,
                                            anyflash_torch_kernel **backward_out,
                                            struct anyflash_error *err)
{
    struct af_torch_shim shim;
    if (libtorch_cpu == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "libtorch_cpu is NULL");
    enum anyflash_status status = af_torch_shim_load(libtorch_cpu, false, &shim, err);
    if (status != ANYFLASH_OK)
        return status;
    pthread_mutex_lock(&turn);
    if (registration == NULL)
        af_torch = shim;
    else
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "the kernels are registered already");
    pthread_mutex_unlock(&turn);
    if (status == ANYFLASH_OK) {
        *forward_out = af_torch_sdpa_forward;
        *backward_out = af_torch_sdpa_backward;
    }
    return status;
}

struct anyflash_context *anyflash_torch_context(void *libtorch_cpu)
{
    return af_torch_context(libtorch_cpu);
}

void anyflash_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out)
{
    af_torch_sdpa_counts(calls_out, passed_on_out);
}
