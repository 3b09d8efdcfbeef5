/*
 * test_pairs.c: a covering array for the forward kernels. Each pair of features is tried in
 * each shape and type, half of them with a third feature, at every level of this machine.
 *
 * Built with AF_COUNT_GUARDS, as pair_guards, it also requires that each pair meets both
 * sides of every guard, or that the table below says why it cannot; it makes more problems like
 * those that met a side until all do. Then it makes each guard hold in turn, and some problem
 * must be wrong.
 *
 * ANYFLASH_TEST_SLICE: which of the pairs, one in SLICES; 0: all. Otherwise others each time.
 * ANYFLASH_TEST_SEED: only the problem of this number, which a failure named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "forward_check.h"
#include "pair_case.h"

#define SLICES 8

static uint64_t slice; /* number of the run; 0: all pairs */
static int64_t problem_count;

/* Whether this run is to cover the pair. */
static bool is_wanted(int one, int other)
{
    uint64_t x = (slice * FEATURES + (uint64_t)one) * FEATURES + (uint64_t)other;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return pair_is_legal(one, other) && (slice == 0 || (x ^ x >> 31) % SLICES == 0);
}

/* Runs a problem at each level of this machine, and `note` after each; returns its features. */
static unsigned run_problem(uint64_t seed, void note(const struct forward_case *))
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
        case_attend(c, contexts[(seed >> 26) % POOLS], level);
        case_check(c, name);
        if (note != NULL)
            note(c);
    }
    case_free(c);
    problem_count++;
    return features;
}

/* A number for a problem with the pair; at times with a third feature. */
static uint64_t number_of_pair(int one, int other, enum shape shape, size_t type,
                               uint64_t number)
{
    struct forward_case pick = {.state = number};
    unsigned features = complete_features(BIT(one) | BIT(other));
    const int third = (int)case_pick(&pick, 0, 2 * FEATURES - 1);
    if (third < FEATURES && features_are_legal(complete_features(features | BIT(third))))
        features = complete_features(features | BIT(third));
    return pair_number(number, type, shape, features);
}

#ifdef AF_COUNT_GUARDS

#include <sys/wait.h>
#include <unistd.h>

#include "coverage.h"

#define TRIES 100        /* to fill a hole */
#define LIKE_EXAMPLES 24 /* problems with a guard that gives way, for each that it stopped */

#define OF_SCORES (BIT(SOFTCAP) | BIT(ALIBI) | BIT(MASK) | BIT(BIAS))
#define BOTH(file, condition, features)                                                        \
    {file, condition, GUARD_FALSE, features, NULL},                                            \
    {                                                                                          \
        file, condition, GUARD_TRUE, features, NULL                                            \
    }

/*
 * Decode kernels have no dropout, nor have those of pairs of bf16. A cache has no pages. Groups
 * have more than one row. Keys of fp8 are never read in place.
 */
static const struct never_met never[] = {
    BOTH("forward_plan.c", "split.rows", BIT(DROPOUT)),
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

static bool has_kernel(const char *part)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t k = 0; k < count; k++) {
        if (machine_runs(kernels[k]) && strstr(kernels[k]->name, part) != NULL)
            return true;
    }
    return false;
}

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

static void run_covered(uint64_t seed)
{
    memset(guard_met, 0, sizeof guard_met);
    const unsigned features = run_problem(seed, note_row);
    cover_problem(features, seed);
}

/* Makes problems like those that met a side of a guard, with the pair, until one meets it. */
static bool fill_hole(int guard, int side, int one, int other, unsigned excluded)
{
    static uint64_t number = 1u << 20;
    struct guard_coverage *c = &covered[guard][side];
    const unsigned pair = complete_features(BIT(one) | BIT(other));
    for (int n = 0; n < TRIES && c->example_count > 0 && !c->pairs[one][other]; n++) {
        const uint64_t example = c->examples[n % c->example_count];
        unsigned features = pair;
        for (int f = 0; f < FEATURES; f++) {
            const unsigned more = complete_features(features | BIT(f));
            if (HAS(pair_features(example), f) && features_are_legal(more) &&
                (more & excluded) == 0)
                features = more;
        }
        run_covered(pair_number(++number, example >> 24 & 3, pair_shape(example), features));
    }
    return c->pairs[one][other];
}

