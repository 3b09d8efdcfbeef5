/*
 * report.c: reads machine and compiler from /proc, /sys and the compiler's macros, computes
 * the figures of a line, and writes the report as JSON (docs/reference/json.md).
 */
#include "bench/report.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench/roof/roof.h"
#include "engine/base/cores.h"
#include "engine/base/cpu.h"
#include "kit/system/file.h"

#define FILE_BYTES_MAX 65536u
#define SHOWN_BYTES 120

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char *cpu_name(struct af_arena *arena)
{
    struct af_span content, line;
    if (af_file_read_start(arena, "/proc/cpuinfo", FILE_BYTES_MAX, &content, NULL) !=
        ANYFLASH_OK)
        return "unknown";
    while (af_text_line(&content, &line)) {
        const char *colon = memchr(line.data, ':', line.len);
        if (colon == NULL || line.len < 10 || memcmp(line.data, "model name", 10) != 0)
            continue;
        size_t skip = (size_t)(colon - line.data) + 1;
        struct af_span name = af_text_trim((struct af_span){colon + 1, line.len - skip});
        return af_text_scrub(arena, af_arena_text_n(arena, name.data, name.len), SHOWN_BYTES);
    }
    return "unknown";
}

/* Reads one file of the first core's cache `index`, without its newline, or "". */
static const char *cache_file(struct af_arena *arena, int index, const char *name)
{
    struct af_span content;
    const char *path =
        af_arena_format(arena, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    if (af_file_read_start(arena, path, SHOWN_BYTES, &content, NULL) != ANYFLASH_OK)
        return "";
    content = af_text_trim(content);
    const char *text = af_arena_text_n(arena, content.data, content.len);
    return af_text_scrub(arena, text, SHOWN_BYTES);
}

static const char *cache_sizes(struct af_arena *arena)
{
    const char *list = "";
    for (int index = 0; index < 8; index++) {
        const char *level = cache_file(arena, index, "level");
        const char *size = cache_file(arena, index, "size");
        if (size[0] != '\0' && !af_equal(cache_file(arena, index, "type"), "Instruction"))
            list = af_arena_format(arena, "%s%sL%s %s", list, list[0] != '\0' ? ", " : "",
                                   level, size);
    }
    return list;
}

void af_bench_facts_read(struct af_arena *arena, int threads, struct af_bench_facts *facts_out)
{
    char features[128];
    struct utsname names;
    af_roof_features(features, sizeof features);
    facts_out->cores = af_usable_cores();
    facts_out->threads = threads > 0 ? threads : facts_out->cores;
    facts_out->cpu = cpu_name(arena);
    facts_out->features = af_arena_text(arena, features);
    facts_out->caches = cache_sizes(arena);
    facts_out->compiler = COMPILER;
    facts_out->roof_f32 = af_roof_name(AF_ROOF_F32, af_cpu_features());
    facts_out->roof_bf16 = af_roof_name(AF_ROOF_BF16, af_cpu_features());
    facts_out->os = uname(&names) == 0 ? af_arena_format(arena, "%s %s %s", names.sysname,
                                                         names.release, names.machine)
                                       : "unknown";
}

double af_bench_line_ms(const struct af_bench_line *line)
{
    return af_bench_samples_at(&line->timing.ms, 0.5);
}

double af_bench_line_part(const struct af_bench_line *line)
{
    return af_bench_samples_at(&line->timing.part, 0.5);
}

double af_bench_line_rate(const struct af_bench_line *line)
{
    double ms = af_bench_line_ms(line);
    return ms > 0 ? line->timing.work / ms * 1e-6 : 0;
}

double af_bench_line_overhead_us(const struct af_bench_line *line)
{
    double read_rate = af_bench_samples_at(&line->timing.roof, 0.5);
    double read_us = read_rate > 0 ? line->timing.work / read_rate * 1e6 : 0;
    return fmax(0, af_bench_line_ms(line) * 1e3 - read_us);
}

bool af_bench_starts_group(const struct af_bench_report *report, size_t i)
{
    const struct af_bench_case *row = report->lines[i].row;
    return i == 0 || row->operation != report->lines[i - 1].row->operation ||
           row->level != report->lines[i - 1].row->level;
}

/* Describes the case of a line. */
static json_t *json_row(const struct af_bench_case *row)
{
    char shape[AF_BENCH_NAME_BYTES];
    af_bench_shape(row, shape);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
                     "operation", af_bench_operation_text(row->operation), "level",
                     af_bench_level_text(row), "shape", shape, "dtype",
                     af_bench_dtype_text(row), "heads", (json_int_t)row->heads, "kv_heads",
                     (json_int_t)row->kv_heads, "q_len", (json_int_t)row->q_len, "k_len",
                     (json_int_t)row->k_len, "head_dim", (json_int_t)row->head_dim, "value_dim",
                     (json_int_t)row->value_dim, "batch", (json_int_t)row->batch, "page_size",
                     (json_int_t)row->page_size, "causal", row->causal);
}

