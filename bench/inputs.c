/*
 * inputs.c: allocates buffers and fills them with hashed numbers.
 * bench/peers/common.py makes the same numbers and must change with this file.
 */
#include "bench/inputs.h"

#include <string.h>

#define ALIGN_BYTES 64
#define PROBE_STEP 2654435761u
#define SIGN_F8 0x80u
#define ONE_F8 0x38u /* 1 as e4m3 */

/* A 32-bit integer hash (Wellons' lowbias32): neighbours give unrelated numbers. */
static uint32_t hash(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    return b == 0 ? a : divisor(b, a % b);
}

static bool is_key(enum af_bench_tensor tensor)
{
    return tensor == AF_BENCH_K || tensor == AF_BENCH_V;
}

static int32_t dtype_of(const struct af_bench_case *row, enum af_bench_tensor tensor)
{
    return (int32_t)(is_key(tensor) ? row->key_dtype : row->dtype);
}

static size_t element_bytes(const struct af_bench_case *row, enum af_bench_tensor tensor)
{
    return is_key(tensor) ? af_bench_key_bytes(row) : row->dtype == ANYFLASH_F32 ? 4 : 2;
}

static void fill(const struct af_bench_case *row, enum af_bench_tensor tensor,
                 const struct af_bench_buffer *buffer)
{
    float unit = tensor == AF_BENCH_Q ? 1.0f / 32 : 1.0f / 128;
    uint32_t seed = hash((uint32_t)tensor + 1);
    for (size_t i = 0; i < buffer->count; i++) {
        const uint32_t random = hash((uint32_t)i ^ seed);
        float number = unit * (float)((int)(random >> 24) - 128);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        if (dtype_of(row, tensor) == ANYFLASH_F8_E4M3)
            ((uint8_t *)buffer->data)[i] =
                (uint8_t)((random >> 24 & SIGN_F8) | random % ONE_F8);
        else if (row->dtype == ANYFLASH_F32)
            ((float *)buffer->data)[i] = number;
        else
            ((uint16_t *)buffer->data)[i] = (uint16_t)(bits >> 16);
    }
}

static void make(struct af_bench_buffer *buffer, size_t count, size_t element)
{
    buffer->count = count;
    buffer->bytes = count * element;
    buffer->memory = af_memory_alloc(buffer->bytes + ALIGN_BYTES);
    uintptr_t at =
        ((uintptr_t)buffer->memory + ALIGN_BYTES - 1) & ~(uintptr_t)(ALIGN_BYTES - 1);
    buffer->data = (void *)at;
    memset(buffer->data, 0, buffer->bytes);
}

static struct anyflash_tensor view(const struct af_bench_case *row,
                                   const struct af_bench_inputs *inputs,
                                   enum af_bench_tensor tensor, bool of_keys)
{
    return anyflash_bhsd(inputs->tensors[tensor].data, dtype_of(row, tensor),
                         of_keys ? row->kv_heads : row->heads,
                         of_keys ? row->k_len : row->q_len, row->head_dim);
}

/* Keys of sequence `index` including unused ones of its last page. */
static int64_t key_room(const struct af_bench_case *row, int64_t index)
{
    int64_t keys = af_bench_keys(row, index), page = row->page_size;
    return page == 0 ? keys : (keys + page - 1) / page * page;
}

static int64_t total_queries(const struct af_bench_case *row)
{
    return row->q_len + row->batch - 1;
}

static int64_t total_keys(const struct af_bench_case *row)
{
    int64_t total = 0;
    for (int64_t b = 0; b < row->batch; b++)
        total += key_room(row, b);
    return total;
}

/* Elements of a tensor; 0 for values that are a part of the keys. */
static size_t tensor_count(const struct af_bench_case *row, enum af_bench_tensor tensor)
{
    const int64_t k_count = row->kv_heads * total_keys(row);
    const int64_t q_count = row->heads * total_queries(row);
    switch (tensor) {
    case AF_BENCH_K:
    case AF_BENCH_DK:
        return (size_t)(k_count * row->head_dim);
    case AF_BENCH_V:
    case AF_BENCH_DV:
        return af_bench_values_in_keys(row) ? 0 : (size_t)(k_count * row->value_dim);
    case AF_BENCH_Q:
    case AF_BENCH_DQ:
        return (size_t)(q_count * row->head_dim);
    default:
        return (size_t)(q_count * row->value_dim);
    }
}

/* The block table [B, stride] of pages in random order. */
static void fill_table(const struct af_bench_case *row, int64_t stride, int32_t *table)
{
    uint32_t used = 0, pages = (uint32_t)(total_keys(row) / row->page_size);
    uint32_t step = PROBE_STEP % pages;
    while (divisor(step, pages) != 1)
        step++;
    for (int64_t b = 0; b < row->batch; b++)
        for (int64_t t = 0; t * row->page_size < key_room(row, b); t++, used++)
            table[b * stride + t] = (int32_t)((uint64_t)used * step % pages);
}

