/*
 * schedule.c: cuts a forward problem into tasks. Called by attend.c.
 */
#include "engine/attn/schedule.h"

#include "engine/attn/mask.h"

/* Fewer tasks than this, and blocks of rows get smaller or keys are split. */
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

/* The kernel of a sequence, and how many rows its tasks have. */
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

/* Rows of a task: as many as the kernel likes, fewer where tasks would be few. */
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

/* Chunks of keys, where row tasks alone are too few to share. */
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

void af_schedule_init(struct af_schedule *schedule, const struct af_problem *problem,
                      const struct af_kernel *tile_kernel,
                      const struct af_kernel *decode_kernel)
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
    schedule->scratch_bytes = tile_kernel->scratch_bytes(problem, larger(1, rows));
    if (decode_kernel != NULL) {
        size_t bytes = decode_kernel->scratch_bytes(problem, decode_kernel->rows_max);
        schedule->scratch_bytes =
            bytes > schedule->scratch_bytes ? bytes : schedule->scratch_bytes;
        rows = larger(rows, decode_kernel->rows_max);
    }
    schedule->partial_rows = schedule->chunks > 1 ? (size_t)rows : 0;
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
