/*
 * anyflash.h: the public C API of libanyflash, and its manual.
 *
 * Exact attention on the CPU: forward (prefill and decode), backward, merging
 * of partial results. The mathematics is in docs/design/attend.md.
 *
 *     struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
 *     args.batch = 1; args.heads = 16; args.kv_heads = 16;
 *     args.q_len = args.k_len = 2048; args.head_dim = args.value_dim = 64;
 *     args.q = anyflash_bhsd(q, ANYFLASH_F32, 16, 2048, 64);   (and k, v, o)
 *     status = anyflash_attend(NULL, &args, &err);
 *
 * Letters: B batch, H query heads, G key heads, Sq and Sk lengths, D head size,
 * Dv value size.
 *
 * Conventions. A function that can fail returns enum anyflash_status and takes a
 * struct anyflash_error as its last argument, which it fills on failure unless
 * the pointer is NULL. On failure the caller's objects are not changed. Every
 * function may be called from any thread.
 *
 * Structs of arguments begin with struct_size, which tells the library how many
 * members the caller's header has: new members are only ever appended, and the
 * numbers of enums never change their meaning.
 *
 * For CPUs the engine needs libc, libm and threads. A single cc command builds it, with the
 * kernels of all instruction sets of the architecture (`tests/run one-line` does that). At run
 * time it takes the fastest ones that the processor supports.
 *
 * Valid C99, C11 and C++11.
 */
#ifndef ANYFLASH_ANYFLASH_H
#define ANYFLASH_ANYFLASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ANYFLASH_VERSION_MAJOR 0
#define ANYFLASH_VERSION_MINOR 1
#define ANYFLASH_VERSION_PATCH 0

#if defined(_WIN32)
#define ANYFLASH_API __declspec(dllexport) /* harmless in programs that only call */
#elif defined(__GNUC__)
#define ANYFLASH_API __attribute__((visibility("default")))
#else
#define ANYFLASH_API
#endif

/* The result of a call. 0 is success; the numbers are part of the ABI. */
enum anyflash_status {
    ANYFLASH_OK = 0,
    ANYFLASH_E_ARGUMENT = 1,    /* an argument is outside its documented range */
    ANYFLASH_E_NO_MEMORY = 2,   /* an allocation failed */
    ANYFLASH_E_IO = 3,          /* a file or a system call failed */
    ANYFLASH_E_DATA = 4,        /* input data is malformed */
    ANYFLASH_E_LIMIT = 5,       /* input is larger than the library accepts */
    ANYFLASH_E_TIMEOUT = 6,     /* a process or a device did not answer in time */
    ANYFLASH_E_NOT_FOUND = 7,   /* something that was asked for does not exist */
    ANYFLASH_E_UNSUPPORTED = 8, /* valid, but no kernel or platform supports it */
    ANYFLASH_E_INTERNAL = 9     /* a bug in the library */
};

/*
 * What failed: one sentence in lower case without a full stop, always
 * NUL-terminated, which names the argument and its value. The caller owns the
 * struct and zeroes it before the call.
 */
struct anyflash_error {
    enum anyflash_status status;
    char message[400];
};

/* The version of the library, such as "0.1.0"; static storage. */
ANYFLASH_API const char *anyflash_version_text(void);

/* A short English name of `status`; static storage; never NULL. */
ANYFLASH_API const char *anyflash_status_text(enum anyflash_status status);

/*
 * Element types. bf16 is the upper half of an f32; bool is one byte, 0 is false. The
 * fp8 types are those of the Open Compute Project: E4M3 has no infinity, NaN is 0x7f
 * and the largest number is 448; E5M2 is the upper half of an f16.
 */
enum anyflash_dtype {
    ANYFLASH_F32 = 1,
    ANYFLASH_F16 = 2,
    ANYFLASH_BF16 = 3,
    ANYFLASH_BOOL = 4,
    ANYFLASH_F8_E4M3 = 5,
    ANYFLASH_F8_E5M2 = 6
};

