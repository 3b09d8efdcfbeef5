/*
 * backward.c: runs one backward call. problem.c checks the arguments.
 *
 * The work is split into tasks: a key head of a sequence and a chunk of its
 * keys. The split depends only on shapes, never on the number of threads. Tasks
 * that add to the same elements of dbias form a chain, which one worker runs in
 * order; otherwise every task is a chain of its own. Chunks of keys cost memory,
 * because each has its own share of dq: they are used only if there are few key
 * heads, and as many as fit PARTIAL_BYTES, but at least CHUNKS_ALWAYS.
 */
#include "engine/attn/rows.h"
#include "engine/call/choose.h"
#include "engine/call/context.h"

#define ENOUGH_TASKS 16
#define CHUNK_KEYS_MIN 384
#define CHUNK_KEYS_STEP 96
#define CHUNKS_ALWAYS 4
#define PARTIAL_BYTES (64ll * 1024 * 1024)
#define SUMS 16 /* number of parallel sums, so that the compiler can vectorise */

struct backward_cut {
    const struct af_backward_problem *problem;
    int64_t chunks;         /* of the longest sequence */
    int64_t keys_per_chunk; /* of every sequence */
    int64_t longest_rows;   /* q_count * group */
    int64_t batch_links;    /* batches and key heads per chain */
    int64_t head_links;
    int64_t chain_count;
    size_t partial_count; /* floats of partial dq; 0: none */
};

/*
 * Number of chunks: enough tasks for all threads, but not too much memory for
 * their shares of dq.
 */
static int64_t chunks_of(const struct anyflash_attend_args *a, int64_t longest_keys,
                         int64_t share_bytes)
{
    int64_t wanted = af_divide_up(ENOUGH_TASKS, af_larger(1, a->batch * a->kv_heads));
    int64_t affordable = af_larger(CHUNKS_ALWAYS, PARTIAL_BYTES / af_larger(1, share_bytes));
    wanted = wanted < affordable ? wanted : affordable;
    return af_larger(1, wanted < longest_keys / CHUNK_KEYS_MIN ? wanted
                                                               : longest_keys / CHUNK_KEYS_MIN);
}

/* Counts the floats of one chunk's dq: rows of all sequences and heads. */
static bool share_floats(const struct backward_cut *cut, size_t *count_out)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    return af_size_mul((size_t)a->batch, (size_t)a->kv_heads, count_out) &&
           af_size_mul(*count_out, (size_t)cut->longest_rows, count_out) &&
           af_size_mul(*count_out, (size_t)a->head_dim, count_out);
}

/* Fails with LIMIT when the size of partial dq overflows. */
static enum anyflash_status cut_init(struct backward_cut *cut,
                                     const struct af_backward_problem *problem,
                                     struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    const struct anyflash_tensor *dbias = &problem->dbias;
    int64_t longest_keys = 0;
    size_t share;
    *cut = (struct backward_cut){.problem = problem, .batch_links = 1, .head_links = 1};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence sequence = af_problem_sequence(&problem->forward, b);
        cut->longest_rows =
            af_larger(cut->longest_rows, sequence.q_count * problem->forward.group);
        longest_keys = af_larger(longest_keys, sequence.k_count);
    }
    if (!share_floats(cut, &share) || share > PTRDIFF_MAX / sizeof(float))
        return af_fail(err, ANYFLASH_E_LIMIT, "this attention call needs too much memory");
    int64_t chunks = chunks_of(a, longest_keys, (int64_t)(share * sizeof(float)));
    cut->keys_per_chunk =
        af_divide_up(af_divide_up(af_larger(1, longest_keys), chunks), CHUNK_KEYS_STEP) *
        CHUNK_KEYS_STEP;
    cut->chunks = af_larger(1, af_divide_up(longest_keys, cut->keys_per_chunk));
    if (dbias->data != NULL && dbias->batch_stride == 0)
        cut->batch_links = af_larger(1, a->batch);
    if (dbias->data != NULL && dbias->head_stride == 0)
        cut->head_links = a->kv_heads;
    cut->chain_count =
        a->batch / cut->batch_links * (a->kv_heads / cut->head_links) * cut->chunks;
    if (cut->chunks > 1 && problem->dq.data != NULL &&
        !af_size_mul(share, (size_t)cut->chunks, &cut->partial_count))
        return af_fail(err, ANYFLASH_E_LIMIT, "this attention call needs too much memory");
    return ANYFLASH_OK;
}

/* Offset of a chunk's share: [chunk][batch][kv_head][longest_rows][D]. */
static size_t share_at(const struct backward_cut *cut, int64_t chunk, int64_t batch,
                       int64_t kv_head)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    return (size_t)(((chunk * a->batch + batch) * a->kv_heads + kv_head) * cut->longest_rows *
                    a->head_dim);
}

