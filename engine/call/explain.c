/*
 * explain.c: says what a call would do without running it: its memory, its
 * kernels, and why faster ones decline the problem.
 */
#include <stdarg.h>
#include <stdio.h>

#include "engine/base/cores.h"
#include "engine/call/choose.h"
#include "engine/call/context.h"
#include "engine/call/forward_plan.h"
#include "engine/cpu/kernels.h"

/* A caller's buffer; text is cut when it is full. */
struct page {
    char *text;
    size_t size_bytes;
    size_t used_bytes;
};

static AF_PRINTF(2, 3) void add(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(page->text + page->used_bytes, page->size_bytes - page->used_bytes,
                           format, arguments);
    va_end(arguments);
    if (wanted > 0) {
        size_t capacity = page->size_bytes - page->used_bytes - 1;
        page->used_bytes += (size_t)wanted < capacity ? (size_t)wanted : capacity;
    }
}

/* Lists the kernels of one operation from the best down to the one that runs. */
static void add_operation(struct page *page, const char *label,
                          const struct af_problem *problem, enum af_kernel_operation operation,
                          uint32_t cpu_features)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t k = count; k > 0; k--) {
        const struct af_kernel *kernel = kernels[k - 1];
        enum af_decline decline = af_kernel_declines(kernel, problem, cpu_features);
        if (kernel->operation != operation || decline == AF_DECLINE_DTYPE)
            continue;
        if (decline == AF_DECLINE_NOT) {
            add(page, "%s: %s\n", label, kernel->name);
            return;
        }
        add(page, "%s: not %s: %s\n", label, kernel->name, af_decline_text(decline));
    }
}

/* Checks and plans a call as anyflash_attend() would. */
static enum anyflash_status plan_call(struct anyflash_context *context,
                                      const struct anyflash_attend_args *args,
                                      struct af_problem *problem, struct af_forward_plan *plan,
                                      struct anyflash_error *err)
{
    enum anyflash_status status = af_problem_init(problem, args, err);
    if (status != ANYFLASH_OK)
        return status;
    uint32_t features = context != NULL ? context->cpu_features : af_cpu_features();
    int workers = context != NULL ? af_pool_size(context->pool) : af_usable_cores();
    return af_forward_plan_init(plan, problem, features, workers, err);
}

enum anyflash_status anyflash_workspace_bytes(struct anyflash_context *context,
                                              const struct anyflash_attend_args *args,
                                              size_t *needed_bytes_out,
                                              struct anyflash_error *err)
{
    struct af_problem problem;
    struct af_forward_plan plan;
    if (needed_bytes_out == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "needed_bytes_out is NULL");
    enum anyflash_status status = plan_call(context, args, &problem, &plan, err);
    if (status == ANYFLASH_OK)
        *needed_bytes_out = plan.total_bytes;
    return status;
}

enum anyflash_status anyflash_explain(struct anyflash_context *context,
                                      const struct anyflash_attend_args *args, char *text,
                                      size_t size_bytes, struct anyflash_error *err)
{
    struct af_problem problem;
    struct af_forward_plan plan;
    if (text == NULL || size_bytes == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "text is NULL or its size is 0");
    enum anyflash_status status = plan_call(context, args, &problem, &plan, err);
    if (status != ANYFLASH_OK)
        return status;
    uint32_t features = context != NULL ? context->cpu_features : af_cpu_features();
    const struct af_schedule *schedule = &plan.schedule;
    struct page page = {text, size_bytes, 0};
    text[0] = '\0';
    if (schedule->uses_tile)
        add_operation(&page, "many rows", &problem, AF_FORWARD, features);
    if (schedule->uses_decode)
        add_operation(&page, "few rows", &problem, AF_DECODE, features);
    add_operation(&page, "backward", &problem, AF_BACKWARD, features);
    add(&page, "work: %lld tasks, keys cut into %lld, %zu bytes of scratch\n",
        (long long)schedule->task_count, (long long)schedule->chunks, plan.total_bytes);
    return ANYFLASH_OK;
}
