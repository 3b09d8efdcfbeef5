/*
 * test_fewer_facts.c: what is answered on some facts of a machine stays true whatever the
 * others are: yes and no do not change when facts are added. Machines are drawn at random, and
 * facts of them forgotten.
 *
 * The driver and the C library are always stated: where they are not, those of an installed
 * torch, or of a usual system, are taken for granted. An unknown torch is one that was there
 * when the wheels were listed. The engine is not asked: it is what is left where nothing fits.
 *
 * ANYFLASH_TEST_SEED: begin with this seed; ANYFLASH_TEST_CASES: so many machines (250).
 */
#include "tests/unit/kit/fit/given_machine.h"

#include <stdlib.h>
#include <time.h>

struct values {
    const char *name;
    const char *items[20];
    bool is_stated; /* never forgotten */
};

static const struct values facts[] = {
    {"os", {"linux", "linux", "linux", "windows", "macos"}, false},
    {"arch", {"x86_64", "x86_64", "aarch64"}, false},
    {"glibc", {"2.17", "2.28", "2.31", "2.35", "2.39"}, true},
    {"driver", {"470.57.02", "525.85.12", "550.54.15", "570.86.10", "580.65.06"}, true},
    {"python", {"3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14"}, false},
    {"torch",
     {"absent", "2.1.2+cu118", "2.3.1+cu121", "2.4.0", "2.5.1+cu124", "2.6.0+cu124",
      "2.7.1+cu126", "2.7.1+cu128", "2.8.0+cu128", "2.9.1+cu128", "2.9.1+cu130", "2.9.1+cpu",
      "2.10.0", "2.11.0+cu130", "2.15.0+cu132", "2.16.0+cu132", "2.8.0a0+5228986c39.nv25.6"},
     false},
    {"sm",
     {"6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0", "8.0,6.1",
      "12.0,8.9"},
     false},
    {"ram_gb", {"2", "16", "64"}, false},
};

#define WORDS_MAX 300

static uint64_t state_of_chance;

/* A number below `limit`: the upper bits of a linear congruential generator. */
static size_t draw(size_t limit)
{
    state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(state_of_chance >> 33) % limit;
}

static void add_word(char words[WORDS_MAX], const char *name, const char *value)
{
    const size_t len = strlen(words);
    snprintf(words + len, WORDS_MAX - len, "%s%s=%s", len > 0 ? " " : "", name, value);
}

static void draw_machine(char all[WORDS_MAX], char some[WORDS_MAX])
{
    all[0] = some[0] = '\0';
    for (size_t f = 0; f < AF_COUNT(facts); f++) {
        size_t count = 0;
        while (count < AF_COUNT(facts[f].items) && facts[f].items[count] != NULL)
            count++;
        const char *value = facts[f].items[draw(count)];
        if (strcmp(facts[f].name, "glibc") == 0 && strstr(all, "os=linux") == NULL)
            continue;
        add_word(all, facts[f].name, value);
        if (facts[f].is_stated || draw(4) > 0)
            add_word(some, facts[f].name, value);
    }
}

static void decide(struct af_decision *decision, const char *words)
{
    struct anyflash_error err;
    struct af_machine machine;
    machine_of(&machine, words);
    const struct af_machine *machines[] = {&machine};
    assert_int_equal(af_fit_decide(&catalog, machines, 1, NULL, decision, &err), ANYFLASH_OK);
    af_machine_release(&machine);
}

static void check_machine(uint64_t seed)
{
    struct af_decision full, less;
    char all[WORDS_MAX], some[WORDS_MAX];
    state_of_chance = seed;
    draw_machine(all, some);
    decide(&full, all);
    decide(&less, some);
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
    const char *first = getenv("ANYFLASH_TEST_SEED"), *cases = getenv("ANYFLASH_TEST_CASES");
    const uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : (uint64_t)time(NULL);
    const uint64_t count = cases != NULL ? strtoull(cases, NULL, 10) : 250;
    (void)state;
    for (uint64_t i = 0; i < count; i++)
        check_machine(seed + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_facts__yes_and_no_stay),
    };
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
