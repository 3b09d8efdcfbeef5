/*
 * test_several_gpus.c: what holds of a machine with two GPUs, for every torch that PyTorch
 * publishes: an option works if it works for one of them, and a GPU that FlashAttention does
 * not support changes nothing beside one that it supports.
 *
 * ANYFLASH_TEST_SLICE: which of the torch builds, one in SLICES; 0: all. Otherwise others each
 * time.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include <stdlib.h>
#include <time.h>

#include "kit/fit/view.h"

#define SLICES 8

static const char *const sms[] = {"6.1", "7.5", "8.0", "8.9", "9.0", "10.0", "12.0"};

#define IS_OLD(i) (af_sm_parse(sms[i]) < AF_SM_FLASH_MIN)

struct answers {
    enum af_answer rung[AF_RUNG_COUNT];
    bool possible;
};

static struct answers answers_of(const char *torch, const char *gpus)
{
    struct anyflash_error err;
    struct af_machine machine;
    struct af_decision decision;
    struct answers found;
    char words[256];
    snprintf(
        words, sizeof words,
        "os=linux arch=x86_64 glibc=2.39 driver=580.65.06 python=3.12 ram_gb=64 torch=%s %s",
        torch, gpus);
    machine_of(&machine, words);
    const struct af_machine *machines[] = {&machine};
    assert_int_equal(af_fit_decide(&catalog, machines, 1, NULL, &decision, &err), ANYFLASH_OK);
    for (int i = 0; i < AF_RUNG_COUNT; i++)
        found.rung[i] = decision.rungs[i].answer;
    found.possible = decision.possible;
    af_decision_release(&decision);
    af_machine_release(&machine);
    return found;
}

static enum af_answer better_of(enum af_answer a, enum af_answer b)
{
    if (a == AF_YES || b == AF_YES)
        return AF_YES;
    return a == AF_UNKNOWN || b == AF_UNKNOWN ? AF_UNKNOWN : AF_NO;
}

static void check_pair(const char *torch, size_t one, size_t other,
                       const struct answers alone[AF_COUNT(sms)])
{
    static const enum af_rung_kind kinds[] = {AF_RUNG_WHEEL, AF_RUNG_TORCH_KERNELS,
                                              AF_RUNG_BUILD};
    const struct answers *a = &alone[IS_OLD(one) ? other : one];
    const struct answers *b = &alone[IS_OLD(other) ? one : other];
    char gpus[64];
    snprintf(gpus, sizeof gpus, "sm=%s,%s", sms[one], sms[other]);
    const struct answers both = answers_of(torch, gpus);
    for (size_t k = 0; k < AF_COUNT(kinds); k++)
        if (both.rung[kinds[k]] != better_of(a->rung[kinds[k]], b->rung[kinds[k]]))
            fail_msg("torch %s, %s: option %d is %d", torch, gpus, (int)kinds[k],
                     (int)both.rung[kinds[k]]);
    if (both.rung[AF_RUNG_WHEEL] == AF_NO &&
        both.rung[AF_RUNG_TORCH_CHANGE] !=
            better_of(a->rung[AF_RUNG_TORCH_CHANGE], b->rung[AF_RUNG_TORCH_CHANGE]))
        fail_msg("torch %s, %s: another torch is %d", torch, gpus,
                 (int)both.rung[AF_RUNG_TORCH_CHANGE]);
    if (both.possible != (a->possible || b->possible))
        fail_msg("torch %s, %s: possible is %d", torch, gpus, both.possible);
}

static void check_torch(const char *torch)
{
    struct answers alone[AF_COUNT(sms)];
    for (size_t i = 0; i < AF_COUNT(sms); i++) {
        char gpu[16];
        snprintf(gpu, sizeof gpu, "sm=%s", sms[i]);
        alone[i] = answers_of(torch, gpu);
    }
    for (size_t one = 0; one < AF_COUNT(sms); one++)
        for (size_t other = 0; other < AF_COUNT(sms); other++)
            if (one != other && !(IS_OLD(one) && IS_OLD(other)))
                check_pair(torch, one, other, alone);
}

static void test_several_gpus__one_that_works_is_enough(void **state)
{
    const char *which = getenv("ANYFLASH_TEST_SLICE");
    const uint64_t slice = which != NULL ? strtoull(which, NULL, 10) : 1 + (uint64_t)time(NULL);
    size_t builds = 0;
    (void)state;
    check_torch("absent");
    for (size_t r = 0; r < af_tables.torch_count; r++) {
        const struct af_catalog_torch_release *release = &af_tables.torch[r];
        for (size_t v = 0; v < release->variants_count; v++) {
            char torch[64];
            const struct af_catalog_torch_variant *variant = &release->variants[v];
            if (strcmp(variant->platform, "linux_x86_64") != 0 || variant->cuda_major < 0 ||
                (slice != 0 && ++builds % SLICES != slice % SLICES))
                continue;
            snprintf(torch, sizeof torch, "%s+%s", release->latest, variant->cuda);
            check_torch(torch);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_gpus__one_that_works_is_enough),
    };
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
