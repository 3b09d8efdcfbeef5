/*
 * backward_cut.c: cuts a backward problem into tasks, and puts together what
 * tasks have in parts. Called by backward.c.
 *
 * Chunks of keys cost memory: each has its own share of dq. They are made only
 * where key heads are few, and as many as fit PARTIAL_BYTES, four in any case.
 */
#include "engine/attn/backward_cut.h"

#include "engine/attn/rows.h"

#define ENOUGH_TASKS 16
#define CHUNK_KEYS_MIN 384
#define CHUNK_KEYS_STEP 96
#define CHUNKS_ALWAYS 4
#define PARTIAL_BYTES (64ll * 1024 * 1024)

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Chunks of keys: enough tasks to share, few enough for their shares of dq. */
static int64_t chunks_of(const struct anyflash_attend_args *a, int64_t longest_keys,
                         int64_t share_bytes)
{
    int64_t wanted = divide_up(ENOUGH_TASKS, larger(1, a->batch * a->kv_heads));
    int64_t affordable = larger(CHUNKS_ALWAYS, PARTIAL_BYTES / larger(1, share_bytes));
    wanted = wanted < affordable ? wanted : affordable;
    return larger(1, wanted < longest_keys / CHUNK_KEYS_MIN ? wanted
                                                            : longest_keys / CHUNK_KEYS_MIN);
}

/* Rows of all sequences and heads, as partial dq has them. */
static bool share_floats(const struct af_backward_cut *cut, size_t *count_out)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    return af_size_mul((size_t)a->batch, (size_t)a->kv_heads, count_out) &&
           af_size_mul(*count_out, (size_t)cut->longest_rows, count_out) &&
           af_size_mul(*count_out, (size_t)a->head_dim, count_out);
}

enum anyflash_status af_backward_cut_init(struct af_backward_cut *cut,
                                          const struct af_backward_problem *problem,
                                          struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    const struct anyflash_tensor *dbias = &problem->dbias;
    int64_t longest_keys = 0;
    size_t share;
    *cut = (struct af_backward_cut){.problem = problem, .batch_links = 1, .head_links = 1};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence sequence = af_problem_sequence(&problem->forward, b);
        cut->longest_rows =
            larger(cut->longest_rows, sequence.q_count * problem->forward.group);
        longest_keys = larger(longest_keys, sequence.k_count);
    }
    if (!share_floats(cut, &share) || share > PTRDIFF_MAX / sizeof(float))
        return af_fail(err, ANYFLASH_E_LIMIT, "the call would need too much memory");
    int64_t chunks = chunks_of(a, longest_keys, (int64_t)(share * sizeof(float)));
    cut->keys_per_chunk =
        divide_up(divide_up(larger(1, longest_keys), chunks), CHUNK_KEYS_STEP) *
        CHUNK_KEYS_STEP;
    cut->chunks = larger(1, divide_up(longest_keys, cut->keys_per_chunk));
    if (dbias->data != NULL && dbias->batch_stride == 0)
        cut->batch_links = larger(1, a->batch);
    if (dbias->data != NULL && dbias->head_stride == 0)
        cut->head_links = a->kv_heads;
    cut->chain_count =
        a->batch / cut->batch_links * (a->kv_heads / cut->head_links) * cut->chunks;
    if (cut->chunks > 1 && problem->dq.data != NULL &&
        !af_size_mul(share, (size_t)cut->chunks, &cut->partial_count))
        return af_fail(err, ANYFLASH_E_LIMIT, "the call would need too much memory");
    return ANYFLASH_OK;
}

/* The share of a chunk: [chunk][batch][kv_head][longest_rows][D]. */
static size_t share_at(const struct af_backward_cut *cut, int64_t chunk, int64_t batch,
                       int64_t kv_head)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    return (size_t)(((chunk * a->batch + batch) * a->kv_heads + kv_head) * cut->longest_rows *
                    a->head_dim);
}

struct af_backward_task af_backward_cut_task(const struct af_backward_cut *cut, int64_t chain,
                                             int64_t link, float *partials)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    const int64_t chunk = chain % cut->chunks;
    const int64_t head_chains = a->kv_heads / cut->head_links;
    const int64_t batch = chain / cut->chunks / head_chains + link / cut->head_links;
    struct af_backward_task task = {.problem = cut->problem};
    task.kv_head = chain / cut->chunks % head_chains + link % cut->head_links;
    task.sequence = af_problem_sequence(&cut->problem->forward, batch);
    task.rows = task.sequence.q_count * cut->problem->forward.group;
    task.key_begin = af_clamp(chunk * cut->keys_per_chunk, 0, task.sequence.k_count);
    task.key_end = af_clamp(task.key_begin + cut->keys_per_chunk, 0, task.sequence.k_count);
    if (cut->partial_count > 0)
        task.partial_dq = partials + share_at(cut, chunk, batch, task.kv_head);
    return task;
}

void af_backward_cut_merge(const struct af_backward_cut *cut, const float *partials,
                           int64_t batch, int64_t kv_head)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    const struct af_sequence sequence = af_problem_sequence(&cut->problem->forward, batch);
    const int64_t group = cut->problem->forward.group, dim = a->head_dim;
    const int64_t chunks = divide_up(sequence.k_count, cut->keys_per_chunk);
    float line[AF_DIM_MAX];
    for (int64_t row = 0; row < sequence.q_count * group; row++) {
        memset(line, 0, sizeof line);
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            const float *share =
                partials + share_at(cut, chunk, batch, kv_head) + (size_t)(row * dim);
            for (int64_t d = 0; d < dim; d++)
                line[d] += share[d];
        }
        af_scale(line, a->scale, dim);
        af_convert_store_floats(&cut->problem->dq, &sequence, kv_head * group + row % group,
                                row / group, line, dim);
    }
}
