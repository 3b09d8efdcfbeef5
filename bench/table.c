/*
 * table.c: writes the report as a table as wide as the terminal, at most 96
 * columns.
 */
#include "bench/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FACT_INDENT 11
#define COLUMNS 96
#define COLUMNS_MIN 60
#define SHAPE_COLUMNS 26
#define SERVING_COLUMNS 38 /* these lines have no minimum instead */
#define RATE_COLUMNS 80    /* of the narrowest terminal that shows rate and spread */
#define PARAGRAPH_BYTES 600

static int columns_of_output(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_col == 0 || size.ws_col >= COLUMNS)
        return COLUMNS;
    return size.ws_col < COLUMNS_MIN ? COLUMNS_MIN : size.ws_col;
}

/* Adds `label` and a formatted text, wrapped and indented by `indent` columns. */
AF_PRINTF(4, 5)
static void wrap(struct af_text *out, int indent, const char *label, const char *format, ...)
{
    char text[PARAGRAPH_BYTES];
    const int columns = columns_of_output();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    af_text_format(out, "%-*s", indent, label);
    int at = indent;
    for (const char *word = text; *word != '\0';) {
        int len = (int)strcspn(word, " ");
        if (at > indent && at + 1 + len > columns) {
            af_text_format(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            af_text_add(out, " ");
            at++;
        }
        af_text_add_n(out, word, (size_t)len);
        at += len;
        word += len + (word[len] == ' ');
    }
    af_text_add(out, "\n");
}

void af_bench_table_start(const struct af_bench_report *report, struct af_text *out)
{
    const struct af_bench_facts *facts = &report->facts;
    wrap(out, FACT_INDENT, "machine", "%s, %s%s%s", facts->cpu, facts->features,
         facts->caches[0] != '\0' ? ", " : "", facts->caches);
    wrap(out, FACT_INDENT, "runs on", "%d of %d cores, %s", facts->threads, facts->cores,
         facts->os);
    wrap(out, FACT_INDENT, "built by", "%s", facts->compiler);
    if (report->other_path != NULL)
        wrap(out, FACT_INDENT, "compared", "%s", report->other_path);
}

static int shape_columns(const struct af_bench_case *row)
{
    return row->operation == AF_BENCH_SERVING ? SERVING_COLUMNS : SHAPE_COLUMNS;
}

/* "forward", "forward, AVX2 level", as wide as a shape. */
static void add_group(const struct af_bench_case *row, struct af_text *out)
{
    char text[SERVING_COLUMNS + 3];
    snprintf(text, sizeof text, "%s%s", af_bench_operation_text(row->operation),
             row->level == ANYFLASH_CPU_ALL ? "" : ", AVX2 level");
    af_text_format(out, "\n%-*s", shape_columns(row) + 2, text);
}

/* A narrow terminal has no space for every column; --json has all. */
static bool shows_rate(void)
{
    return columns_of_output() >= RATE_COLUMNS;
}

static bool shows_all(void)
{
    return columns_of_output() == COLUMNS;
}

static bool shows_minimum(const struct af_bench_case *row)
{
    return shows_all() && row->operation != AF_BENCH_SERVING;
}

static void add_heading(const struct af_bench_case *row, struct af_text *out)
{
    add_group(row, out);
    af_text_format(out, " %9s%s", "median ms", shows_minimum(row) ? "    min ms" : "");
    if (shows_rate())
        af_text_format(out, " spread %8s", af_bench_reads(row) ? "GB/s" : "GFLOP/s");
    af_text_format(out, " %7s%s\n", row->operation == AF_BENCH_CALL ? "over us" : "roof",
                   shows_all() ? "  kernel" : "");
}

static void add_other_heading(const struct af_bench_case *row, struct af_text *out)
{
    add_group(row, out);
    af_text_format(out, " %9s %7s  %-16s %s\n", "median ms", "ratio", "quartiles", "results");
}

/* Adds three or four significant digits. */
static void add_ms(struct af_text *out, double ms)
{
    af_text_format(out, " %9.*f", ms < 0.1 ? 5 : ms < 10 ? 3 : ms < 100 ? 2 : 1, ms);
}

/* The part of a kernel's name after "__": level and tile. */
static const char *level_and_tile(const char *kernel)
{
    const char *at = strstr(kernel, "__");
    return at != NULL ? at + 2 : kernel;
}

static void add_shape(const struct af_bench_line *line, struct af_text *out)
{
    char shape[AF_BENCH_NAME_BYTES];
    af_bench_shape(line->row, shape);
    af_text_format(out, "  %-*s", shape_columns(line->row), shape);
}

static void add_line(const struct af_bench_line *line, struct af_text *out)
{
    add_shape(line, out);
    add_ms(out, af_bench_line_ms(line));
    if (shows_minimum(line->row))
        add_ms(out, af_bench_samples_at(&line->timing.ms, 0));
    if (shows_rate())
        af_text_format(out, " %4.0f %% %8.1f", af_bench_samples_spread(&line->timing.ms) * 100,
                       af_bench_line_rate(line));
    if (line->row->operation == AF_BENCH_CALL)
        af_text_format(out, " %7.2f", af_bench_line_overhead_us(line));
    else
        af_text_format(out, " %5.0f %%", af_bench_line_part(line) * 100);
    if (shows_all())
        af_text_format(out, "  %s", level_and_tile(line->timing.kernel));
    af_text_add(out, "\n");
}

static void add_other_line(const struct af_bench_line *line, struct af_text *out)
{
    const struct af_bench_samples *ratio = &line->timing.other_ratio;
    add_shape(line, out);
    add_ms(out, af_bench_line_ms(line));
    af_text_format(out, " %7.3f  %.3f to %.3f   %s\n", af_bench_samples_at(ratio, 0.5),
                   af_bench_samples_at(ratio, 0.25), af_bench_samples_at(ratio, 0.75),
                   line->timing.other_agrees ? "same bits" : "other bits");
}

static bool any_of(const struct af_bench_report *report, enum af_bench_operation operation)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->lines[i].row->operation == operation)
            return true;
    return false;
}

