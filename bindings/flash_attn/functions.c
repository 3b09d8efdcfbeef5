/*
 * functions.c: the five functions of flash_attn_2_cuda as Python builtins: fwd, varlen_fwd,
 * bwd, varlen_bwd and fwd_kvcache, with the arguments, results and error texts of flash-attn's
 * own extension. They check tensors, allocate results and call anyflash_cuda.h. What is rare
 * they leave to functions of the Python module, which is their `self`.
 */
#include <math.h>
#include <string.h>

#include "bindings/flash_attn/call.h"

#define METH_FASTCALL 0x0080
#define WORKSPACE_ALIGN 256
#define ROWS_APART 128 /* of softmax_d and of dropout's scores */

static int64_t at_least_0(int64_t size)
{
    return size > 0 ? size : 0;
}

static int64_t round_up(int64_t n)
{
    return (n + ROWS_APART - 1) / ROWS_APART * ROWS_APART;
}

static void take_mask_and_softcap(struct call *c)
{
    c->a.causal = af_call_truth(c);
    c->a.window_left = af_call_integer(c);
    c->a.window_right = af_call_integer(c);
    c->a.softcap = fmaxf(af_call_float(c), 0);
}

static int32_t type_of(const struct tensor *t)
{
    return t->dtype == TORCH_FLOAT16    ? ANYFLASH_F16
           : t->dtype == TORCH_BFLOAT16 ? ANYFLASH_BF16
                                        : 0;
}

/* Of [B, S, H, D], or packed [rows, H, D]. */
static struct anyflash_tensor view(struct call *c, const char *name, const struct tensor *t)
{
    struct anyflash_tensor view = {0};
    if (c->failed || t->python == NULL)
        return view;
    af_call_check(c, type_of(&c->q) != 0,
                  "FlashAttention only support fp16 and bf16 data type");
    af_call_check(c, t->dtype == c->q.dtype, "query and %s must have the same dtype", name);
    af_call_check(c, af_call_is_beside(t, &c->q), "%s must be on CUDA", name);
    af_call_check(c, af_call_has_rows(t), "Input tensor must have contiguous last dimension");
    view.data = t->data;
    view.dtype = type_of(t);
    view.batch_stride = t->dim == 4 ? t->strides[0] : 0;
    view.row_stride = t->strides[t->dim - 3];
    view.head_stride = t->strides[t->dim - 2];
    return view;
}

/* Slopes, [H] or [B, H]. */
static void take_alibi(struct call *c)
{
    struct tensor t = {0};
    af_call_tensor(c, &t, "alibi_slopes", NULL, true);
    if (c->failed || t.python == NULL)
        return;
    af_call_check(c, t.dtype == TORCH_FLOAT32, "ALiBi slopes must have dtype fp32");
    af_call_check(c, af_call_is_beside(&t, &c->q), "alibi_slopes must be on CUDA");
    af_call_check(c, af_call_has_rows(&t),
                  "ALiBi slopes tensor must have contiguous last dimension");
    af_call_check(c,
                  t.dim > 0 && t.sizes[t.dim - 1] == c->sizes['H'] &&
                      (t.dim == 1 || (t.dim == 2 && t.sizes[0] == c->sizes['B'])),
                  "ALiBi slopes must have shape (num_heads) or (batch_size, num_heads)");
    c->a.alibi_slopes = t.data;
    c->a.alibi_batch_stride = t.dim == 2 ? t.strides[0] : 0;
}

static struct python_object *list_of(struct call *c, const struct tensor *const *tensors,
                                     ptrdiff_t count)
{
    struct python_object *list = c->failed ? NULL : af_py.PyList_New(count);
    if (list == NULL) {
        c->failed = true;
        return NULL;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        af_py.Py_IncRef(tensors[i]->python);
        af_py.PyList_SetItem(list, i, tensors[i]->python);
    }
    return list;
}

