/*
 * fuzz_problem.c: turns bytes into arguments of attention, mostly sensible,
 * sometimes absurd. The checker must accept or reject them without reading
 * outside the input. For accepted arguments: rows of o must not overlap each
 * other or anything that is read, and lengths must be within their rows. If all
 * rows are in real memory, the steps before attention and the oracle run too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attn/kernel.h"
#include "engine/attn/prepare.h"
#include "tests/oracle/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define POOL_BYTES 8192
#define BATCH_MAX 4
#define TABLE_MAX 4
#define ROWS_MAX 4096
#define DIM_MAX 8

struct input {
    const uint8_t *at;
    size_t left;
};

/*
 * Each part of the arguments has its own bytes at a fixed offset, so that a
 * mutation of one part leaves the others unchanged. Missing bytes are 0.
 */
enum part { EXTENTS, OPTIONS, TENSORS, INDEXES, BACKWARD, PARTS };
static const size_t part_bytes[PARTS] = {24, 40, 120, 160, 120};

static struct input part_of(const uint8_t *data, size_t size, enum part part)
{
    size_t at = 0;
    for (int before = 0; before < (int)part; before++)
        at += part_bytes[before];
    if (at >= size)
        return (struct input){data, 0};
    return (struct input){data + at,
                          size - at < part_bytes[part] ? size - at : part_bytes[part]};
}

static unsigned char pool[POOL_BYTES] __attribute__((aligned(64)));
static int32_t arrays[16][BATCH_MAX * TABLE_MAX + 1];
static double results[2][ROWS_MAX];
static float turned[ROWS_MAX];

static unsigned take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

/* Mostly [low, high], one time in 32 something else. */
static int64_t number(struct input *in, int64_t low, int64_t high)
{
    static const int64_t absurd[] = {-1,
                                     -2,
                                     0,
                                     1,
                                     3,
                                     512,
                                     513,
                                     4096,
                                     INT32_MAX,
                                     INT32_MIN,
                                     (int64_t)INT32_MAX + 1,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MAX / 4,
                                     INT64_MIN / 4,
                                     (int64_t)1 << 40};
    unsigned byte = take(in);
    if (byte >= 248)
        return absurd[take(in) % AF_COUNT(absurd)];
    return high < low ? low : low + (int64_t)byte % (high - low + 1);
}

static bool chance(struct input *in, unsigned of_256)
{
    unsigned byte = take(in);
    return byte != 0 && byte <= of_256;
}

/* Somewhere in the pool; rarely unaligned or NULL. */
static void *place(struct input *in)
{
    unsigned at = take(in) * 32u;
    if (chance(in, 8))
        return NULL;
    if (chance(in, 8))
        at += 1 + take(in) % 3;
    return pool + at;
}

static struct anyflash_tensor tensor(struct input *in, int32_t dtype, int64_t heads,
                                     int64_t rows, int64_t dim)
{
    struct anyflash_tensor t = chance(in, 128) ? anyflash_bshd(place(in), dtype, 1, 1, dim)
                                               : anyflash_bhsd(place(in), dtype, 1, 1, dim);
    bool bshd = chance(in, 128);
    t.head_stride =
        number(in, 0, 2) == 0 ? (bshd ? dim : rows % 64 * dim) : number(in, -16, 64);
    t.row_stride =
        number(in, 0, 2) == 0 ? (bshd ? heads % 64 * dim : dim) : number(in, -16, 64);
    t.batch_stride =
        number(in, 0, 2) == 0 ? heads % 64 * (rows % 64) * dim : number(in, -64, 512);
    if (chance(in, 8))
        t.dtype = (int32_t)number(in, 0, 7);
    if (chance(in, 4))
        t.reserved = 1;
    return t;
}

static const int32_t *indexes(struct input *in, size_t which, size_t count, int64_t high,
                              bool rising)
{
    int64_t sum = 0;
    for (size_t n = 0; n < count; n++) {
        int64_t value = number(in, 0, high);
        sum = rising && n > 0 && value >= 0 && value <= high ? sum + value : value;
        arrays[which][n] = (int32_t)sum;
        sum = arrays[which][n];
    }
    return arrays[which];
}

