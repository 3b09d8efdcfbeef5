/*
 * fake_torch.c: a library that looks like libtorch_cpu to the bindings. Instead
 * of throwing an exception it jumps back to the call, which frees nothing, like
 * unwinding through C frames.
 */
#include "fake_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_MAX 8

static struct {
    char name[80];
    af_torch_kernel *kernel;
    af_torch_library library; /* one of `libraries` */
} kernels[KERNELS_MAX];
static char libraries[KERNELS_MAX * 4];
static int library_count;
static int kernel_count;
static int living;
static int own_calls;
static bool own_refuses;
static int until_failure;
static int threads = 1;
static int parallel_calls;
static char message[500];
static jmp_buf catch_point;

/* C++ names that src/torch looks for. */
void _ZN3c106detail14torchCheckFailEPKcS2_jS2_(const char *function, const char *file,
                                               uint32_t line, const char *text);
int _ZN2at15get_num_threadsEv(void);
void torch_delete_stable_ivalue(void *cell);
void GOMP_parallel(void (*body)(void *), void *argument, unsigned workers, unsigned flags);

static bool fails(void)
{
    return until_failure > 0 && --until_failure == 0;
}

void fake_fail_nth(int nth)
{
    until_failure = nth;
}

int fake_living(void)
{
    return living;
}

int fake_own_calls(void)
{
    return own_calls;
}

void fake_refuse_own(bool refuse)
{
    own_refuses = refuse;
}

void fake_set_threads(int count)
{
    threads = count;
}

int fake_parallel_calls(void)
{
    return parallel_calls;
}

const char *fake_message(void)
{
    return message;
}

struct fake_tensor *fake_tensor_new(int32_t dtype, int64_t dim, const int64_t *sizes)
{
    struct fake_tensor *tensor = calloc(1, sizeof *tensor);
    int64_t count = 1;
    tensor->dtype = dtype;
    tensor->dim = dim;
    for (int64_t i = dim - 1; i >= 0; i--) {
        tensor->sizes[i] = sizes[i];
        tensor->strides[i] = count;
        count *= sizes[i];
    }
    tensor->memory = calloc((size_t)count + 1, 8);
    tensor->data = tensor->memory;
    living++;
    return tensor;
}

struct fake_tensor *fake_tensor_view(const struct fake_tensor *of)
{
    struct fake_tensor *tensor = malloc(sizeof *tensor);
    *tensor = *of;
    tensor->memory = NULL;
    living++;
    return tensor;
}

void fake_tensor_free(struct fake_tensor *tensor)
{
    free(tensor->memory);
    free(tensor);
    living--;
}

uint64_t fake_cell(uint64_t bits)
{
    uint64_t *cell = malloc(sizeof *cell);
    uint64_t slot = 0;
    *cell = bits;
    memcpy(&slot, &cell, sizeof cell);
    living++;
    return slot;
}

void fake_cell_free(void *cell)
{
    free(cell);
    living--;
}

void torch_delete_stable_ivalue(void *cell)
{
    fake_cell_free(cell);
}

bool fake_call(const char *name, uint64_t *stack, uint64_t inputs, uint64_t outputs)
{
    message[0] = '\0';
    if (setjmp(catch_point) != 0)
        return false;
    for (int i = 0; i < kernel_count; i++)
        if (strcmp(kernels[i].name, name) == 0) {
            kernels[i].kernel(stack, inputs, outputs);
            return true;
        }
    return false;
}

void _ZN3c106detail14torchCheckFailEPKcS2_jS2_(const char *function, const char *file,
                                               uint32_t line, const char *text)
{
    (void)function;
    (void)file;
    (void)line;
    snprintf(message, sizeof message, "%s", text);
    longjmp(catch_point, 1);
}

int _ZN2at15get_num_threadsEv(void)
{
    return threads;
}

void GOMP_parallel(void (*body)(void *), void *argument, unsigned workers, unsigned flags)
{
    (void)workers;
    (void)flags;
    parallel_calls++;
    body(argument);
}

int32_t aoti_torch_library_init_impl(const char *space, const char *key, const char *file,
                                     uint32_t line, af_torch_library *library_out)
{
    (void)file;
    (void)line;
    if (strcmp(space, "aten") != 0 || strcmp(key, "CPU") != 0)
        return 1;
    *library_out = &libraries[library_count++ % (int)sizeof libraries];
    return 0;
}

