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
 * Conventions. Fallible functions return enum anyflash_status and fill the
 * struct anyflash_error that comes last, when it is not NULL; on failure the
 * caller's objects are untouched. Enum numbers never change meaning. Every
 * function may be called from any thread.
 *
 * C11; clean as C99 and C++11.
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

#if defined(__GNUC__)
#define ANYFLASH_API __attribute__((visibility("default")))
#else
#define ANYFLASH_API
#endif

/* What became of a call. Zero is success; numbers are part of the ABI. */
enum anyflash_status {
    ANYFLASH_OK = 0,
    ANYFLASH_E_ARGUMENT = 1,    /* an argument is outside its documented range */
    ANYFLASH_E_NO_MEMORY = 2,   /* an allocation failed */
    ANYFLASH_E_IO = 3,          /* a file or a system call failed */
    ANYFLASH_E_DATA = 4,        /* bytes from outside are malformed */
    ANYFLASH_E_LIMIT = 5,       /* input is larger than this program accepts */
    ANYFLASH_E_TIMEOUT = 6,     /* a child or a device did not answer in time */
    ANYFLASH_E_NOT_FOUND = 7,   /* the thing asked for is not there */
    ANYFLASH_E_UNSUPPORTED = 8, /* understood, and not something we can do */
    ANYFLASH_E_INTERNAL = 9     /* our own bug */
};

/*
 * One sentence that names the thing and the place, lower case, without a full
 * stop, always NUL-terminated. Owned by the caller, who sets it to zero.
 */
struct anyflash_error {
    enum anyflash_status status;
    char message[400];
};

/* "0.1.0"; static storage. */
ANYFLASH_API const char *anyflash_version_text(void);

/* A short English name of `status`; static storage; never NULL. */
ANYFLASH_API const char *anyflash_status_text(enum anyflash_status status);

/* Element types. bf16 is the upper half of an f32; bool is one byte, 0 is false. */
enum anyflash_dtype {
    ANYFLASH_F32 = 1,
    ANYFLASH_F16 = 2,
    ANYFLASH_BF16 = 3,
    ANYFLASH_BOOL = 4
};

/*
 * A view of rows: element (b, h, s, d) is at
 *     data + b * batch_stride + h * head_stride + s * row_stride + d
 * elements. Strides count elements, may be 0 (broadcast) for inputs, and the
 * last dimension has stride 1. Outputs must not overlap themselves, another
 * output or an input, and their strides must nest: each spans all that smaller
 * ones do. Two tensors may interleave in one buffer when their strides are the
 * same. data NULL: the tensor is absent.
 */
struct anyflash_tensor {
    void *data;
    int32_t dtype; /* enum anyflash_dtype */
    int32_t reserved;
    int64_t batch_stride;
    int64_t head_stride;
    int64_t row_stride;
};

/* A contiguous [B, S, H, D] or [B, H, S, D] tensor. */
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

/* Where the diagonal of causal and window masks starts. */
enum anyflash_align {
    ANYFLASH_ALIGN_BOTTOM_RIGHT = 0, /* offset = Sk - Sq of each batch (FlashAttention 2) */
    ANYFLASH_ALIGN_TOP_LEFT = 1,     /* offset = 0 (torch's is_causal) */
    ANYFLASH_ALIGN_OFFSETS = 2       /* offset = causal_offsets[b] (ONNX, caches) */
};

/*
 * One attention problem, forward. Everything that is not set stays zero: start
 * from ANYFLASH_ATTEND_ARGS_INIT. Unset options cost nothing.
 *
 * With p = i + offset for query i of a batch, key j is visible when
 *     j <= p                                   if causal
 *     j >= p - window_left                     if window_left >= 0
 *     j <= p + window_right                    if window_right >= 0
 *     mask(b, h, i, j) is true                 if mask is given
 *     leftpad[b] <= j < used keys of the batch
 * Scores: s = scale * q.k; s = softcap * tanh(s / softcap) if softcap > 0;
 * s += bias(b, h, i, j); s -= slope * |p - j| (ALiBi). A sink adds exp(sink[h])
 * to the row's sum and no value. A row without visible key and without sink
 * gives o = 0 and lse = -infinity.
 *
 * NaN and infinity go where the formulas send them. A key that is not visible
 * is not looked at. A visible key counts also where its weight is 0, as with a
 * bias of -infinity: 0 times a value that is not finite is NaN. To keep out
 * what lies in padding use mask or lengths, not a bias.
 */
struct anyflash_attend_args {
    size_t struct_size; /* sizeof(struct anyflash_attend_args) */

    int64_t batch;     /* B */
    int64_t heads;     /* H, a multiple of kv_heads */
    int64_t kv_heads;  /* G; query head h reads key head h / (H / G) */
    int64_t q_len;     /* Sq, the largest of the batch */
    int64_t k_len;     /* Sk, the largest of the batch; of a paged cache: its capacity */
    int64_t head_dim;  /* D, 1 to 512 */
    int64_t value_dim; /* Dv, 1 to 512 */

