/*
 * inputs.c: allocates buffers and fills them with hashed numbers.
 * bench/peers/common.py makes the same numbers and must change with this file.
 */
#include "bench/inputs.h"

#include <string.h>

#define ALIGN_BYTES 64
#define PROBE_STEP 2654435761u

/* A 32-bit integer hash (Wellons' lowbias32): neighbours give unrelated numbers. */
static uint32_t hash(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static void fill(const struct af_bench_case *row, enum af_bench_tensor tensor,
                 const struct af_bench_buffer *buffer)
{
    float unit = tensor == AF_BENCH_Q ? 1.0f / 32 : 1.0f / 128;
    uint32_t seed = hash((uint32_t)tensor + 1);
    for (size_t i = 0; i < buffer->count; i++) {
        float number = unit * (float)((int)(hash((uint32_t)i ^ seed) >> 24) - 128);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        if (row->dtype == ANYFLASH_F32)
            ((float *)buffer->data)[i] = number;
        else
            ((uint16_t *)buffer->data)[i] = (uint16_t)(bits >> 16);
    }
}

static enum anyflash_status make(struct af_bench_buffer *buffer, size_t count, size_t element,
                                 struct anyflash_error *err)
{
    buffer->count = count;
    buffer->bytes = count * element;
    buffer->memory = af_mem_alloc(buffer->bytes + ALIGN_BYTES);
    if (buffer->memory == NULL)
        return af_fail_memory(err);
    uintptr_t at =
        ((uintptr_t)buffer->memory + ALIGN_BYTES - 1) & ~(uintptr_t)(ALIGN_BYTES - 1);
    buffer->data = (void *)at;
    memset(buffer->data, 0, buffer->bytes);
    return ANYFLASH_OK;
}

static struct anyflash_tensor view(const struct af_bench_case *row,
                                   const struct af_bench_inputs *inputs,
                                   enum af_bench_tensor tensor, bool is_key)
{
    return anyflash_bhsd(inputs->tensors[tensor].data, (int32_t)row->dtype,
                         is_key ? row->kv_heads : row->heads, is_key ? row->k_len : row->q_len,
                         row->head_dim);
}

static void fill_args(const struct af_bench_case *row, struct af_bench_inputs *inputs)
{
    struct anyflash_attend_args *args = &inputs->args;
    *args = anyflash_attend_args_init();
    args->batch = 1;
    args->heads = row->heads;
    args->kv_heads = row->kv_heads;
    args->q_len = row->q_len;
    args->k_len = row->k_len;
    args->head_dim = args->value_dim = row->head_dim;
    args->causal = row->causal;
    args->q = view(row, inputs, AF_BENCH_Q, false);
    args->k = view(row, inputs, AF_BENCH_K, true);
    args->v = view(row, inputs, AF_BENCH_V, true);
    args->o = view(row, inputs, AF_BENCH_O, false);
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

enum anyflash_status af_bench_inputs_make(const struct af_bench_case *row,
                                          struct af_bench_inputs *inputs,
                                          struct anyflash_error *err)
{
    size_t q_count = (size_t)(row->heads * row->q_len * row->head_dim);
    size_t k_count = (size_t)(row->kv_heads * row->k_len * row->head_dim);
    bool is_backward = row->operation == AF_BENCH_BACKWARD;
    enum anyflash_status status = ANYFLASH_OK;
    *inputs = (struct af_bench_inputs){0};
    for (int i = 0; i < (is_backward ? AF_BENCH_TENSOR_COUNT : AF_BENCH_DOUT); i++) {
        bool is_key =
            i == AF_BENCH_K || i == AF_BENCH_V || i == AF_BENCH_DK || i == AF_BENCH_DV;
        struct af_bench_buffer *buffer = &inputs->tensors[i];
        if (status == ANYFLASH_OK)
            status = make(buffer, is_key ? k_count : q_count,
                          row->dtype == ANYFLASH_F32 ? 4 : 2, err);
        if (status == ANYFLASH_OK && (i <= AF_BENCH_V || i == AF_BENCH_DOUT))
            fill(row, (enum af_bench_tensor)i, buffer);
    }
    if (status == ANYFLASH_OK)
        status = make(&inputs->lse, (size_t)(row->heads * row->q_len), sizeof(float), err);
    if (status == ANYFLASH_OK)
        fill_args(row, inputs);
    return status;
}

void af_bench_inputs_release(struct af_bench_inputs *inputs)
{
    for (int i = 0; i < AF_BENCH_TENSOR_COUNT; i++)
        af_mem_free(inputs->tensors[i].memory);
    af_mem_free(inputs->lse.memory);
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
