/*
 * sdpa.c: torch's CPU attention, computed by the engine.
 *
 * Outputs must match torch's Meta kernels, or torch.compile fails: outputs have
 * the stride order of the query (in torch 2.4 [B, S, H, D]); the logsumexp is
 * [B, H, S] with strides (S H, 1, H), 0 for a row that sees no key; gradients
 * have the strides of [B, S, H, D]. Calls that the engine declines, or that fail
 * here, go to torch's own kernel; if that fails, too, its error is thrown.
 */
#include "bindings/torch/sdpa.h"

#include <math.h>

#include "bindings/torch/switch.h"
#include "bindings/torch/threads.h"
#include "engine/base/mem.h"

/* Positions of the backward's tensors: dout, q, k, v, o, lse; the forward has q, k, v. */
enum { DOUT = 0, QUERY = 1, OUT = 4, LSE = 5, FORWARD_TENSORS = 3, BACKWARD_TENSORS = 6 };

/* Options after the tensors. */
enum { DROPOUT, CAUSAL, MASK, SCALE };

struct sdpa_call {
    af_torch_tensor tensors[BACKWARD_TENSORS];
    size_t tensor_count;
    uint64_t *mask_cell; /* cells of optional arguments, or NULL */
    uint64_t *scale_cell;
    af_torch_tensor mask; /* or NULL */
    double dropout;
    double scale; /* if scale_cell is not NULL */
    bool causal;
};

static void drop(af_torch_tensor tensor)
{
    if (tensor != NULL)
        af_torch.aoti_torch_delete_tensor_object(tensor);
}

/* An undefined tensor has one dimension of size 0. */
static bool is_undefined(af_torch_tensor tensor)
{
    int64_t dim = 0;
    int64_t *sizes = NULL;
    return af_torch.aoti_torch_get_dim(tensor, &dim) == 0 && dim == 1 &&
           af_torch.aoti_torch_get_sizes(tensor, &sizes) == 0 && sizes[0] == 0;
}

/* Reads the slots, and takes ownership of what they own. */
static void call_open(const uint64_t *stack, size_t tensor_count, struct sdpa_call *call)
{
    const uint64_t *options = stack + tensor_count;
    *call = (struct sdpa_call){.tensor_count = tensor_count,
                               .mask_cell = af_torch_pointer_in(options[MASK]),
                               .scale_cell = af_torch_pointer_in(options[SCALE])};
    for (size_t i = 0; i < tensor_count; i++)
        call->tensors[i] = af_torch_pointer_in(stack[i]);
    call->dropout = af_torch_float_in(options[DROPOUT]);
    call->causal = (options[CAUSAL] & 0xff) != 0; /* the other bytes are noise */
    if (call->mask_cell != NULL && !is_undefined(af_torch_pointer_in(*call->mask_cell)))
        call->mask = af_torch_pointer_in(*call->mask_cell);
    if (call->scale_cell != NULL)
        call->scale = af_torch_float_in(*call->scale_cell);
}

static void call_close(const struct sdpa_call *call)
{
    for (size_t i = 0; i < call->tensor_count; i++)
        drop(call->tensors[i]);
    if (call->mask_cell != NULL) {
        drop(af_torch_pointer_in(*call->mask_cell));
        af_torch.delete_cell(call->mask_cell);
    }
    if (call->scale_cell != NULL)
        af_torch.delete_cell(call->scale_cell);
}

/* Converts the tensor to the engine's form: [B, H, S, D]. */
static struct anyflash_tensor tensor_of(const struct af_torch_view *view)
{
    struct anyflash_tensor tensor = ANYFLASH_TENSOR_NONE;
    tensor.data = view->data;
    tensor.dtype = view->dtype;
    tensor.batch_stride = view->strides[0];
    tensor.head_stride = view->strides[1];
    tensor.row_stride = view->strides[2];
    return tensor;
}

/*
 * Whether it is a nonempty [B, H, S, D] of a known type with a contiguous last
 * dimension.
 */
static bool is_rows(const struct af_torch_view *view)
{
    if (view->dim != 4 || view->dtype == 0)
        return false;
    for (int i = 0; i < 4; i++)
        if (view->sizes[i] < 1)
            return false;
    return view->strides[3] == 1 || view->sizes[3] == 1;
}

