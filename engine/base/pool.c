/*
 * pool.c: the threads of a context.
 *
 * Each run starts with a new generation number, set under the lock; workers then
 * join it and take pieces from an atomic counter. When no piece is left, the
 * caller closes the run and waits for the workers that have joined: one that wakes
 * up later, because another program had its core, finds it closed. After the last
 * piece a worker spins for a short while before it sleeps, so that runs in quick
 * succession (decoding) need no wake-up through the kernel.
 */
#include "engine/base/pool.h"

#include "engine/base/cores.h"
#include "engine/base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define SPINS 2000
#define CLOSED (1 << 30) /* bit of `joined`: nobody can join any more */
#define WATCH_NS 200000  /* time between looks at workers that the caller waits for */

struct af_pool {
    int size;
    struct af_lent_threads lent; /* parallel NULL: the pool's own threads */
    atomic_int lent_workers;     /* calls of body that started in this run */
    int started;                 /* existing threads, without the caller */
    struct af_spread spread;     /* where they run; guarded by turn */
    pthread_mutex_t turn;        /* held by the caller of the current run */
    pthread_mutex_t lock;        /* guards the fields below and both conditions */
    pthread_cond_t begin;
    pthread_cond_t end;
    atomic_uint_fast64_t generation;
    bool leaving;
    af_pool_body *body;
    void *context;
    int64_t count;
    int64_t together;
    atomic_int_fast64_t next;
    atomic_int joined; /* workers that compute, or CLOSED plus their number */
    struct af_worker workers[];
};

struct worker_start {
    struct af_pool *pool;
    int worker;
    uint64_t seen; /* the generation before its first run */
};

/* Claims pieces [*first_out, end) and returns end; fewer as the end comes near. */
static int64_t claim(struct af_pool *pool, int64_t *first_out)
{
    int_fast64_t first = atomic_load_explicit(&pool->next, memory_order_relaxed);
    int64_t end;
    do {
        int64_t share = (pool->count - first) / (2 * pool->size);
        share = share < pool->together ? share : pool->together;
        end = first + (share > 1 ? share : 1);
    } while (first < pool->count &&
             !atomic_compare_exchange_weak_explicit(
                 &pool->next, &first, end, memory_order_relaxed, memory_order_relaxed));
    *first_out = first;
    return end;
}

static void take_pieces(struct af_pool *pool, int worker)
{
    int64_t first, done = -1;
    for (int64_t end = claim(pool, &first); first < pool->count; end = claim(pool, &first)) {
        for (int64_t index = first; index < end; index++) {
            const bool follows = index > 0 && index - 1 == done;
            int64_t next = index + 1 < end
                               ? index + 1
                               : atomic_load_explicit(&pool->next, memory_order_relaxed);
            pool->body(pool->context, (struct af_piece){index, next, worker, follows});
            done = index;
        }
    }
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/*
 * Waits for a generation after `seen`; false when the pool is being freed. A worker
 * that sees the generation while it spins does not take the lock, which the announcer
 * still holds; if the pool is being freed, it notices at the next call.
 */
static bool wait_for_run(struct af_pool *pool, uint64_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen)
            return true;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->generation, memory_order_relaxed) == seen &&
           !pool->leaving)
        pthread_cond_wait(&pool->begin, &pool->lock);
    bool leaving = pool->leaving;
    pthread_mutex_unlock(&pool->lock);
    return !leaving;
}

/* Takes part in the current run; false when it is closed. */
static bool join_run(struct af_pool *pool, int worker)
{
    int joined = atomic_load_explicit(&pool->joined, memory_order_relaxed);
    do {
        if ((joined & CLOSED) != 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &pool->joined, &joined, joined + 1, memory_order_acquire, memory_order_relaxed));
    atomic_store_explicit(&pool->workers[worker - 1].working, true, memory_order_relaxed);
    return true;
}

static void leave_run(struct af_pool *pool, int worker)
{
    atomic_store_explicit(&pool->workers[worker - 1].working, false, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&pool->joined, 1, memory_order_release) != CLOSED + 1)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->end);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument)
{
    struct worker_start start = *(struct worker_start *)argument;
    af_mem_free(argument);
    struct af_pool *pool = start.pool;
    uint64_t seen = start.seen;
    while (wait_for_run(pool, seen)) {
        seen = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (!join_run(pool, start.worker))
            continue;
        /* A later run may have begun; it cannot end before this worker leaves. */
        seen = atomic_load_explicit(&pool->generation, memory_order_acquire);
        take_pieces(pool, start.worker);
        leave_run(pool, start.worker);
    }
    return NULL;
}

