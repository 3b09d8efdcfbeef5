/*
 * rounds.c: shares the time among the cases, and a case's time among the engine
 * and the peers.
 */
#include "bench/rounds.h"

#include <math.h>

#define CASE_SECONDS 1.2
#define CASE_SECONDS_QUICK 0.3
#define OTHER_CASE_SECONDS 2.4 /* with another build, to which half of it goes */
#define PEERS_CASE_SECONDS 15.0
#define PEERS_CASE_SECONDS_QUICK 3.0
#define PEERS_SECONDS 600.0
#define ROUNDS_MIN 3

static bool has_peers(const struct af_bench_report *report, size_t i)
{
    return report->pythons != NULL && af_bench_has_peers(report->lines[i].row);
}

double af_bench_line_seconds(const struct af_bench_report *report, size_t i, bool quick,
                             double elapsed)
{
    int left = 0;
    if (!has_peers(report, i))
        return quick                        ? CASE_SECONDS_QUICK
               : report->other_path != NULL ? OTHER_CASE_SECONDS
                                            : CASE_SECONDS;
    for (size_t j = i; j < report->count; j++)
        left += has_peers(report, j);
    double share = fmax(0, PEERS_SECONDS - elapsed) / left;
    return fmin(share, quick ? PEERS_CASE_SECONDS_QUICK : PEERS_CASE_SECONDS);
}

static enum anyflash_status prepare_peers(struct af_arena *arena,
                                          struct af_bench_report *report,
                                          struct af_bench_line *line,
                                          struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t p = 0; p < AF_BENCH_PEER_COUNT && status == ANYFLASH_OK; p++) {
        struct af_bench_peer *peer = &report->peers[p];
        if (peer->version == NULL)
            line->peers[p].decline = "not available";
        else
            status = af_bench_peer_prepare(arena, peer, line->row, report->facts.threads,
                                           &line->timing, &line->peers[p], err);
    }
    return status;
}

/* One turn of each; without peers the engine's only. */
static enum anyflash_status run_round(struct af_arena *arena, struct af_bench_report *report,
                                      struct af_bench_engine *engine,
                                      struct af_bench_line *line, bool with_peers,
                                      struct anyflash_error *err)
{
    enum anyflash_status status = af_bench_engine_sample(engine, &line->timing, err);
    for (size_t p = 0; p < AF_BENCH_PEER_COUNT && with_peers && status == ANYFLASH_OK; p++)
        if (line->peers[p].decline == NULL)
            status = af_bench_peer_sample(arena, &report->peers[p], engine->own.seconds * 1e3,
                                          &line->peers[p], err);
    return status;
}

static enum anyflash_status run_rounds(struct af_arena *arena, struct af_bench_report *report,
                                       size_t i, double seconds, struct af_bench_engine *engine,
                                       struct anyflash_error *err)
{
    struct af_bench_line *line = &report->lines[i];
    const bool with_peers = has_peers(report, i);
    const double end = af_bench_now_seconds() + seconds;
    enum anyflash_status status =
        with_peers ? prepare_peers(arena, report, line, err) : ANYFLASH_OK;
    for (size_t round = 0; status == ANYFLASH_OK && round < AF_BENCH_SAMPLES_MAX; round++) {
        if (round >= ROUNDS_MIN && af_bench_now_seconds() >= end)
            break;
        status = run_round(arena, report, engine, line, with_peers, err);
    }
    return status;
}

enum anyflash_status af_bench_line_measure(struct af_arena *arena,
                                           struct af_bench_report *report, size_t i,
                                           double seconds, struct anyflash_error *err)
{
    struct af_bench_line *line = &report->lines[i];
    struct af_bench_engine engine;
    const int threads = report->facts.threads;
    enum anyflash_status status = af_bench_engine_prepare(
        line->row, threads, report->other_path != NULL ? &report->other : NULL, &engine,
        &line->timing, err);
    if (status == ANYFLASH_OK)
        status = run_rounds(arena, report, i, seconds, &engine, err);
    af_bench_engine_release(&engine);
    return status;
}