static void fill_extents(struct input *in, struct anyflash_attend_args *a)
{
    a->batch = number(in, 0, BATCH_MAX);
    a->kv_heads = number(in, 1, 3);
    a->heads = chance(in, 128) ? a->kv_heads : number(in, 1, 6);
    a->q_len = number(in, 0, 5);
    a->k_len = number(in, 0, 7);
    a->head_dim = number(in, 1, DIM_MAX);
    a->value_dim = number(in, 1, DIM_MAX);
}

static void fill_tensors(struct input *in, struct anyflash_attend_args *a)
{
    int32_t dtype = (int32_t)number(in, ANYFLASH_F32, ANYFLASH_BF16);
    int64_t dim = a->head_dim % 64, value_dim = a->value_dim % 64;
    a->q = tensor(in, dtype, a->heads, a->q_len, dim);
    int32_t of_k =
        chance(in, 48) ? (int32_t)number(in, ANYFLASH_F8_E4M3, ANYFLASH_F8_E5M2) : dtype;
    a->k = tensor(in, of_k, a->kv_heads, a->k_len, dim);
    a->v = tensor(in, of_k, a->kv_heads, a->k_len, value_dim);
    a->o = tensor(in, chance(in, 64) ? ANYFLASH_F32 : dtype, a->heads, a->q_len, value_dim);
    if (chance(in, 40))
        a->bias = tensor(in, (int32_t)number(in, 1, 3), a->heads, a->q_len, a->k_len % 64);
    if (chance(in, 40))
        a->mask = tensor(in, ANYFLASH_BOOL, a->heads, a->q_len, a->k_len % 64);
    if (chance(in, 128)) {
        a->lse = place(in);
        a->lse_head_stride = number(in, 0, 64);
        a->lse_batch_stride = number(in, 0, 64);
    }
}

static void fill_options(struct input *in, struct anyflash_attend_args *a)
{
    static const float factors[] = {0, 1, 0.5f, -1, 30};
    a->causal = (int32_t)number(in, 0, 1);
    a->align = (int32_t)number(in, 0, 1);
    a->window_left = number(in, -1, 4);
    a->window_right = number(in, -1, 4);
    a->scale = factors[take(in) % AF_COUNT(factors)];
    a->softcap = factors[take(in) % 3];
    a->dropout = chance(in, 32) ? 0.5f : 0;
    if (chance(in, 16))
        memcpy(&a->scale, pool, sizeof a->scale);
    if (chance(in, 16) && a->heads < 16) {
        a->alibi_slopes = place(in);
        a->alibi_batch_stride = number(in, 0, 8);
    }
    if (chance(in, 16) && a->heads < 16)
        a->sinks = (const float *)(const void *)arrays[15];
}

/* Arrays have the length that the interface demands, so only with a batch that fits. */
static void fill_indexes(struct input *in, struct anyflash_attend_args *a)
{
    if (a->batch < 0 || a->batch > BATCH_MAX)
        return;
    size_t batch = (size_t)a->batch;
    unsigned set = take(in) | take(in) << 8;
    if (set & 1u)
        a->cu_seqlens_q = indexes(in, 0, batch + 1, a->q_len % 8, true);
    if (set & 2u)
        a->cu_seqlens_k = indexes(in, 1, batch + 1, a->k_len % 8, true);
    a->total_q = number(in, 4, 20);
    a->total_k = number(in, 4, 24);
    if (set & 4u)
        a->seqused_q = indexes(in, 2, batch, 5, false);
    if (set & 8u)
        a->seqused_k = indexes(in, 3, batch, 6, false);
    if (set & 16u)
        a->leftpad_k = indexes(in, 4, batch, 4, false);
    if (set & 32u)
        a->cache_batch_idx = indexes(in, 5, batch, 4, false);
    a->cache_batch = number(in, 1, 5);
    if ((set & 64u) && a->align == ANYFLASH_ALIGN_TOP_LEFT) {
        a->align = ANYFLASH_ALIGN_OFFSETS;
        a->causal_offsets = indexes(in, 6, batch, 6, false);
    }
    if (set & 128u) {
        a->block_table_stride = number(in, 0, TABLE_MAX);
        if (a->block_table_stride <= TABLE_MAX)
            a->block_table = indexes(in, 7, BATCH_MAX * TABLE_MAX, 5, false);
        a->page_size = number(in, 1, 4);
        a->page_count = number(in, 1, 6);
    }
    if (set & 256u) {
        a->new_len = number(in, 0, 3);
        a->k_new = tensor(in, a->q.dtype, a->kv_heads, a->new_len, a->head_dim % 64);
        a->v_new = tensor(in, a->q.dtype, a->kv_heads, a->new_len, a->value_dim % 64);
    }
    if (set & 512u) {
        a->rotary_cos = (const float *)(const void *)pool;
        a->rotary_sin = (const float *)(const void *)pool;
        a->rotary_rows = number(in, 8, 16);
        a->rotary_dim = number(in, 0, DIM_MAX);
        a->rotary_interleaved = (int32_t)number(in, 0, 1);
    }
}

