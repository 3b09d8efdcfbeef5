/*
 * switch.c: registers the attention kernels, switches them on and off, and
 * counts their calls. The state is static, because the dispatcher passes no user
 * pointer to a kernel.
 */
#include "bindings/torch/switch.h"

#include "anyflash/anyflash_torch.h"

#include <pthread.h>
#include <stdatomic.h>

#include "bindings/torch/sdpa.h"
#include "bindings/torch/threads.h"

#define DECODE_QUERIES_MAX 16 /* with more, a call is a prefill */
#define SHORT_KEYS_MAX 128    /* with more, other calls are a decode */
#define FEW_QUERIES_MAX 32    /* of a backward that may be torch's */

struct af_torch_shim af_torch;

static atomic_bool on;
static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t passed_on;
static atomic_int cpu_level;      /* enum anyflash_cpu_level */
static atomic_uint torch_prefill; /* bits 1 << enum anyflash_dtype */
static atomic_uint torch_decode;
static atomic_uint torch_short;
static atomic_uint torch_few;

bool af_torch_is_on(void)
{
    return atomic_load_explicit(&on, memory_order_acquire);
}

int32_t af_torch_cpu_level(void)
{
    return atomic_load_explicit(&cpu_level, memory_order_relaxed);
}

bool af_torch_keeps(int32_t dtype, int64_t queries, int64_t keys)
{
    const atomic_uint *dtypes = queries > DECODE_QUERIES_MAX ? &torch_prefill
                                : keys > SHORT_KEYS_MAX      ? &torch_decode
                                                             : &torch_short;
    return (atomic_load_explicit(dtypes, memory_order_relaxed) >> dtype & 1) != 0;
}

bool af_torch_keeps_backward(int32_t dtype, int64_t queries)
{
    return queries <= FEW_QUERIES_MAX &&
           (atomic_load_explicit(&torch_few, memory_order_relaxed) >> dtype & 1) != 0;
}

void af_torch_count_call(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void af_torch_count_passed_on(void)
{
    atomic_fetch_add_explicit(&passed_on, 1, memory_order_relaxed);
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;     /* the shim; never changes once set */
static bool by_python;  /* nothing is registered: Python calls the kernels */
static bool registered; /* for the life of the process */

static const struct {
    const char *name;
    af_torch_kernel *kernel;
} kernels[] = {
    {"_scaled_dot_product_flash_attention_for_cpu", af_torch_sdpa_forward},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", af_torch_sdpa_backward},
};

/* Registers both kernels, or none. */
static enum anyflash_status enroll(struct anyflash_error *err)
{
    af_torch_library library = NULL;
    if (af_torch.aoti_torch_library_init_impl("aten", "CPU", "anyflash", 1, &library) != 0)
        return af_fail(err, ANYFLASH_E_IO, "torch refuses a library for aten on the CPU");
    for (size_t i = 0; i < AF_COUNT(kernels); i++) {
        if (af_torch.aoti_torch_library_impl(library, kernels[i].name, kernels[i].kernel) !=
            0) {
            af_torch.aoti_torch_delete_library_object(library);
            return af_fail(err, ANYFLASH_E_IO, "torch refuses a kernel for %s",
                           kernels[i].name);
        }
    }
    registered = true;
    return ANYFLASH_OK;
}

static enum anyflash_status load(void *libtorch_cpu, bool registry, struct anyflash_error *err)
{
    struct af_torch_shim shim;
    enum anyflash_status status = af_torch_shim_load(libtorch_cpu, registry, &shim, err);
    if (status == ANYFLASH_OK)
        af_torch = shim;
    loaded = status == ANYFLASH_OK;
    return status;
}

enum anyflash_status anyflash_torch_enable(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (libtorch_cpu == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "libtorch_cpu is NULL");
    pthread_mutex_lock(&turn);
    if (!loaded)
        status = load(libtorch_cpu, true, err);
    if (status == ANYFLASH_OK && !registered && !by_python)
        status = enroll(err);
    if (status == ANYFLASH_OK)
        atomic_store(&on, true);
    pthread_mutex_unlock(&turn);
    return status;
}

void anyflash_torch_disable(void)
{
    atomic_store(&on, false);
}

enum anyflash_status af_torch_load_for_python(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    pthread_mutex_lock(&turn);
    if (loaded && !by_python)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "the kernels are registered already");
    if (!loaded)
        status = load(libtorch_cpu, false, err);
    by_python = by_python || status == ANYFLASH_OK;
    pthread_mutex_unlock(&turn);
    return status;
}

struct anyflash_context *anyflash_torch_context(void *libtorch_cpu)
{
    return af_torch_context(libtorch_cpu);
}

void anyflash_torch_choose(int32_t level, uint32_t prefill, uint32_t decode, uint32_t shorts,
                           uint32_t few)
{
    atomic_store(&cpu_level, level);
    atomic_store(&torch_prefill, prefill);
    atomic_store(&torch_decode, decode);
    atomic_store(&torch_short, shorts);
    atomic_store(&torch_few, few);
}

void anyflash_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out)
{
    *calls_out = atomic_load_explicit(&calls, memory_order_relaxed);
    *passed_on_out = atomic_load_explicit(&passed_on, memory_order_relaxed);
}
