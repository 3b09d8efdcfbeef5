/*
 * context.c: creates and frees contexts, and what each call does with one. Called by
 * users, attend.c and backward.c.
 */
#include "engine/call/context.h"

#include "engine/base/args.h"
#include "engine/base/cores.h"
#include "engine/base/cpu.h"
#include "engine/base/mem.h"

#include <stdlib.h>

#define THREADS_MAX 1024
/* Of the first version. */
#define CONTEXT_ARGS_BYTES AF_ARGS_UP_TO(struct anyflash_context_args, parallel)
#define KEPT_BYTES_MAX (64u * 1024u * 1024u)

/* A call with fewer operations than this runs on one thread: waking others takes longer. */
#define ALONE_FLOPS 1.0e6

#ifdef _WIN32
static void *allocate_aligned(size_t size_bytes, size_t align_bytes, void *user)
{
    (void)user;
    return _aligned_malloc(size_bytes, align_bytes);
}

static void release_aligned(void *memory, void *user)
{
    (void)user;
    _aligned_free(memory);
}

#else
static void *allocate_aligned(size_t size_bytes, size_t align_bytes, void *user)
{
    void *memory = NULL;
    (void)user;
    return posix_memalign(&memory, align_bytes, size_bytes) == 0 ? memory : NULL;
}

static void release_aligned(void *memory, void *user)
{
    (void)user;
    free(memory);
}

#endif

static enum anyflash_status check_args(const struct anyflash_context_args *args,
                                       struct anyflash_error *err)
{
    if (args->threads < 0 || args->threads > THREADS_MAX)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "context args: threads is %d, must be 0 to %d",
                       (int)args->threads, THREADS_MAX);
    if (args->cpu_level < ANYFLASH_CPU_ALL || args->cpu_level > ANYFLASH_CPU_AMX)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "context args: cpu_level is %d, must be 0 to %d", (int)args->cpu_level,
                       (int)ANYFLASH_CPU_AMX);
    if (args->reserved != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "context args: reserved is %d, must be 0",
                       (int)args->reserved);
    if ((args->allocate == NULL) != (args->release == NULL))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "context args: allocate and release must be set together");
    return ANYFLASH_OK;
}

/*
 * The processor's features up to a level; bits of enum af_cpu_feature have the
 * same order, with AVX512VBMI before AVX512BF16.
 */
static uint32_t features_of(int32_t cpu_level)
{
    const uint32_t found = af_cpu_features();
    if (cpu_level == ANYFLASH_CPU_ALL)
        return found;
    const uint32_t last = 1u << (cpu_level - (cpu_level < ANYFLASH_CPU_AVX512BF16));
    return found & (2 * last - 1);
}

enum anyflash_status anyflash_context_new(const struct anyflash_context_args *args,
                                          struct anyflash_context **context_out,
                                          struct anyflash_error *err)
{
    struct anyflash_context_args resolved = {.struct_size = sizeof resolved};
    if (args != NULL) {
        enum anyflash_status status =
            af_args_copy(&resolved, sizeof resolved, args, CONTEXT_ARGS_BYTES, err);
        if (status == ANYFLASH_OK)
            status = check_args(&resolved, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (resolved.allocate == NULL) {
        resolved.allocate = allocate_aligned;
        resolved.release = release_aligned;
    }
    struct anyflash_context *context = af_mem_alloc(sizeof *context);
    if (context == NULL)
        return af_fail_memory(err);
    int threads = resolved.threads > 0 ? resolved.threads : af_usable_cores();
    struct af_lent_threads lent = {resolved.parallel, resolved.user};
    enum anyflash_status status = af_pool_new(threads, lent, &context->pool, err);
    if (status != ANYFLASH_OK) {
        af_mem_free(context);
        return status;
    }
    pthread_mutex_init(&context->turn, NULL);
    context->cpu_features = features_of(resolved.cpu_level);
    context->args = resolved;
    context->memory = NULL;
    context->memory_bytes = 0;
    *context_out = context;
    return ANYFLASH_OK;
}

static void drop_memory(struct anyflash_context *context)
{
    if (context->memory != NULL)
        context->args.release(context->memory, context->args.user);
    context->memory = NULL;
    context->memory_bytes = 0;
}

void anyflash_context_free(struct anyflash_context *context)
{
    if (context == NULL)
        return;
    drop_memory(context);
    af_pool_free(context->pool);
    pthread_mutex_destroy(&context->turn);
    af_mem_free(context);
}

enum anyflash_status af_context_memory(struct anyflash_context *context, size_t size_bytes,
                                       void **memory_out, struct anyflash_error *err)
{
    bool oversized = context->memory_bytes > KEPT_BYTES_MAX && size_bytes <= KEPT_BYTES_MAX;
    if (size_bytes > context->memory_bytes || oversized) {
        drop_memory(context);
        context->memory = context->args.allocate(size_bytes, 64, context->args.user);
        if (context->memory == NULL)
            return af_fail(err, ANYFLASH_E_NO_MEMORY,
                           "cannot allocate %zu bytes of working memory", size_bytes);
        context->memory_bytes = size_bytes;
    }
    *memory_out = context->memory;
    return ANYFLASH_OK;
}

double af_context_flops(const struct anyflash_attend_args *a, double each)
{
    return each * (double)a->batch * (double)a->heads * (double)a->q_len * (double)a->k_len *
           (double)(a->head_dim + a->value_dim);
}

void af_context_run(struct anyflash_context *context, double flops, int64_t count,
                    int64_t together, af_pool_body *body, void *call)
{
    if (flops >= ALONE_FLOPS) {
        af_pool_run(context->pool, count, together, body, call);
        return;
    }
    for (int64_t index = 0; index < count; index++)
        body(call, (struct af_piece){index, index + 1, 0, index > 0});
}

enum anyflash_status af_context_call(struct anyflash_context *context, af_context_body *body,
                                     void *call, struct anyflash_error *err)
{
    struct anyflash_context *own = NULL;
    enum anyflash_status status = ANYFLASH_OK;
    if (context == NULL)
        status = anyflash_context_new(NULL, &own, err);
    if (status != ANYFLASH_OK)
        return status;
    struct anyflash_context *used = context == NULL ? own : context;
    pthread_mutex_lock(&used->turn);
    status = body(used, call, err);
    pthread_mutex_unlock(&used->turn);
    anyflash_context_free(own);
    return status;
}