/* Scales of fp8 keys and values, rarely a bad one; only with pages that have scales. */
static void fill_scales(struct input *in, struct anyflash_attend_args *a)
{
    static float scales[8 * 8];
    static const float bad[] = {0, -1, 1e30f};
    if (!chance(in, 64) || a->kv_heads > 8 || a->page_count > 8 || a->batch > 8)
        return;
    for (size_t n = 0; n < AF_COUNT(scales); n++)
        scales[n] = 2;
    if (chance(in, 16))
        scales[take(in) % AF_COUNT(scales)] = bad[take(in) % AF_COUNT(bad)];
    a->k_scales = scales;
    a->v_scales = chance(in, 64) ? NULL : scales;
    a->scale_stride = take(in) % 9;
    a->scale_per_page = (int32_t)number(in, 0, 1);
}

static void promise(bool kept)
{
    if (!kept)
        abort();
}

static bool in_pool(const void *at, int64_t bytes)
{
    return (uintptr_t)at >= (uintptr_t)pool &&
           (uintptr_t)at + (uintptr_t)bytes <= (uintptr_t)pool + POOL_BYTES;
}

static int compare_rows(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* No two rows of o share a byte, nor one with a row of q. Returns whether all are real. */
static bool check_queries(const struct af_problem *problem)
{
    static uintptr_t rows[ROWS_MAX];
    const struct anyflash_attend_args *a = &problem->a;
    size_t o_bytes = (size_t)a->value_dim * af_dtype_bytes(a->o.dtype);
    size_t q_bytes = (size_t)a->head_dim * problem->element_bytes, count = 0;
    bool real = true;
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(problem, b);
        promise(s.q_count >= 0 && s.q_count <= s.q_full && s.q_full <= a->q_len);
        for (int64_t n = 0; n < a->heads * s.q_full; n++) {
            int64_t h = n / s.q_full, i = n % s.q_full;
            char *o = af_row_of_query(&a->o, af_dtype_bytes(a->o.dtype), &s, h, i);
            char *q = af_row_of_query(&a->q, problem->element_bytes, &s, h, i);
            rows[count++] = (uintptr_t)o;
            real = real && in_pool(o, (int64_t)o_bytes) && in_pool(q, (int64_t)q_bytes);
            promise((uintptr_t)q + q_bytes <= (uintptr_t)o ||
                    (uintptr_t)o + o_bytes <= (uintptr_t)q);
            if (a->lse != NULL)
                real = real && in_pool(af_lse_at(problem, &s, h, i), sizeof(float));
            if (a->bias.data != NULL)
                real = real && in_pool(af_row_of_tensor(&a->bias, af_dtype_bytes(a->bias.dtype),
                                                        b, h, i),
                                       a->k_len * 4);
            if (a->mask.data != NULL)
                real = real && in_pool(af_row_of_tensor(&a->mask, 1, b, h, i), a->k_len);
        }
    }
    qsort(rows, count, sizeof rows[0], compare_rows);
    for (size_t n = 1; n < count; n++)
        promise(rows[n] - rows[n - 1] >= o_bytes);
    return real;
}

static bool keys_are_real(const struct af_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->a;
    bool real = true;
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(problem, b);
        promise(s.k_first >= 0 && s.k_first <= s.k_count && s.k_count <= a->k_len);
        for (int64_t n = 0; n < a->kv_heads * s.k_count; n++) {
            int64_t g = n % a->kv_heads, j = n / a->kv_heads;
            real = real && in_pool(af_row_of_key(problem, &a->k, &s, g, j), DIM_MAX * 4) &&
                   in_pool(af_row_of_key(problem, &a->v, &s, g, j), DIM_MAX * 4);
        }
        for (int64_t n = 0; n < a->kv_heads * a->new_len; n++) {
            int64_t g = n % a->kv_heads, i = n / a->kv_heads;
            size_t bytes = problem->element_bytes;
            real = real && in_pool(af_row_of_tensor(&a->k_new, bytes, b, g, i), DIM_MAX * 4) &&
                   in_pool(af_row_of_tensor(&a->v_new, bytes, b, g, i), DIM_MAX * 4);
        }
        if (a->alibi_slopes != NULL)
            real = real && in_pool(a->alibi_slopes + b * a->alibi_batch_stride, a->heads * 4);
    }
    return real;
}

