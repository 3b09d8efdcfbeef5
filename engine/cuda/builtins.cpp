/*
 * builtins.cpp: the five functions of flash_attn_2_cuda as Python builtins. They check
 * tensors, allocate results and call the library. What is rare they leave to functions of
 * the Python module (python/flash_attn_2_cuda/__init__.py), which is their `self`.
 */
#include "handles.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "glue.h"

/* A call of one of the functions: its arguments, read one after the other. */
struct call {
    object *self;
    object *const *next;    /* argument */
    int64_t sizes['Z' + 1]; /* by the letters of shapes; -1: not known yet */
    tensor q;
    struct anyflash_attend_args a = ANYFLASH_ATTEND_ARGS_INIT;
    struct anyflash_cuda_args cuda = ANYFLASH_CUDA_ARGS_INIT;

    call(object *self, object *const *given) : self(self), next(given)
    {
        std::fill(std::begin(sizes), std::end(sizes), -1);
    }
};

/* A function of the Python module. */
struct helper : owned {
    helper(const call *c, const char *name) : owned(api.PyObject_GetAttrString(c->self, name))
    {
    }
};

static std::string text_of(int64_t dim, const int64_t *sizes)
{
    std::string text = "(";
    for (int64_t i = 0; i < dim; i++) {
        char size[32];
        snprintf(size, sizeof size, "%s%lld%s", i > 0 ? " " : "", (long long)sizes[i],
                 i == 0 || i + 1 < dim ? "," : "");
        text += size;
    }
    return text + ")";
}

/* Compares with a shape of letters; a letter that is not known yet becomes known. */
static void check_shape(call *c, const char *name, const tensor &t, const char *shape)
{
    int64_t sizes[8], dim = (int64_t)strlen(shape);
    for (int64_t i = 0; i < dim; i++) {
        int64_t *size = &c->sizes[(int)shape[i]];
        if (*size < 0 && i < t.dim)
            *size = t.sizes[i];
        sizes[i] = *size;
    }
    check(t.dim == dim, "%s must have %d dimensions, not %d", name, (int)dim, (int)t.dim);
    if (!std::equal(sizes, sizes + dim, t.sizes))
        check(false, "%s must have shape %s, not %s", name, text_of(dim, sizes).c_str(),
              text_of(dim, t.sizes).c_str());
}

/* The next argument, which may be None with `optional`. */
static void take(call *c, tensor *t, const char *name, const char *shape, bool optional)
{
    object *python = *c->next++;
    if (optional && python == api.none)
        return;
    read(t, name, python);
    if (shape != NULL)
        check_shape(c, name, *t, shape);
}

/* Index arrays: int32, on the device, contiguous; a block table only in its rows. */
static const int32_t *take_integers(call *c, const char *name, const char *shape, bool optional,
                                    tensor *pages = NULL)
{
    tensor array, *t = pages != NULL ? pages : &array;
    take(c, t, name, shape, optional);
    if (t->python == NULL)
        return NULL;
    check(t->dtype == INT32, "%s must have dtype int32", name);
    check(t->is_beside(c->q), "%s must be on CUDA", name);
    check(pages != NULL ? t->has_rows() : t->is_contiguous(), "%s must be contiguous", name);
    return (const int32_t *)t->data;
}

static int64_t take_integer(call *c)
{
    int64_t number = api.PyLong_AsLongLong(*c->next++);
    if (number == -1 && api.PyErr_Occurred() != NULL)
        throw raised();
    return number;
}

static float take_float(call *c)
{
    double number = api.PyFloat_AsDouble(*c->next++);
    if (number == -1 && api.PyErr_Occurred() != NULL)
        throw raised();
    return (float)number;
}

static void take_mask_and_softcap(call *c)
{
    c->a.causal = (int32_t)take_integer(c);
    c->a.window_left = take_integer(c);
    c->a.window_right = take_integer(c);
    c->a.softcap = std::max(take_float(c), 0.f);
}

