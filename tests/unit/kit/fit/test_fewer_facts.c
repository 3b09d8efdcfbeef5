/*
 * test_fewer_facts.c: what is answered on some facts of a machine stays true whatever the
 * others are: yes and no do not change when facts are added. Machines are drawn at random, and
 * facts of them forgotten.
 *
 * The driver and the C library are always stated: where they are not, those of an installed
 * torch, or of a usual system, are taken for granted. An unknown torch is one that was there
 * when the wheels were listed. The engine is not asked: it is what is left where nothing fits.
 */
#include "tests/unit/kit/fit/drawn_machine.h"

static void check_machine(uint64_t seed)
{
    struct af_decision full, less;
    struct af_machine machine;
    char all[WORDS_MAX], some[WORDS_MAX];
    state_of_chance = seed;
    draw_machine(all, some);
    machine_of(&machine, all);
    decide_for(&full, &machine, 1);
    af_machine_release(&machine);
    machine_of(&machine, some);
    decide_for(&less, &machine, 1);
    af_machine_release(&machine);
    const bool fits = less.rungs[AF_RUNG_WHEEL].answer == AF_YES;
    for (int kind = 0; kind < AF_RUNG_ENGINE; kind++) {
        const enum af_answer answer = less.rungs[kind].answer;
        const bool newer = rung_has(&full.rungs[kind], AF_REASON_TORCH_NEWER);
        if (answer == AF_UNKNOWN || (newer && strstr(some, "torch=") == NULL) ||
            (kind == AF_RUNG_TORCH_CHANGE && fits)) /* not needed */
            continue;
        if (full.rungs[kind].answer != answer)
            fail_msg("seed %llu: %s is %d for %s, but %d for %s", (unsigned long long)seed,
                     af_rung_name((enum af_rung_kind)kind), (int)answer, some,
                     (int)full.rungs[kind].answer, all);
    }
    af_decision_release(&less);
    af_decision_release(&full);
}

static void test_fewer_facts__yes_and_no_stay(void **state)
{
    (void)state;
    for_seeds(250, check_machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_facts__yes_and_no_stay),
    };
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
