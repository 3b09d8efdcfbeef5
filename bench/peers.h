/*
 * peers.h: other libraries on the same inputs, each case in a child process of
 * an interpreter that has them. The scripts are in the folder peers beside the program.
 */
#ifndef AF_BENCH_PEERS_H
#define AF_BENCH_PEERS_H

#include "bench/cases.h"
#include "bench/measure.h"
#include "engine/base/mem.h"

#define AF_BENCH_PEER_COUNT 6

/* One library. */
struct af_bench_peer {
    const char *name;    /* "torch" */
    const char *version; /* NULL: not there */
    const char *absence; /* why it is not there */
};

/* What a peer did with a case. */
struct af_bench_peer_timing {
    struct af_bench_samples ms; /* count 0: it gave no answer */
    const char *dtype;          /* what it computed in: may be f16 where it has no bf16 */
    const char *decline;        /* why it gave no answer */
    double difference; /* largest distance to the engine's results over their largest size */
};

/*
 * Asks `python` for each library. Fails with NOT_FOUND when the interpreter
 * does not run, IO or NO_MEMORY. Texts lie in the arena.
 */
enum anyflash_status af_bench_peers_find(struct af_arena *arena, const char *python,
                                         struct af_bench_peer peers[AF_BENCH_PEER_COUNT],
                                         struct anyflash_error *err);

/*
 * Lets `peer` time `row` and compares its results with `timing`'s. A peer that
 * crashes, hangs or cannot do the case has declined; that is no failure. Fails
 * with NO_MEMORY.
 */
enum anyflash_status af_bench_peer_measure(struct af_arena *arena, const char *python,
                                           const struct af_bench_peer *peer,
                                           const struct af_bench_case *row, int threads,
                                           double seconds, const struct af_bench_timing *timing,
                                           struct af_bench_peer_timing *answer_out,
                                           struct anyflash_error *err);

/* Whether results that far apart are the same but for rounding. */
bool af_bench_peer_agrees(const struct af_bench_case *row, double difference);

#endif