    struct anyflash_tensor q; /* [B, H, Sq, D]  f32, f16 or bf16 */
    struct anyflash_tensor k; /* [B, G, Sk, D]  of q's dtype */
    struct anyflash_tensor v; /* [B, G, Sk, Dv] of q's dtype */
    struct anyflash_tensor o; /* [B, H, Sq, Dv] of q's dtype, or f32 */

    float *lse;               /* [B, H, Sq] natural logarithm of the row's sum, or NULL */
    int64_t lse_batch_stride; /* in elements; rows are contiguous */
    int64_t lse_head_stride;

    float scale;                   /* 0: 1 / sqrt(D) */
    float softcap;                 /* 0: none */
    int32_t causal;                /* 0 or 1 */
    int32_t align;                 /* enum anyflash_align, for causal, windows and ALiBi */
    int64_t window_left;           /* keys visible to the left; -1: all. INIT sets -1 */
    int64_t window_right;          /* keys visible to the right; -1: all. INIT sets -1 */
    const int32_t *causal_offsets; /* [B], with ANYFLASH_ALIGN_OFFSETS */

    const float *alibi_slopes; /* [H] or [B, H], or NULL */
    int64_t alibi_batch_stride;
    const float *sinks; /* [H] logits, or NULL */

    struct anyflash_tensor bias; /* [B, H, Sq, Sk] f32, f16 or bf16; strides may be 0 */
    struct anyflash_tensor mask; /* [B, H, Sq, Sk] bool, true: visible; strides may be 0 */

    /*
     * Variable length: sequence b has rows cu_seqlens[b] to cu_seqlens[b + 1] of
     * packed tensors, whose batch_stride is then not used. lse rows are packed
     * alike: [H, total].
     */
    const int32_t *cu_seqlens_q; /* [B + 1], or NULL */
    const int32_t *cu_seqlens_k; /* [B + 1], or NULL */
    int64_t total_q;             /* rows that q, o and lse have, for checking */
    int64_t total_k;             /* rows that k and v have */
    const int32_t *seqused_q;    /* [B] used rows of each sequence, or NULL */
    const int32_t *seqused_k;    /* [B] used keys; without cu_seqlens_k the cache's lengths */
    const int32_t *leftpad_k;    /* [B] first keys that are padding, or NULL */

    /*
     * Caches. cache_batch_idx[b] is the batch of k and v that b reads. With a
     * block table k and v are pages [pages, G, page_size, D] (batch_stride is the
     * page's), and key j of batch b is row j % page_size of page
     * block_table[b * block_table_stride + j / page_size].
     */
    const int32_t *cache_batch_idx; /* [B], or NULL */
    int64_t cache_batch;            /* batches that k and v have, with cache_batch_idx */
    const int32_t *block_table;     /* [B, block_table_stride], or NULL */
    int64_t block_table_stride;
    int64_t page_size;
    int64_t page_count;

    /*
     * Append: before attending, k_new and v_new are written to the cache at rows
     * seqused_k[b] to seqused_k[b] + new_len, and the cache then counts that many
     * more keys. k and v are outputs too.
     */
    struct anyflash_tensor k_new; /* [B, G, new_len, D] */
    struct anyflash_tensor v_new; /* [B, G, new_len, Dv] */
    int64_t new_len;

    /*
     * Rotary embedding of k_new at position seqused_k[b] + i, and of q at
     * position seqused_k[b] + i (causal or windowed) or seqused_k[b].
     * rotary_cos and rotary_sin are [rotary_rows, rotary_dim / 2] f32.
     */
    const float *rotary_cos;
    const float *rotary_sin;
    int64_t rotary_rows;
    int64_t rotary_dim;         /* even, at most D */
    int32_t rotary_interleaved; /* 1: pairs (0,1), (2,3), ...; 0: halves */

    /*
     * Dropout: element (b, h, i, j) is kept when the Philox-4x32-10 word that
     * docs/design/attend.md assigns to it is at least p * 2^32; what is kept is
     * divided by 1 - p.
     */
    float dropout; /* p, 0 <= p < 1 */
    uint64_t dropout_seed;
    uint64_t dropout_offset;
};

/* clang-format off */
#define ANYFLASH_TENSOR_NONE {NULL, 0, 0, 0, 0, 0}
#define ANYFLASH_ATTEND_ARGS_INIT anyflash_attend_args_init()
/* clang-format on */

/* Everything zero but struct_size and the windows, which are -1. */
static inline struct anyflash_attend_args anyflash_attend_args_init(void)
{
    struct anyflash_attend_args args;
    unsigned char *bytes = (unsigned char *)&args;
    size_t i;
    for (i = 0; i < sizeof args; i++)
        bytes[i] = 0;
    args.struct_size = sizeof args;
    args.window_left = -1;
    args.window_right = -1;
    return args;
}

