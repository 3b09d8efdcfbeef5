/*
 * pool.h: threads that share numbered pieces of work.
 *
 * An atomic counter hands out pieces in rising order, several adjacent ones at a
 * time while many are left; results must not depend on which worker computes
 * which piece. The calling thread is a worker, too. Only one call at a time uses
 * the pool; a call from a second thread waits for it.
 */
#ifndef AF_ENGINE_BASE_POOL_H
#define AF_ENGINE_BASE_POOL_H

#include "engine/base/base.h"

struct af_pool;

struct af_piece {
    int64_t index;
    int64_t next; /* probable next index of this worker; the count: none */
    int worker;   /* 0 to af_pool_size() - 1, stable during the call */
    bool follows; /* this worker has just done the piece with the index before it */
};

typedef void af_pool_body(void *context, struct af_piece piece);

/*
 * Makes a pool of `threads` workers, including the caller; 1 starts no thread.
 * Threads start at the first run that has work for them. With `lent` the pool
 * starts none and calls its parallel() for each run. Fails with NO_MEMORY.
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
 * `together` adjacent indices, which read the same memory, go to one worker.
 */
void af_pool_run(struct af_pool *pool, int64_t count, int64_t together, af_pool_body *body,
                 void *context);

#endif