/*
 * A view of rows: element (b, h, s, d) is at
 *     data + b * batch_stride + h * head_stride + s * row_stride + d
 * elements. Strides count elements; the last dimension has stride 1. Inputs may
 * have strides of 0 (broadcast). An output must not overlap itself, another
 * output or an input, and its strides must nest: each is at least as long as
 * everything that the smaller ones cover. Two tensors may be interleaved in one
 * buffer if they have the same strides. If data is NULL the tensor is absent.
 */
struct anyflash_tensor {
    void *data;
    int32_t dtype;    /* enum anyflash_dtype */
    int32_t reserved; /* 0 */
    int64_t batch_stride;
    int64_t head_stride;
    int64_t row_stride;
};

/* A contiguous tensor in memory order [B, S, H, D], and one in [B, H, S, D]. */
static inline struct anyflash_tensor anyflash_bshd(void *data, int32_t dtype, int64_t heads,
                                                   int64_t rows, int64_t dim)
{
    struct anyflash_tensor tensor;
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.reserved = 0;
    tensor.batch_stride = rows * heads * dim;
    tensor.head_stride = dim;
    tensor.row_stride = heads * dim;
    return tensor;
}

static inline struct anyflash_tensor anyflash_bhsd(void *data, int32_t dtype, int64_t heads,
                                                   int64_t rows, int64_t dim)
{
    struct anyflash_tensor tensor = anyflash_bshd(data, dtype, heads, rows, dim);
    tensor.head_stride = rows * dim;
    tensor.row_stride = dim;
    return tensor;
}

/* Where the diagonal of causal and window masks starts: see `offset` below. */
enum anyflash_align {
    ANYFLASH_ALIGN_BOTTOM_RIGHT = 0, /* offset = Sk - Sq of each batch (FlashAttention 2) */
    ANYFLASH_ALIGN_TOP_LEFT = 1,     /* offset = 0 (torch's is_causal) */
    ANYFLASH_ALIGN_OFFSETS = 2       /* offset = causal_offsets[b] (ONNX, caches) */
};

/*
 * One forward attention problem. Start from ANYFLASH_ATTEND_ARGS_INIT, which
 * switches every option off, and set the members that you need.
 *
 * Query i of a batch has position p = i + offset. It sees key j if all of these
 * hold:
 *     j <= p                                   if causal
 *     j >= p - window_left                     if window_left >= 0
 *     j <= p + window_right                    if window_right >= 0
 *     mask(b, h, i, j) is true                 if a mask is given
 *     leftpad_k[b] <= j < number of keys of the batch
 * Scores: s = scale * q.k; s = softcap * tanh(s / softcap) if softcap > 0;
 * s += bias(b, h, i, j); s -= slope * |p - j| (ALiBi). A sink adds exp(sink[h])
 * to the sum of the row, but no value. A row that sees no key and has no sink
 * gives o = 0 and lse = -infinity, even if its query holds NaN, which nothing
 * is multiplied by. Only -infinity hides: bias may have any other number, the
 * lowest float included.
 *
 * NaN and infinity propagate as in the formulas. A key that is not visible has
 * no influence on the result, whatever it contains. A visible key has one even
 * if its weight is 0, for example because of a bias of -infinity: 0 times a
 * value that is not finite is NaN. To exclude padding, use a mask or lengths,
 * not a bias.
 */
struct anyflash_attend_args {
    size_t struct_size; /* sizeof(struct anyflash_attend_args) */

    int64_t batch;     /* B */
    int64_t heads;     /* H, a multiple of kv_heads */
    int64_t kv_heads;  /* G; query head h reads key head h / (H / G) */
    int64_t q_len;     /* Sq, the largest of the batch */
    int64_t k_len;     /* Sk, the largest of the batch; for a paged cache its capacity */
    int64_t head_dim;  /* D, 1 to 576 */
    int64_t value_dim; /* Dv, 1 to 576 */

