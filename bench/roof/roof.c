/*
 * roof.c: runs the best loop of this machine on several threads at once. Threads
 * are started for each measurement and wait for each other before they begin;
 * their rates are added.
 */
#include "bench/roof/roof.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "bench/roof/loop.h"
#include "engine/base/cpu.h"
#include "engine/base/instructions.h"

#define ROUNDS 10000

/* Slowest to fastest. */
static const struct af_roof_loop *const loops[] = {
    &af_roof_f32__scalar,
#ifdef AF_HAVE_NEON
    &af_roof_f32__neon,
#endif
#ifdef AF_HAVE_AVX2
    &af_roof_f32__avx2,
#endif
#ifdef AF_HAVE_AVX512
    &af_roof_f32__avx512,
#endif
#ifdef AF_HAVE_AVX512BF16
    &af_roof_bf16__avx512bf16,
#endif
#ifdef AF_HAVE_AMX
    &af_roof_bf16__amx,
#endif
};

enum start_state { START_WAITING, START_GO, START_CANCELLED };

struct team {
    const struct af_roof_loop *loop;
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

static const struct af_roof_loop *best_loop(enum af_roof_kind kind, uint32_t features)
{
    const struct af_roof_loop *best = loops[0];
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