static int32_t type_of(const tensor &t)
{
    return t.dtype == FLOAT16 ? ANYFLASH_F16 : t.dtype == BFLOAT16 ? ANYFLASH_BF16 : 0;
}

/* Of [B, S, H, D], or packed [rows, H, D]. */
static struct anyflash_tensor view(const call *c, const char *name, const tensor &t)
{
    const tensor &q = c->q;
    if (t.python == NULL)
        return anyflash_tensor();
    if (t.dtype != q.dtype || !t.is_beside(q) || !t.has_rows()) {
        check(type_of(q) != 0, "FlashAttention only support fp16 and bf16 data type");
        check(t.dtype == q.dtype, "query and %s must have the same dtype", name);
        check(t.is_beside(q), "%s must be on CUDA", name);
        check(false, "Input tensor must have contiguous last dimension");
    }
    struct anyflash_tensor view = {};
    view.data = t.data;
    view.dtype = type_of(t);
    view.batch_stride = t.dim == 4 ? t.strides[0] : 0;
    view.row_stride = t.strides[t.dim - 3];
    view.head_stride = t.strides[t.dim - 2];
    return view;
}

/* Slopes, [H] or [B, H]. */
static void take_alibi(call *c)
{
    tensor t;
    take(c, &t, "alibi_slopes", NULL, true);
    if (t.python == NULL)
        return;
    check(t.dtype == FLOAT32, "ALiBi slopes must have dtype fp32");
    check(t.is_beside(c->q), "alibi_slopes must be on CUDA");
    check(t.has_rows(), "ALiBi slopes tensor must have contiguous last dimension");
    check(t.sizes[t.dim - 1] == c->sizes['H'] &&
              (t.dim == 1 || (t.dim == 2 && t.sizes[0] == c->sizes['B'])),
          "ALiBi slopes must have shape (num_heads) or (batch_size, num_heads)");
    c->a.alibi_slopes = (const float *)t.data;
    c->a.alibi_batch_stride = t.dim == 2 ? t.strides[0] : 0;
}

/* A new tensor beside q. */
static void make(const call *c, tensor *t, int32_t dtype, int64_t dim, const int64_t *sizes,
                 const int64_t *strides)
{
    const int64_t item = dtype == INT64 ? 8 : dtype == FLOAT32 ? 4 : dtype == UINT8 ? 1 : 2;
    void *handle;
    for (int tries = 2;
         api.aoti_torch_empty_strided(dim, sizes, strides, dtype, c->q.device_type, c->q.device,
                                      &handle) != 0;
         tries--) {
        check(tries > 0, "torch makes no tensor");
        int64_t bytes = item;
        for (int64_t i = 0; i < dim; i++)
            bytes *= sizes[i];
        helper reserve(c, "_reserve"); /* raises torch's error, or makes room */
        owned reserved(api.PyObject_CallFunction(reserve.held, "OL", c->q.python, bytes));
    }
    object *capsule = api.PyCapsule_New(handle, NULL, NULL);
    if (capsule != NULL)
        t->python = api.PyObject_CallFunction(api.wrap, "O", capsule);
    t->is_new = t->python != NULL;
    const bool known = describe(t, handle);
    api.Py_DecRef(capsule);
    api.aoti_torch_delete_tensor_object(handle);
    if (!t->is_new)
        throw raised();
    check(known, "a new tensor cannot be read");
}

static void make(const call *c, tensor *t, int32_t dtype, std::initializer_list<int64_t> sizes)
{
    int64_t strides[4], step = 1;
    for (size_t i = sizes.size(); i-- > 0; step *= std::max<int64_t>(sizes.begin()[i], 1))
        strides[i] = step;
    make(c, t, dtype, (int64_t)sizes.size(), sizes.begin(), strides);
}

