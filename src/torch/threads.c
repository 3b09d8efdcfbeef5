/*
 * threads.c: one context for each number of threads that was asked for. The
 * registration has no place for a pointer of ours, so they are static.
 */
#include "torch/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define THREADS_MAX 1024

/* GNU OpenMP's entry for `#pragma omp parallel`; LLVM's library has it, too. */
typedef void gomp_parallel(void (*body)(void *), void *argument, unsigned threads,
                           unsigned flags);

static gomp_parallel *start_parallel;
static int (*max_threads)(void);
static atomic_bool searched;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct anyflash_context *_Atomic contexts[THREADS_MAX + 1];

static void find(void *libtorch_cpu)
{
    void *parallel = dlsym(libtorch_cpu, "GOMP_parallel");
    void *count = dlsym(libtorch_cpu, "omp_get_max_threads");
    if (parallel == NULL || count == NULL)
        return;
    memcpy(&start_parallel, &parallel, sizeof start_parallel);
    memcpy(&max_threads, &count, sizeof max_threads);
}

static void run_parallel(void (*body)(void *argument), void *argument, int32_t workers,
                         void *user)
{
    (void)user;
    start_parallel(body, argument, (unsigned)workers, 0);
}

/* Once; a second thread waits until the first has looked. */
static void find_once(void *libtorch_cpu)
{
    pthread_mutex_lock(&making);
    if (!atomic_load(&searched))
        find(libtorch_cpu);
    atomic_store(&searched, true);
    pthread_mutex_unlock(&making);
}

static struct anyflash_context *make(int threads)
{
    struct anyflash_context_args args = {.struct_size = sizeof args, .threads = threads};
    struct anyflash_context *context = NULL;
    if (start_parallel != NULL)
        args.parallel = run_parallel;
    pthread_mutex_lock(&making);
    context = atomic_load(&contexts[threads]);
    if (context == NULL && anyflash_context_new(&args, &context, NULL) == ANYFLASH_OK)
        atomic_store(&contexts[threads], context);
    pthread_mutex_unlock(&making);
    return context;
}

struct anyflash_context *af_torch_context(void *libtorch_cpu)
{
    if (!atomic_load(&searched))
        find_once(libtorch_cpu);
    int threads = max_threads != NULL ? max_threads() : 0; /* 0: all usable cores */
    if (threads < 0 || threads > THREADS_MAX)
        threads = THREADS_MAX;
    struct anyflash_context *context = atomic_load(&contexts[threads]);
    return context != NULL ? context : make(threads);
}