/* What all functions set after all arguments were read. lse: [..., rows], of the right size. */
static void set_problem(struct call *c, const struct tensor *k, const struct tensor *v,
                        const struct tensor *out, const struct tensor *lse)
{
    struct anyflash_attend_args *a = &c->a;
    if (c->failed)
        return;
    a->batch = c->sizes['B'];
    a->heads = c->sizes['H'];
    a->kv_heads = c->sizes['G'];
    a->head_dim = a->value_dim = c->sizes['D'];
    a->q = view(c, "query", &c->q);
    a->k = view(c, "key", k);
    a->v = view(c, "value", v);
    a->o = view(c, "out", out);
    af_call_check(c, lse->dim > 0, "softmax_lse must have dimensions");
    af_call_check(c, lse->dtype == TORCH_FLOAT32, "softmax_lse must have dtype fp32");
    af_call_check(c, af_call_is_beside(lse, &c->q), "softmax_lse must be on CUDA");
    if (c->failed)
        return;
    a->lse = lse->data;
    a->lse_head_stride = lse->sizes[lse->dim - 1];
    a->lse_batch_stride = a->heads * a->lse_head_stride;
    if (c->q.device_type != TORCH_CUDA) { /* tests, which start no kernel */
        struct python_object *on_cpu =
            af_call_own(c, af_py.PyObject_GetAttrString(c->module, "_ON_CPU"));
        af_call_check(c, on_cpu != NULL && af_py.PyObject_IsTrue(on_cpu) == 1,
                      "q must be on CUDA");
        return;
    }
    struct python_object *device = af_call_own(c, af_py.PyLong_FromLongLong(c->q.device));
    struct python_object *stream = af_call_module(c, "_stream", device, NULL, NULL);
    c->cuda.device = c->q.device;
    c->cuda.stream = stream == NULL ? NULL : af_py.PyLong_AsVoidPtr(stream);
}

/* Dropout's seed and offset; what they may be stored in belongs to the call. */
static void take_random(struct call *c, struct python_object *generator)
{
    struct python_object *count =
        af_call_own(c, af_py.PyLong_FromLongLong(c->a.batch * c->a.heads * 32));
    struct python_object *drawn = af_call_module(c, "_random", generator, c->q.python, count);
    if (drawn == NULL)
        return;
    c->a.dropout_seed =
        (uint64_t)(uintptr_t)af_py.PyLong_AsVoidPtr(af_py.PyTuple_GetItem(drawn, 0));
    c->a.dropout_offset =
        (uint64_t)(uintptr_t)af_py.PyLong_AsVoidPtr(af_py.PyTuple_GetItem(drawn, 1));
    const int64_t *pointer = af_py.PyLong_AsVoidPtr(af_py.PyTuple_GetItem(drawn, 2));
    c->cuda.dropout_seed = pointer;
    c->cuda.dropout_offset = pointer == NULL ? NULL : pointer + 1;
}

/* ---- launches ---- */

/* The workspace, when the library asks for one; torch aligns memory of a CPU to less. */
static void *allocate(void *context, size_t size_bytes)
{
    const uintptr_t at =
        (uintptr_t)af_call_memory(context, (int64_t)size_bytes + WORKSPACE_ALIGN);
    return (void *)((at + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN);
}

static void launch_forward(struct call *c)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    if (c->failed)
        return;
    c->cuda.allocate = allocate;
    c->cuda.allocate_context = c;
    const enum anyflash_status status = anyflash_cuda_attend(&c->a, &c->cuda, &err);
    af_call_check(c, status == ANYFLASH_OK, "%s", err.message);
}

static void launch_backward(struct call *c, const struct anyflash_attend_backward_args *args)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    if (c->failed)
        return;
    c->cuda.allocate = allocate;
    c->cuda.allocate_context = c;
    const enum anyflash_status status = anyflash_cuda_attend_backward(args, &c->cuda, &err);
    af_call_check(c, status == ANYFLASH_OK, "%s", err.message);
}

/* A call that the library refuses draws no random numbers. */
static void check_before_drawing(struct call *c)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    size_t bytes;
    af_call_check(c,
                  c->failed || anyflash_cuda_workspace_bytes(&c->a, &c->cuda, &bytes, &err) ==
                                   ANYFLASH_OK,
                  "%s", err.message);
}

/* What forward of dense and of packed sequences does last. */
static struct python_object *forward(struct call *c, const struct tensor *out,
                                     const struct tensor *lse, bool zero)
{
    const bool with_scores = af_call_truth(c);
    const int64_t sizes[] = {c->a.batch, c->a.heads, round_up(c->a.q_len),
                             round_up(c->a.k_len)};
    const int64_t two = 2, none = 0;
    struct tensor scores = {0}, rng_state = {0};
    const struct tensor *const results[] = {out, lse, &scores, &rng_state};
    af_call_check(c, !with_scores || c->a.dropout > 0,
                  "return_softmax is only supported when p_dropout > 0.0");
    af_call_make(c, &scores, c->q.dtype, with_scores ? 4 : 1, with_scores ? sizes : &none);
    af_call_make(c, &rng_state, TORCH_INT64, 1, &two);
    c->cuda.rng_state = rng_state.data;
    c->cuda.dropout_scores = with_scores ? scores.data : NULL;
    if (zero) {
        af_call_fill(c, out, 0);
        af_call_fill(c, lse, -(double)INFINITY);
        af_call_fill(c, &scores, 0);
    }
    if (c->a.dropout > 0) {
        check_before_drawing(c);
        take_random(c, *c->next);
    }
    launch_forward(c);
    return list_of(c, results, AF_COUNT(results));
}