    struct anyflash_tensor q; /* [B, H, Sq, D]  f32, f16 or bf16 */
    struct anyflash_tensor k; /* [B, G, Sk, D]  same dtype as q, or fp8 */
    struct anyflash_tensor v; /* [B, G, Sk, Dv] same dtype as k */
    struct anyflash_tensor o; /* [B, H, Sq, Dv] same dtype as q, or f32; output */

    float *lse;               /* [B, H, Sq] output: log of the sum of exp(s), or NULL */
    int64_t lse_batch_stride; /* in elements; rows are contiguous */
    int64_t lse_head_stride;

    float scale;                   /* -1e38 to 1e38; INIT sets ANYFLASH_SCALE_DEFAULT */
    float softcap;                 /* 0: none */
    int32_t causal;                /* 0 or 1 */
    int32_t align;                 /* enum anyflash_align, for causal, windows and ALiBi */
    int64_t window_left;           /* keys visible before p; -1: all. INIT sets -1 */
    int64_t window_right;          /* keys visible after p; -1: all. INIT sets -1 */
    const int32_t *causal_offsets; /* [B], with ANYFLASH_ALIGN_OFFSETS */

    const float *alibi_slopes; /* [H] or [B, H], or NULL */
    int64_t alibi_batch_stride;
    const float *sinks; /* [H] logits, or NULL */

    struct anyflash_tensor bias; /* [B, H, Sq, Sk] f32, f16 or bf16; strides may be 0 */
    struct anyflash_tensor mask; /* [B, H, Sq, Sk] bool, true: visible; strides may be 0 */

    /*
     * Variable length: sequence b has rows cu_seqlens[b] to cu_seqlens[b + 1] - 1
     * of packed tensors, whose batch_stride is then ignored. The rows of lse are
     * packed in the same way: [H, total_q].
     */
    const int32_t *cu_seqlens_q; /* [B + 1], or NULL */
    const int32_t *cu_seqlens_k; /* [B + 1], or NULL */
    int64_t total_q;             /* rows of q, o and lse; needed for bounds checks */
    int64_t total_k;             /* rows of k and v */
    const int32_t *seqused_q;    /* [B] number of rows used of each sequence, or NULL: all */
    const int32_t *seqused_k;    /* [B] number of keys used, or NULL: all */
    const int32_t *leftpad_k;    /* [B] number of leading keys that are padding, or NULL */

    /*
     * Key-value caches. Batch b reads batch cache_batch_idx[b] of k and v. With a
     * block table k and v consist of pages, [page_count, G, page_size, D], and
     * their batch_stride is the stride of a page: key j of batch b is row
     * j % page_size of page block_table[b * block_table_stride + j / page_size]. If
     * page_size is a multiple of 16, the results have the same bits as without pages.
     */
    const int32_t *cache_batch_idx; /* [B], or NULL */
    int64_t cache_batch;            /* batches of k and v, with cache_batch_idx */
    const int32_t *block_table;     /* [B, block_table_stride], or NULL */
    int64_t block_table_stride;
    int64_t page_size;
    int64_t page_count;

    /*
     * Append: before attention is computed, k_new and v_new are written to rows
     * seqused_k[b] to seqused_k[b] + new_len - 1 of the cache, which then has
     * new_len more keys. k and v are outputs in this case.
     */
    struct anyflash_tensor k_new; /* [B, G, new_len, D]  same dtype as q */
    struct anyflash_tensor v_new; /* [B, G, new_len, Dv] same dtype as q */
    int64_t new_len;

    /*
     * Rotary embedding, or NULL. Row i of k_new has position seqused_k[b] + i; row
     * i of q has the same with causal or a window, else seqused_k[b]. rotary_cos
     * and rotary_sin are [rotary_rows, rotary_dim / 2] f32.
     */
    const float *rotary_cos;
    const float *rotary_sin;
    int64_t rotary_rows;
    int64_t rotary_dim;         /* even, at most D */
    int32_t rotary_interleaved; /* 1: pairs (0,1), (2,3), ...; 0: halves */