/* torch.empty_like(), unless the caller gave the tensor. */
static void make_like(const call *c, tensor *t, const tensor &like)
{
    if (t->python != NULL)
        return;
    if (like.is_contiguous()) {
        make(c, t, like.dtype, like.dim, like.sizes, like.strides);
        return;
    }
    helper empty_like(c, "_empty_like");
    owned made(api.PyObject_CallFunction(empty_like.held, "O", like.python));
    read(t, "a new tensor", made.held);
    api.Py_IncRef(made.held);
    t->is_new = true;
}

static void fill(const tensor &t, double value)
{
    owned done(api.PyObject_CallMethod(t.python, "fill_", "d", value));
}

static object *list_of(std::initializer_list<const tensor *> tensors)
{
    object *list = api.PyList_New((ptrdiff_t)tensors.size());
    ptrdiff_t at = 0;
    for (const tensor *t : tensors) {
        if (list == NULL)
            throw raised();
        api.Py_IncRef(t->python);
        api.PyList_SetItem(list, at++, t->python);
    }
    return list;
}

/* What all functions set after all arguments were read. */
static void set_problem(call *c, const tensor &k, const tensor &v, const tensor &out,
                        const tensor &lse)
{
    struct anyflash_attend_args *a = &c->a;
    a->batch = c->sizes['B'];
    a->heads = c->sizes['H'];
    a->kv_heads = c->sizes['G'];
    a->head_dim = a->value_dim = c->sizes['D'];
    a->q = view(c, "query", c->q);
    a->k = view(c, "key", k);
    a->v = view(c, "value", v);
    a->o = view(c, "out", out);
    check(lse.dim > 0, "softmax_lse must have dimensions");
    a->lse = (float *)lse.data;
    a->lse_head_stride = lse.sizes[lse.dim - 1];
    a->lse_batch_stride = a->heads * a->lse_head_stride;
    if (c->q.device_type != CUDA) {
        helper on_cpu(c, "_ON_CPU");
        check(api.PyLong_AsLongLong(on_cpu.held) == 1, "q must be on CUDA");
        return;
    }
    owned stream(api.PyObject_CallFunction(api.stream, "i", (int)c->q.device));
    c->cuda.device = c->q.device;
    c->cuda.stream = api.PyLong_AsVoidPtr(stream.held);
}

/* Dropout's seed and offset; the result must stay alive until the kernels are started. */
static object *take_random(call *c, object *generator)
{
    helper random(c, "_random");
    object *drawn = api.PyObject_CallFunction(random.held, "OOL", generator, c->q.python,
                                              (long long)(c->a.batch * c->a.heads * 32));
    if (drawn == NULL)
        throw raised();
    c->a.dropout_seed = (uint64_t)api.PyLong_AsVoidPtr(api.PyTuple_GetItem(drawn, 0));
    c->a.dropout_offset = (uint64_t)api.PyLong_AsVoidPtr(api.PyTuple_GetItem(drawn, 1));
    int64_t *pointer = (int64_t *)api.PyLong_AsVoidPtr(api.PyTuple_GetItem(drawn, 2));
    c->cuda.dropout_seed = pointer;
    c->cuda.dropout_offset = pointer == NULL ? NULL : pointer + 1;
    return drawn;
}

/* Calls a function of the library, again with a workspace if it needs one. */
template <typename Args, typename Function, typename Ask>
static void launch(call *c, const Args *args, const Function &function, const Ask &ask)
{
    struct anyflash_error error = {};
    enum anyflash_status status = function(args, &c->cuda, &error);
    tensor workspace;
    if (status == ANYFLASH_E_NO_MEMORY) {
        ask(args, &c->cuda, &c->cuda.workspace_bytes, &error);
        make(c, &workspace, UINT8, {(int64_t)c->cuda.workspace_bytes});
        c->cuda.workspace = workspace.data;
        status = function(args, &c->cuda, &error);
    }
    check(status == ANYFLASH_OK, "%s", error.message);
}

