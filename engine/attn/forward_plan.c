/*
 * forward_plan.c: chooses the kernels of a forward problem, splits it into
 * tasks, computes its memory, and merges the partial results of chunks of keys.
 * Called by attend.c and explain.c.
 *
 * Merging, with m the largest maximum of the chunks: o = sum 2^(m_c - m) o_c / l
 * and l = sum 2^(m_c - m) l_c, chunks in rising order.
 */
#include "engine/attn/forward_plan.h"

#include "engine/attn/prepare.h"
#include "engine/attn/rows.h"

/* With fewer tasks than this, blocks of rows get smaller or keys are split. */
#define ENOUGH_TASKS 48
#define CHUNK_KEYS_MIN 512
#define CHUNK_KEYS_STEP 128

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sequence_rows(const struct af_schedule *schedule,
                             const struct af_sequence *sequence)
{
    return sequence->q_count * schedule->problem->group;
}

/* The kernel of a sequence, and the number of rows per task. */
static const struct af_kernel *kernel_of(const struct af_schedule *schedule, int64_t rows,
                                         int64_t *rows_per_task_out)
{
    const struct af_kernel *decode = schedule->decode_kernel;
    if (decode != NULL && rows <= decode->rows_max) {
        *rows_per_task_out = decode->rows_max;
        return decode;
    }
    *rows_per_task_out = schedule->rows_per_task;
    return schedule->tile_kernel;
}

/* Rows per task: as many as the kernel prefers, fewer if there would be few tasks. */
static void cut_rows(struct af_schedule *schedule, int64_t longest_rows)
{
    const struct anyflash_attend_args *a = &schedule->problem->a;
    const int64_t granule = schedule->tile_kernel->rows_granule;
    int64_t rows = schedule->tile_kernel->rows_preferred;
    while (rows > granule &&
           a->batch * a->kv_heads * divide_up(longest_rows, rows) < ENOUGH_TASKS)
        rows = larger(granule, rows / 2 / granule * granule);
    schedule->rows_per_task = rows;
    int64_t rows_per_task;
    kernel_of(schedule, longest_rows, &rows_per_task);
    schedule->blocks = larger(1, divide_up(longest_rows, rows_per_task));
    schedule->row_tasks = a->batch * a->kv_heads * schedule->blocks;
}

/* Splits the keys into chunks if there are too few row tasks for all threads. */
static void cut_keys(struct af_schedule *schedule, int64_t longest_keys)
{
    int64_t chunks = 1;
    if (schedule->row_tasks > 0 && schedule->row_tasks < ENOUGH_TASKS)
        chunks = larger(1, af_clamp(divide_up(ENOUGH_TASKS, schedule->row_tasks), 1,
                                    longest_keys / CHUNK_KEYS_MIN));
    schedule->keys_per_chunk =
        divide_up(divide_up(larger(1, longest_keys), chunks), CHUNK_KEYS_STEP) *
        CHUNK_KEYS_STEP;
    schedule->chunks = larger(1, divide_up(longest_keys, schedule->keys_per_chunk));
    schedule->task_count = schedule->row_tasks * schedule->chunks;
}

static void cut(struct af_schedule *schedule, const struct af_problem *problem,
                const struct af_kernel *tile_kernel, const struct af_kernel *decode_kernel)
{
    int64_t longest_rows = 0, longest_keys = 0;
    *schedule = (struct af_schedule){
        .problem = problem, .tile_kernel = tile_kernel, .decode_kernel = decode_kernel};
    for (int64_t b = 0; b < problem->a.batch; b++) {
        struct af_sequence sequence = af_problem_sequence(problem, b);
        longest_rows = larger(longest_rows, sequence_rows(schedule, &sequence));
        longest_keys = larger(longest_keys, sequence.k_count);
    }
    cut_rows(schedule, longest_rows);
    cut_keys(schedule, longest_keys);
    int64_t rows =
        longest_rows < schedule->rows_per_task ? longest_rows : schedule->rows_per_task;
    schedule->scratch_bytes = tile_kernel->scratch_bytes(problem, larger(1, rows), 0);
    if (decode_kernel != NULL) {
        size_t bytes = decode_kernel->scratch_bytes(problem, decode_kernel->rows_max, 0);
        schedule->scratch_bytes =
            bytes > schedule->scratch_bytes ? bytes : schedule->scratch_bytes;
        rows = larger(rows, decode_kernel->rows_max);
    }
    schedule->partial_rows = schedule->chunks > 1 ? (size_t)rows : 0;
}

