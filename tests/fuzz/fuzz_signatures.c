/*
 * fuzz_signatures.c: any text as rows of signatures.jsonl. A table that is
 * accepted is tried on the text itself: every match lies within its line.
 */
#include <stdlib.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/doctor/log/signature.h"
#include "kit/doctor/rows/signature_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct af_cause cause = {
    .id = "one", .title = "t", .why = "w", .next = "n", .fix = "f"};
static const struct af_cause_table causes = {&cause, 1};

static void require(bool good)
{
    if (!good)
        abort();
}

static void try_pattern(const struct af_pattern *pattern, struct af_span line)
{
    char folded[AF_PATTERN_LINE_MAX];
    struct af_pattern_match match;
    size_t len = line.len < sizeof folded ? line.len : sizeof folded;
    af_pattern_fold_text(line.data, len, folded);
    if (!af_pattern_find(pattern, line.data, folded, len, true, &match))
        return;
    require(match.start <= match.end && match.end <= len);
    require(memmem(folded, len, pattern->literal.data, pattern->literal.len) != NULL);
    for (size_t i = 0; i < match.capture_count; i++) {
        const struct af_span *value = &match.captures[i].value;
        require(value->len > 0 && value->data >= line.data + match.start &&
                value->data + value->len <= line.data + match.end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct af_arena arena;
    struct af_signature_table table;
    struct anyflash_error err = {0};
    struct af_span text = {(const char *)data, size};
    struct af_span line;
    if (!started) {
        af_json_start();
        started = true;
    }
    if (size > 65536)
        return 0;
    af_arena_init(&arena);
    enum anyflash_status status =
        af_jsonl_read_signatures(text, "fuzz", &causes, &arena, &table, &err);
    require(status == ANYFLASH_OK || status == ANYFLASH_E_DATA || status == ANYFLASH_E_LIMIT);
    require(status == ANYFLASH_OK || strncmp(err.message, "fuzz:", 5) == 0);
    while (status == ANYFLASH_OK && af_text_line(&text, &line)) {
        for (size_t i = 0; i < table.pattern_count; i++)
            try_pattern(&table.patterns[i], line);
    }
    af_arena_release(&arena);
    return 0;
}