/* What forward of dense and of packed sequences does last. */
static object *forward(call *c, const tensor &out, const tensor &lse, bool zero)
{
    const bool with_scores = take_integer(c) != 0;
    tensor scores, rng_state;
    check(!with_scores || c->a.dropout > 0,
          "return_softmax is only supported when p_dropout > 0.0");
    if (with_scores)
        make(c, &scores, c->q.dtype,
             {c->a.batch, c->a.heads, af_glue_round_up(c->a.q_len, 128),
              af_glue_round_up(c->a.k_len, 128)});
    else
        make(c, &scores, c->q.dtype, {0});
    make(c, &rng_state, INT64, {2});
    c->cuda.rng_state = (uint64_t *)rng_state.data;
    c->cuda.dropout_scores = with_scores ? scores.data : NULL;
    if (zero) {
        fill(out, 0);
        fill(lse, -INFINITY);
        fill(scores, 0);
    }
    object *drawn = c->a.dropout > 0 ? take_random(c, *c->next) : list_of({});
    owned alive(drawn);
    launch(c, &c->a, anyflash_cuda_attend, anyflash_cuda_workspace_bytes);
    return list_of({&out, &lse, &scores, &rng_state});
}

static object *fwd(call *c)
{
    tensor k, v, out, lse;
    take(c, &c->q, "q", "BSHD", false);
    take(c, &k, "k", "BTGD", false);
    take(c, &v, "v", "BTGD", false);
    take(c, &out, "out", "BSHD", true);
    take_alibi(c);
    c->a.dropout = take_float(c);
    c->a.scale = take_float(c);
    take_mask_and_softcap(c);
    c->a.q_len = c->sizes['S'];
    c->a.k_len = c->sizes['T'];
    make_like(c, &out, c->q);
    make(c, &lse, FLOAT32, {c->sizes['B'], c->sizes['H'], c->sizes['S']});
    set_problem(c, k, v, out, lse);
    return forward(c, out, lse, false);
}

/* The offsets of packed sequences, whose number is known from here on. */
static void take_offsets(call *c)
{
    c->a.cu_seqlens_q = take_integers(c, "cu_seqlens_q", "C", false);
    c->a.cu_seqlens_k = take_integers(c, "cu_seqlens_k", "C", false);
    c->sizes['B'] = c->sizes['C'] - 1;
    c->a.total_q = c->sizes['N'];
    c->a.total_k = std::max<int64_t>(c->sizes['M'], 0);
}

static void take_pages(call *c, const tensor &k)
{
    tensor pages;
    c->a.block_table = take_integers(c, "block_table", "BW", true, &pages);
    if (pages.python == NULL)
        return;
    c->a.block_table_stride = pages.strides[0];
    c->a.page_count = k.sizes[0];
    c->a.page_size = k.sizes[1];
}

static object *varlen_fwd(call *c)
{
    tensor k, v, out, lse;
    take(c, &c->q, "q", "NHD", false);
    const char *keys = c->next[7] == api.none ? "MGD" : "PRGD"; /* rows, or pages */
    take(c, &k, "k", keys, false);
    take(c, &v, "v", keys, false);
    take(c, &out, "out", "NHD", true);
    take_offsets(c);
    c->a.seqused_k = take_integers(c, "seqused_k", "B", true);
    c->a.leftpad_k = take_integers(c, "leftpad_k", "B", true);
    take_pages(c, k);
    take_alibi(c);
    c->a.q_len = take_integer(c);
    c->a.k_len = take_integer(c);
    c->a.dropout = take_float(c);
    c->a.scale = take_float(c);
    const bool zero = take_integer(c) != 0;
    take_mask_and_softcap(c);
    make_like(c, &out, c->q);
    make(c, &lse, FLOAT32, {c->sizes['H'], c->sizes['N']});
    set_problem(c, k, v, out, lse);
    return forward(c, out, lse, zero);
}

