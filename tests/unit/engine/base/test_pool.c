/*
 * test_pool.c: every piece of work is done once, by an existing worker, in many
 * runs and from several threads. Also run under ThreadSanitizer.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/mem.h"
#include "engine/base/pool.h"

#define PIECES 500

static const struct af_lent_threads own_threads = {NULL, NULL};

struct tally {
    int threads;
    atomic_int done[PIECES];
    atomic_int strangers; /* pieces done by workers that should not exist */
    atomic_int wrong;     /* pieces with wrong neighbours */
    int64_t last[8];      /* the last piece of each worker, or -1 */
    int plain[PIECES];    /* written without atomics: the run's end must order it */
};

static void count_piece(void *context, struct af_piece piece)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->done[piece.index], 1);
    tally->plain[piece.index]++;
    if (piece.worker < 0 || piece.worker >= tally->threads)
        atomic_fetch_add(&tally->strangers, 1);
    else {
        bool follows = piece.index > 0 && tally->last[piece.worker] == piece.index - 1;
        if (piece.follows != follows)
            atomic_fetch_add(&tally->wrong, 1);
        tally->last[piece.worker] = piece.index;
    }
    if (piece.next <= piece.index)
        atomic_fetch_add(&tally->wrong, 1);
}

/* Runs a pool once with a tally of what its workers do. */
static void run_once(struct af_pool *pool, int64_t count, int64_t together, struct tally *tally)
{
    for (size_t n = 0; n < AF_COUNT(tally->last); n++)
        tally->last[n] = -1;
    af_pool_run(pool, count, together, count_piece, tally);
}

static void check_runs(struct af_pool *pool, struct tally *tally, int runs)
{
    static const int64_t counts[] = {0, 1, 2, 3, 17, PIECES};
    for (int run = 0; run < runs; run++) {
        int64_t count = counts[run % (int)AF_COUNT(counts)];
        for (int n = 0; n < PIECES; n++)
            atomic_store(&tally->done[n], tally->plain[n] = 0);
        run_once(pool, count, run % 4 * 5 + 1, tally);
        for (int n = 0; n < PIECES; n++) {
            assert_int_equal(atomic_load(&tally->done[n]), n < count);
            assert_int_equal(tally->plain[n], n < count);
        }
    }
    assert_int_equal(atomic_load(&tally->strangers), 0);
    assert_int_equal(atomic_load(&tally->wrong), 0);
}

static void test_pool__does_every_piece_once(void **state)
{
    (void)state;
    static struct tally tally;
    for (int threads = 1; threads <= 5; threads++) {
        struct af_pool *pool;
        assert_int_equal(af_pool_new(threads, own_threads, &pool, NULL), ANYFLASH_OK);
        assert_int_equal(af_pool_size(pool), threads);
        tally.threads = threads;
        check_runs(pool, &tally, 60);
        af_pool_free(pool);
    }
}

static void test_pool__may_end_without_a_run(void **state)
{
    (void)state;
    struct af_pool *pool;
    assert_int_equal(af_pool_new(3, own_threads, &pool, NULL), ANYFLASH_OK);
    af_pool_free(pool);
    af_pool_free(NULL);
}

static void test_pool__works_with_the_threads_that_start(void **state)
{
    (void)state;
    static struct tally tally = {.threads = 4};
    for (size_t nth = 1; nth <= 4; nth++) {
        struct af_pool *pool;
        assert_int_equal(af_pool_new(4, own_threads, &pool, NULL), ANYFLASH_OK);
        af_mem_fail_nth(nth, true);
        run_once(pool, PIECES, 1, &tally);
        af_mem_fail_nth(0, false);
        check_runs(pool, &tally, 6);
        af_pool_free(pool);
    }
}

struct runner {
    pthread_t thread;
    struct af_pool *pool;
    struct tally tally;
};

static void *run_often(void *argument)
{
    struct runner *runner = argument;
    for (int n = 0; n < 50; n++)
        run_once(runner->pool, PIECES, 7, &runner->tally);
    return NULL;
}

static void test_pool__takes_callers_in_turn(void **state)
{
    (void)state;
    static struct runner runners[3];
    struct af_pool *pool;
    assert_int_equal(af_pool_new(2, own_threads, &pool, NULL), ANYFLASH_OK);
    for (size_t n = 0; n < AF_COUNT(runners); n++) {
        runners[n].pool = pool;
        runners[n].tally.threads = 2;
        assert_int_equal(pthread_create(&runners[n].thread, NULL, run_often, &runners[n]), 0);
    }
    for (size_t n = 0; n < AF_COUNT(runners); n++) {
        pthread_join(runners[n].thread, NULL);
        for (int piece = 0; piece < PIECES; piece++)
            assert_int_equal(atomic_load(&runners[n].tally.done[piece]), 50);
    }
    af_pool_free(pool);
}

struct lent_thread {
    pthread_t thread;
    void (*body)(void *argument);
    void *argument;
};

static void *lent_thread_main(void *argument)
{
    struct lent_thread *lent = argument;
    lent->body(lent->argument);
    return NULL;
}

/* One thread more than requested: the pool must not rely on it. */
static void lend(void (*body)(void *argument), void *argument, int32_t workers, void *user)
{
    struct lent_thread threads[8];
    int count = workers + 1;
    assert_true(workers >= 2 && workers <= 4);
    ++*(int *)user;
    for (int n = 0; n < count; n++) {
        threads[n] = (struct lent_thread){.body = body, .argument = argument};
        pthread_create(&threads[n].thread, NULL, lent_thread_main, &threads[n]);
    }
    for (int n = 0; n < count; n++)
        pthread_join(threads[n].thread, NULL);
}

static void test_pool__runs_on_threads_that_are_lent(void **state)
{
    (void)state;
    static struct tally tally = {.threads = 4};
    int runs = 0;
    struct af_pool *pool;
    const struct af_lent_threads lent = {lend, &runs};
    assert_int_equal(af_pool_new(4, lent, &pool, NULL), ANYFLASH_OK);
    check_runs(pool, &tally, 12);
    assert_int_equal(runs, 8); /* of the counts 0, 1, 2, 3, 17, PIECES: twice the last four */
    af_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool__runs_on_threads_that_are_lent),
        cmocka_unit_test(test_pool__does_every_piece_once),
        cmocka_unit_test(test_pool__may_end_without_a_run),
        cmocka_unit_test(test_pool__works_with_the_threads_that_start),
        cmocka_unit_test(test_pool__takes_callers_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
