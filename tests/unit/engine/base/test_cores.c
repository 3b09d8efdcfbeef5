/*
 * test_cores.c: which cores the workers of a pool may use, computed from sets; and
 * on Linux the affinity that real workers have during a run.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity() */
#endif
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "engine/base/cores.h"
#include "engine/base/pool.h"

static struct af_core_set set_of(const char *list)
{
    struct af_core_set set;
    assert_true(af_core_set_parse(list, &set));
    return set;
}

static void assert_same(struct af_core_set have, const char *want)
{
    struct af_core_set set = want[0] != '\0' ? set_of(want) : (struct af_core_set){{0}};
    assert_memory_equal(&have, &set, sizeof have);
}

static void test_core_set__reads_linux_lists(void **state)
{
    (void)state;
    struct af_core_set set = set_of("0-2,64,1023\n");
    assert_int_equal(set.words[0], 7);
    assert_int_equal(set.words[1], 1);
    assert_true(set.words[15] == (uint64_t)1 << 63);
    assert_same(set_of("5"), "5,5-5");
    assert_same(set_of("3,1024-99999999999999999999"), "3");
    static const char *const wrong[] = {"",   "\n", "-1",  "3-",  "3-2",
                                        "1,", ",1", "1 2", "0x1", "1,,2"};
    for (size_t i = 0; i < AF_COUNT(wrong); i++)
        assert_false(af_core_set_parse(wrong[i], &set));
}

struct choice {
    const char *allowed;
    int core;
    const char *siblings; /* of core; "": unknown */
    int workers;
    const char *want;
};

static void test_spread__leaves_the_callers_core_to_it(void **state)
{
    (void)state;
    static const struct choice choices[] = {
        {"0,1", 0, "0", 1, "1"},
        {"0,1", 1, "1", 1, "0"},
        {"0-3", 2, "", 3, "0,1,3"},
        /* two processors in each physical core: 0 and 4, 1 and 5, ... */
        {"0-7", 1, "1,5", 3, "0,2-4,6,7"},
        {"0-7", 1, "1,5", 6, "0,2-4,6,7"},
        {"0-7", 1, "1,5", 7, "0,2-7"},
        {"0,1,4,5", 4, "0,4", 2, "1,5"},
        /* fewer processors than threads */
        {"0-7", 1, "1,5", 8, "0-7"},
        {"0,1", 0, "0", 2, "0,1"},
        /* a caller that may run on one processor alone, or outside of the workers' */
        {"3", 3, "3", 1, "3"},
        {"0,1", 9, "8,9", 2, "0,1"},
        {"0,1", 5000, "0", 1, "0,1"},
        {"0,1", -1, "0", 1, "0,1"},
    };
    for (size_t i = 0; i < AF_COUNT(choices); i++) {
        const struct choice *c = &choices[i];
        struct af_core_set allowed = set_of(c->allowed), siblings = {{0}};
        if (c->siblings[0] != '\0')
            siblings = set_of(c->siblings);
        assert_same(af_spread_choose(&allowed, c->core, &siblings, c->workers), c->want);
    }
}

#if defined(__linux__)

#define WORKERS 2

/* What one worker of a pool of two saw in its last piece. */
struct seen {
    cpu_set_t mask;
    cpu_set_t pin_to; /* the worker gives itself this affinity, if it is not empty */
    atomic_int pieces;
};

/* Lasts until the other thread has taken a piece, too. */
static void look(void *context, struct af_piece piece)
{
    struct seen *seen = context;
    if (piece.worker == 1) {
        if (CPU_COUNT(&seen->pin_to) > 0)
            assert_int_equal(sched_setaffinity(0, sizeof seen->pin_to, &seen->pin_to), 0);
        assert_int_equal(sched_getaffinity(0, sizeof seen->mask, &seen->mask), 0);
    }
    atomic_fetch_add(&seen->pieces, 1);
    while (atomic_load(&seen->pieces) < WORKERS)
        sched_yield();
}

static void run(struct af_pool *pool, struct seen *seen)
{
    CPU_ZERO(&seen->mask);
    atomic_store(&seen->pieces, 0);
    af_pool_run(pool, WORKERS, 1, look, seen);
}

/* Sets the calling thread's affinity. */
static void pin_to(cpu_set_t one)
{
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

/* The nth processor of the set. */
static cpu_set_t nth_of(const cpu_set_t *set, int nth)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, set) && nth-- == 0)
            CPU_SET(core, &one);
    return one;
}

/* A pool whose worker has started with the affinity `all`. */
static struct af_pool *new_pool(cpu_set_t *all, struct seen *seen)
{
    struct af_lent_threads none = {NULL, NULL};
    struct af_pool *pool;
    CPU_ZERO(&seen->pin_to);
    assert_int_equal(sched_getaffinity(0, sizeof *all, all), 0);
    assert_int_equal(af_pool_new(WORKERS, none, &pool, NULL), ANYFLASH_OK);
    run(pool, seen);
    return pool;
}

