/*
 * tensors.c: computes strides by torch's rules. They must be exactly the same,
 * because Meta kernels report them to the compiler.
 */
#include "bindings/torch/tensors.h"

/* Whether dimension b has a smaller stride than a, which precedes it. */
static int faster(const int64_t *sizes, const int64_t *like, int64_t a, int64_t b)
{
    if (like[a] == 0 || like[b] == 0)
        return 0; /* a broadcast dimension does not decide */
    if (like[a] != like[b])
        return like[b] < like[a] ? 1 : -1;
    return sizes[b] < sizes[a] ? 1 : 0;
}

/* Torch's rule: insertion sort from the last dimension; undecided pairs do not stop it. */
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