    /*
     * Dropout: element (b, h, i, j) is kept if the Philox-4x32-10 word that
     * docs/design/attend.md assigns to it is at least p * 2^32. Elements that are
     * kept are divided by 1 - p.
     */
    float dropout; /* p, 0 <= p < 1 */
    uint64_t dropout_seed;
    uint64_t dropout_offset;

    /*
     * Scales of fp8 keys and values: an element stands for its number times a scale,
     * that of its key head g and sequence b, k_scales[b * scale_stride + g], or, if
     * scale_per_page is 1, of its page p: k_scales[p * scale_stride + g]. A stride of 0
     * gives all sequences or pages the same scales. k_new and v_new are divided by the
     * scale and rounded to the nearest even; finite numbers that are too large become
     * the largest one. A scale is 2^-64 to 2^64. fp8 allows neither dropout nor a
     * backward.
     */
    const float *k_scales; /* [B or page_count, G], or NULL: all 1 */
    const float *v_scales;
    int64_t scale_stride;   /* in elements */
    int32_t scale_per_page; /* 0 or 1 */
    int32_t reserved;       /* 0 */
};

/* As `scale`: 1 / sqrt(D). It is no legal scale itself; a scale of 0 is 0. */
#define ANYFLASH_SCALE_DEFAULT 3.0e38f

/* clang-format off */
#define ANYFLASH_TENSOR_NONE {NULL, 0, 0, 0, 0, 0}
#define ANYFLASH_ATTEND_ARGS_INIT anyflash_attend_args_init()
/* clang-format on */

/* All members 0, except struct_size, scale (the default) and the windows, which are -1. */
static inline struct anyflash_attend_args anyflash_attend_args_init(void)
{
    struct anyflash_attend_args args;
    unsigned char *bytes = (unsigned char *)&args;
    size_t i;
    for (i = 0; i < sizeof args; i++)
        bytes[i] = 0;
    args.struct_size = sizeof args;
    args.scale = ANYFLASH_SCALE_DEFAULT;
    args.window_left = -1;
    args.window_right = -1;
    return args;
}

/*
 * The backward pass of a problem. `forward` has the arguments of the forward
 * call, with the o and lse that it wrote. dout is the input; the other tensors
 * are outputs and are overwritten. The gradient of a key head that several query
 * heads share is the sum over them. Outputs that are absent (data NULL) are not
 * computed; dq, dk and dv must be all present or all absent. There is no backward
 * with caches (paging, append, cache_batch_idx, rotary).
 */
struct anyflash_attend_backward_args {
    size_t struct_size; /* sizeof(struct anyflash_attend_backward_args) */
    const struct anyflash_attend_args *forward;
    struct anyflash_tensor dout;  /* [B, H, Sq, Dv] same dtype as o */
    struct anyflash_tensor dq;    /* shape and dtype of q */
    struct anyflash_tensor dk;    /* shape and dtype of k */
    struct anyflash_tensor dv;    /* shape and dtype of v */
    struct anyflash_tensor dbias; /* [B, H, Sq, Sk] f32, or absent; summed over stride-0 dims */
    float *dsinks;                /* [H], or NULL */
    const float *dlse;            /* [B, H, Sq] gradient of lse, strided as lse, or NULL */
};

/*
 * A context is a thread pool and scratch memory that is kept between calls. It
 * may be used by several threads; their calls then run one after the other. On
 * Linux its threads stay off the core of the calling thread, whose own affinity is
 * not changed; the affinity that somebody else gives one of them is respected. A
 * function that is given NULL instead of a context makes one for the call, with
 * all usable cores and malloc().
 */
struct anyflash_context;

/* Limits the kernels to the instruction sets of a level and of the levels before it. */
enum anyflash_cpu_level {
    ANYFLASH_CPU_ALL = 0,  /* all that processor and system support */
    ANYFLASH_CPU_BASE = 1, /* only what every processor of the architecture has */
    ANYFLASH_CPU_NEON = 2,
    ANYFLASH_CPU_AVX2 = 3, /* with FMA and F16C */
    ANYFLASH_CPU_AVX512 = 4,
    ANYFLASH_CPU_AVX512BF16 = 5,
    ANYFLASH_CPU_AMX = 6 /* tiles of bf16; only Linux, which has to permit them */
};

