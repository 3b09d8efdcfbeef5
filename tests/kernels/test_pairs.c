/*
 * test_pairs.c: a covering array for the forward kernels (pairs.h), at every level of this
 * machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_check.h"
#include "pair_case.h"

#ifdef AF_COUNT_GUARDS

#include "guards.h"

#define OF_SCORES (BIT(SOFTCAP) | BIT(ALIBI) | BIT(MASK) | BIT(BIAS))

/*
 * Decode kernels have no dropout, nor have those of pairs of bf16. A cache has no pages. Groups
 * have more than one row. Keys of fp8 are never read in place.
 */
static const struct never_met never[] = {
    BOTH("forward_plan.c", "split.rows", BIT(DROPOUT)),
    BOTH("forward_plan.c", "decode->suits", BIT(DROPOUT)),
    {"forward_plan.c", "decode->suits", GUARD_FALSE, BIT(FP8), NULL},
    {"forward_plan.c", "split.rows > 1", GUARD_FALSE, BIT(GROUP), NULL},
    BOTH("decode_load_template.h", "", BIT(DROPOUT)),
    {"decode_load_template.h", "a->block_table", GUARD_FALSE, BIT(CACHE), NULL},
    {"decode_load_template.h", "!paged", GUARD_FALSE, BIT(CACHE), NULL},
    {"decode_load_template.h", "tensor->dtype ==", GUARD_TRUE, BIT(FP8), NULL},
    BOTH("decode_template.h", "", BIT(DROPOUT)),
    BOTH("decode_template.h", "a->value_dim", BIT(MASK)),
    BOTH("decode_block_template.h", "", BIT(DROPOUT)),
    BOTH("decode_block_template.h", "AF_FN(has_short)", BIT(FP8)),
    {"decode_block_template.h", "all_whole", GUARD_TRUE, BIT(MASK), NULL},
    {"decode_block_template.h", "problem->a.mask", GUARD_TRUE, BIT(MASK), NULL},
    BOTH("decode_fast_template.h", "", BIT(DROPOUT)),
    BOTH("decode_fast_template.h", "keys->straight", BIT(FP8)),
    {"decode_fast_template.h", "work->padded", GUARD_TRUE, BIT(GROUP), NULL},
    BOTH("decode_fast_template.h", "a->value_dim", BIT(GROUP)),
    BOTH("decode_fast_template.h", "count > 0", BIT(GROUP)),
    BOTH("decode_fast_template.h", "!paged", BIT(GROUP)),
    {"decode_fast_template.h", "!paged", GUARD_FALSE, BIT(CACHE), NULL},
    BOTH("decode_fast_template.h", "!AF_F8", BIT(GROUP)),
    {"decode_fast_template.h", "!AF_F8", GUARD_FALSE, BIT(CACHE), NULL},
    BOTH("decode_fast_template.h", "!af_is_natural", BIT(GROUP)),
    {"decode_fast_template.h", "!af_is_natural", GUARD_TRUE, OF_SCORES, NULL},
    BOTH("decode_fast_template.h", "dim ==", BIT(GROUP) | OF_SCORES),
    BOTH("forward_rows_template.h", "a->head_dim", BIT(FP8)),
    {"forward_rows_template.h", "a->head_dim", GUARD_FALSE, BIT(DROPOUT), NULL},
    {"forward_rows_template.h", "a->head_dim", GUARD_FALSE, EVERY_FEATURE, "avx512bf16"},
    BOTH("forward_rows_template.h", "a->k.row_stride", BIT(FP8)),
    {"forward_rows_template.h", "a->k.row_stride", GUARD_FALSE, BIT(DROPOUT), NULL},
    {"forward_rows_template.h", "a->k.row_stride", GUARD_FALSE, EVERY_FEATURE, "avx512bf16"},
    BOTH("forward_rows_template.h", "count %", BIT(FP8)),
    {"forward_rows_template.h", "count %", GUARD_FALSE, BIT(DROPOUT), NULL},
    {"forward_rows_template.h", "count %", GUARD_FALSE, EVERY_FEATURE, "amx"},
    BOTH("forward_rows_template.h", "AF_FN(is_strided)", BIT(FP8)),
    {"forward_rows_template.h", "AF_FN(is_strided)", GUARD_FALSE, BIT(CACHE), NULL},
    {"forward_rows_template.h", "dim %", GUARD_FALSE, BIT(DROPOUT), NULL},
    {"forward_rows_template.h", "dim %", GUARD_FALSE, EVERY_FEATURE, "avx512bf16"},
    {"forward_rows_template.h", "problem->a.sinks", GUARD_TRUE, BIT(SINKS), NULL},
    BOTH("forward_rows_template.h", "problem->a.lse", BIT(SINKS)),
    {"forward_template.h", "a->mask", GUARD_TRUE, BIT(MASK), NULL},
    BOTH("forward_template.h", "key + part", BIT(MASK)),
    BOTH("forward_template.h", "part.end", BIT(MASK)),
    {"forward_template.h", "part.end", GUARD_FALSE, BIT(DROPOUT), NULL},
    {"forward_template.h", "part.end", GUARD_FALSE, EVERY_FEATURE, "avx512bf16"},
    BOTH("forward_template.h", "task->", BIT(DROPOUT)),
    BOTH("forward_template.h", "kept->", BIT(DROPOUT)),
    BOTH("forward_tile_template.h", "at ", OF_SCORES),
};

/* Where rows that took attend_row() began and ended: the keys before and after them. */
static bool keys_before[48], keys_after[48];

static void note_row(const struct forward_case *c)
{
    const struct af_problem problem = case_problem(c);
    for (int n = 1; n < guard_count; n++) {
        if (strncmp(guard_sites[n].condition, "!af_is_natural", 14) != 0 || guard_met[n] != 2)
            continue;
        for (int64_t b = 0; b < c->a.batch; b++) {
            const struct af_sequence s = af_problem_sequence(&problem, b);
            const struct af_range range = af_visible_range(&problem, &s, 0);
            if (range.first < 48)
                keys_before[range.first] = true;
            if (c->a.k_len - range.end < 48)
                keys_after[c->a.k_len - range.end] = true;
        }
    }
}

#endif

static unsigned run_problem(uint64_t seed)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    struct forward_case *c = pair_case(seed);
    unsigned features = pair_features(seed);
    if (c->a.heads != c->a.kv_heads)
        features |= BIT(GROUP);
    case_seal(c);
    for (size_t k = 0; k < count; k++) {
        if (kernels[k]->operation != AF_FORWARD || (int32_t)kernels[k]->dtype != c->dtype ||
            kernels[k]->reads_f8 || !machine_runs(kernels[k]))
            continue;
        const uint32_t level = (2 * kernels[k]->needs - 1) & af_cpu_features();
        const char *name = note_kernels(c, level);
        case_attend(c, contexts[pair_pool(seed, POOLS)], level);
        case_check(c, name);
#ifdef AF_COUNT_GUARDS
        note_row(c);
#endif
    }
    case_free(c);
    return features;
}

#include "pairs.h"

#ifdef AF_COUNT_GUARDS

/* Counts the beginnings and ends of rows that no problem had, on machines with attend_row(). */
static int check_ends(void)
{
    int wrong = 0;
    for (int n = 0; slice == 0 && has_kernel("avx512") && n < 48; n++)
        wrong += !keys_before[n] + !keys_after[n];
    if (wrong > 0)
        printf("%d of 96 beginnings and ends of rows were not tried\n", wrong);
    return wrong;
}

int main(void)
{
    return run_pairs(check_ends);
}

#else

int main(void)
{
    return run_pairs(NULL);
}

#endif
