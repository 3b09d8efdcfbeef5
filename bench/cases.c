/*
 * cases.c: the table of shapes, their names, operation and byte counts.
 */
#include "bench/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cpu.h"

/* clang-format off */
#define AF_CASE(operation, level, dtype, h, g, sq, sk, d, causal, quick)                       \
    {AF_BENCH_##operation, ANYFLASH_CPU_##level, ANYFLASH_##dtype, h, g, sq, sk, d, causal,    \
     quick, 1, AF_BENCH_EQUAL, d, 0, ANYFLASH_##dtype},
#define AF_SERVE(dtype, b, lengths, h, g, sq, sk, d, dv, page, quick)                          \
    {AF_BENCH_SERVING, ANYFLASH_CPU_ALL, ANYFLASH_##dtype, h, g, sq, sk, d, true, quick, b,    \
     AF_BENCH_##lengths, dv, page, ANYFLASH_##dtype},
#define AF_SERVE_F8(b, lengths, h, g, sq, sk, d, dv, page, quick)                              \
    {AF_BENCH_SERVING, ANYFLASH_CPU_ALL, ANYFLASH_BF16, h, g, sq, sk, d, true, quick, b,       \
     AF_BENCH_##lengths, dv, page, ANYFLASH_F8_E4M3},
/* clang-format on */
static const struct af_bench_case rows[] = {
#include "bench/cases.inc"
};
#undef AF_CASE
#undef AF_SERVE
#undef AF_SERVE_F8

const struct af_bench_case *af_bench_cases(size_t *count_out)
{
    *count_out = AF_COUNT(rows);
    return rows;
}

const char *af_bench_operation_text(enum af_bench_operation operation)
{
    static const char *const names[] = {"forward", "backward", "decode", "call", "serving"};
    return names[operation];
}

bool af_bench_can_run(const struct af_bench_case *row)
{
    return row->level == ANYFLASH_CPU_ALL || (af_cpu_features() & AF_CPU_AVX2) != 0;
}

const char *af_bench_level_text(const struct af_bench_case *row)
{
    return row->level == ANYFLASH_CPU_ALL ? "all" : "avx2";
}

const char *af_bench_dtype_text(const struct af_bench_case *row)
{
    return row->key_dtype == ANYFLASH_F8_E4M3 ? "e4m3"
           : row->dtype == ANYFLASH_F32       ? "f32"
                                              : "bf16";
}

bool af_bench_reads(const struct af_bench_case *row)
{
    return row->operation == AF_BENCH_DECODE || row->operation == AF_BENCH_CALL ||
           row->operation == AF_BENCH_SERVING;
}

static void serving_shape(const struct af_bench_case *row, char *text)
{
    static const char *const between[] = {"", "-128", ",128"};
    char values[16] = "", queries[16] = "", pages[16] = "";
    if (row->value_dim != row->head_dim)
        snprintf(values, sizeof values, "/%d", (int)row->value_dim);
    if (row->q_len > 1)
        snprintf(queries, sizeof queries, " Sq%d", (int)row->q_len);
    if (row->page_size > 0)
        snprintf(pages, sizeof pages, " p%d", (int)row->page_size);
    snprintf(text, AF_BENCH_NAME_BYTES, "%s B%d H%d:%d%s Sk%dk%s D%d%s%s",
             af_bench_dtype_text(row), (int)row->batch, (int)row->heads, (int)row->kv_heads,
             queries, (int)(row->k_len / 1024), between[row->lengths], (int)row->head_dim,
             values, pages);
}

void af_bench_shape(const struct af_bench_case *row, char *text)
{
    if (row->operation == AF_BENCH_SERVING) {
        serving_shape(row, text);
        return;
    }
    char heads[24];
    if (row->heads == row->kv_heads)
        snprintf(heads, sizeof heads, "H%d", (int)row->heads);
    else
        snprintf(heads, sizeof heads, "H%d:%d", (int)row->heads, (int)row->kv_heads);
    snprintf(text, AF_BENCH_NAME_BYTES, "%s %s %s%d D%d%s", af_bench_dtype_text(row), heads,
             af_bench_reads(row) ? "Sk" : "S", (int)row->k_len, (int)row->head_dim,
             row->causal ? " causal" : "");
}

/* Whether `word` is one of the words of `text`. */
static bool has_word(const char *text, struct af_span word)
{
    size_t len = 0;
    for (; *text != '\0'; text += len + (text[len] == ' ')) {
        len = strcspn(text, " ");
        if (len == word.len && memcmp(text, word.data, len) == 0)
            return true;
    }
    return false;
}

bool af_bench_matches(const struct af_bench_case *row, const char *words)
{
    char name[AF_BENCH_NAME_BYTES + 24], shape[AF_BENCH_NAME_BYTES];
    af_bench_shape(row, shape);
    snprintf(name, sizeof name, "%s %s %s", af_bench_operation_text(row->operation),
             af_bench_level_text(row), shape);
    for (size_t len = 0; words != NULL && *words != '\0'; words += len) {
        words += strspn(words, " ");
        len = strcspn(words, " ");
        if (len > 0 && !has_word(name, (struct af_span){words, len}))
            return false;
    }
    return true;
}

int64_t af_bench_queries(const struct af_bench_case *row, int64_t index)
{
    return index == 0 ? row->q_len : 1;
}

int64_t af_bench_keys(const struct af_bench_case *row, int64_t index)
{
    if (row->lengths == AF_BENCH_EQUAL || index == 0)
        return row->k_len;
    if (row->lengths == AF_BENCH_ONE_LONG)
        return AF_BENCH_SHORTEST;
    double share = (double)index / (double)(row->batch - 1);
    double ratio = (double)AF_BENCH_SHORTEST / (double)row->k_len;
    return (int64_t)(0.5 + (double)row->k_len * pow(ratio, share));
}

size_t af_bench_key_bytes(const struct af_bench_case *row)
{
    return row->key_dtype == ANYFLASH_F8_E4M3 ? 1 : row->dtype == ANYFLASH_F32 ? 4 : 2;
}

bool af_bench_values_in_keys(const struct af_bench_case *row)
{
    return row->operation == AF_BENCH_SERVING && row->kv_heads == 1 &&
           row->value_dim < row->head_dim;
}

double af_bench_flops(const struct af_bench_case *row)
{
    double each = row->operation == AF_BENCH_BACKWARD ? 10 : 4;
    double pairs = 0;
    for (int64_t b = 0; b < row->batch; b++)
        pairs += (double)af_bench_queries(row, b) * (double)af_bench_keys(row, b);
    if (row->operation == AF_BENCH_SERVING)
        return 2 * (double)row->heads * pairs * (double)(row->head_dim + row->value_dim);
    double all = each * (double)row->heads * pairs * (double)row->head_dim;
    return row->causal ? all / 2 : all;
}

double af_bench_kv_bytes(const struct af_bench_case *row)
{
    double element = (double)af_bench_key_bytes(row);
    double keys = 0;
    for (int64_t b = 0; b < row->batch; b++)
        keys += (double)af_bench_keys(row, b);
    return element * (double)row->kv_heads * keys *
           (double)(row->head_dim + (af_bench_values_in_keys(row) ? 0 : row->value_dim));
}