/* Uses the mask as a bias: [Sq, Sk] or [B or 1, H or 1, Sq or 1, Sk]. */
static bool take_mask(const struct af_torch_view *mask, struct anyflash_attend_args *args)
{
    const int64_t wanted[4] = {args->batch, args->heads, args->q_len, args->k_len};
    int64_t strides[4] = {0, 0, 0, 0};
    if ((mask->dim != 2 && mask->dim != 4) || mask->dtype == 0)
        return false;
    for (int64_t i = 0; i < mask->dim; i++) {
        int64_t at = 4 - mask->dim + i;
        if (mask->sizes[i] != wanted[at] && mask->sizes[i] != 1)
            return false;
        strides[at] = mask->sizes[i] == 1 ? 0 : mask->strides[i];
    }
    if (mask->sizes[mask->dim - 1] != args->k_len || (args->k_len > 1 && strides[3] != 1))
        return false;
    args->bias.data = mask->data;
    args->bias.dtype = mask->dtype;
    args->bias.batch_stride = strides[0];
    args->bias.head_stride = strides[1];
    args->bias.row_stride = strides[2];
    return true;
}

static bool sizes_agree(const struct af_torch_view *q, const struct af_torch_view *k,
                        const struct af_torch_view *v)
{
    return k->dtype == q->dtype && v->dtype == q->dtype && k->sizes[0] == q->sizes[0] &&
           v->sizes[0] == q->sizes[0] && v->sizes[1] == k->sizes[1] &&
           v->sizes[2] == k->sizes[2] && k->sizes[3] == q->sizes[3] &&
           q->sizes[1] % k->sizes[1] == 0;
}

static bool view_at(const struct sdpa_call *call, size_t index, struct af_torch_view *view)
{
    return af_torch_view_of(&af_torch, call->tensors[index], view);
}

/*
 * Fills in the problem of q, k, v, which are tensor `first` and the two after
 * it, without outputs. False for calls that the engine does not support here:
 * another type, rank or head count, a last dimension with a stride, an empty
 * dimension, a mask that is broadcast over keys; and for those left to torch.
 */
static bool call_problem(const struct sdpa_call *call, size_t first,
                         struct anyflash_attend_args *args)
{
    struct af_torch_view q;
    struct af_torch_view k;
    struct af_torch_view v;
    struct af_torch_view mask;
    if (call->dropout != 0.0 || (float)call->scale == ANYFLASH_SCALE_DEFAULT)
        return false;
    if (!view_at(call, first, &q) || !view_at(call, first + 1, &k) ||
        !view_at(call, first + 2, &v))
        return false;
    if (!is_rows(&q) || !is_rows(&k) || !is_rows(&v) || !sizes_agree(&q, &k, &v))
        return false;
    if (af_torch_keeps(q.dtype, q.sizes[2], k.sizes[2]))
        return false;
    args->batch = q.sizes[0];
    args->heads = q.sizes[1];
    args->kv_heads = k.sizes[1];
    args->q_len = q.sizes[2];
    args->k_len = k.sizes[2];
    args->head_dim = q.sizes[3];
    args->value_dim = v.sizes[3];
    args->q = tensor_of(&q);
    args->k = tensor_of(&k);
    args->v = tensor_of(&v);
    if (call->scale_cell != NULL)
        args->scale = (float)call->scale;
    args->causal = call->causal;
    args->align = ANYFLASH_ALIGN_TOP_LEFT;
    return call->mask == NULL ||
           (af_torch_view_of(&af_torch, call->mask, &mask) && take_mask(&mask, args));
}

static void bshd_strides(const int64_t sizes[4], int64_t strides_out[4])
{
    strides_out[3] = 1;
    strides_out[1] = sizes[3];
    strides_out[2] = sizes[1] * sizes[3];
    strides_out[0] = sizes[2] * strides_out[2];
}

/* Makes the output; also fills in args->o except for its data. */
static af_torch_tensor new_output(struct anyflash_attend_args *args)
{
    const int64_t sizes[4] = {args->batch, args->heads, args->q_len, args->value_dim};
    const int64_t of_q[4] = {args->q.batch_stride, args->q.head_stride, args->q.row_stride, 1};
    int64_t strides[4];
    if (af_torch.outputs_bshd)
        bshd_strides(sizes, strides);
    else
        af_torch_dense_strides(4, sizes, of_q, strides);
    args->o.dtype = args->q.dtype;
    args->o.batch_stride = strides[0];
    args->o.head_stride = strides[1];
    args->o.row_stride = strides[2];
    return af_torch_new(&af_torch, 4, sizes, strides, args->q.dtype);
}

