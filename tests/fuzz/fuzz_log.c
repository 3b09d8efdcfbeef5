/*
 * fuzz_log.c: any bytes as a log, in one piece and byte by byte: both must give
 * the same diagnosis. Its texts must be printable. A few rows stand for the
 * embedded table, and are prepared once.
 */
#include <stdlib.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/doctor/diagnosis.h"
#include "kit/doctor/rows/signature_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct af_signature_table signatures;
static struct af_log_matcher matcher;

static const struct af_cause cause_rows[] = {
    {.id = "one", .title = "{symbol} {v}", .why = "w", .next = "n", .fix = "f"},
    {.id = "two",
     .title = "t",
     .why = "w",
     .next = "{torch.version}",
     .fix = "f",
     .avoid = "a"}};
static const struct af_cause_table causes = {cause_rows, AF_COUNT(cause_rows)};
static const char signatures_text[] =
    "{\"id\":\"symbol\",\"any\":[\"undefined symbol: "
    "{symbol}\"],\"phase\":\"import\",\"kind\":\"fault\","
    "\"causes\":[{\"cause\":\"one\",\"score\":90,\"if\":[\"symbol.is_torch is "
    "true\"]}],\"source\":\"x\"}\n"
    "{\"id\":\"glibc\",\"any\":[\"GLIBC_{v:version}' not "
    "found\"],\"phase\":\"import\",\"kind\":\"fault\","
    "\"near\":[\"@any-error\"],\"causes\":[{\"cause\":\"two\",\"score\":80,"
    "\"proves\":[\"platform.libc_version < {v}\"]}],\"source\":\"x\"}\n"
    "{\"id\":\"killed\",\"any\":[\"^Killed$\",\"signal "
    "9\"],\"phase\":\"build\",\"kind\":\"symptom\","
    "\"not_near\":[\"Success*ly\"],\"causes\":[{\"cause\":\"one\",\"score\":40}],\"source\":"
    "\"x\"}\n"
    "{\"id\":\"any-error\",\"any\":[\"Error\",\"error {a}: * {b}? "
    "\\\\*\"],\"phase\":\"run\",\"kind\":\"context\","
    "\"source\":\"x\"}\n";

static void require(bool good)
{
    if (!good)
        abort();
}

static void start(void)
{
    static struct af_arena arena;
    static bool started;
    if (started)
        return;
    started = true;
    af_json_start();
    af_arena_init(&arena);
    require(af_jsonl_read_signatures((struct af_span){signatures_text, strlen(signatures_text)},
                                     "signatures", &causes, &arena, &signatures,
                                     NULL) == ANYFLASH_OK);
    require(af_log_matcher_build(&signatures, "/srv/env", &arena, &matcher, NULL) ==
            ANYFLASH_OK);
}

/* The answer as text; free it with af_text_release(). */
static struct af_text diagnose(const uint8_t *data, size_t size, size_t piece)
{
    struct af_arena arena;
    struct af_machine machine;
    struct af_log_evidence *evidence;
    static struct af_diagnosis diagnosis;
    struct af_text out = {0};
    af_arena_init(&arena);
    af_machine_init(&machine, "fuzz", "not given");
    evidence = af_log_evidence_new(&matcher, &arena);
    af_log_evidence_begin(evidence, "fuzz");
    for (size_t at = 0; at < size; at += piece)
        af_log_evidence_feed(evidence, (const char *)data + at,
                             size - at < piece ? size - at : piece);
    af_log_evidence_end(evidence);
    af_log_evidence_apply(evidence, &machine);
    require(af_diagnosis_make(evidence, &machine, NULL, &arena, &diagnosis, NULL) ==
            ANYFLASH_OK);
    require(af_json_write_take(af_diagnosis_json(&diagnosis, evidence, "fuzz"), &out, NULL) ==
            ANYFLASH_OK);
    af_log_evidence_release(evidence);
    af_machine_release(&machine);
    af_arena_release(&arena);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    if (size > 100000)
        return 0;
    struct af_text whole = diagnose(data, size, size + 1);
    struct af_text pieces = diagnose(data, size, 1);
    require(strcmp(af_text_get(&whole), af_text_get(&pieces)) == 0);
    for (size_t i = 0; i < whole.len; i++)
        require((unsigned char)whole.data[i] >= ' ' || whole.data[i] == '\n');
    af_text_release(&whole);
    af_text_release(&pieces);
    return 0;
}