/* Task `link` of chain `chain`. `partials` has partial_count floats, or is NULL. */
static struct af_backward_task cut_task(const struct backward_cut *cut, int64_t chain,
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
    if (AF_CHOICE(cut->partial_count > 0))
        task.partial_dq = partials + share_at(cut, chunk, batch, task.kv_head);
    return task;
}

/*
 * Adds the shares of one batch and key head in the order of the keys, and
 * writes dq, multiplied by scale. Only chunks that a row sees have a share of it.
 */
static void cut_merge(const struct backward_cut *cut, const float *partials, int64_t batch,
                      int64_t kv_head)
{
    const struct anyflash_attend_args *a = &cut->problem->forward.a;
    const struct af_sequence sequence = af_problem_sequence(&cut->problem->forward, batch);
    const int64_t group = cut->problem->forward.group, dim = a->head_dim;
    float line[AF_DIM_MAX];
    for (int64_t row = 0; row < sequence.q_count * group; row++) {
        const struct af_range seen =
            af_visible_range(&cut->problem->forward, &sequence, row / group);
        const int64_t end =
            AF_GUARD(seen.first < seen.end) ? af_divide_up(seen.end, cut->keys_per_chunk) : 0;
        memset(line, 0, (size_t)dim * sizeof *line);
        for (int64_t chunk = seen.first / cut->keys_per_chunk; chunk < end; chunk++) {
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

/* Tasks per chain. */
static int64_t links_of(const struct backward_cut *cut)
{
    return cut->batch_links * cut->head_links;
}

static void clear_rows(const struct anyflash_tensor *tensor, int64_t batch, int64_t head,
                       int64_t row, int64_t end, int64_t dim)
{
    const size_t bytes = af_dtype_bytes(tensor->dtype);
    for (; tensor->data != NULL && row < end; row++)
        memset(af_row_of_tensor(tensor, bytes, batch, head, row), 0, (size_t)dim * bytes);
}

/* Zeroes the dq rows, dk and dv keys that a sequence owns but does not use. */
static void clear_unused(const struct af_backward_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    for (int64_t b = 0; b < a->batch; b++) {
        const struct af_sequence s = af_problem_sequence(&problem->forward, b);
        const int64_t k_full =
            a->cu_seqlens_k != NULL ? a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b] : a->k_len;
        for (int64_t h = 0; h < a->heads; h++)
            clear_rows(&problem->dq, b, h, s.q_row + (s.k_count > 0 ? s.q_count : 0),
                       s.q_row + s.q_full, a->head_dim);
        for (int64_t g = 0; g < a->kv_heads; g++) {
            clear_rows(&problem->dk, b, g, s.k_row + s.k_count, s.k_row + k_full, a->head_dim);
            clear_rows(&problem->dv, b, g, s.k_row + s.k_count, s.k_row + k_full, a->value_dim);
        }
    }
}

/* Zeroes all of dbias, each stored element once. */
static void clear_bias(const struct af_backward_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    const struct anyflash_tensor *dbias = &problem->dbias;
    const int64_t batches = dbias->batch_stride == 0 && a->batch > 1 ? 1 : a->batch;
    const int64_t heads = dbias->head_stride == 0 ? 1 : a->heads;
    const int64_t rows = dbias->row_stride == 0 && a->q_len > 1 ? 1 : a->q_len;
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t h = 0; h < heads; h++)
            clear_rows(dbias, b, h, 0, rows, a->k_len);
    }
}

static float dot(const float *x, const float *y, int64_t count)
{
    float sums[SUMS] = {0}, sum = 0;
    for (int64_t i = 0; i < count; i += SUMS) {
        for (int64_t n = 0; n < SUMS; n++)
            sums[n] += x[i + n] * y[i + n];
    }
    for (int64_t n = 0; n < SUMS; n++)
        sum += sums[n];
    return sum;
}

/* dlse - dO.O of one row. */
static float row_gradient(const struct af_backward_problem *problem,
                          const struct af_sequence *sequence, int64_t head, int64_t i)
{
    const struct anyflash_tensor *o = &problem->forward.a.o;
    const int64_t dim = problem->forward.a.value_dim;
    float x[AF_DIM_MAX + SUMS] = {0}, y[AF_DIM_MAX + SUMS] = {0};
    float dlse = 0;
    af_convert_load_floats(o, sequence->batch, head, sequence->q_row + i, 0, dim, x);
    af_convert_load_floats(&problem->dout, sequence->batch, head, sequence->q_row + i, 0, dim,
                           y);
    if (problem->dlse != NULL)
        dlse = problem->dlse[af_lse_at(&problem->forward, sequence, head, i) -
                             problem->forward.a.lse];
    return dlse - dot(x, y, dim);
}

