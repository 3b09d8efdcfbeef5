/*
 * textbook_report.c: times textbook attention and the engine by turns, and writes the
 * table and the JSON (docs/reference/json.md).
 */
#include "bench/textbook_report.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/textbook.h"

#define GIB (1024.0 * 1024 * 1024)
#define USABLE_PART 0.8    /* of the free memory; the rest is a reserve */
#define SECONDS_MAX 40.0   /* of the whole command on a machine that is not too slow */
#define ROUNDS_MIN 3       /* as long as no more than half of SECONDS_MAX has passed */
#define LONG_LENGTH 8192   /* from here on the first run counts, too */
#define FIRST_RUN_COST 8.0 /* first run of a length, in runs of half the length, at most */

/* Both sides, ready to run on the same tensors. */
struct pair {
    struct af_arena *arena;
    struct af_bench_inputs inputs;
    struct anyflash_context *context;
    struct af_textbook textbook;
    struct af_pool *pool;
};

/* The number behind `key` at the start of a line of `path`; UINT64_MAX: none. */
static uint64_t number_in(const char *path, const char *key)
{
    char line[200];
    uint64_t found = UINT64_MAX;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] != 'm') /* "max" */
            found = strtoull(line + strlen(key), NULL, 10);
    if (file != NULL)
        fclose(file);
    return found;
}

/* Free memory of the system, or of the container's control group. */
static double free_bytes(void)
{
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t most = number_in("/sys/fs/cgroup/memory.max", "");
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    double left = kib == UINT64_MAX ? 0 : 1024.0 * (double)kib;
    if (most == UINT64_MAX || used == UINT64_MAX)
        return left;
    return fmin(left, most > used ? (double)(most - used) : 0);
}

void af_textbook_start(struct af_textbook_report *report, const struct af_bench_facts *facts)
{
    *report = (struct af_textbook_report){.facts = *facts,
                                          .start_seconds = af_bench_now_seconds(),
                                          .usable_bytes = USABLE_PART * free_bytes()};
}

/* The largest N, a multiple of 256, whose scores fit. */
static double longest_length(const struct af_textbook_report *report)
{
    return 256 * floor(sqrt(report->usable_bytes / AF_TEXTBOOK_HEADS / sizeof(float)) / 256);
}

/* Why `side` is not run on the newest line; NULL: it is. The engine is asked first. */
static const char *find_decline(const struct af_textbook_report *report,
                                const struct pair *pair, enum af_textbook_side side)
{
    const struct af_textbook_line *line = &report->lines[report->count - 1];
    const double needed = af_textbook_bytes(&pair->textbook);
    if (side == AF_TEXTBOOK_PLAIN && needed > report->usable_bytes)
        return af_arena_format(pair->arena, "does not fit: needs %.1f GiB of %.1f GiB",
                               needed / GIB, report->usable_bytes / GIB);
    if (line->sides[AF_TEXTBOOK_ENGINE].decline != NULL || report->count == 1)
        return line->sides[AF_TEXTBOOK_ENGINE].decline;
    const struct af_textbook_figures *last = &line[-1].sides[side];
    const double cost = FIRST_RUN_COST * af_bench_samples_at(&last->ms, 0.5) * 1e-3;
    if (af_bench_now_seconds() + cost > report->start_seconds + SECONDS_MAX)
        return "not run: the time is used up";
    return last->decline;
}

/* Runs a side once. */
static enum anyflash_status run_once(struct pair *pair, enum af_textbook_side side,
                                     struct af_textbook_figures *figures,
                                     struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    const double start = af_bench_now_seconds();
    if (side == AF_TEXTBOOK_ENGINE)
        status = anyflash_attend(pair->context, &pair->inputs.args, err);
    else
        af_textbook_run(&pair->textbook, pair->pool);
    af_bench_samples_add(&figures->ms, (af_bench_now_seconds() - start) * 1e3);
    return status;
}

