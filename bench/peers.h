/*
 * peers.h: other libraries on the same inputs. Each is a process of a Python
 * interpreter that has it, which lives until the end and is stopped while it is
 * not its turn. The scripts are in the folder peers beside the program.
 */
#ifndef AF_BENCH_PEERS_H
#define AF_BENCH_PEERS_H

#include "bench/cases.h"
#include "bench/measure.h"
#include "kit/base/memory.h"
#include "kit/system/process.h"

#define AF_BENCH_PEER_COUNT 9
#define AF_BENCH_PYTHONS_MAX 8

/* One library. */
struct af_bench_peer {
    const char *name;    /* "onnxruntime" */
    const char *heading; /* of its column: "onnxrt" */
    const char *version; /* NULL: not available */
    const char *absence; /* why it is not available, and what to install */
    const char *python;  /* the first interpreter that has it */
    struct af_dialog dialog;
};

/* The result of another library for one case. */
struct af_bench_peer_timing {
    struct af_bench_samples ms;    /* of one run; count 0: no result */
    struct af_bench_samples ratio; /* to the engine's sample of the same round */
    const char *dtype;             /* computed type: may be f16 if it lacks bf16 */
    const char *decline;           /* why there is no result */
    double difference;             /* largest difference from the engine, relative */
};

/*
 * Looks for each library in `pythons`, in order (NULL-terminated), and leaves the
 * process of the first that has it waiting. Fails with NOT_FOUND when an
 * interpreter does not run, or IO. Texts are in the arena. Call
 * af_bench_peers_end() in every case.
 */
enum anyflash_status af_bench_peers_find(struct af_arena *arena, const char *const *pythons,
                                         int threads,
                                         struct af_bench_peer peers[AF_BENCH_PEER_COUNT],
                                         struct anyflash_error *err);
void af_bench_peers_end(struct af_bench_peer peers[AF_BENCH_PEER_COUNT]);

/*
 * Computes `row` once with `peer` and compares its results with those of
 * `timing`. A peer that crashes, hangs or cannot run the case declines; it is
 * started again for the next case. Fails with NOT_FOUND, or IO when it cannot be
 * started.
 */
enum anyflash_status af_bench_peer_prepare(struct af_arena *arena, struct af_bench_peer *peer,
                                           const struct af_bench_case *row, int threads,
                                           const struct af_bench_timing *timing,
                                           struct af_bench_peer_timing *answer_out,
                                           struct anyflash_error *err);

/*
 * One turn of a prepared peer: adds a sample, and its ratio to the engine's last
 * one, `engine_ms`. A peer that fails declines and loses its samples. Fails with
 * NOT_FOUND.
 */
enum anyflash_status af_bench_peer_sample(struct af_arena *arena, struct af_bench_peer *peer,
                                          double engine_ms, struct af_bench_peer_timing *answer,
                                          struct anyflash_error *err);

/* Whether the difference is small enough to be rounding. */
bool af_bench_peer_agrees(const struct af_bench_case *row, double difference);

#endif