/* dsinks of one head, summed over batches and rows in order. */
static void add_sink(const struct af_backward_problem *problem, int64_t head)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    double sum = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        const struct af_sequence sequence = af_problem_sequence(&problem->forward, b);
        for (int64_t i = 0; i < sequence.q_count; i++) {
            float lse = *af_lse_at(&problem->forward, &sequence, head, i);
            if (lse != -INFINITY)
                sum += exp((double)a->sinks[head] - (double)lse) *
                       (double)row_gradient(problem, &sequence, head, i);
        }
    }
    problem->dsinks[head] = (float)sum;
}

/* State of one call. */
struct call {
    struct af_backward_problem problem;
    struct backward_cut cut;
    const struct af_kernel *kernel;
    float *partials;
    char *scratch; /* of worker 0; the others follow */
    size_t scratch_bytes;
    size_t partial_bytes;
    size_t total_bytes;
};

/* Chooses the kernel, the split and the memory. */
static enum anyflash_status plan(struct call *call, const struct anyflash_context *context,
                                 struct anyflash_error *err)
{
    call->kernel = af_kernel_choose(&call->problem.forward, AF_BACKWARD, context->cpu_features);
    if (call->kernel == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "no kernel supports this backward pass");
    enum anyflash_status status = cut_init(&call->cut, &call->problem, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t scratch;
    call->scratch_bytes = af_context_round_up(call->kernel->scratch_bytes(
        &call->problem.forward, call->cut.longest_rows, call->cut.keys_per_chunk));
    if (!af_size_mul(call->cut.partial_count, sizeof(float), &call->partial_bytes) ||
        !af_size_mul(call->scratch_bytes, (size_t)af_pool_size(context->pool), &scratch) ||
        !af_size_add(af_context_round_up(call->partial_bytes), scratch, &call->total_bytes))
        return af_fail(err, ANYFLASH_E_LIMIT, "this attention call needs too much memory");
    return ANYFLASH_OK;
}

static void run_chain(void *context, struct af_piece piece)
{
    struct call *call = context;
    struct af_scratch scratch = {call->scratch + (size_t)piece.worker * call->scratch_bytes,
                                 call->scratch_bytes};
    for (int64_t link = 0; link < links_of(&call->cut); link++) {
        struct af_backward_task task = cut_task(&call->cut, piece.index, link, call->partials);
        if (task.key_begin < task.key_end)
            call->kernel->run_backward(&task, scratch);
    }
}

static void run_merge(void *context, struct af_piece piece)
{
    struct call *call = context;
    const int64_t kv_heads = call->problem.forward.a.kv_heads;
    cut_merge(&call->cut, call->partials, piece.index / kv_heads, piece.index % kv_heads);
}

static void run_sink(void *context, struct af_piece piece)
{
    struct call *call = context;
    add_sink(&call->problem, piece.index);
}

/* Computes; af_context_call() calls it. */
static enum anyflash_status run(struct anyflash_context *context, void *state,
                                struct anyflash_error *err)
{
    struct call *call = state;
    const struct anyflash_attend_args *a = &call->problem.forward.a;
    const double flops = af_context_flops(a, 5.0);
    void *memory = NULL;
    enum anyflash_status status = plan(call, context, err);
    if (status == ANYFLASH_OK)
        status = af_context_memory(context, call->total_bytes, &memory, err);
    if (status != ANYFLASH_OK)
        return status;
    call->partials = memory;
    call->scratch = (char *)memory + af_context_round_up(call->partial_bytes);
    clear_unused(&call->problem);
    if (call->problem.dbias.data != NULL)
        clear_bias(&call->problem);
    if (call->problem.dq.data != NULL || call->problem.dk.data != NULL ||
        call->problem.dbias.data != NULL)
        af_context_run(context, flops, call->cut.chain_count, 1, run_chain, call);
    if (call->cut.partial_count > 0)
        af_context_run(context, flops, a->batch * a->kv_heads, 1, run_merge, call);
    if (call->problem.dsinks != NULL)
        af_context_run(context, flops, a->heads, 1, run_sink, call);
    return ANYFLASH_OK;
}

enum anyflash_status anyflash_attend_backward(struct anyflash_context *context,
                                              const struct anyflash_attend_backward_args *args,
                                              struct anyflash_error *err)
{
    struct call call = {.kernel = NULL};
    enum anyflash_status status = af_backward_problem_init(&call.problem, args, err);
    return status == ANYFLASH_OK ? af_context_call(context, run, &call, err) : status;
}