/* Starts the missing threads; starting fewer than wanted is not an error. */
static void start_threads(struct af_pool *pool)
{
    while (pool->started < pool->size - 1) {
        struct worker_start *start = af_mem_alloc(sizeof *start);
        if (start == NULL)
            return;
        *start = (struct worker_start){pool, pool->started + 1, pool->generation};
        struct af_worker *worker = &pool->workers[pool->started];
        atomic_init(&worker->working, false);
        worker->left_alone = false;
        worker->ran_ns = 0;
        if (pthread_create(&worker->thread, NULL, worker_main, start) != 0) {
            af_mem_free(start);
            return;
        }
        pool->started++;
    }
}

enum anyflash_status af_pool_new(int threads, struct af_lent_threads lent,
                                 struct af_pool **pool_out, struct anyflash_error *err)
{
    struct af_pool *pool =
        af_mem_alloc(sizeof *pool + (size_t)threads * sizeof pool->workers[0]);
    if (pool == NULL)
        return af_fail_memory(err);
    pool->size = threads;
    pool->lent = lent;
    atomic_init(&pool->lent_workers, 0);
    pool->started = 0;
    pool->spread = (struct af_spread){.core = -1};
    pool->leaving = false;
    atomic_init(&pool->generation, 0);
    atomic_init(&pool->next, 0);
    atomic_init(&pool->joined, CLOSED);
    pool->count = 0;
    pool->together = 1;
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    *pool_out = pool;
    return ANYFLASH_OK;
}

void af_pool_free(struct af_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->leaving = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->end);
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->turn);
    af_mem_free(pool);
}

int af_pool_size(const struct af_pool *pool)
{
    return pool->size;
}

/* Publishes the run to the workers. */
static void announce(struct af_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    /* Open before the generation changes: a worker that spins sees that first. */
    atomic_store_explicit(&pool->joined, 0, memory_order_release);
    atomic_fetch_add_explicit(&pool->generation, 1, memory_order_release);
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
}

/* Waits for `end` for a short while; the caller holds the lock. */
static void wait_shortly(struct af_pool *pool)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WATCH_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&pool->end, &pool->lock, &until);
}

/* Spins for a short while; true as soon as no worker computes any more. */
static bool spin_until_left(struct af_pool *pool)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->joined, memory_order_acquire) == CLOSED)
            return true;
        relax();
    }
    return false;
}

/*
 * Ends the run when all workers that joined it have left. It spins until a second
 * look shows whether they are running: if it slept earlier, another program could
 * take its core.
 */
static void close_run(struct af_pool *pool)
{
    bool watching = true;
    if (atomic_fetch_or_explicit(&pool->joined, CLOSED, memory_order_acq_rel) == 0)
        return;
    for (int look = 0; look < 2 && watching; look++) {
        if (spin_until_left(pool))
            return;
        watching = af_spread_watch(&pool->spread, pool->workers, pool->started, look == 0);
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->joined, memory_order_acquire) != CLOSED) {
        if (!watching) {
            pthread_cond_wait(&pool->end, &pool->lock);
            continue;
        }
        wait_shortly(pool);
        watching = af_spread_watch(&pool->spread, pool->workers, pool->started, false);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* Runs on a lent thread as the next worker, unless there are enough. */
static void lent_main(void *argument)
{
    struct af_pool *pool = argument;
    int worker = atomic_fetch_add_explicit(&pool->lent_workers, 1, memory_order_relaxed);
    if (worker < pool->size)
        take_pieces(pool, worker);
}

static void run_lent(struct af_pool *pool)
{
    int64_t workers = pool->count < pool->size ? pool->count : pool->size;
    atomic_store_explicit(&pool->lent_workers, 0, memory_order_relaxed);
    pool->lent.parallel(lent_main, pool, (int32_t)workers, pool->lent.user);
}

static void run_own(struct af_pool *pool)
{
    start_threads(pool);
    af_spread_place(&pool->spread, pool->workers, pool->started);
    announce(pool);
    take_pieces(pool, 0);
    close_run(pool);
}

void af_pool_run(struct af_pool *pool, int64_t count, int64_t together, af_pool_body *body,
                 void *context)
{
    pthread_mutex_lock(&pool->turn);
    pool->body = body;
    pool->context = context;
    pool->count = count;
    pool->together = together;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    if (count <= 1 || pool->size == 1)
        take_pieces(pool, 0);
    else if (pool->lent.parallel != NULL)
        run_lent(pool);
    else
        run_own(pool);
    pthread_mutex_unlock(&pool->turn);
}
