/*
 * pool.h: threads that share numbered pieces of work.
 *
 * Pieces are handed out by one atomic counter in rising order, a few neighbours
 * at a time while there are many; results must not depend on which worker
 * computes which piece. The calling thread is a worker, too. One call at a time
 * uses the pool; a call from a second thread waits for it.
 */
#ifndef AF_ENGINE_BASE_POOL_H
#define AF_ENGINE_BASE_POOL_H

#include "engine/base/base.h"

struct af_pool;

struct af_piece {
    int64_t index;
    int64_t next; /* what this worker does next, in all likelihood; the count: nothing */
    int worker;   /* 0 to af_pool_size() - 1, stable during the call */
};

typedef void af_pool_body(void *context, struct af_piece piece);

/*
 * A pool of `threads` workers, the caller included; 1 starts no thread. Threads
 * start at the first run that has work for them; with `lent` there are none,
 * its parallel() is called for each run. Fails with NO_MEMORY.
 */
struct af_lent_threads {
    void (*parallel)(void (*body)(void *argument), void *argument, int32_t workers, void *user);
    void *user;
};
enum anyflash_status af_pool_new(int threads, struct af_lent_threads lent,
                                 struct af_pool **pool_out, struct anyflash_error *err);
void af_pool_free(struct af_pool *pool);

int af_pool_size(const struct af_pool *pool);

/*
 * Runs body for every index below `count` and returns when all are done. Up to
 * `together` neighbours, which read the same memory, go to one worker.
 */
void af_pool_run(struct af_pool *pool, int64_t count, int64_t together, af_pool_body *body,
                 void *context);

#endif
