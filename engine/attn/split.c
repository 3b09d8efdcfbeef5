/*
 * split.c: merges partial results of chunks of keys. Called by attend.c.
 *
 * With m the largest of the chunks' maxima: o = sum 2^(m_c - m) o_c / l and
 * l = sum 2^(m_c - m) l_c, chunks in rising order.
 */
#include "engine/attn/split.h"

#include "engine/attn/rows.h"

enum anyflash_status af_split_floats(const struct af_schedule *schedule, size_t *o_count_out,
                                     size_t *ml_count_out, struct anyflash_error *err)
{
    size_t rows;
    if (!af_size_mul((size_t)schedule->task_count, schedule->partial_rows, &rows) ||
        !af_size_mul(rows, (size_t)schedule->problem->a.value_dim, o_count_out) ||
        !af_size_mul(rows, 2, ml_count_out))
        return af_fail(err, ANYFLASH_E_LIMIT, "partial results would need too much memory");
    return ANYFLASH_OK;
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
    /* What a part saw with weights of 0 counts: it may be NaN. */
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