/* ---- the functions ---- */

static struct python_object *fwd(struct call *c)
{
    struct tensor k = {0}, v = {0}, out = {0}, lse = {0};
    af_call_tensor(c, &c->q, "q", "BSHD", false);
    af_call_tensor(c, &k, "k", "BTGD", false);
    af_call_tensor(c, &v, "v", "BTGD", false);
    af_call_tensor(c, &out, "out", "BSHD", true);
    take_alibi(c);
    c->a.dropout = af_call_float(c);
    c->a.scale = af_call_float(c);
    take_mask_and_softcap(c);
    c->a.q_len = c->sizes['S'];
    c->a.k_len = c->sizes['T'];
    const int64_t sizes[] = {c->sizes['B'], c->sizes['H'], c->sizes['S']};
    af_call_make_like(c, &out, &c->q);
    af_call_make(c, &lse, TORCH_FLOAT32, 3, sizes);
    set_problem(c, &k, &v, &out, &lse);
    return forward(c, &out, &lse, false);
}

/* The offsets of packed sequences, whose number is known from here on. */
static void take_offsets(struct call *c)
{
    c->a.cu_seqlens_q = af_call_indices(c, "cu_seqlens_q", "C", false, NULL);
    c->a.cu_seqlens_k = af_call_indices(c, "cu_seqlens_k", "C", false, NULL);
    c->sizes['B'] = c->sizes['C'] - 1;
    c->a.total_q = c->sizes['N'];
    c->a.total_k = at_least_0(c->sizes['M']);
}

static void take_pages(struct call *c, const struct tensor *k)
{
    struct tensor pages = {0};
    c->a.block_table = af_call_indices(c, "block_table", "BW", true, &pages);
    if (c->failed || pages.python == NULL)
        return;
    c->a.block_table_stride = pages.strides[0];
    c->a.page_count = k->sizes[0];
    c->a.page_size = k->sizes[1];
}

static struct python_object *varlen_fwd(struct call *c)
{
    struct tensor k = {0}, v = {0}, out = {0}, lse = {0};
    const char *keys = c->next[8] == af_py.none ? "MGD" : "PRGD"; /* rows, or pages */
    af_call_tensor(c, &c->q, "q", "NHD", false);
    af_call_tensor(c, &k, "k", keys, false);
    af_call_tensor(c, &v, "v", keys, false);
    af_call_tensor(c, &out, "out", "NHD", true);
    take_offsets(c);
    c->a.seqused_k = af_call_indices(c, "seqused_k", "B", true, NULL);
    c->a.leftpad_k = af_call_indices(c, "leftpad_k", "B", true, NULL);
    take_pages(c, &k);
    take_alibi(c);
    c->a.q_len = af_call_integer(c);
    c->a.k_len = af_call_integer(c);
    c->a.dropout = af_call_float(c);
    c->a.scale = af_call_float(c);
    const bool zero = af_call_truth(c);
    take_mask_and_softcap(c);
    const int64_t sizes[] = {c->sizes['H'], c->sizes['N']};
    af_call_make_like(c, &out, &c->q);
    af_call_make(c, &lse, TORCH_FLOAT32, 2, sizes);
    set_problem(c, &k, &v, &out, &lse);
    return forward(c, &out, &lse, zero);
}