static void fill_serving(const struct af_bench_case *row, struct af_bench_inputs *inputs)
{
    struct anyflash_attend_args *args = &inputs->args;
    const int64_t stride = row->page_size > 0 ? key_room(row, 0) / row->page_size : 0;
    const int64_t run = row->page_size > 0 ? row->page_size : total_keys(row);
    int32_t *cu_q = inputs->indexes.data, *of_keys = cu_q + row->batch + 1;
    for (int64_t b = 0; b < row->batch; b++)
        cu_q[b + 1] = cu_q[b] + (int32_t)af_bench_queries(row, b);
    args->cu_seqlens_q = cu_q;
    args->total_q = total_queries(row);
    args->q = anyflash_bshd(args->q.data, args->q.dtype, row->heads, 0, row->head_dim);
    args->o = anyflash_bshd(args->o.data, args->o.dtype, row->heads, 0, row->value_dim);
    args->k = anyflash_bhsd(args->k.data, args->k.dtype, row->kv_heads, run, row->head_dim);
    args->v = af_bench_values_in_keys(row) ? args->k
                                           : anyflash_bhsd(args->v.data, args->v.dtype,
                                                           row->kv_heads, run, row->value_dim);
    if (row->page_size == 0) {
        for (int64_t b = 0; b < row->batch; b++)
            of_keys[b + 1] = of_keys[b] + (int32_t)af_bench_keys(row, b);
        args->cu_seqlens_k = of_keys;
        args->total_k = total_keys(row);
        return;
    }
    for (int64_t b = 0; b < row->batch; b++)
        of_keys[b] = (int32_t)af_bench_keys(row, b);
    args->seqused_k = of_keys;
    args->block_table = of_keys + row->batch;
    args->block_table_stride = stride;
    args->page_size = row->page_size;
    args->page_count = total_keys(row) / row->page_size;
    fill_table(row, stride, of_keys + row->batch);
}

static void fill_args(const struct af_bench_case *row, struct af_bench_inputs *inputs)
{
    struct anyflash_attend_args *args = &inputs->args;
    *args = anyflash_attend_args_init();
    args->batch = row->batch;
    args->heads = row->heads;
    args->kv_heads = row->kv_heads;
    args->q_len = row->q_len;
    args->k_len = row->k_len;
    args->head_dim = row->head_dim;
    args->value_dim = row->value_dim;
    args->causal = row->causal;
    args->q = view(row, inputs, AF_BENCH_Q, false);
    args->k = view(row, inputs, AF_BENCH_K, true);
    args->v = view(row, inputs, AF_BENCH_V, true);
    args->o = view(row, inputs, AF_BENCH_O, false);
    if (row->operation == AF_BENCH_SERVING)
        fill_serving(row, inputs);
    if (row->operation != AF_BENCH_BACKWARD)
        return;
    args->lse = inputs->lse.data;
    args->lse_head_stride = row->q_len;
    args->lse_batch_stride = row->heads * row->q_len;
    inputs->backward = (struct anyflash_attend_backward_args){
        .struct_size = sizeof inputs->backward,
        .forward = args,
        .dout = view(row, inputs, AF_BENCH_DOUT, false),
        .dq = view(row, inputs, AF_BENCH_DQ, false),
        .dk = view(row, inputs, AF_BENCH_DK, true),
        .dv = view(row, inputs, AF_BENCH_DV, true),
    };
}

void af_bench_inputs_make(const struct af_bench_case *row, struct af_bench_inputs *inputs)
{
    const int64_t longest_table = row->page_size > 0 ? key_room(row, 0) / row->page_size : 0;
    bool is_backward = row->operation == AF_BENCH_BACKWARD;
    *inputs = (struct af_bench_inputs){0};
    for (int i = 0; i < (is_backward ? AF_BENCH_TENSOR_COUNT : AF_BENCH_DOUT); i++) {
        struct af_bench_buffer *buffer = &inputs->tensors[i];
        make(buffer, tensor_count(row, (enum af_bench_tensor)i),
             element_bytes(row, (enum af_bench_tensor)i));
        if (i <= AF_BENCH_V || i == AF_BENCH_DOUT)
            fill(row, (enum af_bench_tensor)i, buffer);
    }
    make(&inputs->lse, (size_t)(row->heads * total_queries(row)), sizeof(float));
    if (row->operation == AF_BENCH_SERVING)
        make(&inputs->indexes, (size_t)(2 * (row->batch + 1) + row->batch * longest_table),
             sizeof(int32_t));
    fill_args(row, inputs);
}

void af_bench_inputs_release(struct af_bench_inputs *inputs)
{
    for (int i = 0; i < AF_BENCH_TENSOR_COUNT; i++)
        af_memory_free(inputs->tensors[i].memory);
    af_memory_free(inputs->lse.memory);
    af_memory_free(inputs->indexes.memory);
    *inputs = (struct af_bench_inputs){0};
}

void af_bench_probe(const struct af_bench_case *row, const struct af_bench_buffer *buffer,
                    float *values)
{
    for (uint32_t i = 0; i < AF_BENCH_PROBES; i++) {
        size_t at = (uint32_t)(i * PROBE_STEP) % buffer->count;
        uint32_t bits = 0;
        if (row->dtype == ANYFLASH_F32)
            values[i] = ((const float *)buffer->data)[at];
        else {
            bits = (uint32_t)((const uint16_t *)buffer->data)[at] << 16;
            memcpy(&values[i], &bits, sizeof bits);
        }
    }
}
