/*
 * drawn_machine.h: machines drawn at random, as words for machine_of(), for what must hold of
 * every machine.
 *
 * ANYFLASH_TEST_SEED: begin with this seed, not with the time; ANYFLASH_TEST_CASES: so many.
 */
#ifndef AF_TEST_DRAWN_MACHINE_H
#define AF_TEST_DRAWN_MACHINE_H

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
static inline size_t draw(size_t limit)
{
    state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(state_of_chance >> 33) % limit;
}

static inline void add_word(char words[WORDS_MAX], const char *name, const char *value)
{
    const size_t len = strlen(words);
    snprintf(words + len, WORDS_MAX - len, "%s%s=%s", len > 0 ? " " : "", name, value);
}

/* `some` are those of `all` that are not forgotten. */
static inline void draw_machine(char all[WORDS_MAX], char some[WORDS_MAX])
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

static inline void decide_for(struct af_decision *decision, struct af_machine *machines,
                              size_t count)
{
    struct anyflash_error err;
    const struct af_machine *all[2] = {&machines[0], &machines[1]};
    assert_int_equal(af_fit_decide(&catalog, all, count, NULL, decision, &err), ANYFLASH_OK);
}

/* Calls check() with one seed after another. */
static inline void for_seeds(uint64_t usual_count, void check(uint64_t seed))
{
    const char *first = getenv("ANYFLASH_TEST_SEED"), *cases = getenv("ANYFLASH_TEST_CASES");
    const uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : (uint64_t)time(NULL);
    const uint64_t count = cases != NULL ? strtoull(cases, NULL, 10) : usual_count;
    for (uint64_t i = 0; i < count; i++)
        check(seed + i);
}

#endif