/* Backward of dense sequences, or of packed ones. */
static struct python_object *backward(struct call *c, bool packed)
{
    const char *rows = packed ? "NHD" : "BSHD", *keys = packed ? "MGD" : "BTGD";
    struct anyflash_attend_backward_args gradients = {0};
    struct tensor dout = {0}, k = {0}, v = {0}, out = {0}, lse = {0}, rng_state = {0};
    struct tensor dq = {0}, dk = {0}, dv = {0}, softmax_d = {0};
    const struct tensor *const results[] = {&dq, &dk, &dv, &softmax_d};
    struct python_object *const *first = c->next++; /* q's shape comes before that of dout */
    af_call_tensor(c, &c->q, "q", rows, false);
    af_call_tensor(c, &k, "k", keys, false);
    af_call_tensor(c, &v, "v", keys, false);
    af_call_tensor(c, &out, "out", rows, false);
    af_call_tensor(c, &lse, "softmax_lse", NULL, false);
    af_call_tensor(c, &dq, "dq", rows, true);
    af_call_tensor(c, &dk, "dk", keys, true);
    af_call_tensor(c, &dv, "dv", keys, true);
    struct python_object *const *rest = c->next;
    c->next = first;
    af_call_tensor(c, &dout, "dout", rows, false);
    c->next = rest;
    if (packed)
        take_offsets(c);
    take_alibi(c);
    c->a.q_len = packed ? af_call_integer(c) : c->sizes['S'];
    c->a.k_len = packed ? af_call_integer(c) : c->sizes['T'];
    c->a.dropout = af_call_float(c);
    c->a.scale = af_call_float(c);
    c->cuda.zero_unused = packed && af_call_truth(c);
    take_mask_and_softcap(c);
    c->cuda.deterministic = af_call_truth(c);
    c->next++; /* the generator */
    af_call_tensor(c, &rng_state, "rng_state", NULL, true);
    af_call_make_like(c, &dq, &c->q);
    af_call_make_like(c, &dk, &k);
    af_call_make_like(c, &dv, &v);
    const int64_t dense[] = {c->sizes['B'], c->sizes['H'], round_up(c->sizes['S'])};
    const int64_t in_all[] = {c->sizes['H'], c->sizes['N'] + ROWS_APART * c->sizes['B']};
    af_call_make(c, &softmax_d, TORCH_FLOAT32, packed ? 2 : 3, packed ? in_all : dense);
    set_problem(c, &k, &v, &out, &lse);
    c->cuda.rng_state = rng_state.data;
    c->cuda.softmax_d = softmax_d.data;
    for (size_t i = 0; i < AF_COUNT(results) && c->cuda.zero_unused; i++)
        af_call_fill(c, results[i], 0);
    gradients.struct_size = sizeof gradients;
    gradients.forward = &c->a;
    gradients.dout = view(c, "dout", &dout);
    gradients.dq = view(c, "dq", &dq);
    gradients.dk = view(c, "dk", &dk);
    gradients.dv = view(c, "dv", &dv);
    launch_backward(c, &gradients);
    return list_of(c, results, AF_COUNT(results));
}

static struct python_object *bwd(struct call *c)
{
    return backward(c, false);
}

static struct python_object *varlen_bwd(struct call *c)
{
    return backward(c, true);
}

/* Cosines or sines for new keys. */
static void take_rotary(struct call *c, struct tensor *t, const char *name)
{
    af_call_tensor(c, t, name, "XY", true);
    af_call_check(c,
                  t->python == NULL || (t->dtype == c->q.dtype && af_call_is_beside(t, &c->q) &&
                                        af_call_is_contiguous(t)),
                  "%s must be contiguous and have the dtype and device of query", name);
}

/* The module pads heads to a multiple of 8 elements and calls the function again. */
static struct python_object *pad_heads(struct call *c, struct python_object *const *given,
                                       ptrdiff_t count)
{
    struct python_object *padded =
        af_call_own(c, af_py.PyObject_GetAttrString(c->module, "_padded"));
    struct python_object *arguments = af_call_own(c, af_py.PyTuple_New(count));
    if (c->failed)
        return NULL;
    for (ptrdiff_t i = 0; i < count; i++) {
        af_py.Py_IncRef(given[i]);
        af_py.PyTuple_SetItem(arguments, i, given[i]);
    }
    struct python_object *result = af_py.PyObject_CallObject(padded, arguments);
    c->failed = result == NULL;
    return result;
}