struct anyflash_context_args {
    size_t struct_size; /* sizeof(struct anyflash_context_args) */
    int32_t threads;    /* 0: all cores that affinity and cgroup allow */
    void *(*allocate)(size_t size_bytes, size_t align_bytes, void *user); /* NULL: malloc */
    void (*release)(void *memory, void *user);
    void *user;
    int32_t cpu_level; /* enum anyflash_cpu_level */
    int32_t reserved;  /* 0 */
    /*
     * Lets the caller provide the threads. It runs body(argument) at least once
     * and at most `workers` times, each on a thread of its own at the same time,
     * and returns when all have ended. NULL: the context has its own threads.
     */
    void (*parallel)(void (*body)(void *argument), void *argument, int32_t workers, void *user);
};

/*
 * Makes a context; args NULL: all defaults. The caller frees it when no call uses
 * it any more; freeing NULL does nothing. Fails with ARGUMENT or NO_MEMORY.
 */
ANYFLASH_API enum anyflash_status anyflash_context_new(const struct anyflash_context_args *args,
                                                       struct anyflash_context **context_out,
                                                       struct anyflash_error *err);
ANYFLASH_API void anyflash_context_free(struct anyflash_context *context);

/*
 * Computes attention. All arguments are checked first; if the status is not
 * ANYFLASH_OK, no output was written. The results are the same bits for every
 * number of threads. Fails with ARGUMENT (naming the argument and its value),
 * UNSUPPORTED, LIMIT or NO_MEMORY.
 */
ANYFLASH_API enum anyflash_status anyflash_attend(struct anyflash_context *context,
                                                  const struct anyflash_attend_args *args,
                                                  struct anyflash_error *err);

/*
 * Computes gradients. Checks, failures and the independence of the number of
 * threads are those of anyflash_attend(). Each thread needs scratch memory for at
 * most 2048 rows of q and dout, and for dk and dv of its keys in f32. Where B * G
 * is small the keys are split into chunks, each with a dq of its own in f32: at
 * most 64 MiB together, or four times dq if that is more.
 */
ANYFLASH_API enum anyflash_status anyflash_attend_backward(
    struct anyflash_context *context, const struct anyflash_attend_backward_args *args,
    struct anyflash_error *err);

/*
 * Merges results over disjoint sets of keys into the result over all of them:
 * o = sum exp(lse_i - lse) o_i. There are `count` parts, [rows, value_dim] each,
 * with an lse of [rows]; everything is f32 and contiguous. o and lse may be those
 * of part 0. Fails with ARGUMENT.
 */
ANYFLASH_API enum anyflash_status anyflash_merge(const float *const *parts,
                                                 const float *const *part_lses, int64_t count,
                                                 int64_t rows, int64_t value_dim, float *o,
                                                 float *lse, struct anyflash_error *err);

/*
 * The bytes of scratch memory that anyflash_attend() needs for `args`; exact.
 * Nothing is allocated. Fails as anyflash_attend().
 */
ANYFLASH_API enum anyflash_status anyflash_workspace_bytes(
    struct anyflash_context *context, const struct anyflash_attend_args *args,
    size_t *needed_bytes_out, struct anyflash_error *err);

/*
 * Writes to `text` which kernels would compute `args`, forward and backward, and
 * why each faster one cannot, as lines: "many rows: NAME", "few rows: NAME",
 * "backward: NAME", "OPERATION: not NAME: REASON". The text is cut at size_bytes
 * and always NUL-terminated. Fails as anyflash_attend().
 */
ANYFLASH_API enum anyflash_status anyflash_explain(struct anyflash_context *context,
                                                   const struct anyflash_attend_args *args,
                                                   char *text, size_t size_bytes,
                                                   struct anyflash_error *err);

#ifdef __cplusplus
}
#endif

#endif