/* Floats of partial results, and of their maxima and sums. */
static enum anyflash_status count_floats(const struct af_schedule *schedule,
                                         size_t *o_count_out, size_t *ml_count_out,
                                         struct anyflash_error *err)
{
    size_t rows;
    if (!af_size_mul((size_t)schedule->task_count, schedule->partial_rows, &rows) ||
        !af_size_mul(rows, (size_t)schedule->problem->a.value_dim, o_count_out) ||
        !af_size_mul(rows, 2, ml_count_out))
        return af_fail(err, ANYFLASH_E_LIMIT, "the partial results need too much memory");
    return ANYFLASH_OK;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static enum anyflash_status add_up(struct af_forward_plan *plan, int workers,
                                   struct anyflash_error *err)
{
    size_t floats, parts, scratch, front;
    plan->prepare_bytes = round_up(af_prepare_bytes(plan->schedule.problem));
    plan->worker_bytes = round_up(plan->schedule.scratch_bytes);
    if (!af_size_add(plan->o_count, plan->ml_count, &floats) ||
        !af_size_mul(floats, sizeof(float), &parts) ||
        !af_size_mul(plan->worker_bytes, (size_t)workers, &scratch) ||
        !af_size_add(plan->prepare_bytes, plan->partial_bytes = round_up(parts), &front) ||
        !af_size_add(front, scratch, &plan->total_bytes))
        return af_fail(err, ANYFLASH_E_LIMIT, "this attention call needs too much memory");
    return ANYFLASH_OK;
}

enum anyflash_status af_forward_plan_init(struct af_forward_plan *plan,
                                          const struct af_problem *problem,
                                          uint32_t cpu_features, int workers,
                                          struct anyflash_error *err)
{
    const struct af_kernel *tile = af_kernel_choose(problem, AF_FORWARD, cpu_features);
    if (tile == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "no kernel supports this attention call");
    cut(&plan->schedule, problem, tile, af_kernel_choose(problem, AF_DECODE, cpu_features));
    enum anyflash_status status =
        count_floats(&plan->schedule, &plan->o_count, &plan->ml_count, err);
    return status != ANYFLASH_OK ? status : add_up(plan, workers, err);
}

bool af_schedule_task(const struct af_schedule *schedule, int64_t index,
                      struct af_forward_task *task, const struct af_kernel **kernel_out)
{
    const struct anyflash_attend_args *a = &schedule->problem->a;
    int64_t chunk = index % schedule->chunks;
    int64_t row_task = index / schedule->chunks;
    int64_t block = row_task % schedule->blocks;
    int64_t head_task = row_task / schedule->blocks;
    int64_t rows_per_task;
    *task = (struct af_forward_task){.problem = schedule->problem};
    task->kv_head = head_task % a->kv_heads;
    task->sequence = af_problem_sequence(schedule->problem, head_task / a->kv_heads);
    int64_t rows = sequence_rows(schedule, &task->sequence);
    *kernel_out = kernel_of(schedule, rows, &rows_per_task);
    int64_t blocks = divide_up(rows, rows_per_task);
    if (block >= blocks)
        return false;
    if (a->causal)
        block = blocks - 1 - block;
    task->row_begin = block * rows_per_task;
    task->row_end = af_clamp(task->row_begin + rows_per_task, 0, rows);
    task->key_begin = af_clamp(chunk * schedule->keys_per_chunk, 0, task->sequence.k_count);
    task->key_end =
        af_clamp(task->key_begin + schedule->keys_per_chunk, 0, task->sequence.k_count);
    return true;
}

void af_split_place(const struct af_schedule *schedule, const struct af_partials *partials,
                    int64_t index, struct af_forward_task *task)
{
    if (schedule->partial_rows == 0)
        return;
    size_t first = (size_t)index * schedule->partial_rows;
    task->partial_o = partials->o + first * (size_t)schedule->problem->a.value_dim;
    task->partial_ml = partials->ml + first * 2;
}

/* Adds chunk `index`'s row to the merged one; m is the final maximum. */
static void add_row(const struct af_forward_task *task, int64_t row, float m, float *line,
                    float *l)
{
    const int64_t dim = task->problem->a.value_dim;
    const float *o = task->partial_o + row * dim;
    const float *ml = task->partial_ml + row * 2;
    /* Parts with a weight of 0 count, too: they may be NaN. */
    float weight = ml[1] != 0 ? exp2f(ml[0] - m) : 0;
    *l += weight * ml[1];
    for (int64_t d = 0; d < dim; d++)
        line[d] += weight * o[d];
}

static void merge_row(const struct af_schedule *schedule, const struct af_partials *partials,
                      int64_t row_task, struct af_forward_task *task, int64_t row, float *line)
{
    const struct af_problem *problem = schedule->problem;
    const int64_t first = row_task * schedule->chunks;
    float m = -INFINITY, l = 0, lse;
    for (int64_t c = 0; c < schedule->chunks; c++) {
        af_split_place(schedule, partials, first + c, task);
        const float *ml = task->partial_ml + row * 2;
        if (ml[1] != 0 && !(ml[0] <= m))
            m = ml[0];
    }
    memset(line, 0, (size_t)problem->a.value_dim * sizeof *line);
    for (int64_t c = 0; c < schedule->chunks; c++) {
        af_split_place(schedule, partials, first + c, task);
        add_row(task, row, m, line, &l);
    }
    int64_t number = task->row_begin + row;
    int64_t head = task->kv_head * problem->group + number % problem->group;
    int64_t i = number / problem->group;
    af_scale(line, af_close_row(problem, head, m, l, &lse), problem->a.value_dim);
    af_convert_store_floats(&problem->a.o, &task->sequence, head, i, line,
                            problem->a.value_dim);
    float *at = af_lse_at(problem, &task->sequence, head, i);
    if (at != NULL)
        *at = lse;
}

void af_split_merge(const struct af_schedule *schedule, const struct af_partials *partials,
                    int64_t row_task, float *line)
{
    const struct af_kernel *kernel;
    struct af_forward_task task;
    if (!af_schedule_task(schedule, row_task * schedule->chunks, &task, &kernel))
        return;
    for (int64_t row = 0; row < task.row_end - task.row_begin; row++)
        merge_row(schedule, partials, row_task, &task, row, line);
}
