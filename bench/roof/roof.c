/*
 * roof.c: measures how fast this machine computes. There is one loop for each instruction set;
 * the best one that the machine supports runs on several threads at once. Each measurement
 * starts its threads, which wait for each other before they begin; their rates are added.
 */
#include "bench/roof/roof.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "engine/base/cpu.h"
#include "engine/base/instructions.h"

#define ROUNDS 10000

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

struct loop {
    const char *name;
    uint32_t needs; /* enum af_cpu_feature */
    enum af_roof_kind kind;
    /* Runs `rounds` rounds of multiply-adds; returns the number of operations. */
    double (*compute)(int64_t rounds);
    /*
     * Reads `bytes` bytes at `data`, a multiple of 8. The result exists only so
     * that the reads are not optimised away.
     */
    uint64_t (*read)(const void *data, size_t bytes);
};

/* Volatile, so that the compiler cannot compute the result in advance. */
static volatile float factor = 0x1p-20f;

/* A name of the current instruction set: ROOF_SET of loop.inc. */
#define ROOF_OF(noun, set) noun##_##set
#define ROOF_IN(noun, set) ROOF_OF(noun, set)
#define ROOF_TEXT_OF(set) #set
#define ROOF_TEXT(set) ROOF_TEXT_OF(set)
#define ROOF(noun) ROOF_IN(noun, ROOF_SET)

/* Plain C on vectors of 4 floats, which every compiler turns into vector instructions. */
typedef float floats __attribute__((vector_size(16)));

#define ROOF_SET scalar
#define ROOF_NEEDS AF_CPU_BASE
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 16
#define ROOF_CHAINS 12
#define ROOF_VECTOR floats
#define ROOF_START(x) ((floats){x, x, x, x})
#define ROOF_STEP(c, a, b) ((c) * (a) + (b))
#include "bench/roof/loop.inc"

#ifdef AF_HAVE_NEON
#define ROOF_SET neon
#define ROOF_NEEDS AF_CPU_NEON
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 16
#define ROOF_CHAINS 24
#define ROOF_VECTOR float32x4_t
#define ROOF_START(x) vdupq_n_f32(x)
#define ROOF_STEP(c, a, b) vfmaq_f32(b, c, a)
#include "bench/roof/loop.inc"
#endif

#ifdef AF_HAVE_AVX2
AF_INSTRUCTIONS_AVX2
#define ROOF_SET avx2
#define ROOF_NEEDS AF_CPU_AVX2
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 32
#define ROOF_CHAINS 12
#define ROOF_VECTOR __m256
#define ROOF_START(x) _mm256_set1_ps(x)
#define ROOF_STEP(c, a, b) _mm256_fmadd_ps(c, a, b)
#include "bench/roof/loop.inc"
AF_INSTRUCTIONS_END
#endif

#ifdef AF_HAVE_AVX512
AF_INSTRUCTIONS_AVX512
#define ROOF_SET avx512
#define ROOF_NEEDS AF_CPU_AVX512
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 64
#define ROOF_CHAINS 24
#define ROOF_VECTOR __m512
#define ROOF_START(x) _mm512_set1_ps(x)
#define ROOF_STEP(c, a, b) _mm512_fmadd_ps(c, a, b)
#include "bench/roof/loop.inc"
AF_INSTRUCTIONS_END
#endif

#ifdef AF_HAVE_AVX512BF16
AF_INSTRUCTIONS_AVX512BF16
#define ROOF_SET avx512bf16
#define ROOF_NEEDS AF_CPU_AVX512BF16
#define ROOF_KIND AF_ROOF_BF16
#define ROOF_BYTES 64
#define ROOF_CHAINS 24
#define ROOF_VECTOR __m512
#define ROOF_START(x) _mm512_set1_ps(x)
#define ROOF_STEP(c, a, b) _mm512_dpbf16_ps(c, a, b)
#define ROOF_OPERAND __m512bh
#define ROOF_OPERAND_MAKE(x) _mm512_cvtne2ps_pbh(_mm512_set1_ps(x), _mm512_set1_ps(x))
#include "bench/roof/loop.inc"
AF_INSTRUCTIONS_END
#endif

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AMX
/* Four sums of 16 x 16 floats from two tiles of A and two of B: all eight tile registers. */
#define DOTS 4
#define TILE_FLOPS (16.0 * 16 * 32 * 2) /* of one product of tiles */

/* The operand of LDTILECFG: palette 1, eight tiles of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} palette __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static double compute_amx(int64_t rounds)
{
    _tile_loadconfig(&palette); /* clears the tiles */
    for (int64_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return DOTS * TILE_FLOPS * (double)rounds;
}