static void test_spread__worker_of_a_pinned_caller_is_elsewhere(void **state)
{
    (void)state;
    cpu_set_t all, now;
    struct seen seen;
    struct af_pool *pool = new_pool(&all, &seen);
    for (int nth = 0; nth < 4; nth++) {
        cpu_set_t one = nth_of(&all, nth % CPU_COUNT(&all));
        pin_to(one);
        run(pool, &seen);
        if (CPU_COUNT(&all) > 1) {
            cpu_set_t both;
            CPU_AND(&both, &seen.mask, &one);
            assert_int_equal(CPU_COUNT(&both), 0);
            assert_true(CPU_COUNT(&seen.mask) >= 1);
        } else
            assert_true(CPU_EQUAL(&seen.mask, &all));
        assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
        assert_true(CPU_EQUAL(&now, &one)); /* the caller's own affinity */
    }
    pin_to(all);
    af_pool_free(pool);
}

static void test_spread__pinned_process_stays_pinned(void **state)
{
    (void)state;
    cpu_set_t all, one, started;
    struct seen seen;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    one = nth_of(&all, 0);
    pin_to(one);
    struct af_pool *pool = new_pool(&started, &seen);
    assert_true(CPU_EQUAL(&seen.mask, &one));
    pin_to(all);
    run(pool, &seen);
    assert_true(CPU_EQUAL(&seen.mask, &one));
    af_pool_free(pool);
}

static void test_spread__worker_pinned_by_others_is_left_alone(void **state)
{
    (void)state;
    cpu_set_t all;
    struct seen seen;
    struct af_pool *pool = new_pool(&all, &seen);
    int last = CPU_COUNT(&all) - 1;
    pin_to(nth_of(&all, 0));
    run(pool, &seen);
    seen.pin_to = nth_of(&all, 0); /* its caller's core: the pool puts it elsewhere */
    run(pool, &seen);
    CPU_ZERO(&seen.pin_to);
    for (int n = 0; n < 4; n++) {
        cpu_set_t first = nth_of(&all, 0);
        pin_to(nth_of(&all, n % 2 == 0 ? last : 0));
        run(pool, &seen);
        assert_true(CPU_EQUAL(&seen.mask, &first));
    }
    pin_to(all);
    af_pool_free(pool);
}

static atomic_bool leave;

/* Uses the processor all the time if `argument` is not NULL. */
static void *run_or_sleep(void *argument)
{
    while (!atomic_load(&leave))
        if (argument == NULL)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return NULL;
}

static int64_t time_of(pthread_t thread)
{
    clockid_t clock;
    struct timespec time;
    assert_int_equal(pthread_getcpuclockid(thread, &clock), 0);
    assert_int_equal(clock_gettime(clock, &time), 0);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Whether a second look moves the worker of a caller that runs on the first core. */
static bool second_look_moves(bool runs, bool working)
{
    static char yes;
    cpu_set_t all, now;
    struct af_worker worker = {.left_alone = false};
    struct af_spread spread = {.core = -1};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    atomic_store(&leave, false);
    atomic_init(&worker.working, working);
    assert_int_equal(pthread_create(&worker.thread, NULL, run_or_sleep, runs ? &yes : NULL), 0);
    pin_to(nth_of(&all, 0));
    af_spread_place(&spread, &worker, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* a sleeping one sleeps now */
    assert_true(af_spread_watch(&spread, &worker, 1, true));
    for (int64_t before = time_of(worker.thread); runs && time_of(worker.thread) == before;)
        sched_yield();
    bool moved = !af_spread_watch(&spread, &worker, 1, false);
    assert_int_equal(pthread_getaffinity_np(worker.thread, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &all) == (moved || CPU_COUNT(&all) == 1));
    assert_true((spread.core == -1) == moved);
    pin_to(all);
    atomic_store(&leave, true);
    pthread_join(worker.thread, NULL);
    return moved;
}

static void test_spread__worker_that_does_not_run_comes_to_its_caller(void **state)
{
    (void)state;
    assert_true(second_look_moves(false, true));
    assert_false(second_look_moves(true, true));
    assert_false(second_look_moves(false, false));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_core_set__reads_linux_lists),
        cmocka_unit_test(test_spread__leaves_the_callers_core_to_it),
#if defined(__linux__)
        cmocka_unit_test(test_spread__worker_of_a_pinned_caller_is_elsewhere),
        cmocka_unit_test(test_spread__pinned_process_stays_pinned),
        cmocka_unit_test(test_spread__worker_pinned_by_others_is_left_alone),
        cmocka_unit_test(test_spread__worker_that_does_not_run_comes_to_its_caller),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