/* Rows of `t`, one per query; false when they leave the pool. */
static bool queries_in_pool(const struct af_problem *problem, const struct anyflash_tensor *t,
                            int64_t dim)
{
    bool real = true;
    for (int64_t b = 0; b < problem->a.batch; b++) {
        struct af_sequence s = af_problem_sequence(problem, b);
        for (int64_t n = 0; n < problem->a.heads * s.q_count; n++)
            real = real && in_pool(af_row_of_query(t, af_dtype_bytes(t->dtype), &s,
                                                   n / s.q_count, n % s.q_count),
                                   dim * 4);
    }
    return real;
}

/* Gradients of an accepted forward; runs the oracle if dout is in real memory. */
static void check_backward(struct input *in, const struct anyflash_attend_args *forward,
                           bool small)
{
    static double results_of[3][ROWS_MAX];
    const struct anyflash_attend_args *a = forward;
    struct anyflash_attend_backward_args args = {.struct_size = sizeof args, .forward = a};
    struct af_backward_problem problem;
    struct anyflash_error err = {0};
    int64_t dim = a->head_dim, value_dim = a->value_dim;
    args.dout = tensor(in, a->o.dtype, a->heads, a->q_len, value_dim);
    args.dq = tensor(in, a->q.dtype, a->heads, a->q_len, dim);
    args.dk = tensor(in, a->q.dtype, a->kv_heads, a->k_len, dim);
    args.dv = tensor(in, a->q.dtype, a->kv_heads, a->k_len, value_dim);
    if (chance(in, 64))
        args.dbias = tensor(in, ANYFLASH_F32, a->heads, a->q_len, a->k_len % 64);
    if (chance(in, 32))
        args.dsinks = place(in);
    enum anyflash_status status = af_backward_problem_init(&problem, &args, &err);
    promise(status == ANYFLASH_OK || (err.status == status && err.message[0] != '\0'));
    if (status != ANYFLASH_OK || !small ||
        !queries_in_pool(&problem.forward, &problem.dout, value_dim))
        return;
    struct af_gradients gradients = {results_of[0], results_of[1], results_of[2], NULL, NULL};
    promise(af_reference_backward(&problem.forward, &problem.dout, NULL, &gradients, NULL) ==
            ANYFLASH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input extents = part_of(data, size, EXTENTS), options = part_of(data, size, OPTIONS),
                 tensors = part_of(data, size, TENSORS), lists = part_of(data, size, INDEXES),
                 gradients = part_of(data, size, BACKWARD);
    static union { /* as long as the longest struct_size that is accepted */
        struct anyflash_attend_args a;
        unsigned char bytes[4096];
    } given;
    struct anyflash_attend_args a = ANYFLASH_ATTEND_ARGS_INIT;
    struct anyflash_error err = {0};
    struct af_problem problem;
    memset(pool, 0, sizeof pool);
    memset(arrays, 0, sizeof arrays);
    fill_extents(&extents, &a);
    fill_tensors(&tensors, &a);
    fill_options(&options, &a);
    fill_indexes(&lists, &a);
    fill_scales(&options, &a);
    if (chance(&options, 4))
        a.struct_size = (size_t)number(&options, 0, sizeof a + 16);
    given.a = a;
    enum anyflash_status status = af_problem_init(&problem, &given.a, &err);
    if (status != ANYFLASH_OK) {
        promise(err.status == status && err.message[0] != '\0');
        return 0;
    }
    bool small = a.batch <= BATCH_MAX && a.heads <= 8 && a.q_len <= 8 && a.k_len <= 8 &&
                 a.head_dim <= DIM_MAX && a.value_dim <= DIM_MAX && a.new_len <= 8;
    bool real = small && check_queries(&problem) && keys_are_real(&problem);
    check_backward(&gradients, &given.a, real);
    if (real && af_prepare_bytes(&problem) <= sizeof turned) {
        af_prepare(&problem, turned);
        promise(af_reference_forward(&problem, results[0], results[1], NULL) == ANYFLASH_OK);
    }
    return 0;
}
