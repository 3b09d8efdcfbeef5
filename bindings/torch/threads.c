/*
 * threads.c: makes a context for each calling thread, with as many workers as
 * torch has for it. Registration has no place for a user pointer, so contexts
 * are thread-local.
 */
#include "bindings/torch/threads.h"

#include <pthread.h>
#include <stdatomic.h>

#include "bindings/torch/switch.h"
#include "engine/base/loaded.h"

#define THREADS_MAX 1024

/* GNU OpenMP's entry for `#pragma omp parallel`; LLVM's library has it, too. */
typedef void gomp_parallel(void (*body)(void *), void *argument, unsigned threads,
                           unsigned flags);

struct held {
    struct anyflash_context *context;
    int threads;
    int fork; /* number of forks before the context was made */
    int32_t cpu_level;
};

static gomp_parallel *start_parallel;
static int (*torch_threads)(void);
static atomic_bool searched;
static atomic_int forks;
static pthread_mutex_t searching = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_of_thread;
static _Thread_local struct held held;

static void free_context(void *context)
{
    held = (struct held){NULL, 0, 0, 0};
    anyflash_context_free(context);
}

#ifdef _WIN32
#define TORCH_THREADS_NAME "?get_num_threads@at@@YAHXZ"

/* Torch has another OpenMP there: the engine starts its own threads. */
static void find_parallel(void *libtorch_cpu)
{
    (void)libtorch_cpu;
}

#else
#define TORCH_THREADS_NAME "_ZN2at15get_num_threadsEv"

/*
 * The threads of the parent's pools do not exist in a forked child, and GNU
 * OpenMP would wait for them forever: the child uses the engine's own pools.
 */
static void after_fork_in_child(void)
{
    atomic_fetch_add(&forks, 1);
    pthread_mutex_init(&searching, NULL);
}

static void find_parallel(void *libtorch_cpu)
{
    if (pthread_atfork(NULL, NULL, after_fork_in_child) == 0)
        af_loaded_function(libtorch_cpu, "GOMP_parallel", &start_parallel,
                           sizeof start_parallel);
}

#endif

static void find(void *libtorch_cpu)
{
    if (pthread_key_create(&end_of_thread, free_context) != 0)
        return;
    /* at::get_num_threads(); in a new thread it first applies torch.set_num_threads(). */
    if (af_loaded_function(libtorch_cpu, TORCH_THREADS_NAME, &torch_threads,
                           sizeof torch_threads) ||
        af_loaded_function(libtorch_cpu, "omp_get_max_threads", &torch_threads,
                           sizeof torch_threads))
        find_parallel(libtorch_cpu);
}

static void run_parallel(void (*body)(void *argument), void *argument, int32_t workers,
                         void *user)
{
    (void)user;
    start_parallel(body, argument, (unsigned)workers, 0);
}

/* Runs once; a second thread waits until the first is done. */
static void find_once(void *libtorch_cpu)
{
    pthread_mutex_lock(&searching);
    if (!atomic_load(&searched))
        find(libtorch_cpu);
    atomic_store(&searched, true);
    pthread_mutex_unlock(&searching);
}

static struct anyflash_context *make(int threads, int fork, int32_t cpu_level)
{
    struct anyflash_context_args args = {
        .struct_size = sizeof args, .threads = threads, .cpu_level = cpu_level};
    struct anyflash_context *context = NULL;
    if (start_parallel != NULL && fork == 0)
        args.parallel = run_parallel;
    if (anyflash_context_new(&args, &context, NULL) != ANYFLASH_OK)
        return NULL;
    if (held.context != NULL && held.fork == fork)
        anyflash_context_free(held.context); /* a context from before a fork is not freed */
    held = (struct held){context, threads, fork, cpu_level};
    pthread_setspecific(end_of_thread, context);
    return context;
}

struct anyflash_context *af_torch_context(void *libtorch_cpu)
{
    if (!atomic_load(&searched))
        find_once(libtorch_cpu);
    int fork = atomic_load(&forks);
    int threads = torch_threads != NULL ? torch_threads() : 0; /* 0: all usable cores */
    if (threads < 0 || threads > THREADS_MAX)
        threads = THREADS_MAX;
    int32_t cpu_level = af_torch_cpu_level();
    if (held.context != NULL && held.threads == threads && held.fork == fork &&
        held.cpu_level == cpu_level)
        return held.context;
    return make(threads, fork, cpu_level);
}
