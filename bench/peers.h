/*
 * peers.h: times other libraries on the same inputs, each case in a child
 * process of a Python interpreter that has them. The scripts are in the folder
 * peers beside the program.
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
    const char *version; /* NULL: not installed */
    const char *absence; /* why it is not available */
};

/* The result of another library for one case. */
struct af_bench_peer_timing {
    struct af_bench_samples ms; /* count 0: no result */
    const char *dtype;          /* computed type: may be f16 if it lacks bf16 */
    const char *decline;        /* why there is no result */
    double difference;          /* largest difference from the engine, relative */
};

/*
 * Checks `python` for each library. Fails with NOT_FOUND when the interpreter
 * does not run, IO or NO_MEMORY. Texts are in the arena.
 */
enum anyflash_status af_bench_peers_find(struct af_arena *arena, const char *python,
                                         struct af_bench_peer peers[AF_BENCH_PEER_COUNT],
                                         struct anyflash_error *err);

/*
 * Runs `peer` on `row` and compares its results with those of `timing`. A peer
 * that crashes, hangs or cannot run the case counts as declined; the function still
 * succeeds. Fails with NO_MEMORY.
 */
enum anyflash_status af_bench_peer_measure(struct af_arena *arena, const char *python,
                                           const struct af_bench_peer *peer,
                                           const struct af_bench_case *row, int threads,
                                           double seconds, const struct af_bench_timing *timing,
                                           struct af_bench_peer_timing *answer_out,
                                           struct anyflash_error *err);

/* Whether the difference is small enough to be rounding. */
bool af_bench_peer_agrees(const struct af_bench_case *row, double difference);

#endif
