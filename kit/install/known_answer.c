/* known_answer.c: computes the problem of known_answer.py with the engine. */
#include "kit/install/known_answer.h"

#include <math.h>
#include <string.h>

#include "anyflash/anyflash.h"

/* The same values as pattern() in known_answer.py. */
static float *pattern(struct af_arena *arena, size_t count, uint64_t seed)
{
    float *values = af_arena_array(arena, count, sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++) {
        uint64_t word = (i + seed * 1000003u) * UINT64_C(2654435761) & UINT32_MAX;
        values[i] = ((float)(word >> 24) - 128.0f) / 64.0f;
    }
    return values;
}

static size_t values_of(int64_t heads, int64_t head_dim)
{
    return (size_t)(AF_KNOWN_ROWS * heads * head_dim);
}

static struct anyflash_tensor view(float *data, int64_t heads, int64_t head_dim)
{
    return anyflash_bshd(data, ANYFLASH_F32, heads, AF_KNOWN_ROWS, head_dim);
}

static enum anyflash_status compute(struct af_known_answer *answer, float *const inputs[3],
                                    float *dout, float *lse, struct anyflash_error *err)
{
    int64_t head_dim = answer->head_dim;
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    args.batch = 1;
    args.heads = AF_KNOWN_HEADS;
    args.kv_heads = AF_KNOWN_KV_HEADS;
    args.q_len = args.k_len = AF_KNOWN_ROWS;
    args.head_dim = args.value_dim = head_dim;
    args.causal = 1;
    args.q = view(inputs[0], AF_KNOWN_HEADS, head_dim);
    args.k = view(inputs[1], AF_KNOWN_KV_HEADS, head_dim);
    args.v = view(inputs[2], AF_KNOWN_KV_HEADS, head_dim);
    args.o = view(answer->o, AF_KNOWN_HEADS, head_dim);
    args.lse = lse;
    args.lse_head_stride = AF_KNOWN_ROWS;
    args.lse_batch_stride = AF_KNOWN_HEADS * AF_KNOWN_ROWS;
    enum anyflash_status status = anyflash_attend(NULL, &args, err);
    if (status != ANYFLASH_OK)
        return status;
    struct anyflash_attend_backward_args back = {.struct_size = sizeof back, .forward = &args};
    back.dout = view(dout, AF_KNOWN_HEADS, head_dim);
    back.dq = view(answer->dq, AF_KNOWN_HEADS, head_dim);
    back.dk = view(answer->dk, AF_KNOWN_KV_HEADS, head_dim);
    back.dv = view(answer->dv, AF_KNOWN_KV_HEADS, head_dim);
    return anyflash_attend_backward(NULL, &back, err);
}

enum anyflash_status af_known_answer_make(int64_t head_dim, struct af_arena *arena,
                                          struct af_known_answer *answer_out,
                                          struct anyflash_error *err)
{
    size_t q_count = values_of(AF_KNOWN_HEADS, head_dim);
    size_t k_count = values_of(AF_KNOWN_KV_HEADS, head_dim);
    float *const inputs[3] = {pattern(arena, q_count, 0), pattern(arena, k_count, 1),
                              pattern(arena, k_count, 2)};
    float *dout = pattern(arena, q_count, 3);
    float *lse = af_arena_array(arena, AF_KNOWN_HEADS * AF_KNOWN_ROWS, sizeof *lse);
    struct af_known_answer answer = {
        .head_dim = head_dim,
        .o = af_arena_array(arena, q_count, sizeof(float)),
        .dq = af_arena_array(arena, q_count, sizeof(float)),
        .dk = af_arena_array(arena, k_count, sizeof(float)),
        .dv = af_arena_array(arena, k_count, sizeof(float)),
    };
    if (arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status = compute(&answer, inputs, dout, lse, err);
    if (status == ANYFLASH_OK)
        *answer_out = answer;
    return status;
}

static float from_bf16(const uint8_t *bytes)
{
    uint32_t bits = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[0] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Decodes padded base64 (RFC 4648, section 4) of exactly `len` bytes; else false. */
static bool decode(const char *base64, uint8_t *bytes, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t text_len = strlen(base64);
    size_t letter_count = (len * 4 + 2) / 3;
    uint32_t bits = 0;
    if (text_len != (len + 2) / 3 * 4 ||
        strspn(base64 + letter_count, "=") != text_len - letter_count)
        return false;
    for (size_t i = 0, done = 0; i < letter_count; i++) {
        const char *letter = strchr(letters, base64[i]);
        if (letter == NULL || base64[i] == '\0')
            return false;
        bits = bits << 6 | (uint32_t)(letter - letters);
        if (i % 4 != 0)
            bytes[done++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return true;
}

static double distance(const uint8_t *bytes, const float *expected, size_t count)
{
    double largest = 0.0;
    double apart = 0.0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)from_bf16(bytes + 2 * i) - (double)expected[i]);
        apart = difference <= apart ? apart : isnan(difference) ? INFINITY : difference;
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return apart / largest;
}

bool af_known_answer_distance(const char *base64, const float *expected, size_t count,
                              double *distance_out)
{
    uint8_t *bytes = af_mem_alloc(2 * count);
    bool is_whole = bytes != NULL && decode(base64, bytes, 2 * count);
    if (is_whole)
        *distance_out = distance(bytes, expected, count);
    af_mem_free(bytes);
    return is_whole;
}