static af_torch_tensor new_lse(const struct anyflash_attend_args *args,
                               const int64_t strides[3])
{
    const int64_t sizes[3] = {args->batch, args->heads, args->q_len};
    return af_torch_new(&af_torch, 3, sizes, strides, ANYFLASH_F32);
}

/* Gradients have the memory order [B, S, H, D] for every order of the inputs. */
static af_torch_tensor new_gradient(const struct anyflash_attend_args *args, int64_t heads,
                                    int64_t rows, int64_t dim)
{
    const int64_t sizes[4] = {args->batch, heads, rows, dim};
    int64_t strides[4];
    bshd_strides(sizes, strides);
    return af_torch_new(&af_torch, 4, sizes, strides, args->q.dtype);
}

/* The engine's rows of lse are contiguous; torch's are only with one head or one query. */
static bool lse_is_torchs(const struct anyflash_attend_args *args)
{
    return args->q_len == 1 || args->heads == 1;
}

static float *set_lse(struct anyflash_attend_args *args, float *torchs, float **own_out)
{
    *own_out = NULL;
    args->lse_head_stride = args->q_len;
    args->lse_batch_stride = args->heads * args->q_len;
    if (lse_is_torchs(args))
        return torchs;
    *own_out = af_mem_alloc((size_t)(args->batch * args->lse_batch_stride) * sizeof(float));
    return *own_out;
}

/* Copies lse between torch's strided and the engine's contiguous elements. */
static void copy_lse(const struct anyflash_attend_args *args, float *torchs,
                     const int64_t strides[3], float *own, bool to_torch)
{
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t h = 0; h < args->heads; h++)
            for (int64_t i = 0; i < args->q_len; i++) {
                float *at = torchs + b * strides[0] + h * strides[1] + i * strides[2];
                float *ours = own + (b * args->heads + h) * args->q_len + i;
                if (to_torch)
                    *at = isinf(*ours) && *ours < 0 ? 0.0f : *ours;
                else
                    *ours = *at;
            }
}

/* Computes into tensors of new_output() and new_lse(). */
static bool attend(struct anyflash_attend_args *args, af_torch_tensor o, af_torch_tensor lse,
                   const int64_t lse_strides[3])
{
    struct anyflash_context *context = af_torch_context(af_torch.libtorch_cpu);
    float *own = NULL;
    void *torchs = NULL;
    if (context == NULL || af_torch.aoti_torch_get_data_ptr(o, &args->o.data) != 0 ||
        af_torch.aoti_torch_get_data_ptr(lse, &torchs) != 0)
        return false;
    args->lse = set_lse(args, torchs, &own);
    bool done = args->lse != NULL && anyflash_attend(context, args, NULL) == ANYFLASH_OK;
    if (done)
        copy_lse(args, torchs, lse_strides, args->lse, true);
    af_mem_free(own);
    return done;
}

static bool forward(const struct sdpa_call *call, af_torch_tensor *out)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    if (!call_problem(call, 0, &args))
        return false;
    const int64_t lse_strides[3] = {args.heads * args.q_len, 1, args.heads};
    out[0] = new_output(&args);
    out[1] = new_lse(&args, lse_strides);
    if (out[0] != NULL && out[1] != NULL && attend(&args, out[0], out[1], lse_strides))
        return true;
    drop(out[0]);
    drop(out[1]);
    out[0] = out[1] = NULL;
    return false;
}

/* Counts a call; true if the kernel may use the engine. */
static bool begin(void)
{
    if (!af_torch_is_on())
        return false;
    af_torch_count_call();
    return true;
}

/* Missing results would crash the dispatcher. */
static void finish(const af_torch_tensor *results, size_t count, uint64_t *stack)
{
    for (size_t i = 0; i < count; i++)
        stack[i] = af_torch_slot_of(results[i]);
    if (results[0] == NULL)
        af_torch_throw(&af_torch, "torch's attention on the CPU refused its arguments");
}

static void torch_forward(struct sdpa_call *call, af_torch_tensor *out)
{
    const af_torch_tensor *t = call->tensors;
    af_torch.aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(
        t[0], t[1], t[2], call->dropout, call->causal, call->mask != NULL ? &call->mask : NULL,
        call->scale_cell != NULL ? &call->scale : NULL, &out[0], &out[1]);
}

