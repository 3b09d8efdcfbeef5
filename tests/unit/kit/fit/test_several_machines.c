/*
 * test_several_machines.c: an option that is said to work on two machines works on each, the
 * wheel for both fits each, and a wheel that fits each is found. Machines are drawn at random,
 * half of the pairs with other GPUs only.
 */
#include "tests/unit/kit/fit/drawn_machine.h"

/* AF_NO: something speaks against the wheel; AF_UNKNOWN: a fact is missing. */
static enum af_answer fits(const struct af_machine *machine,
                           const struct af_catalog_wheel *wheel)
{
    struct anyflash_error err;
    struct af_arena arena;
    const struct af_reason *reasons;
    size_t count;
    enum af_answer answer = AF_YES;
    af_arena_init(&arena);
    assert_int_equal(
        af_fit_explain(&catalog, machine, NULL, wheel, &arena, &reasons, &count, &err),
        ANYFLASH_OK);
    for (size_t i = 0; i < count && answer != AF_NO; i++) {
        const enum af_reason_effect effect = af_reasons[reasons[i].id].effect;
        answer = effect == AF_REASON_BLOCKS ? AF_NO
                 : effect == AF_REASON_OPEN ? AF_UNKNOWN
                                            : answer;
    }
    af_arena_release(&arena);
    return answer;
}

static void draw_pair(char words[2][WORDS_MAX])
{
    char unused[WORDS_MAX], gpu[64];
    draw_machine(words[0], unused);
    draw_machine(words[1], unused);
    if (draw(2) == 0)
        return;
    snprintf(gpu, sizeof gpu, "%s", strstr(words[1], "sm="));
    const size_t same = (size_t)(strstr(words[0], "sm=") - words[0]);
    snprintf(words[1], WORDS_MAX, "%.*s%s", (int)same, words[0], gpu);
}

static void check_pair(uint64_t seed)
{
    struct af_machine machines[2];
    struct af_decision alone[2], both;
    char words[2][WORDS_MAX];
    state_of_chance = seed;
    draw_pair(words);
    for (int i = 0; i < 2; i++) {
        machine_of(&machines[i], words[i]);
        decide_for(&alone[i], &machines[i], 1);
    }
    decide_for(&both, machines, 2);
    const struct af_rung *wheel = &both.rungs[AF_RUNG_WHEEL];
    bool faulty = false;
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++)
        for (int i = 0; i < 2 && kind != AF_RUNG_TORCH_CHANGE; i++) /* not needed on one */
            faulty = faulty || (both.rungs[kind].answer == AF_YES &&
                                alone[i].rungs[kind].answer != AF_YES);
    for (int i = 0; i < 2; i++) {
        const struct af_rung *own = &alone[i].rungs[AF_RUNG_WHEEL];
        if (wheel->answer == AF_YES)
            faulty = faulty || fits(&machines[i], wheel->wheel) != AF_YES;
        else if (own->answer == AF_YES)
            faulty = faulty || fits(&machines[1 - i], own->wheel) == AF_YES;
    }
    if (faulty)
        fail_msg("seed %llu: %s and %s", (unsigned long long)seed, words[0], words[1]);
    for (int i = 0; i < 2; i++) {
        af_decision_release(&alone[i]);
        af_machine_release(&machines[i]);
    }
    af_decision_release(&both);
}

static void test_several_machines__each_is_served(void **state)
{
    (void)state;
    for_seeds(150, check_pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_machines__each_is_served),
    };
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