/*
 * The backward of the same problem: `forward` with its o and lse as the forward
 * wrote them; dout given, the others are outputs and overwritten. Gradients of
 * shared key heads are summed over their query heads. Absent outputs (data
 * NULL) are not computed; dq, dk, dv are all needed or none. Caches (paging,
 * append, cache_batch_idx, rotary) have no backward.
 */
struct anyflash_attend_backward_args {
    size_t struct_size;
    const struct anyflash_attend_args *forward;
    struct anyflash_tensor dout;  /* [B, H, Sq, Dv] of o's dtype */
    struct anyflash_tensor dq;    /* as q */
    struct anyflash_tensor dk;    /* as k */
    struct anyflash_tensor dv;    /* as v */
    struct anyflash_tensor dbias; /* [B, H, Sq, Sk] f32, or absent; summed over stride-0 dims */
    float *dsinks;                /* [H], or NULL */
    const float *dlse;            /* [B, H, Sq] gradient of lse, strided as lse, or NULL */
};

/*
 * Where work runs and memory comes from. A context may be used by several
 * threads at a time; calls then share its thread pool in turn. NULL in place of
 * a context means: all usable cores and malloc.
 */
struct anyflash_context;

/* Instruction sets of kernels: those of a level and of the levels before it. */
enum anyflash_cpu_level {
    ANYFLASH_CPU_ALL = 0,  /* all that this processor and this system let us use */
    ANYFLASH_CPU_BASE = 1, /* what every processor of the architecture has */
    ANYFLASH_CPU_NEON = 2,
    ANYFLASH_CPU_AVX2 = 3, /* with FMA and F16C */
    ANYFLASH_CPU_AVX512 = 4,
    ANYFLASH_CPU_AVX512BF16 = 5
};

struct anyflash_context_args {
    size_t struct_size;
    int32_t threads; /* 0: all cores that affinity and cgroup leave us */
    void *(*allocate)(size_t size_bytes, size_t align_bytes, void *user); /* NULL: malloc */
    void (*release)(void *memory, void *user);
    void *user;
    int32_t cpu_level; /* enum anyflash_cpu_level: use no more than this */
    int32_t reserved;  /* 0 */
    /*
     * Threads of the caller's in place of our own: runs body(argument) at least
     * once and at most `workers` times, on as many threads at the same time, and
     * returns when all have ended. NULL: a pool of our own.
     */
    void (*parallel)(void (*body)(void *argument), void *argument, int32_t workers, void *user);
};

ANYFLASH_API enum anyflash_status anyflash_context_new(const struct anyflash_context_args *args,
                                                       struct anyflash_context **context_out,
                                                       struct anyflash_error *err);
ANYFLASH_API void anyflash_context_free(struct anyflash_context *context);

/*
 * Attention. Checks the arguments, then computes; outputs are untouched when
 * the status is not ANYFLASH_OK. Results are the same bits for every number of
 * threads. Fails with ARGUMENT (naming the argument and its value),
 * UNSUPPORTED or NO_MEMORY.
 */
ANYFLASH_API enum anyflash_status anyflash_attend(struct anyflash_context *context,
                                                  const struct anyflash_attend_args *args,
                                                  struct anyflash_error *err);

/*
 * Gradients. As anyflash_attend() in what is checked, in what fails and in
 * being the same bits for every number of threads. Scratch of a thread: at most
 * 2048 rows of q and dout, packed, and dk and dv of its keys in f32. Where
 * B * G is small keys are cut in chunks, each with its dq in f32: together at
 * most 64 MiB, or four times dq where that is more.
 */
ANYFLASH_API enum anyflash_status anyflash_attend_backward(
    struct anyflash_context *context, const struct anyflash_attend_backward_args *args,
    struct anyflash_error *err);

/*
 * Merges `count` partial results over disjoint sets of keys, [rows, Dv] each
 * with its lse [rows], into o and lse: o = sum exp(lse_i - lse) o_i. All f32,
 * contiguous. o and lse may be those of part 0.
 */
ANYFLASH_API enum anyflash_status anyflash_merge(const float *const *parts,
                                                 const float *const *part_lses, int64_t count,
                                                 int64_t rows, int64_t value_dim, float *o,
                                                 float *lse, struct anyflash_error *err);

/* Bytes of scratch that anyflash_attend() will allocate; exact. */
ANYFLASH_API enum anyflash_status anyflash_workspace_bytes(
    struct anyflash_context *context, const struct anyflash_attend_args *args,
    size_t *needed_bytes_out, struct anyflash_error *err);

/*
 * Writes which kernels would run, forward and backward, and why each better one
 * declined, as lines of text into `text` (cut at size_bytes, always
 * NUL-terminated): "many rows: NAME", "few rows: NAME", "backward: NAME",
 * "OPERATION: not NAME: WHY".
 */
ANYFLASH_API enum anyflash_status anyflash_explain(struct anyflash_context *context,
                                                   const struct anyflash_attend_args *args,
                                                   char *text, size_t size_bytes,
                                                   struct anyflash_error *err);

#ifdef __cplusplus
}
#endif

#endif