static bool same_rows(const struct af_torch_view *view, const struct anyflash_attend_args *args)
{
    return view->dim == 4 && view->dtype == args->q.dtype && view->sizes[0] == args->batch &&
           view->sizes[1] == args->heads && view->sizes[2] == args->q_len &&
           view->sizes[3] == args->value_dim && (view->strides[3] == 1 || view->sizes[3] == 1);
}

static bool attend_backward(const struct sdpa_call *call, struct anyflash_attend_args *args,
                            af_torch_tensor dout_rows, af_torch_tensor gradients[3])
{
    struct anyflash_attend_backward_args back = {.struct_size = sizeof back, .forward = args};
    struct anyflash_tensor *const places[3] = {&back.dq, &back.dk, &back.dv};
    struct af_torch_view dout;
    struct af_torch_view o;
    struct af_torch_view lse;
    struct af_torch_view gradient;
    struct anyflash_context *context = af_torch_context(af_torch.libtorch_cpu);
    float *own = NULL;
    if (context == NULL || !af_torch_view_of(&af_torch, dout_rows, &dout) ||
        !view_at(call, OUT, &o) || !view_at(call, LSE, &lse) || !same_rows(&dout, args) ||
        !same_rows(&o, args) || lse.dim != 3 || lse.dtype != ANYFLASH_F32)
        return false;
    for (int i = 0; i < 3; i++) {
        if (!af_torch_view_of(&af_torch, gradients[i], &gradient))
            return false;
        *places[i] = tensor_of(&gradient);
    }
    back.dout = tensor_of(&dout);
    args->o = tensor_of(&o);
    args->lse = set_lse(args, lse.data, &own);
    if (own != NULL)
        copy_lse(args, lse.data, lse.strides, own, false);
    bool done =
        args->lse != NULL && anyflash_attend_backward(context, &back, NULL) == ANYFLASH_OK;
    af_mem_free(own);
    return done;
}

static bool backward(const struct sdpa_call *call, af_torch_tensor *out)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    if (!call_problem(call, QUERY, &args))
        return false;
    /* Not every torch has a backward of its own for heads that share keys. */
    if (args.heads == args.kv_heads && af_torch_keeps_backward(args.q.dtype, args.q_len))
        return false;
    out[0] = new_gradient(&args, args.heads, args.q_len, args.head_dim);
    out[1] = new_gradient(&args, args.kv_heads, args.k_len, args.head_dim);
    out[2] = new_gradient(&args, args.kv_heads, args.k_len, args.value_dim);
    /* The gradient of a sum is a single number with strides 0. */
    const af_torch_tensor dout = call->tensors[DOUT];
    af_torch_tensor copy = NULL;
    bool done = out[0] != NULL && out[1] != NULL && out[2] != NULL &&
                af_torch_packed_rows(&af_torch, dout, &copy) &&
                attend_backward(call, &args, copy != NULL ? copy : dout, out);
    drop(copy);
    for (int i = 0; !done && i < 3; i++) {
        drop(out[i]);
        out[i] = NULL;
    }
    return done;
}

static void torch_backward(struct sdpa_call *call, af_torch_tensor *out)
{
    const af_torch_tensor *t = call->tensors;
    af_torch.aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu_backward(
        t[0], t[1], t[2], t[3], t[4], t[5], call->dropout, call->causal,
        call->mask != NULL ? &call->mask : NULL, call->scale_cell != NULL ? &call->scale : NULL,
        &out[0], &out[1], &out[2]);
}

/* One direction: the number of tensors and of results, the engine's way and torch's own. */
static void run(uint64_t *stack, size_t tensor_count, size_t count,
                bool (*engine)(const struct sdpa_call *call, af_torch_tensor *out),
                void (*torch)(struct sdpa_call *call, af_torch_tensor *out))
{
    struct sdpa_call call;
    af_torch_tensor out[3] = {NULL, NULL, NULL};
    call_open(stack, tensor_count, &call);
    bool on = begin();
    if (!on || !engine(&call, out)) {
        if (on)
            af_torch_count_passed_on();
        torch(&call, out);
    }
    call_close(&call);
    finish(out, count, stack);
}

void af_torch_sdpa_forward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    (void)input_count;
    run(stack, FORWARD_TENSORS, output_count, forward, torch_forward);
}

void af_torch_sdpa_backward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    (void)input_count;
    run(stack, BACKWARD_TENSORS, output_count, backward, torch_backward);
}
