/*
 * ops_enroll.c: the operators' kernels become torch's. They stay for the life
 * of the process, as the operators do. A client of anyflash.h.
 */
#include "anyflash/anyflash_torch.h"

#include <pthread.h>

#include "bindings/torch/ops.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static af_torch_library registration; /* NULL: not registered */
static bool by_python;

static enum anyflash_status enroll(struct anyflash_error *err)
{
    static const struct {
        const char *name;
        af_torch_kernel *kernel;
    } rows[] = {
        {"attend", af_ops_forward},
        {"attend_forward", af_ops_forward},
        {"attend_forward.dense", af_ops_forward_dense},
        {"attend_forward.only_out", af_ops_forward_out},
        {"attend_backward", af_ops_backward},
    };
    af_torch_library library = NULL;
    if (af_ops.base.aoti_torch_library_init_impl("anyflash", "CPU", "anyflash", 1, &library) !=
        0)
        return af_fail(err, ANYFLASH_E_IO, "torch refuses a library for anyflash on the CPU");
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (af_ops.base.aoti_torch_library_impl(library, rows[i].name, rows[i].kernel) != 0) {
            af_ops.base.aoti_torch_delete_library_object(library);
            return af_fail(err, ANYFLASH_E_IO, "torch refuses a kernel for anyflash::%s",
                           rows[i].name);
        }
    }
    registration = library;
    return ANYFLASH_OK;
}

enum anyflash_status anyflash_torch_operators(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    struct af_ops_shim shim;
    if (libtorch_cpu == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "libtorch_cpu is NULL");
    pthread_mutex_lock(&turn);
    if (registration == NULL) {
        status = af_ops_shim_load(libtorch_cpu, true, &shim, err);
        if (status == ANYFLASH_OK) {
            af_ops = shim;
            status = enroll(err);
        }
    }
    pthread_mutex_unlock(&turn);
    return status;
}

enum anyflash_status af_ops_load_for_python(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    struct af_ops_shim shim;
    pthread_mutex_lock(&turn);
    if (registration != NULL)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "the operators are registered already");
    if (status == ANYFLASH_OK && !by_python) {
        status = af_ops_shim_load(libtorch_cpu, false, &shim, err);
        if (status == ANYFLASH_OK) {
            af_ops = shim;
            by_python = true;
        }
    }
    pthread_mutex_unlock(&turn);
    return status;
}