/* Fills the holes of a side of a guard and prints how many pairs met it; returns the rest. */
static int cover_guard(int guard, int side)
{
    const unsigned excluded =
        features_excluded(never, AF_COUNT(never), guard, side, has_kernel);
    const struct guard_site *site = &guard_sites[guard];
    int met = 0, holes = 0;
    char missing[120] = "";
    for (int one = 0; one < FEATURES; one++) {
        for (int other = 0; other < one; other++) {
            const unsigned pair = complete_features(BIT(one) | BIT(other));
            const bool may = (pair & excluded) == 0 && excluded != EVERY_FEATURE;
            if (!is_wanted(one, other) || (!may && !covered[guard][side].pairs[one][other]))
                continue;
            if (may && fill_hole(guard, side, one, other, excluded))
                met++;
            else if (holes++ < 2)
                snprintf(missing + strlen(missing), sizeof missing - strlen(missing),
                         "; %s %s+%s", may ? "never" : "wrongly excluded:", feature_names[one],
                         feature_names[other]);
        }
    }
    printf("  %-24s %-5s %-58.58s %3d pairs%s\n", site->file, side ? "true" : "false",
           site->condition, met, missing);
    return holes;
}

/* Whether some problem that the guard should stop is wrong when it does not. */
static bool is_noticed(int guard)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL ||
            freopen("/dev/null", "w", stderr) == NULL)
            _exit(0);
        if (make_contexts(NULL) != 0) /* those there have no threads in this process */
            _exit(0);
        alarm(200);
        guard_forced = guard;
        const struct guard_coverage *c = &covered[guard][GUARD_FALSE];
        for (int n = 0; n < LIKE_EXAMPLES * c->example_count; n++) /* with as many threads */
            run_problem(c->examples[n / LIKE_EXAMPLES] +
                            ((uint64_t)(n % LIKE_EXAMPLES * POOLS) << 26),
                        NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status != 0;
}

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

static int check_guards(void)
{
    int wrong = 0;
    printf("both sides of each guard, and the pairs of features that met it:\n");
    for (int n = 1; n < guard_count; n++) {
        for (int side = 0; side < SIDES; side++)
            wrong += cover_guard(n, side);
    }
    for (int n = 1; n < guard_count; n++) {
        if (guard_sites[n].is_choice || covered[n][GUARD_FALSE].example_count == 0 ||
            is_noticed(n))
            continue;
        printf("no result is wrong if this always holds: %s: %s\n", guard_sites[n].file,
               guard_sites[n].condition);
        wrong++;
    }
    return wrong;
}

#else

static void run_covered(uint64_t seed)
{
    run_problem(seed, NULL);
}

static int check_guards(void)
{
    return 0;
}

static int check_ends(void)
{
    return 0;
}

#endif

int main(void)
{
    const char *only = getenv("ANYFLASH_TEST_SEED");
    const clock_t begin = clock();
    if (make_contexts(NULL) != 0)
        return 1;
    if (only != NULL) {
        run_problem(strtoull(only, NULL, 10), NULL);
        return 0;
    }
    const char *which = getenv("ANYFLASH_TEST_SLICE");
    slice = which != NULL ? strtoull(which, NULL, 10) : 1 + (uint64_t)time(NULL) % 1000000;
    printf("slice %llu\n", (unsigned long long)slice);
    uint64_t number = slice * 10000;
    for (int one = 0; one < FEATURES; one++) {
        for (int other = 0; other < one; other++) {
            for (int n = 0; is_wanted(one, other) && n < SHAPES * 3; n++)
                run_covered(
                    number_of_pair(one, other, (enum shape)(n / 3), (size_t)(n % 3), ++number));
        }
    }
    const int wrong = check_guards() + check_ends();
    printf("%lld problems in %.1f s, %d faults\n", (long long)problem_count,
           (double)(clock() - begin) / CLOCKS_PER_SEC, wrong);
    return wrong != 0;
}
