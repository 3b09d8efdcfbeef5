/*
 * shim.c: fills the table; nothing is called before the table is complete. Computes strides
 * exactly by torch's rules, because Meta kernels report them to the compiler.
 */
#include "bindings/torch/shim.h"

#include <string.h>

#ifdef _WIN32
#include <windows.h>
#endif

#include "engine/base/loaded.h"

#define AF_SHIM(result, name, arguments)                                                       \
    if (!af_loaded_function(libtorch_cpu, #name, &shim.name, sizeof shim.name))                \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this torch does not export %s", #name);

#define AF_SHIM_REGISTRY(result, name, arguments)                                              \
    if (registry && !af_loaded_function(libtorch_cpu, #name, &shim.name, sizeof shim.name))    \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this torch does not export %s", #name);

static void leave_cell(void *cell)
{
    (void)cell;
}

/*
 * dlsym() searches the libraries that libtorch_cpu uses, too; Windows does not. The mangled
 * names contain no std::string, so they are the same in both of GNU's C++ ABIs.
 */
#ifdef _WIN32
#define DELETE_NAME "free" /* Microsoft's delete calls it */
#define CHECK_FAIL_NAME "?torchCheckFail@detail@c10@@YAXPEBD0I0@Z"

static void *used_library(void *libtorch_cpu, const char *windows_name)
{
    (void)libtorch_cpu;
    return GetModuleHandleA(windows_name);
}

#else
#define DELETE_NAME "_ZdlPv"
#define CHECK_FAIL_NAME "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"

static void *used_library(void *libtorch_cpu, const char *windows_name)
{
    (void)windows_name;
    return libtorch_cpu;
}

#endif

/* From torch 2.13 on, a function deletes cells; before, C++'s delete does. */
static bool find_delete_cell(void *libtorch_cpu, struct af_torch_shim *shim)
{
    return af_loaded_function(libtorch_cpu, "torch_delete_stable_ivalue", &shim->delete_cell,
                              sizeof shim->delete_cell) ||
           af_loaded_function(used_library(libtorch_cpu, "ucrtbase.dll"), DELETE_NAME,
                              &shim->delete_cell, sizeof shim->delete_cell);
}

static bool find_check_fail(void *libtorch_cpu, struct af_torch_shim *shim)
{
    return af_loaded_function(used_library(libtorch_cpu, "c10.dll"), CHECK_FAIL_NAME,
                              &shim->check_fail, sizeof shim->check_fail);
}

bool af_torch_view_of(const struct af_torch_shim *shim, af_torch_tensor tensor,
                      struct af_torch_view *view_out)
{
    int64_t *sizes = NULL;
    int64_t *strides = NULL;
    int32_t dtype = 0;
    struct af_torch_view view = {0};
    if (shim->aoti_torch_get_dim(tensor, &view.dim) != 0 ||
        shim->aoti_torch_get_sizes(tensor, &sizes) != 0 ||
        shim->aoti_torch_get_strides(tensor, &strides) != 0 ||
        shim->aoti_torch_get_dtype(tensor, &dtype) != 0 ||
        shim->aoti_torch_get_data_ptr(tensor, &view.data) != 0)
        return false;
    view.sizes = sizes;
    view.strides = strides;
    view.dtype = dtype == shim->f32    ? ANYFLASH_F32
                 : dtype == shim->bf16 ? ANYFLASH_BF16
                 : dtype == shim->f16  ? ANYFLASH_F16
                                       : 0;
    view.is_i32 = dtype == shim->i32;
    *view_out = view;
    return true;
}

/* torch's number for one of our element types. */
static int32_t torch_dtype_of(const struct af_torch_shim *shim, int32_t dtype)
{
    return dtype == ANYFLASH_F32 ? shim->f32 : dtype == ANYFLASH_BF16 ? shim->bf16 : shim->f16;
}

af_torch_tensor af_torch_new(const struct af_torch_shim *shim, int64_t dim,
                             const int64_t *sizes, const int64_t *strides, int32_t dtype)
{
    af_torch_tensor tensor = NULL;
    if (shim->aoti_torch_empty_strided(dim, sizes, strides, torch_dtype_of(shim, dtype),
                                       shim->cpu, 0, &tensor) != 0)
        return NULL;
    return tensor;
}

/*
 * Calls torch's own kernel with one head and two rows to see its memory order:
 * torch 2.4 and its Meta kernel use another order of the output than later ones.
 */
static bool has_outputs_bshd(const struct af_torch_shim *shim)
{
    const int64_t sizes[4] = {1, 1, 2, 1};
    const int64_t strides[4] = {2, 2, 1, 1};
    struct af_torch_view view = {0};
    af_torch_tensor out[2] = {NULL, NULL};
    af_torch_tensor x = af_torch_new(shim, 4, sizes, strides, ANYFLASH_F32);
    bool bshd = x != NULL &&
                shim->aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(
                    x, x, x, 0.0, 0, NULL, NULL, &out[0], &out[1]) == 0 &&
                af_torch_view_of(shim, out[0], &view) && view.dim == 4 && view.strides[1] == 1;
    const af_torch_tensor made[3] = {x, out[0], out[1]};
    for (size_t i = 0; i < AF_COUNT(made); i++)
        if (made[i] != NULL)
            shim->aoti_torch_delete_tensor_object(made[i]);
    return bshd;
}

enum anyflash_status af_torch_shim_load(void *libtorch_cpu, bool registry,
                                        struct af_torch_shim *shim_out,
                                        struct anyflash_error *err)
{
    struct af_torch_shim shim = {.libtorch_cpu = libtorch_cpu};
#include "bindings/torch/shim_functions.inc"
    shim.delete_cell = leave_cell;
    if (registry && !find_delete_cell(libtorch_cpu, &shim))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "this torch does not export operator delete");
    if (registry && !find_check_fail(libtorch_cpu, &shim))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "this torch does not export c10::detail::torchCheckFail");
    shim.cpu = shim.aoti_torch_device_type_cpu();
    shim.i32 = shim.aoti_torch_dtype_int32();
    shim.f32 = shim.aoti_torch_dtype_float32();
    shim.f16 = shim.aoti_torch_dtype_float16();
    shim.bf16 = shim.aoti_torch_dtype_bfloat16();
    shim.outputs_bshd = !registry && has_outputs_bshd(&shim);
    *shim_out = shim;
    return ANYFLASH_OK;
}

uint64_t af_torch_slot_of(af_torch_tensor tensor)
{
    uint64_t slot = 0;
    memcpy(&slot, &tensor, sizeof tensor);
    return slot;
}

void *af_torch_pointer_in(uint64_t slot)
{
    void *pointer;
    memcpy(&pointer, &slot, sizeof pointer);
    return pointer;
}

double af_torch_float_in(uint64_t slot)
{
    double number;
    memcpy(&number, &slot, sizeof number);
    return number;
}

void af_torch_throw(const struct af_torch_shim *shim, const char *message)
{
    if (shim->check_fail != NULL)
        shim->check_fail("anyflash", __FILE__, __LINE__, message);
}

/* Whether dimension b has a smaller stride than a, which precedes it. */
static int faster(const int64_t *sizes, const int64_t *like, int64_t a, int64_t b)
{
    if (like[a] == 0 || like[b] == 0)
        return 0; /* a broadcast dimension does not decide */
    if (like[a] != like[b])
        return like[b] < like[a] ? 1 : -1;
    return sizes[b] < sizes[a] ? 1 : 0;
}

/* As torch does: insertion sort from the last dimension, passing over undecided pairs. */
void af_torch_dense_strides(int64_t dim, const int64_t *sizes, const int64_t *like,
                            int64_t *strides_out)
{
    int64_t order[AF_TORCH_DIM_MAX]; /* fastest first */
    int64_t step = 1;
    for (int64_t i = 0; i < dim; i++) {
        int64_t at = i;
        order[i] = dim - 1 - i;
        for (int64_t j = i - 1; j >= 0; j--) {
            int verdict = faster(sizes, like, order[j], order[at]);
            if (verdict < 0)
                break;
            if (verdict > 0) {
                int64_t other = order[j];
                order[j] = order[at];
                order[at] = other;
                at = j;
            }
        }
    }
    for (int64_t i = 0; i < dim; i++) {
        strides_out[order[i]] = step;
        step *= sizes[order[i]] > 1 ? sizes[order[i]] : 1;
    }
}

/* Extends to 4 dimensions by adding dimensions in front. */
static void widen(const struct af_torch_view *view, int64_t sizes[4], int64_t strides[4])
{
    for (int64_t i = 0; i < 4; i++) {
        int64_t at = i - (4 - view->dim);
        sizes[i] = at < 0 ? 1 : view->sizes[at];
        strides[i] = at < 0 ? 0 : view->strides[at];
    }
}

static void copy_row(const struct af_torch_view *from, int64_t source, int64_t stride,
                     const struct af_torch_view *to, int64_t target, int64_t count)
{
    if (from->dtype == ANYFLASH_F32) {
        const float *in = from->data;
        float *out = to->data;
        for (int64_t i = 0; i < count; i++)
            out[target + i] = in[source + i * stride];
    } else {
        const uint16_t *in = from->data;
        uint16_t *out = to->data;
        for (int64_t i = 0; i < count; i++)
            out[target + i] = in[source + i * stride];
    }
}

static void copy_rows(const struct af_torch_view *from, const struct af_torch_view *to)
{
    int64_t n[4], in[4], out[4];
    widen(from, n, in);
    widen(to, n, out);
    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t c = 0; c < n[2]; c++)
                copy_row(from, a * in[0] + b * in[1] + c * in[2], in[3], to,
                         a * out[0] + b * out[1] + c * out[2], n[3]);
}

bool af_torch_packed_rows(const struct af_torch_shim *shim, af_torch_tensor tensor,
                          af_torch_tensor *copy_out)
{
    struct af_torch_view view;
    struct af_torch_view copy;
    int64_t strides[AF_TORCH_DIM_MAX] = {0};
    int64_t step = 1;
    *copy_out = NULL;
    if (!af_torch_view_of(shim, tensor, &view) || view.dim < 1 || view.dim > AF_TORCH_DIM_MAX)
        return false;
    if (view.dtype == 0 || view.strides[view.dim - 1] == 1)
        return true;
    for (int64_t i = view.dim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= view.sizes[i];
    }
    af_torch_tensor made = af_torch_new(shim, view.dim, view.sizes, strides, view.dtype);
    if (made == NULL)
        return false;
    if (!af_torch_view_of(shim, made, &copy)) {
        shim->aoti_torch_delete_tensor_object(made);
        return false;
    }
    copy_rows(&view, &copy);
    *copy_out = made;
    return true;
}
