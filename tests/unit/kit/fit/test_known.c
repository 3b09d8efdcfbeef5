/*
 * test_known.c: how proofs from wheels' bytes affect a decision: they override
 * names, rank below exact matches, and never override other rules.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include "kit/base/memory.h"
#include "kit/fit/fit.h"

#define HERE "os=linux arch=x86_64 glibc=2.35 sm=8.9 driver=580.65.06 python=3.13 "
#define MADE_FOR_25                                                                            \
    "flash_attn-2.8.3.post1+cu12torch2.5cxx11abiFALSE-cp313-cp313-linux_x86_64.whl"
#define MADE_FOR_28                                                                            \
    "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp313-cp313-linux_x86_64.whl"
#define MADE_FOR_312                                                                           \
    "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
#define TORCH_24 "torch=2.4.1+cu121"
#define TORCH_28 "torch=2.8.0+cu128"
#define TORCH_29 "torch=2.9.1+cu128"

static enum anyflash_status try_decide(struct af_decision *decision, const char *words,
                                       const struct af_proved_wheel *known)
{
    struct af_machine machine;
    machine_of(&machine, words);
    const struct af_machine *machines[] = {&machine};
    const struct af_fit_options options = {.known = known, .known_count = known != NULL};
    enum anyflash_status status =
        af_fit_decide(&catalog, machines, 1, &options, decision, NULL);
    af_machine_release(&machine);
    return status;
}

static void decide(struct af_decision *decision, const char *words, const char *filename,
                   enum af_answer loads)
{
    const struct af_proved_wheel known = {.wheel = wheel_named(filename),
                                          .loads = loads,
                                          .evidence = "3 functions are missing",
                                          .built_for = "torch 2.5"};
    assert_int_equal(try_decide(decision, words, &known), ANYFLASH_OK);
}

static const char *detail_of(const struct af_rung *rung, enum af_reason_id id)
{
    for (size_t i = 0; i < rung->reason_count; i++)
        if (rung->reasons[i].id == id)
            return rung->reasons[i].detail;
    fail_msg("the rung has no %s", af_reasons[id].text_id);
    return NULL;
}

static void test_known__without_a_proof_a_neighbour_is_to_be_proved_first(void **state)
{
    struct af_decision decision;
    (void)state;
    assert_int_equal(try_decide(&decision, HERE TORCH_24, NULL), ANYFLASH_OK);
    const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
    assert_int_equal(rung->answer, AF_UNKNOWN);
    assert_string_equal(rung->wheel->filename, MADE_FOR_25);
    assert_true(rung->prove_first);
    assert_int_not_equal(decision.recommended, AF_RUNG_WHEEL);
    af_decision_release(&decision);
}

static void test_known__a_proved_neighbour_is_offered_and_says_for_what_it_was_built(
    void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, HERE TORCH_24, MADE_FOR_25, AF_YES);
    const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
    assert_int_equal(decision.recommended, AF_RUNG_WHEEL);
    assert_int_equal(rung->answer, AF_YES);
    assert_false(rung->prove_first);
    assert_string_equal(rung->wheel->filename, MADE_FOR_25);
    assert_string_equal(
        detail_of(rung, AF_REASON_PROVED),
        "torch 2.5, but torch 2.4.1+cu121 is installed; its binaries were built for torch "
        "2.5");
    af_decision_release(&decision);
}

static void test_known__a_proof_stands_above_a_name_that_is_refused(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, HERE TORCH_29, MADE_FOR_28, AF_YES);
    size_t place = 0;
    while (strcmp(decision.candidates[place].wheel->filename, MADE_FOR_28) != 0)
        place++;
    assert_int_equal(decision.candidates[place].answer, AF_YES);
    af_decision_release(&decision);
}

static void test_known__an_exact_match_stands_above_a_proved_one(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, HERE TORCH_28, MADE_FOR_25, AF_YES);
    assert_string_equal(decision.rungs[AF_RUNG_WHEEL].wheel->filename, MADE_FOR_28);
    size_t place = 0;
    while (strcmp(decision.candidates[place].wheel->filename, MADE_FOR_25) != 0)
        place++;
    assert_int_equal(decision.candidates[place].answer, AF_YES);
    for (size_t i = place + 1; i < decision.candidate_count; i++)
        assert_int_not_equal(decision.candidates[i].answer, AF_YES);
    af_decision_release(&decision);
}

static void test_known__a_name_that_fits_yields_to_bytes_that_do_not_load(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, HERE TORCH_28, MADE_FOR_28, AF_NO);
    assert_string_not_equal(decision.rungs[AF_RUNG_WHEEL].wheel->filename, MADE_FOR_28);
    for (size_t i = 0; i < decision.candidate_count; i++)
        if (strcmp(decision.candidates[i].wheel->filename, MADE_FOR_28) == 0)
            assert_int_equal(decision.candidates[i].answer, AF_NO);
    af_decision_release(&decision);
}

static void test_known__what_nothing_proved_is_judged_by_its_name(void **state)
{
    struct af_decision with;
    struct af_decision without;
    (void)state;
    decide(&with, HERE TORCH_28, MADE_FOR_25, AF_UNKNOWN);
    assert_int_equal(try_decide(&without, HERE TORCH_28, NULL), ANYFLASH_OK);
    assert_int_equal(with.fitting_count, without.fitting_count);
    assert_ptr_equal(with.rungs[AF_RUNG_WHEEL].wheel, without.rungs[AF_RUNG_WHEEL].wheel);
    af_decision_release(&with);
    af_decision_release(&without);
}

static void test_known__a_proof_says_nothing_of_python_and_gpu(void **state)
{
    static const struct {
        const char *words;
        const char *filename;
    } rows[] = {{HERE TORCH_28, MADE_FOR_312},
                {HERE "sm=7.5 " TORCH_28, MADE_FOR_28},
                {HERE "gpu=none " TORCH_28, MADE_FOR_28}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_decision decision;
        decide(&decision, rows[i].words, rows[i].filename, AF_YES);
        for (size_t c = 0; c < decision.candidate_count; c++)
            if (strcmp(decision.candidates[c].wheel->filename, rows[i].filename) == 0)
                assert_int_equal(decision.candidates[c].answer, AF_NO);
        af_decision_release(&decision);
    }
}

static void test_known__a_proof_is_of_the_torch_that_is_here(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, HERE TORCH_29, MADE_FOR_28, AF_NO);
    const struct af_rung *rung = &decision.rungs[AF_RUNG_TORCH_CHANGE];
    assert_false(rung_has(rung, AF_REASON_PROVED_NOT));
    af_decision_release(&decision);
}

static void test_known__only_what_a_name_says_of_torch_and_system_can_be_proved(void **state)
{
    struct af_decision decision;
    (void)state;
    assert_int_equal(try_decide(&decision, HERE TORCH_29, NULL), ANYFLASH_OK);
    for (size_t i = 0; i < decision.candidate_count; i++) {
        const struct af_candidate *candidate = &decision.candidates[i];
        if (strcmp(candidate->wheel->filename, MADE_FOR_28) == 0)
            assert_true(af_candidate_is_provable(candidate));
        if (strcmp(candidate->wheel->filename, MADE_FOR_312) == 0)
            assert_false(af_candidate_is_provable(candidate));
    }
    af_decision_release(&decision);
}

static void test_known__other_packages_are_open_where_only_the_layout_is_known(void **state)
{
    static const struct {
        const char *torch;
        enum af_reason_id reason;
        const char *filename;
    } rows[] = {{"torch=2.7.1+cu126", AF_REASON_TORCH_NEIGHBOUR,
                 "flash_attn_3-3.0.0+cu126torch2.8gite2743ab-cp39-abi3-manylinux_2_24_x86_64"
                 ".manylinux_2_28_x86_64.whl"},
                {"torch=2.6.0+cu126", AF_REASON_TORCH_MINOR,
                 "flash_attn_3-3.0.0+cu126torch2.8gite2743ab-cp39-abi3-manylinux_2_24_x86_64"
                 ".manylinux_2_28_x86_64.whl"},
                {"torch=2.7.1+cu126", AF_REASON_TORCH_MINOR, MADE_FOR_28}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_machine machine;
        struct af_arena arena;
        const struct af_reason *reasons;
        size_t count;
        bool found = false;
        machine_of(&machine, HERE);
        const char *remark;
        assert_int_equal(af_machine_given(&machine, rows[i].torch, &remark, NULL), ANYFLASH_OK);
        af_arena_init(&arena);
        assert_int_equal(af_fit_explain(&catalog, &machine, NULL, wheel_named(rows[i].filename),
                                        &arena, &reasons, &count, NULL),
                         ANYFLASH_OK);
        for (size_t r = 0; r < count; r++)
            found = found || reasons[r].id == rows[i].reason;
        assert_true(found);
        af_arena_release(&arena);
        af_machine_release(&machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known__without_a_proof_a_neighbour_is_to_be_proved_first),
        cmocka_unit_test(
            test_known__a_proved_neighbour_is_offered_and_says_for_what_it_was_built),
        cmocka_unit_test(test_known__a_proof_stands_above_a_name_that_is_refused),
        cmocka_unit_test(test_known__an_exact_match_stands_above_a_proved_one),
        cmocka_unit_test(test_known__a_name_that_fits_yields_to_bytes_that_do_not_load),
        cmocka_unit_test(test_known__what_nothing_proved_is_judged_by_its_name),
        cmocka_unit_test(test_known__a_proof_says_nothing_of_python_and_gpu),
        cmocka_unit_test(test_known__a_proof_is_of_the_torch_that_is_here),
        cmocka_unit_test(test_known__only_what_a_name_says_of_torch_and_system_can_be_proved),
        cmocka_unit_test(test_known__other_packages_are_open_where_only_the_layout_is_known),
    };
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