static const struct loop loop_amx = {"amx", AF_CPU_AMX, AF_ROOF_BF16, compute_amx, read_avx512};
AF_INSTRUCTIONS_END
#endif

/* Slowest to fastest. */
static const struct loop *const loops[] = {
    &loop_scalar,
#ifdef AF_HAVE_NEON
    &loop_neon,
#endif
#ifdef AF_HAVE_AVX2
    &loop_avx2,
#endif
#ifdef AF_HAVE_AVX512
    &loop_avx512,
#endif
#ifdef AF_HAVE_AVX512BF16
    &loop_avx512bf16,
#endif
#ifdef AF_HAVE_AMX
    &loop_amx,
#endif
};

enum start_state { START_WAITING, START_GO, START_CANCELLED };

struct team {
    const struct loop *loop;
    int size;
    double seconds;
    const struct af_span *pieces; /* NULL: compute */
    size_t piece_count;
    _Atomic int arrived;     /* members that wait for the start */
    _Atomic int start_state; /* enum gate */
};

struct member {
    struct team *team;
    int index;
    double rate;
    uint64_t seen;
};

static const struct loop *best_loop(enum af_roof_kind kind, uint32_t features)
{
    const struct loop *best = loops[0];
    for (size_t i = 1; i < AF_COUNT(loops); i++)
        if ((features & loops[i]->needs) != 0 && loops[i]->kind <= kind)
            best = loops[i];
    return best;
}

const char *af_roof_name(enum af_roof_kind kind, uint32_t features)
{
    return best_loop(kind, features)->name;
}

void af_roof_features(char *text, size_t size_bytes)
{
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < AF_COUNT(loops) && len < size_bytes; i++)
        if ((af_cpu_features() & loops[i]->needs) != 0)
            len += (size_t)snprintf(text + len, size_bytes - len, "%s%s", len > 0 ? " " : "",
                                    loops[i]->name);
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads this member's share of each piece; returns the number of bytes. */
static double read_share(struct member *member)
{
    const struct team *team = member->team;
    double bytes = 0;
    for (size_t i = 0; i < team->piece_count; i++) {
        size_t words = team->pieces[i].len / 8;
        size_t share = words / (size_t)team->size;
        const char *from = team->pieces[i].data + share * (size_t)member->index * 8;
        member->seen ^= team->loop->read(from, share * 8);
        bytes += (double)(share * 8);
    }
    return bytes;
}

static void measure(struct member *member)
{
    const struct team *team = member->team;
    double done = 0, took;
    double start = now_seconds();
    if (team->pieces != NULL)
        done = read_share(member);
    do {
        if (team->pieces == NULL)
            done += team->loop->compute(ROUNDS);
        took = now_seconds() - start;
    } while (team->pieces == NULL && took < team->seconds);
    member->rate = took > 0 ? done / took : 0;
}

static void *work(void *context)
{
    struct member *member = context;
    struct team *team = member->team;
    team->arrived++;
    while (team->start_state == START_WAITING)
        sched_yield();
    if (team->start_state == START_GO)
        measure(member);
    return NULL;
}

/*
 * Starts the measurement when all members are ready, or cancels it. The caller
 * is member 0.
 */
static double run(struct team *team)
{
    struct member members[AF_ROOF_THREADS_MAX] = {{0}};
    pthread_t threads[AF_ROOF_THREADS_MAX];
    double rate = 0;
    team->size = team->size < 1                     ? 1
                 : team->size > AF_ROOF_THREADS_MAX ? AF_ROOF_THREADS_MAX
                                                    : team->size;
    int started = 1;
    members[0].team = team;
    for (; started < team->size; started++) {
        members[started] = (struct member){.team = team, .index = started};
        if (pthread_create(&threads[started], NULL, work, &members[started]) != 0)
            break;
    }
    bool is_whole = started == team->size;
    while (is_whole && team->arrived < team->size - 1)
        sched_yield();
    team->start_state = is_whole ? START_GO : START_CANCELLED;
    if (is_whole)
        measure(&members[0]);
    for (int i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < started; i++)
        rate += members[i].rate;
    return rate;
}

double af_roof_flops(enum af_roof_kind kind, uint32_t features, int threads, double seconds)
{
    struct team team = {.loop = best_loop(kind, features), .size = threads, .seconds = seconds};
    return run(&team);
}

double af_roof_read(const struct af_span *pieces, size_t count, int threads)
{
    struct team team = {.loop = best_loop(AF_ROOF_BF16, af_cpu_features()),
                        .size = threads,
                        .pieces = pieces,
                        .piece_count = count};
    return run(&team);
}
