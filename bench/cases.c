/*
 * cases.c: the table of shapes, their names, operation and byte counts.
 */
#include "bench/cases.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "kit/base/text.h"

#define AF_CASE(operation, level, dtype, h, g, sq, sk, d, causal, quick)                       \
    {AF_BENCH_##operation,                                                                     \
     ANYFLASH_CPU_##level,                                                                     \
     ANYFLASH_##dtype,                                                                         \
     h,                                                                                        \
     g,                                                                                        \
     sq,                                                                                       \
     sk,                                                                                       \
     d,                                                                                        \
     causal,                                                                                   \
     quick},
static const struct af_bench_case rows[] = {
#include "bench/cases.inc"
};
#undef AF_CASE

const struct af_bench_case *af_bench_cases(size_t *count_out)
{
    *count_out = AF_COUNT(rows);
    return rows;
}

const char *af_bench_operation_text(enum af_bench_operation operation)
{
    static const char *const names[] = {"forward", "backward", "decode", "call", "memory"};
    return names[operation];
}

bool af_bench_can_run(const struct af_bench_case *row)
{
    return row->level == ANYFLASH_CPU_ALL || (af_cpu_features() & AF_CPU_AVX2) != 0;
}

bool af_bench_has_peers(const struct af_bench_case *row)
{
    return row->level == ANYFLASH_CPU_ALL && row->operation != AF_BENCH_MEMORY;
}

const char *af_bench_level_text(const struct af_bench_case *row)
{
    return row->level == ANYFLASH_CPU_ALL ? "all" : "avx2";
}

const char *af_bench_dtype_text(const struct af_bench_case *row)
{
    return row->dtype == ANYFLASH_F32 ? "f32" : "bf16";
}

bool af_bench_reads(const struct af_bench_case *row)
{
    return row->operation == AF_BENCH_DECODE || row->operation == AF_BENCH_CALL;
}

void af_bench_shape(const struct af_bench_case *row, char *text)
{
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

double af_bench_flops(const struct af_bench_case *row)
{
    double each = row->operation == AF_BENCH_BACKWARD ? 10 : 4;
    double all = each * (double)row->heads * (double)row->q_len * (double)row->k_len *
                 (double)row->head_dim;
    return row->causal ? all / 2 : all;
}

double af_bench_kv_bytes(const struct af_bench_case *row)
{
    double element = row->dtype == ANYFLASH_F32 ? 4 : 2;
    return 2 * element * (double)row->kv_heads * (double)row->k_len * (double)row->head_dim;
}
