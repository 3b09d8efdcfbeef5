/*
 * bench_table.c: the report as a table within 96 columns. Called by cmd_bench.c.
 */
#include "cli/bench_table.h"

#include <math.h>

#define FACT_INDENT 11

static void add_facts(const struct af_bench_report *report, struct af_page *page)
{
    const struct af_bench_facts *facts = &report->facts;
    af_page_format(page, FACT_INDENT, "machine", AF_TONE_PLAIN, "%s, %s%s%s", facts->cpu,
                   facts->features, facts->caches[0] != '\0' ? ", " : "", facts->caches);
    af_page_format(page, FACT_INDENT, "runs on", AF_TONE_PLAIN, "%d of %d cores, %s",
                   facts->threads, facts->cores, facts->os);
    af_page_format(page, FACT_INDENT, "built by", AF_TONE_PLAIN, "%s", facts->compiler);
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && report->python != NULL; i++) {
        const struct af_bench_peer *peer = &report->peers[i];
        af_page_format(page, FACT_INDENT, i == 0 ? "peers" : "", AF_TONE_PLAIN, "%s %s",
                       peer->name,
                       peer->version != NULL   ? peer->version
                       : peer->absence != NULL ? peer->absence
                                               : "not there");
    }
}

static void add_heading(const struct af_bench_report *report, const struct af_bench_case *row,
                        struct af_text *out)
{
    bool reads = af_bench_reads(row);
    af_text_format(out, "\n%-27s %9s %9s %6s %8s %6s", af_bench_operation_text(row->operation),
                   "median ms", "min ms", "spread", reads ? "GB/s" : "GFLOP/s", "roof");
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && report->python != NULL; i++)
        if (report->peers[i].version != NULL)
            af_text_format(out, " %7.7s", report->peers[i].name);
    af_text_add(out, "\n");
}

/* Three or four digits, whatever the size. */
static void add_ms(struct af_text *out, double ms)
{
    af_text_format(out, " %9.*f", ms < 0.1 ? 5 : ms < 10 ? 3 : ms < 100 ? 2 : 1, ms);
}

static void add_peer(const struct af_bench_line *line, size_t i, struct af_text *out)
{
    const struct af_bench_peer_timing *peer = &line->peers[i];
    double ratio = af_bench_line_ratio(line, i);
    if (ratio <= 0)
        af_text_format(out, " %7s", "-");
    else if (!af_bench_peer_agrees(line->row, peer->difference))
        af_text_format(out, " %7s", "differs");
    else
        af_text_format(out, " %5.*fx%s", ratio < 100 ? 2 : 0, ratio,
                       af_equal(peer->dtype, af_bench_dtype_text(line->row)) ? " " : "*");
}

static void add_line(const struct af_bench_report *report, const struct af_bench_line *line,
                     struct af_text *out)
{
    char shape[AF_BENCH_NAME_BYTES];
    af_bench_shape(line->row, shape);
    af_text_format(out, "  %-25s", shape);
    add_ms(out, af_bench_line_ms(line));
    add_ms(out, af_bench_samples_at(&line->timing.ms, 0));
    af_text_format(out, " %4.0f %% %8.1f", af_bench_samples_spread(&line->timing.ms) * 100,
                   af_bench_line_rate(line));
    if (line->row->operation == AF_BENCH_CALL)
        af_text_format(out, " %6s", "-");
    else
        af_text_format(out, " %4.0f %%", af_bench_line_part(line) * 100);
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && report->python != NULL; i++)
        if (report->peers[i].version != NULL)
            add_peer(line, i, out);
    af_text_add(out, "\n");
}

/* What the table's words mean; the reader needs no manual. */
static void add_notes(const struct af_bench_report *report, struct af_page *page)
{
    double difference = 0;
    for (size_t i = 0; i < report->count; i++)
        for (size_t p = 0; p < AF_BENCH_PEER_COUNT; p++)
            difference = fmax(difference, report->lines[i].peers[p].difference);
    af_page_gap(page);
    af_page_format(
        page, 2, "", AF_TONE_DIM,
        "roof: the part that was reached of multiply-adds in registers (%s, and %s for "
        "bf16), for decode of a plain read of the same keys and values, measured "
        "around each sample. spread: width of the middle half.",
        report->facts.roof_f32, report->facts.roof_bf16);
    if (report->python != NULL)
        af_page_format(
            page, 2, "", AF_TONE_DIM,
            "Under a peer's name: how many times as long it takes on the same inputs; "
            "* in f16, - not done by it. Its results are those of the engine, at most "
            "%.1e of the largest apart, unless it says 'differs'.",
            difference);
}

void af_bench_table(const struct af_bench_report *report, struct af_page *page)
{
    add_facts(report, page);
    for (size_t i = 0; i < report->count; i++) {
        const struct af_bench_line *line = &report->lines[i];
        if (i == 0 || line->row->operation != report->lines[i - 1].row->operation)
            add_heading(report, line->row, page->out);
        add_line(report, line, page->out);
    }
    add_notes(report, page);
}