/* The first run, with the memory that it takes. */
static enum anyflash_status run_first(struct pair *pair, const struct af_bench_case *row,
                                      enum af_textbook_side side,
                                      struct af_textbook_figures *figures,
                                      struct anyflash_error *err)
{
    const struct af_bench_buffer *o = &pair->inputs.tensors[AF_BENCH_O];
    size_t own_bytes = (size_t)af_textbook_bytes(&pair->textbook);
    const double before = af_bench_peak_reset(pair->arena);
    if (side == AF_TEXTBOOK_PLAIN && af_textbook_allocate(&pair->textbook, NULL) != ANYFLASH_OK)
        figures->decline = "does not fit: the system refuses the memory";
    if (figures->decline != NULL)
        return ANYFLASH_OK;
    memset(o->data, 0, o->bytes);
    enum anyflash_status status = run_once(pair, side, figures, err);
    const double growth = af_bench_peak_growth(pair->arena, before);
    if (status == ANYFLASH_OK && side == AF_TEXTBOOK_ENGINE)
        status = anyflash_workspace_bytes(pair->context, &pair->inputs.args, &own_bytes, err);
    figures->peak_bytes = 4 * (double)o->bytes + (growth < 0 ? (double)own_bytes : growth);
    af_bench_probe(row, o, figures->probes);
    if (row->q_len < LONG_LENGTH)
        figures->ms.count = 0;
    return status;
}

static bool needs_round(const struct af_textbook_report *report,
                        const struct af_textbook_line *line, double end)
{
    const size_t rounds = line->sides[AF_TEXTBOOK_ENGINE].ms.count;
    const double now = af_bench_now_seconds();
    return rounds == 0 || (rounds < AF_BENCH_SAMPLES_MAX &&
                           (now < end || (rounds < ROUNDS_MIN &&
                                          now < report->start_seconds + SECONDS_MAX / 2)));
}

static void compare(struct af_textbook_line *line)
{
    const struct af_textbook_figures *engine = &line->sides[AF_TEXTBOOK_ENGINE];
    const struct af_textbook_figures *plain = &line->sides[AF_TEXTBOOK_PLAIN];
    for (size_t i = 0; i < plain->ms.count; i++)
        af_bench_samples_add(&line->ratio, plain->ms.values[i] / engine->ms.values[i]);
    for (size_t i = 0; i < AF_BENCH_PROBES && plain->ms.count > 0; i++)
        line->difference =
            fmax(line->difference, fabs((double)plain->probes[i] - (double)engine->probes[i]));
}

static enum anyflash_status run_line(struct pair *pair, const struct af_bench_case *row,
                                     const struct af_textbook_report *report,
                                     struct af_textbook_line *line, double end,
                                     struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    enum af_textbook_side i;
    for (i = 0; i < AF_TEXTBOOK_SIDES && status == ANYFLASH_OK; i++) {
        line->sides[i].decline = find_decline(report, pair, i);
        if (line->sides[i].decline == NULL)
            status = run_first(pair, row, i, &line->sides[i], err);
    }
    while (status == ANYFLASH_OK && line->sides[AF_TEXTBOOK_ENGINE].decline == NULL &&
           needs_round(report, line, end))
        for (i = 0; i < AF_TEXTBOOK_SIDES && status == ANYFLASH_OK; i++)
            if (line->sides[i].decline == NULL)
                status = run_once(pair, i, &line->sides[i], err);
    compare(line);
    return status;
}

enum anyflash_status af_textbook_next(struct af_arena *arena, struct af_textbook_report *report,
                                      double seconds, struct anyflash_error *err)
{
    struct af_textbook_line *line = &report->lines[report->count];
    line->length = (int64_t)AF_TEXTBOOK_SHORTEST << report->count++;
    const struct af_bench_case row = {.operation = AF_BENCH_FORWARD,
                                      .level = ANYFLASH_CPU_ALL,
                                      .dtype = ANYFLASH_F32,
                                      .heads = AF_TEXTBOOK_HEADS,
                                      .kv_heads = AF_TEXTBOOK_HEADS,
                                      .q_len = line->length,
                                      .k_len = line->length,
                                      .head_dim = AF_TEXTBOOK_DIM,
                                      .batch = 1,
                                      .value_dim = AF_TEXTBOOK_DIM,
                                      .key_dtype = ANYFLASH_F32};
    const struct anyflash_context_args args = {.struct_size = sizeof args,
                                               .threads = report->facts.threads};
    struct pair pair = {.arena = arena};
    af_bench_inputs_make(&row, &pair.inputs);
    enum anyflash_status status = anyflash_context_new(&args, &pair.context, err);
    if (status == ANYFLASH_OK)
        status = af_pool_new(args.threads, (struct af_lent_threads){0}, &pair.pool, err);
    pair.textbook = (struct af_textbook){.heads = row.heads,
                                         .length = row.q_len,
                                         .head_dim = row.head_dim,
                                         .q = pair.inputs.tensors[AF_BENCH_Q].data,
                                         .k = pair.inputs.tensors[AF_BENCH_K].data,
                                         .v = pair.inputs.tensors[AF_BENCH_V].data,
                                         .o = pair.inputs.tensors[AF_BENCH_O].data};
    if (status == ANYFLASH_OK)
        status = run_line(&pair, &row, report, line, af_bench_now_seconds() + seconds, err);
    af_textbook_release(&pair.textbook);
    if (pair.pool != NULL)
        af_pool_free(pair.pool);
    anyflash_context_free(pair.context);
    af_bench_inputs_release(&pair.inputs);
    return status;
}

