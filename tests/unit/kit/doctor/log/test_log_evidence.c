/*
 * test_log_evidence.c: the cache of recent lines changes nothing: random logs that repeat
 * themselves are read with it, and with a cache that forgets each line. Nor does it change
 * anything that lines which repeat are not read again and again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/doctor/log/log_evidence.h"
#include "kit/doctor/rows/signature_rows.h"

#define LOGS 60
#define LINES 400

static const struct af_cause cause = {
    .id = "one", .title = "t", .why = "w", .next = "n", .fix = "f"};
static const struct af_cause_table causes = {&cause, 1};
#define ROW(id, kind, any, rest)                                                               \
    "{\"id\":\"" id "\",\"any\":[" any "],\"phase\":\"build\",\"kind\":\"" kind                \
    "\",\"source\":\"test\"" rest ",\"causes\":[{\"cause\":\"one\",\"score\":50}]}\n"
#define SYMBOL "\"undefined symbol: {symbol}\""
#define WRAPPED "\"was built * for another version of {name}\""
#define START "\"^Killed$\",\"{who}: fatal error\""
#define ERROR "\"error?: * {v:version}\""

static const char rows_text[] = ROW("symbol", "fault", SYMBOL, ",\"near\":[\"import*Error\"]")
    ROW("wrapped", "fault", WRAPPED, "") ROW("start", "fault", START, "")
        ROW("error", "symptom", ERROR, ",\"not_near\":[\"all is well\"]");

/* Some match alone, some only joined with the next line, some nearly. */
static const char *const vocabulary[] = {
    "ImportError: a.so: undefined symbol: _ZN3c10E",
    "IMPORTERROR: A.SO: UNDEFINED SYMBOL: _ZN3C10E",
    "undefined symbol",
    "this extension, which has a name that fills the line, was built by someone",
    "for another version of torch",
    "it was built for another version of ",
    "Killed",
    "> Killed",
    "Killed by the kernel",
    "nvcc: fatal error",
    ": fatal error",
    "error!: something about 2.4.0",
    "error!: something about nothing",
    "all is well",
    "Successfully installed torch-2.4.0 flash-attn-2.6.3",
    "Successfully installed torch-2.5.1",
    "Guessing wheel flash_attn-2.6.3+cu12torch2.4cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
    "/srv/env/bin/python",
    " 10%\r 20%\rKilled",
    "",
    "nothing",
};

struct reading {
    struct af_arena arena;
    struct af_log_evidence *evidence;
};

static uint32_t state;

static uint32_t pick(uint32_t count)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % count;
}

/* Lines in a random order, often the same few over and over. */
static void write_log(struct af_text *log)
{
    uint32_t first = pick(AF_COUNT(vocabulary));
    uint32_t count = 1 + pick(pick(2) == 0 ? 3 : AF_COUNT(vocabulary));
    for (int i = 0; i < LINES; i++) {
        const char *line = vocabulary[(first + pick(count)) % AF_COUNT(vocabulary)];
        if (pick(50) == 0)
            af_text_format(log, "%d ", i);
        af_text_format(log, "%s\n", line);
    }
}

static void read_log(struct reading *reading, const struct af_log_matcher *matcher,
                     struct af_span log, bool forget)
{
    struct af_span line;
    af_arena_init(&reading->arena);
    reading->evidence = af_log_evidence_new(matcher, &reading->arena);
    af_log_evidence_begin(reading->evidence, "test");
    while (af_text_line(&log, &line)) {
        af_log_evidence_feed(reading->evidence, line.data, line.len);
        af_log_evidence_feed(reading->evidence, "\n", 1);
        if (forget) /* as if the whole cache had been written once more */
            reading->evidence->cache.written +=
                (uint64_t)AF_LOG_CACHE_CHUNK_BYTES * AF_LOG_CACHE_CHUNKS;
    }
    af_log_evidence_end(reading->evidence);
}

static void release(struct reading *reading)
{
    af_log_evidence_release(reading->evidence);
    af_arena_release(&reading->arena);
}

static void assert_same_ranges(const struct af_log_ranges *one,
                               const struct af_log_ranges *other)
{
    assert_int_equal(one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        assert_int_equal(one->rows[i].first, other->rows[i].first);
        assert_int_equal(one->rows[i].last, other->rows[i].last);
    }
}