int32_t aoti_torch_library_impl(af_torch_library library, const char *name,
                                af_torch_kernel *kernel)
{
    if (kernel_count == KERNELS_MAX)
        return 1;
    kernels[kernel_count].library = library;
    snprintf(kernels[kernel_count].name, sizeof kernels[0].name, "%s", name);
    kernels[kernel_count++].kernel = kernel;
    return 0;
}

int32_t aoti_torch_delete_library_object(af_torch_library library)
{
    int kept = 0;
    for (int i = 0; i < kernel_count; i++)
        if (kernels[i].library != library)
            kernels[kept++] = kernels[i];
    kernel_count = kept;
    return 0;
}

int32_t aoti_torch_get_data_ptr(af_torch_tensor tensor, void **data_out)
{
    *data_out = ((struct fake_tensor *)tensor)->data;
    return fails();
}

int32_t aoti_torch_get_dim(af_torch_tensor tensor, int64_t *dim_out)
{
    *dim_out = ((struct fake_tensor *)tensor)->dim;
    return 0;
}

int32_t aoti_torch_get_sizes(af_torch_tensor tensor, int64_t **sizes_out)
{
    *sizes_out = ((struct fake_tensor *)tensor)->sizes;
    return 0;
}

int32_t aoti_torch_get_strides(af_torch_tensor tensor, int64_t **strides_out)
{
    *strides_out = ((struct fake_tensor *)tensor)->strides;
    return fails();
}

int32_t aoti_torch_get_dtype(af_torch_tensor tensor, int32_t *dtype_out)
{
    *dtype_out = ((struct fake_tensor *)tensor)->dtype;
    return 0;
}

int32_t aoti_torch_delete_tensor_object(af_torch_tensor tensor)
{
    fake_tensor_free(tensor);
    return 0;
}

int32_t aoti_torch_empty_strided(int64_t dim, const int64_t *sizes, const int64_t *strides,
                                 int32_t dtype, int32_t device_type, int32_t device_index,
                                 af_torch_tensor *tensor_out)
{
    (void)device_index;
    if (device_type != FAKE_CPU || fails())
        return 1;
    struct fake_tensor *tensor = fake_tensor_new(dtype, dim, sizes);
    for (int64_t i = 0; i < dim; i++)
        tensor->strides[i] = strides[i];
    *tensor_out = tensor;
    return 0;
}

/* The kernels of sdpa.c do not call it. */
int32_t aoti_torch_copy_(af_torch_tensor self, af_torch_tensor source, int32_t non_blocking)
{
    (void)self;
    (void)source;
    (void)non_blocking;
    return 1;
}

int32_t aoti_torch_device_type_cpu(void)
{
    return FAKE_CPU;
}

int32_t aoti_torch_dtype_int32(void)
{
    return FAKE_I32;
}

int32_t aoti_torch_dtype_float32(void)
{
    return FAKE_F32;
}

int32_t aoti_torch_dtype_float16(void)
{
    return FAKE_F16;
}

int32_t aoti_torch_dtype_bfloat16(void)
{
    return FAKE_BF16;
}

static int32_t own_results(af_torch_tensor *const *results, int count)
{
    const int64_t one = 1;
    own_calls++;
    if (own_refuses)
        return 1;
    for (int i = 0; i < count; i++)
        *results[i] = fake_tensor_new(FAKE_F32, 1, &one);
    return 0;
}

int32_t aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(
    af_torch_tensor q, af_torch_tensor k, af_torch_tensor v, double dropout, int32_t is_causal,
    af_torch_tensor *mask, double *scale, af_torch_tensor *o_out, af_torch_tensor *lse_out)
{
    af_torch_tensor *const results[] = {o_out, lse_out};
    (void)q, (void)k, (void)v, (void)dropout, (void)is_causal, (void)mask, (void)scale;
    return own_results(results, 2);
}

int32_t aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu_backward(
    af_torch_tensor dout, af_torch_tensor q, af_torch_tensor k, af_torch_tensor v,
    af_torch_tensor o, af_torch_tensor lse, double dropout, int32_t is_causal,
    af_torch_tensor *mask, double *scale, af_torch_tensor *dq_out, af_torch_tensor *dk_out,
    af_torch_tensor *dv_out)
{
    af_torch_tensor *const results[] = {dq_out, dk_out, dv_out};
    (void)dout, (void)q, (void)k, (void)v, (void)o, (void)lse, (void)dropout;
    (void)is_causal, (void)mask, (void)scale;
    return own_results(results, 3);
}