static json_t *json_line(const struct af_bench_report *report, const struct af_bench_line *line)
{
    const struct af_bench_case *row = line->row;
    const struct af_bench_timing *timing = &line->timing;
    json_t *result = json_row(row);
    json_t *compared = json_null();
    if (report->other_path != NULL)
        compared = json_pack("{s:f, s:f, s:b}", "ratio",
                             af_bench_samples_at(&timing->other_ratio, 0.5), "ratio_spread",
                             af_bench_samples_spread(&timing->other_ratio), "same_bits",
                             timing->other_agrees);
    json_t *figures = json_pack(
        "{s:s, s:f, s:f, s:f, s:i, s:s, s:f, s:f, s:f, s:o}", "kernel", timing->kernel,
        "median_ms", af_bench_line_ms(line), "minimum_ms", af_bench_samples_at(&timing->ms, 0),
        "spread", af_bench_samples_spread(&timing->ms), "samples", (int)timing->ms.count,
        "unit", af_bench_reads(row) ? "GB/s" : "GFLOP/s", "rate", af_bench_line_rate(line),
        "roof_rate", af_bench_samples_at(&timing->roof, 0.5) * 1e-9, "roof_part",
        af_bench_line_part(line), "compared", compared);
    json_object_update(result, figures);
    json_decref(figures);
    if (row->operation == AF_BENCH_CALL)
        json_object_set_new(result, "overhead_us", json_real(af_bench_line_overhead_us(line)));
    return result;
}

json_t *af_bench_json_case(const struct af_bench_report *report, size_t i)
{
    const struct af_bench_timing *timing = &report->lines[i].timing;
    json_t *json = json_row(report->lines[i].row);
    json_t *results = json_array();
    for (size_t r = 0; r < timing->result_count; r++) {
        json_t *numbers = json_array();
        for (size_t p = 0; p < AF_BENCH_PROBES; p++)
            json_array_append_new(numbers, json_real((double)timing->results[r][p]));
        json_array_append_new(results, numbers);
    }
    json_object_set_new(json, "results", results);
    json_object_set_new(json, "left", json_integer((json_int_t)(report->count - i)));
    return json;
}

json_t *af_bench_json_machine(const struct af_bench_facts *facts)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s}", "cpu", facts->cpu,
                     "features", facts->features, "caches", facts->caches, "os", facts->os,
                     "compiler", facts->compiler, "threads", facts->threads, "cores",
                     facts->cores, "roof_f32", facts->roof_f32, "roof_bf16", facts->roof_bf16);
}

json_t *af_bench_json(const struct af_bench_report *report)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(lines, json_line(report, &report->lines[i]));
    return json_pack("{s:s, s:s, s:o, s:s?, s:o}", "schema", "anyflash-bench/1", "version",
                     anyflash_version_text(), "machine", af_bench_json_machine(&report->facts),
                     "compared", report->other_path, "results", lines);
}