/* Backward of dense sequences, or of packed ones. */
static object *backward(call *c, bool packed)
{
    const char *rows = packed ? "NHD" : "BSHD", *keys = packed ? "MGD" : "BTGD";
    struct anyflash_attend_backward_args gradients = {};
    tensor dout, k, v, out, lse, dq, dk, dv, softmax_d, rng_state;
    object *const *first = c->next++; /* q's shape comes before that of dout */
    take(c, &c->q, "q", rows, false);
    take(c, &k, "k", keys, false);
    take(c, &v, "v", keys, false);
    take(c, &out, "out", rows, false);
    take(c, &lse, "softmax_lse", NULL, false);
    take(c, &dq, "dq", rows, true);
    take(c, &dk, "dk", keys, true);
    take(c, &dv, "dv", keys, true);
    std::swap(first, c->next);
    take(c, &dout, "dout", rows, false);
    c->next = first;
    if (packed)
        take_offsets(c);
    take_alibi(c);
    c->a.q_len = packed ? take_integer(c) : c->sizes['S'];
    c->a.k_len = packed ? take_integer(c) : c->sizes['T'];
    c->a.dropout = take_float(c);
    c->a.scale = take_float(c);
    const bool zero = packed && take_integer(c) != 0;
    take_mask_and_softcap(c);
    c->cuda.deterministic = (int32_t)take_integer(c);
    c->next++; /* the generator */
    take(c, &rng_state, "rng_state", NULL, true);
    make_like(c, &dq, c->q);
    make_like(c, &dk, k);
    make_like(c, &dv, v);
    if (packed)
        make(c, &softmax_d, FLOAT32, {c->sizes['H'], c->sizes['N'] + 128 * c->sizes['B']});
    else
        make(c, &softmax_d, FLOAT32,
             {c->sizes['B'], c->sizes['H'], af_glue_round_up(c->sizes['S'], 128)});
    set_problem(c, k, v, out, lse);
    c->cuda.rng_state = (uint64_t *)rng_state.data;
    c->cuda.softmax_d = (float *)softmax_d.data;
    for (const tensor *t : {&dq, &dk, &dv, &softmax_d})
        if (zero)
            fill(*t, 0);
    gradients.struct_size = sizeof gradients;
    gradients.forward = &c->a;
    gradients.dout = view(c, "dout", dout);
    gradients.dq = view(c, "dq", dq);
    gradients.dk = view(c, "dk", dk);
    gradients.dv = view(c, "dv", dv);
    launch(c, &gradients, anyflash_cuda_attend_backward,
           anyflash_cuda_backward_workspace_bytes);
    return list_of({&dq, &dk, &dv, &softmax_d});
}

static object *bwd(call *c)
{
    return backward(c, false);
}

static object *varlen_bwd(call *c)
{
    return backward(c, true);
}

/* Cosines or sines for new keys. */
static void take_rotary(call *c, tensor *t, const char *name)
{
    take(c, t, name, "XY", true);
    check(t->python == NULL ||
              (t->dtype == c->q.dtype && t->is_beside(c->q) && t->is_contiguous()),
          "%s must be contiguous and have the dtype and device of query", name);
}

/* The module pads heads to a multiple of 8 elements and calls the function again. */
static object *pad_heads(const call *c, object *const *given, ptrdiff_t count)
{
    helper padded(c, "_padded");
    owned arguments(api.PyTuple_New(count));
    for (ptrdiff_t i = 0; i < count; i++) {
        api.Py_IncRef(given[i]);
        api.PyTuple_SetItem(arguments.held, i, given[i]);
    }
    return api.PyObject_CallObject(padded.held, arguments.held);
}