static void assert_same_hits(const struct af_log_hits *one, const struct af_log_hits *other)
{
    assert_int_equal(one->total, other->total);
    assert_int_equal(one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        const struct af_log_hit *hit = &one->rows[i];
        const struct af_log_hit *same = &other->rows[i];
        assert_int_equal(hit->line, same->line);
        assert_string_equal(hit->text, same->text);
        assert_int_equal(hit->capture_count, same->capture_count);
        for (size_t c = 0; c < hit->capture_count; c++) {
            assert_string_equal(hit->captures[c].name, same->captures[c].name);
            assert_int_equal(hit->captures[c].value.len, same->captures[c].value.len);
            assert_int_equal(hit->captures[c].value.data - hit->text,
                             same->captures[c].value.data - same->text);
        }
    }
}

static void assert_same(const struct af_log_evidence *one, const struct af_log_evidence *other)
{
    for (size_t i = 0; i < one->table->count; i++) {
        assert_same_hits(&one->hits[i], &other->hits[i]);
        assert_same_ranges(&one->signatures[i], &other->signatures[i]);
    }
    for (size_t i = 0; i < one->table->pattern_count; i++)
        assert_same_ranges(&one->patterns[i], &other->patterns[i]);
    assert_string_equal(one->asked, other->asked);
    assert_int_equal(one->asked_line, other->asked_line);
    assert_memory_equal(&one->owners, &other->owners, sizeof one->owners);
    assert_int_equal(one->wheel_line, other->wheel_line);
    assert_int_equal(one->needle_line, other->needle_line);
    assert_int_equal(one->line_count, other->line_count);
}

static void a_cache_that_forgets_gives_the_same_evidence(void **unused)
{
    struct af_arena arena;
    struct af_signature_table table;
    struct af_log_matcher matcher;
    uint64_t hits = 0;
    (void)unused;
    af_arena_init(&arena);
    assert_int_equal(af_jsonl_read_signatures((struct af_span){rows_text, strlen(rows_text)},
                                              "rows", &causes, &arena, &table, NULL),
                     ANYFLASH_OK);
    assert_int_equal(af_log_matcher_build(&table, "/srv/env", &arena, &matcher, NULL),
                     ANYFLASH_OK);
    for (uint32_t seed = 1; seed <= LOGS; seed++) {
        struct reading kept;
        struct reading forgotten;
        struct af_text log = {0};
        state = seed;
        write_log(&log);
        read_log(&kept, &matcher, (struct af_span){log.data, log.len}, false);
        read_log(&forgotten, &matcher, (struct af_span){log.data, log.len}, true);
        assert_same(kept.evidence, forgotten.evidence);
        for (size_t i = 0; i < table.count; i++)
            hits += kept.evidence->hits[i].count;
        release(&kept);
        release(&forgotten);
        af_text_release(&log);
    }
    assert_true(hits > LOGS); /* the logs are worth comparing */
    af_arena_release(&arena);
}

/* Equal GPUs are equal lines, and the first line of a file may be the last one of another. */
static void equal_lines_are_as_many_gpus_in_each_file(void **unused)
{
    struct af_signature_table table;
    struct af_log_matcher matcher;
    struct af_arena arena;
    (void)unused;
    af_arena_init(&arena);
    assert_int_equal(af_jsonl_read_signatures((struct af_span){rows_text, strlen(rows_text)},
                                              "rows", &causes, &arena, &table, NULL),
                     ANYFLASH_OK);
    assert_int_equal(af_log_matcher_build(&table, NULL, &arena, &matcher, NULL), ANYFLASH_OK);
    for (size_t gpus = 1; gpus <= 16; gpus++) {
        struct af_log_evidence *evidence = af_log_evidence_new(&matcher, &arena);
        static const char header[] = "name, compute_cap\n", line[] = "Tesla T4, 7.5\n";
        af_log_evidence_begin(evidence, "a.log");
        af_log_evidence_feed(evidence, header, sizeof header - 1);
        af_log_evidence_end(evidence);
        af_log_evidence_begin(evidence, "b.log");
        af_log_evidence_feed(evidence, header, sizeof header - 1);
        for (size_t i = 0; i < gpus; i++)
            af_log_evidence_feed(evidence, line, sizeof line - 1);
        af_log_evidence_end(evidence);
        assert_int_equal(evidence->machine.gpus.count, gpus);
        af_log_evidence_release(evidence);
    }
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_that_forgets_gives_the_same_evidence),
        cmocka_unit_test(equal_lines_are_as_many_gpus_in_each_file),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