void af_textbook_table_start(struct af_text *out)
{
    af_text_format(out, "\n%21s%34s\n%8s %10s %10s %6s   %10s %10s  %s\n", "median ms",
                   "peak MiB", "N", "engine", "textbook", "ratio", "engine", "textbook",
                   "difference");
}

void af_textbook_table_line(const struct af_textbook_report *report, struct af_text *out)
{
    const struct af_textbook_line *line = &report->lines[report->count - 1];
    const struct af_textbook_figures *engine = &line->sides[AF_TEXTBOOK_ENGINE];
    const struct af_textbook_figures *plain = &line->sides[AF_TEXTBOOK_PLAIN];
    af_text_format(out, "%8lld", (long long)line->length);
    if (engine->decline != NULL) {
        af_text_format(out, "  %s\n", engine->decline);
        return;
    }
    af_text_format(out, " %10.2f", af_bench_samples_at(&engine->ms, 0.5));
    if (plain->decline == NULL)
        af_text_format(out, " %10.2f %6.2f   %10.1f %10.1f  %10.1e\n",
                       af_bench_samples_at(&plain->ms, 0.5),
                       af_bench_samples_at(&line->ratio, 0.5), engine->peak_bytes / (1 << 20),
                       plain->peak_bytes / (1 << 20), line->difference);
    else
        af_text_format(out, " %10s %6s   %10.1f  %s\n", "-", "-",
                       engine->peak_bytes / (1 << 20), plain->decline);
}

void af_textbook_table_end(const struct af_textbook_report *report, struct af_text *out)
{
    af_text_add(out, "\n");
    af_bench_wrap(
        out, 2, "",
        "textbook: attention that writes all N x N scores of %d heads of size %d to memory, "
        "in f32, with blocked loops of this program (%s). ratio: its time divided by the "
        "engine's. peak: memory with q, k, v and the result.",
        AF_TEXTBOOK_HEADS, AF_TEXTBOOK_DIM, af_textbook_instructions());
    af_bench_wrap(out, 2, "",
                  "Four fifths of the free memory are %.1f GiB: the scores fit up to "
                  "N = %.0f.",
                  report->usable_bytes / GIB, longest_length(report));
}

static json_t *json_side(const struct af_textbook_figures *figures)
{
    if (figures->decline != NULL)
        return json_pack("{s:s}", "decline", figures->decline);
    return json_pack("{s:f, s:f, s:i, s:f}", "median_ms",
                     af_bench_samples_at(&figures->ms, 0.5), "spread",
                     af_bench_samples_spread(&figures->ms), "samples", (int)figures->ms.count,
                     "peak_bytes", figures->peak_bytes);
}

static json_t *json_line(const struct af_textbook_line *line)
{
    const bool both = line->ratio.count > 0;
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "length", (json_int_t)line->length,
                     "engine", json_side(&line->sides[AF_TEXTBOOK_ENGINE]), "textbook",
                     json_side(&line->sides[AF_TEXTBOOK_PLAIN]), "ratio",
                     both ? json_real(af_bench_samples_at(&line->ratio, 0.5)) : json_null(),
                     "ratio_spread",
                     both ? json_real(af_bench_samples_spread(&line->ratio)) : json_null(),
                     "difference", both ? json_real(line->difference) : json_null());
}

json_t *af_textbook_json(const struct af_textbook_report *report)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < report->count; i++)
        lines = af_bench_json_append(lines, json_line(&report->lines[i]));
    return json_pack("{s:s, s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:o}", "schema",
                     "anyflash-bench-textbook/1", "version", anyflash_version_text(), "machine",
                     af_bench_json_machine(&report->facts), "instructions",
                     af_textbook_instructions(), "heads", AF_TEXTBOOK_HEADS, "head_dim",
                     AF_TEXTBOOK_DIM, "usable_bytes", report->usable_bytes, "longest",
                     longest_length(report), "results", lines);
}
