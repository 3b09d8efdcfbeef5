/*
 * test_rank.c: each rule of rank_rules.inc decides before all rules below it, and the table of
 * docs/design/ranking.md has the same rules in the same order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "kit/fit/verdict.h"
#include "kit/system/file.h"

#define AF_RANK_RULE(function, rule, why) RULE_##function,
enum rule {
#include "kit/fit/rank_rules.inc"
    RULE_last,
    RULE_COUNT
};
#undef AF_RANK_RULE

#define AF_RANK_RULE(function, rule, why) {rule, why},
#define AF_RANK_LAST(rule, why) {rule, why},
static const struct {
    const char *rule;
    const char *why;
} rows[] = {
#include "kit/fit/rank_rules.inc"
};
#undef AF_RANK_RULE

static void test_rank__the_page_has_the_rules_in_their_order(void **unused)
{
    (void)unused;
    struct af_arena arena;
    struct af_span page;
    const char *table = NULL;
    af_arena_init(&arena);
    assert_int_equal(
        af_file_read(&arena, AF_TEST_DATA "/../docs/design/ranking.md", 1u << 20, &page, NULL),
        ANYFLASH_OK);
    for (size_t i = 0; i < AF_COUNT(rows); i++)
        table = af_arena_format(&arena, "%s| %zu | %s | %s |\n",
                                table == NULL ? "|---|---|---|\n" : table, i + 1, rows[i].rule,
                                rows[i].why);
    table = af_arena_format(&arena, "%s\n", table);
    if (strstr(page.data, table) == NULL)
        fail_msg("docs/design/ranking.md should have this table:\n%s", table);
    af_arena_release(&arena);
}

/* A wheel and its verdict: good or bad by each rule. */
struct ranked {
    struct af_catalog_wheel wheel;
    struct af_candidate candidate;
};

static void set(struct ranked *ranked, int rule, bool good)
{
    static const uint64_t notes = AF_REASON_BIT(AF_REASON_WHEEL_TORCH_UNKNOWN) |
                                  AF_REASON_BIT(AF_REASON_UNKNOWN_GLIBC) |
                                  AF_REASON_BIT(AF_REASON_UNKNOWN_ABI);
    struct af_catalog_wheel *wheel = &ranked->wheel;
    uint64_t *bits = &ranked->candidate.reason_bits;
    switch (rule) {
    case RULE_fits:
        ranked->candidate.answer = good ? AF_YES : AF_UNKNOWN;
        break;
    case RULE_own_torch:
        *bits |= good ? 0 : AF_REASON_BIT(AF_REASON_TORCH_NEIGHBOUR);
        break;
    case RULE_upstream:
        wheel->version = good ? "2.8.3" : "2.8.999";
        break;
    case RULE_official:
        wheel->official = good;
        break;
    case RULE_true_label:
        wheel->cxx11abi = AF_YES;
        wheel->cxx11abi_effective = good ? AF_YES : AF_NO;
        break;
    case RULE_newest:
        wheel->version_rank = good;
        break;
    case RULE_same_cuda:
        wheel->torch_build_cuda = good ? "128" : "126";
        break;
    case RULE_promises:
        wheel->glibc_basis = good ? "platform_tag" : "observed";
        break;
    case RULE_settled:
        *bits |= good ? 0 : notes;
        break;
    case RULE_seen:
        wheel->listed = good;
        break;
    case RULE_consistent:
        wheel->metadata_has_local = good ? AF_YES : AF_NO;
        break;
    default:
        wheel->release_tag = good ? "v2" : "v1";
        break;
    }
}

/* Good before `rule`; good by `rule` and bad after it, or the other way round. */
static void make(struct ranked *ranked, int rule, bool good)
{
    *ranked = (struct ranked){
        .wheel = {.package = "flash_attn", .source = "a/b", .filename = "a.whl"}};
    ranked->candidate.wheel = &ranked->wheel;
    for (int i = 0; i < RULE_COUNT; i++)
        set(ranked, i, i < rule || (i == rule) == good);
    if (rule == RULE_upstream ||
        rule == RULE_seen) /* what is official is upstream's, and there */
        ranked->wheel.official = false;
    if (rule == RULE_upstream)
        ranked->wheel.listed = true; /* else the first rule would decide */
    if (rule == RULE_fits) {         /* there, and made for this torch */
        ranked->wheel.listed = true;
        ranked->candidate.reason_bits &= ~AF_REASON_BIT(AF_REASON_TORCH_NEIGHBOUR);
    }
}

static void test_rank__each_rule_decides_before_all_below_it(void **unused)
{
    (void)unused;
    struct af_view view = {
        .torch = {.major = 2, .minor = 8, .cuda_major = 12, .cuda_minor = 8}};
    const struct af_fit_context fit = {.views = &view, .view_count = 1};
    for (int rule = 0; rule < RULE_COUNT; rule++) {
        struct ranked better;
        struct ranked worse;
        make(&better, rule, true);
        make(&worse, rule, false);
        if (af_rank_compare(&fit, &better.candidate, &worse.candidate) >= 0 ||
            af_rank_compare(&fit, &worse.candidate, &better.candidate) <= 0)
            fail_msg("'%s' does not decide", rows[rule].rule);
    }
}

static void test_rank__a_derived_address_is_behind_what_lacks_only_a_fact(void **unused)
{
    static const struct {
        bool listed;
        enum af_answer answer;
        enum af_reason_id open;
    } order[] = {
        {true, AF_YES, AF_REASON_UNKNOWN_GLIBC},
        {true, AF_UNKNOWN, AF_REASON_UNKNOWN_GLIBC},
        {false, AF_YES, AF_REASON_UNKNOWN_GLIBC},
        {true, AF_UNKNOWN, AF_REASON_WHEEL_TORCH_UNKNOWN},
        {false, AF_UNKNOWN, AF_REASON_UNKNOWN_GLIBC},
    };
    struct af_view view = {.torch = {.major = 2, .minor = 8}};
    const struct af_fit_context fit = {.views = &view, .view_count = 1};
    struct ranked both[2];
    (void)unused;
    for (size_t i = 1; i < AF_COUNT(order); i++) {
        for (size_t j = 0; j < 2; j++) {
            make(&both[j], RULE_last, true);
            both[j].wheel.official = false;
            both[j].wheel.version_rank = (int)i; /* the newer one is behind */
            both[j].wheel.listed = order[i - 1 + j].listed;
            both[j].candidate.answer = order[i - 1 + j].answer;
            both[j].candidate.reason_bits = order[i - 1 + j].answer == AF_UNKNOWN
                                                ? AF_REASON_BIT(order[i - 1 + j].open)
                                                : 0;
        }
        if (af_rank_compare(&fit, &both[0].candidate, &both[1].candidate) >= 0)
            fail_msg("row %zu is not before the next one", i - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank__the_page_has_the_rules_in_their_order),
        cmocka_unit_test(test_rank__each_rule_decides_before_all_below_it),
        cmocka_unit_test(test_rank__a_derived_address_is_behind_what_lacks_only_a_fact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
