/*
 * textbook.c: the three steps of textbook attention, each spread over the threads by
 * blocks of queries.
 */
#include "bench/textbook.h"

#include <string.h>

#include "engine/base/cpu.h"
#include "engine/base/instructions.h"
#include "engine/base/mem.h"

#define PANEL 32  /* adjacent columns of a product's right factor */
#define BLOCK 256 /* queries of a piece of work, and rows of a panel that stay in the cache */

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/*
 * e^x for x <= 0, within a few units in the last place of 1; the compiler makes vectors of
 * it. 2^t is 2^n of its nearest integer n, which the addition of 1.5 * 2^23 leaves in the
 * low bits, and the Taylor series of the rest.
 */
static inline __attribute__((always_inline)) float exp_of(float x)
{
    const float shift = 12582912.0f;
    const float t = (x < -87 ? -87 : x) * 1.44269504f;
    const float shifted = t + shift, rest = t - (shifted - shift);
    float power = 1.54035304e-4f;
    int32_t bits, n;
    power = power * rest + 1.33335581e-3f;
    power = power * rest + 9.61812911e-3f;
    power = power * rest + 5.55041087e-2f;
    power = power * rest + 2.40226507e-1f;
    power = power * rest + 6.93147181e-1f;
    power = power * rest + 1;
    memcpy(&n, &shifted, sizeof n);
    memcpy(&bits, &power, sizeof bits);
    bits += (int32_t)((uint32_t)n << 23);
    memcpy(&power, &bits, sizeof power);
    return power;
}

#define NAME(noun) noun##_base
#define LANES 4
#define ROWS 1
#include "bench/textbook_loops.inc"

#ifdef AF_HAVE_AVX512
AF_INSTRUCTIONS_AVX2
#define NAME(noun) noun##_avx2
#define LANES 8
#define ROWS 2
#include "bench/textbook_loops.inc"
AF_INSTRUCTIONS_END

AF_INSTRUCTIONS_AVX512
#define NAME(noun) noun##_avx512
#define LANES 16
#define ROWS 8
#include "bench/textbook_loops.inc"
AF_INSTRUCTIONS_END
#endif

/* The loops of one instruction set. */
struct loops {
    const char *name;
    void (*multiply)(int64_t depth, float scale, bool add, const float *a, int64_t a_stride,
                     const float *b, float *c, int64_t c_stride);
    void (*softmax)(float *row, int64_t columns);
};

static struct loops choose_loops(void)
{
#ifdef AF_HAVE_AVX512
    if ((af_cpu_features() & AF_CPU_AVX512) != 0)
        return (struct loops){"avx512", multiply_avx512, softmax_avx512};
    if ((af_cpu_features() & AF_CPU_AVX2) != 0)
        return (struct loops){"avx2", multiply_avx2, softmax_avx2};
#endif
    return (struct loops){"baseline", multiply_base, softmax_base};
}

const char *af_textbook_instructions(void)
{
    return choose_loops().name;
}

/* Numbers in q, k, v or o. */
static int64_t tensor_count(const struct af_textbook *textbook)
{
    return textbook->heads * textbook->length * textbook->head_dim;
}

double af_textbook_bytes(const struct af_textbook *textbook)
{
    const double rows = (double)textbook->heads * (double)textbook->length;
    return (rows * (double)textbook->length + 2 * (double)tensor_count(textbook)) *
           sizeof(float);
}

static float *new_floats(int64_t count)
{
    float *floats = af_mem_alloc((size_t)count * sizeof *floats);
    if (floats != NULL)
        memset(floats, 0, (size_t)count * sizeof *floats);
    return floats;
}

enum anyflash_status af_textbook_allocate(struct af_textbook *textbook,
                                          struct anyflash_error *err)
{
    textbook->scores = new_floats(textbook->heads * textbook->length * textbook->length);
    textbook->packed = new_floats(2 * tensor_count(textbook));
    return textbook->scores != NULL && textbook->packed != NULL ? ANYFLASH_OK
                                                                : af_fail_memory(err);
}

void af_textbook_release(struct af_textbook *textbook)
{
    af_mem_free(textbook->packed);
    af_mem_free(textbook->scores);
    textbook->packed = textbook->scores = NULL;
}

/* Packs k and v of a head in panels: keys [N/PANEL, D, PANEL], values [D/PANEL, N, PANEL]. */
static void pack_head(void *context, struct af_piece piece)
{
    const struct af_textbook *textbook = context;
    const int64_t length = textbook->length, dim = textbook->head_dim;
    const int64_t at = piece.index * length * dim;
    float *keys = textbook->packed + at, *values = keys + tensor_count(textbook);
    for (int64_t n = 0; n < length; n++)
        for (int64_t d = 0; d < dim; d++) {
            const int64_t key = (n / PANEL * dim + d) * PANEL + n % PANEL;
            const int64_t value = (d / PANEL * length + n) * PANEL + d % PANEL;
            keys[key] = textbook->k[at + n * dim + d];
            values[value] = textbook->v[at + n * dim + d];
        }
}

/* c [BLOCK, columns] = scale * a [BLOCK, depth] * b, which is packed. */
static void multiply(int64_t columns, int64_t depth, float scale, const float *a,
                     const float *b, float *c)
{
    const struct loops loops = choose_loops();
    for (int64_t i = 0; i < BLOCK; i += PANEL)
        for (int64_t d = 0; d < depth; d += BLOCK)
            for (int64_t j = 0; j < columns; j += PANEL)
                loops.multiply(depth - d < BLOCK ? depth - d : BLOCK, scale, d > 0,
                               a + i * depth + d, depth, b + j * depth + d * PANEL,
                               c + i * columns + j, columns);
}

/* The first number of the head of row `row`, of all heads' rows, in k and v. */
static int64_t head_at(const struct af_textbook *textbook, int64_t row)
{
    return row / textbook->length * textbook->length * textbook->head_dim;
}

static void compute_scores(void *context, struct af_piece piece)
{
    const struct af_textbook *textbook = context;
    const int64_t length = textbook->length, dim = textbook->head_dim;
    const int64_t row = piece.index * BLOCK;
    multiply(length, dim, 1 / sqrtf((float)dim), textbook->q + row * dim,
             textbook->packed + head_at(textbook, row), textbook->scores + row * length);
}

static void compute_softmax(void *context, struct af_piece piece)
{
    const struct af_textbook *textbook = context;
    float *scores = textbook->scores + piece.index * BLOCK * textbook->length;
    for (int64_t i = 0; i < BLOCK; i++)
        choose_loops().softmax(scores + i * textbook->length, textbook->length);
}

static void compute_output(void *context, struct af_piece piece)
{
    const struct af_textbook *textbook = context;
    const int64_t length = textbook->length, dim = textbook->head_dim;
    const int64_t row = piece.index * BLOCK;
    const float *values = textbook->packed + tensor_count(textbook);
    multiply(dim, length, 1, textbook->scores + row * length, values + head_at(textbook, row),
             textbook->o + row * dim);
}

void af_textbook_run(struct af_textbook *textbook, struct af_pool *pool)
{
    const int64_t blocks = textbook->heads * textbook->length / BLOCK;
    af_pool_run(pool, textbook->heads, 1, pack_head, textbook);
    af_pool_run(pool, blocks, 1, compute_scores, textbook);
    af_pool_run(pool, blocks, 1, compute_softmax, textbook);
    af_pool_run(pool, blocks, 1, compute_output, textbook);
}