/* Explains the terms that the shapes of this table have. */
static void add_serving_note(const struct af_bench_report *report, struct af_text *out)
{
    bool has_range = false, has_long = false, has_pages = false, has_f8 = false;
    for (size_t i = 0; i < report->count; i++) {
        const struct af_bench_case *row = report->lines[i].row;
        has_range |= row->lengths == AF_BENCH_SPREAD;
        has_long |= row->lengths == AF_BENCH_ONE_LONG;
        has_pages |= row->page_size > 0;
        has_f8 |= row->key_dtype == ANYFLASH_F8_E4M3;
    }
    wrap(out, 2, "",
         "serving: one step for a batch of B sequences%s%s%s%s. Its roof is "
         "reading or arithmetic, whichever takes longer.",
         has_range ? "; Sk32k-128: of 32768 down to 128 keys" : "",
         has_long ? "; Sk32k,128: one long, the others short" : "",
         has_pages ? "; p16: keys in pages of 16, in random order" : "",
         has_f8 ? "; e4m3: keys and values in fp8, queries in bf16" : "");
}

void af_bench_table_line(const struct af_bench_report *report, size_t i, struct af_text *out)
{
    const struct af_bench_line *line = &report->lines[i];
    const bool has_other = report->other_path != NULL;
    if (af_bench_starts_group(report, i) && has_other)
        add_other_heading(line->row, out);
    else if (af_bench_starts_group(report, i))
        add_heading(line->row, out);
    if (has_other)
        add_other_line(line, out);
    else
        add_line(line, out);
}

/* Explains the terms of the table. */
void af_bench_table_end(const struct af_bench_report *report, struct af_text *out)
{
    af_text_add(out, "\n");
    if (report->other_path != NULL) {
        wrap(out, 2, "",
             "ratio: the time of the library given by --compare, divided by this "
             "library's, on the same inputs and by turns: the median, and the middle "
             "half.");
        return;
    }
    wrap(out, 2, "",
         "roof: share of this machine's measured limit: arithmetic in registers (%s; "
         "%s for bf16), or for decode reading the keys and values.",
         report->facts.roof_f32, report->facts.roof_bf16);
    if (shows_rate())
        wrap(out, 2, "",
             "spread: width of the middle half of the samples, as a share of the "
             "median.");
    if (any_of(report, AF_BENCH_CALL))
        wrap(out, 2, "",
             "over us: microseconds more than one thread needs to read the keys and "
             "values.");
    if (any_of(report, AF_BENCH_SERVING))
        add_serving_note(report, out);
}
