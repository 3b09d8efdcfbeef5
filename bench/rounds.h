/*
 * rounds.h: times the cases. The engine and the peers take turns, so that
 * whatever disturbs the machine disturbs all of them.
 */
#ifndef AF_BENCH_ROUNDS_H
#define AF_BENCH_ROUNDS_H

#include "bench/report.h"

/*
 * How many seconds line `i` may take after the lines before it have taken `elapsed`
 * seconds: with peers, an equal share of the rest of 10 minutes, at most 15 s.
 */
double af_bench_line_seconds(const struct af_bench_report *report, size_t i, bool quick,
                             double elapsed);

/*
 * Times line `i`. In each round the engine and every peer
 * that supports the case take one turn. Rounds are repeated until `seconds` have
 * passed, which include preparing the peers; there are at least 3. Fails as the engine
 * does, or with NO_MEMORY or IO.
 */
enum anyflash_status af_bench_line_measure(struct af_arena *arena,
                                           struct af_bench_report *report, size_t i,
                                           double seconds, struct anyflash_error *err);

#endif