static object *fwd_kvcache(call *c)
{
    object *const *given = c->next;
    struct anyflash_attend_args *a = &c->a;
    tensor k, v, new_k, new_v, cos, sin, out, lse;
    take(c, &c->q, "q", "BSHD", false);
    const char *keys = given[10] == api.none ? "CTGD" : "PRGD"; /* caches, or pages */
    take(c, &k, "kcache", keys, false);
    take(c, &v, "vcache", keys, false);
    take(c, &new_k, "k", "BNGD", true);
    take(c, &new_v, "v", "BNGD", true);
    check((new_k.python == NULL) == (new_v.python == NULL),
          "If key is supplied, value must also be passed in");
    a->seqused_k = take_integers(c, "seqlens_k", "B", true);
    take_rotary(c, &cos, "rotary_cos");
    take_rotary(c, &sin, "rotary_sin");
    a->cache_batch_idx = take_integers(c, "cache_batch_idx", "B", true);
    a->leftpad_k = take_integers(c, "leftpad_k", "B", true);
    take_pages(c, k);
    take_alibi(c);
    take(c, &out, "out", "BSHD", true);
    if (c->sizes['D'] % 8 != 0)
        return pad_heads(c, given, 20);
    a->scale = take_float(c);
    take_mask_and_softcap(c);
    a->rotary_interleaved = (int32_t)take_integer(c);
    c->cuda.splits = (int32_t)take_integer(c);
    a->q_len = c->sizes['S'];
    a->k_len = a->block_table == NULL ? c->sizes['T'] : c->sizes['W'] * c->sizes['R'];
    a->cache_batch = k.sizes[0];
    a->k_new = view(c, "k", new_k);
    a->v_new = view(c, "v", new_v);
    a->new_len = std::max<int64_t>(c->sizes['N'], 0);
    a->rotary_cos = (const float *)cos.data;
    a->rotary_sin = (const float *)sin.data;
    a->rotary_rows = std::max<int64_t>(c->sizes['X'], 0);
    a->rotary_dim = std::max<int64_t>(c->sizes['Y'], 0) * 2;
    make_like(c, &out, c->q);
    make(c, &lse, FLOAT32, {c->sizes['B'], c->sizes['H'], c->sizes['S']});
    set_problem(c, k, v, out, lse);
    launch(c, a, anyflash_cuda_attend, anyflash_cuda_workspace_bytes);
    return list_of({&out, &lse});
}

/* METH_FASTCALL of a function with COUNT arguments. */
template <object *(*FUNCTION)(call *), int COUNT>
static object *run(object *self, object *const *given, ptrdiff_t count)
{
    try {
        check(count == COUNT, "incompatible function arguments: %d instead of %d", (int)count,
              COUNT);
        call c(self, given);
        return FUNCTION(&c);
    } catch (const raised &) {
        return NULL;
    }
}

struct method {
    const char *name;
    object *(*call)(object *self, object *const *given, ptrdiff_t count);
    int flags;
    const char *doc;
};

#define METH_FASTCALL 0x0080
static method methods[] = {{"fwd", run<fwd, 13>, METH_FASTCALL, NULL},
                           {"varlen_fwd", run<varlen_fwd, 21>, METH_FASTCALL, NULL},
                           {"bwd", run<bwd, 19>, METH_FASTCALL, NULL},
                           {"varlen_bwd", run<varlen_bwd, 24>, METH_FASTCALL, NULL},
                           {"fwd_kvcache", run<fwd_kvcache, 20>, METH_FASTCALL, NULL}};

/*
 * Adds the functions to the Python module of this library; `python` and `torch` are handles
 * of dlopen(). Returns NULL, or the name of what is missing. Private to the module.
 */
extern "C" ANYFLASH_API const char *anyflash_cuda_add_builtins(void *python, void *torch,
                                                               object *module)
{
    const char *missing = find_all(python, torch);
    if (missing != NULL)
        return missing;
    api.cdata = api.PyUnicode_InternFromString("_cdata");
    api.tensor_class = api.PyObject_GetAttrString(module, "_Tensor");
    api.wrap = api.PyObject_GetAttrString(module, "_wrap");
    api.stream = api.PyObject_GetAttrString(module, "_stream");
    for (method &each : methods) {
        object *function = api.PyCFunction_NewEx(&each, module, NULL);
        if (function == NULL || api.PyObject_SetAttrString(module, each.name, function) != 0)
            return each.name;
        api.Py_DecRef(function);
    }
    return NULL;
}