static struct python_object *fwd_kvcache(struct call *c)
{
    struct python_object *const *given = c->next;
    struct anyflash_attend_args *a = &c->a;
    struct tensor k = {0}, v = {0}, new_k = {0}, new_v = {0}, cos = {0}, sin = {0};
    struct tensor out = {0}, lse = {0};
    const struct tensor *const results[] = {&out, &lse};
    const char *keys = given[10] == af_py.none ? "CTGD" : "PRGD"; /* caches, or pages */
    af_call_tensor(c, &c->q, "q", "BSHD", false);
    af_call_tensor(c, &k, "kcache", keys, false);
    af_call_tensor(c, &v, "vcache", keys, false);
    af_call_tensor(c, &new_k, "k", "BNGD", true);
    af_call_tensor(c, &new_v, "v", "BNGD", true);
    af_call_check(c, (new_k.python == NULL) == (new_v.python == NULL),
                  "If key is supplied, value must also be passed in");
    a->seqused_k = af_call_indices(c, "seqlens_k", "B", true, NULL);
    take_rotary(c, &cos, "rotary_cos");
    take_rotary(c, &sin, "rotary_sin");
    a->cache_batch_idx = af_call_indices(c, "cache_batch_idx", "B", true, NULL);
    a->leftpad_k = af_call_indices(c, "leftpad_k", "B", true, NULL);
    take_pages(c, &k);
    take_alibi(c);
    af_call_tensor(c, &out, "out", "BSHD", true);
    if (c->failed)
        return NULL;
    if (c->sizes['D'] % 8 != 0)
        return pad_heads(c, given, 20);
    a->scale = af_call_float(c);
    take_mask_and_softcap(c);
    a->rotary_interleaved = af_call_truth(c);
    c->cuda.splits = (int32_t)af_call_integer(c);
    a->q_len = c->sizes['S'];
    a->k_len = a->block_table == NULL ? c->sizes['T'] : c->sizes['W'] * c->sizes['R'];
    a->cache_batch = k.sizes[0];
    a->k_new = view(c, "k", &new_k);
    a->v_new = view(c, "v", &new_v);
    a->new_len = at_least_0(c->sizes['N']);
    a->rotary_cos = cos.data;
    a->rotary_sin = sin.data;
    a->rotary_rows = at_least_0(c->sizes['X']);
    a->rotary_dim = at_least_0(c->sizes['Y']) * 2;
    const int64_t sizes[] = {c->sizes['B'], c->sizes['H'], c->sizes['S']};
    af_call_make_like(c, &out, &c->q);
    af_call_make(c, &lse, TORCH_FLOAT32, 3, sizes);
    set_problem(c, &k, &v, &out, &lse);
    launch_forward(c);
    return list_of(c, results, AF_COUNT(results));
}

/* ---- builtins ---- */

static struct python_object *run(struct python_object *self, struct python_object *const *given,
                                 ptrdiff_t count,
                                 struct python_object *(*function)(struct call *), int wanted)
{
    struct call c;
    struct python_object *result = NULL;
    af_call_begin(&c, self, given);
    af_call_check(&c, count == wanted, "incompatible function arguments: %d instead of %d",
                  (int)count, wanted);
    if (!c.failed)
        result = function(&c);
    return af_call_end(&c, result);
}

#define BUILTIN(name, count)                                                                   \
    static struct python_object *run_##name(                                                   \
        struct python_object *self, struct python_object *const *given, ptrdiff_t given_count) \
    {                                                                                          \
        return run(self, given, given_count, name, count);                                     \
    }
BUILTIN(fwd, 13)
BUILTIN(varlen_fwd, 21)
BUILTIN(bwd, 19)
BUILTIN(varlen_bwd, 24)
BUILTIN(fwd_kvcache, 20)

static struct python_method methods[] = {{"fwd", run_fwd, METH_FASTCALL, NULL},
                                         {"varlen_fwd", run_varlen_fwd, METH_FASTCALL, NULL},
                                         {"bwd", run_bwd, METH_FASTCALL, NULL},
                                         {"varlen_bwd", run_varlen_bwd, METH_FASTCALL, NULL},
                                         {"fwd_kvcache", run_fwd_kvcache, METH_FASTCALL, NULL}};

int32_t anyflash_python_flash_attn(void *python, void *torch, void *module,
                                   struct anyflash_error *err)
{
    enum anyflash_status status = af_python_load(python, err);
    if (status == ANYFLASH_OK)
        status = af_call_load(torch, module, err);
    for (size_t i = 0; i < AF_COUNT(methods) && status == ANYFLASH_OK; i++) {
        struct python_object *function = af_py.PyCFunction_NewEx(&methods[i], module, NULL);
        if (function == NULL ||
            af_py.PyObject_SetAttrString(module, methods[i].name, function) != 0) {
            af_py.PyErr_Clear();
            status = af_fail_memory(err);
        }
        af_py.Py_DecRef(function);
    }
    return (int32_t)status;
}
