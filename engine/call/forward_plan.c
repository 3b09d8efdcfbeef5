/*
 * forward_plan.c: chooses the kernels of a forward problem, splits it into
 * tasks, computes its memory, and merges the partial results of chunks of keys.
 * Called by attend.c and explain.c.
 *
 * Merging, with m the largest maximum of the chunks: o = sum 2^(m_c - m) o_c / l
 * and l = sum 2^(m_c - m) l_c, chunks in rising order.
 */
#include "engine/call/forward_plan.h"

#include "engine/attn/prepare.h"
#include "engine/attn/rows.h"
#include "engine/call/choose.h"
#include "engine/call/context.h"

/* With fewer tasks than this, blocks of rows get smaller or keys are split. */
#define ENOUGH_TASKS 48
/* Tasks of few rows are smaller: their partial results cost little. */
#define ENOUGH_READS 192
#define CHUNK_KEYS_MIN 512 /* of many rows */
#define CHUNK_KEYS_STEP 128
#define CHUNK_BYTES_MIN ((int64_t)512 << 10) /* of few rows */
/* A chunk of few rows reads at least this many times the bytes of its partial results. */
#define CHUNK_PARTIALS_MIN 32
/* Operations that take about as long as reading one byte from memory. */
#define FLOPS_PER_BYTE 16
/* Pieces of this many bytes are read as fast in random order as one after the other. */
#define PIECE_BYTES ((int64_t)32 << 10)
/* The most key heads of a task: their rows and results must fit the second-level cache. */
#define HEADS_MAX 8
/* A task gets several key heads only if this many tasks remain for each worker. */
#define TASKS_PER_WORKER 8

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How one sequence is split. */
struct split {
    const struct af_kernel *kernel;
    int64_t rows;           /* of one key head: queries by heads that share it */
    int64_t rows_per_block; /* of all blocks but the last */
    int64_t blocks;
    struct af_range keys; /* that its rows see */
    int64_t keys_per_chunk;
    int64_t chunks;
    int64_t heads_per_task; /* key heads */
};

/*
 * How many sequences have to be looked at: one for all if no array gives them lengths or
 * offsets of their own. A batch may have 2^31 sequences.
 */
static int64_t count_kinds(const struct anyflash_attend_args *a)
{
    const bool same = a->cu_seqlens_q == NULL && a->cu_seqlens_k == NULL &&
                      a->seqused_q == NULL && a->seqused_k == NULL && a->leftpad_k == NULL &&
                      a->causal_offsets == NULL;
    return same ? smaller(a->batch, 1) : a->batch;
}

/* Its rows and its kernel, in blocks of at most `rows_per_task` rows; keys in one chunk. */
static struct split split_rows(const struct af_schedule *schedule,
                               const struct af_sequence *sequence, int64_t rows_per_task)
{
    const struct af_problem *problem = schedule->problem;
    const struct af_kernel *decode = schedule->decode_kernel;
    struct split split = {
        .rows = sequence->q_count * problem->group, .chunks = 1, .heads_per_task = 1};
    if (split.rows > 0) {
        struct af_range first = af_visible_range(problem, sequence, 0);
        struct af_range last = af_visible_range(problem, sequence, sequence->q_count - 1);
        split.keys.first = smaller(first.first, sequence->k_count);
        split.keys.end = af_clamp(last.end, split.keys.first, sequence->k_count);
    }
    split.keys_per_chunk = split.keys.end - split.keys.first;
    bool is_decode =
        decode != NULL && AF_CHOICE(decode->suits(split.rows, split.keys_per_chunk));
    split.kernel = is_decode ? decode : schedule->tile_kernel;
    if (is_decode && AF_GUARD(split.rows > 1) && AF_CHOICE(split.rows <= decode->rows_max))
        split.heads_per_task = schedule->heads_per_task;
    split.rows_per_block =
        af_larger(1, smaller(split.rows, is_decode ? decode->rows_max : rows_per_task));
    split.blocks = af_divide_up(split.rows, split.rows_per_block);
    return split;
}

/* What a key costs a block of rows: its bytes, or the operations on it if they take longer. */
static double work_per_key(const struct af_schedule *schedule, const struct split *split)
{
    const struct af_problem *problem = schedule->problem;
    double bytes = (double)problem->key_bytes;
    double flops =
        split->kernel == schedule->decode_kernel ? 0 : 2.0 * (double)split->rows_per_block;
    double per_element = flops / FLOPS_PER_BYTE > bytes ? flops / FLOPS_PER_BYTE : bytes;
    return per_element * (double)(problem->a.head_dim + problem->a.value_dim);
}

static double work_of(const struct af_schedule *schedule, const struct split *split)
{
    return work_per_key(schedule, split) * (double)(split->keys.end - split->keys.first) *
           (double)split->blocks * (double)schedule->problem->a.kv_heads;
}

/* Fewest keys of a chunk. */
static int64_t keys_min(const struct af_schedule *schedule, const struct split *split)
{
    const struct anyflash_attend_args *a = &schedule->problem->a;
    if (split->kernel != schedule->decode_kernel)
        return CHUNK_KEYS_MIN;
    int64_t partial = split->rows_per_block * a->value_dim * (int64_t)sizeof(float);
    return af_larger(CHUNK_BYTES_MIN, CHUNK_PARTIALS_MIN * partial) /
           ((a->head_dim + a->value_dim) * (int64_t)schedule->problem->key_bytes);
}

/* Splits the keys of a sequence if its blocks have more than their share of the work. */
static struct split split_of(const struct af_schedule *schedule,
                             const struct af_sequence *sequence)
{
    struct split split = split_rows(schedule, sequence, schedule->rows_per_task);
    const int64_t keys = split.keys.end - split.keys.first;
    const double enough = split.kernel == schedule->decode_kernel ? ENOUGH_READS : ENOUGH_TASKS;
    const double share = schedule->work / enough / work_per_key(schedule, &split);
    const int64_t least = af_larger(CHUNK_KEYS_STEP, keys_min(schedule, &split));
    if (AF_CHOICE(keys < 2 * least || share >= (double)keys))
        return split;
    int64_t chunks = af_divide_up(keys, af_larger(least, (int64_t)share));
    split.keys_per_chunk =
        af_divide_up(af_divide_up(keys, chunks), CHUNK_KEYS_STEP) * CHUNK_KEYS_STEP;
    split.chunks = af_divide_up(keys, split.keys_per_chunk);
    return split;
}

/*
 * Tasks that there would be for the tile kernel's sequences with `rows` rows each. One
 * block of rows counts as the chunks that its keys can be split into.
 */
static int64_t count_blocks(const struct af_schedule *schedule, int64_t rows)
{
    const struct anyflash_attend_args *a = &schedule->problem->a;
    int64_t count = 0;
    const int64_t kinds = count_kinds(a);
    for (int64_t b = 0; b < kinds && count < ENOUGH_TASKS; b++) {
        struct af_sequence sequence = af_problem_sequence(schedule->problem, b);
        struct split split = split_rows(schedule, &sequence, rows);
        int64_t tasks = split.blocks;
        if (split.rows <= schedule->tile_kernel->rows_preferred)
            tasks = af_larger(tasks, (split.keys.end - split.keys.first) / CHUNK_KEYS_MIN);
        count += tasks * a->kv_heads;
    }
    return kinds < a->batch ? count * a->batch : count;
}

/* Rows per task: as many as the kernel prefers, fewer if there would be few tasks. */
static int64_t choose_rows(const struct af_schedule *schedule)
{
    const int64_t granule = schedule->tile_kernel->rows_granule;
    int64_t rows = schedule->tile_kernel->rows_preferred;
    while (rows > granule && count_blocks(schedule, rows) < ENOUGH_TASKS)
        rows = af_larger(granule, rows / 2 / granule * granule);
    return rows;
}

/* Adds `times` sequences to the counts. */
static void count_sequences(struct af_schedule *schedule, const struct split *split,
                            int64_t times)
{
    const int64_t row_tasks = schedule->problem->a.kv_heads * split->blocks * times;
    const bool is_decode = split->kernel == schedule->decode_kernel;
    schedule->task_count += row_tasks / split->heads_per_task * split->chunks;
    schedule->chunks = af_larger(schedule->chunks, split->chunks);
    if (split->blocks > 0 && is_decode)
        schedule->uses_decode = true;
    else if (split->blocks > 0) {
        schedule->uses_tile = true;
        schedule->together = af_larger(schedule->together, split->blocks * split->chunks);
    }
    if (split->chunks > 1) {
        schedule->merge_count += schedule->problem->a.kv_heads * split->rows * times;
        schedule->partial_rows += row_tasks * split->chunks * split->rows_per_block;
    }
}

/*
 * Counts tasks and partial results, in their order: first the sequences of the tile
 * kernel. Lists the sequences in `entries` unless it is NULL.
 */
static void count_tasks(struct af_schedule *schedule, struct af_schedule_entry *entries)
{
    schedule->task_count = schedule->merge_count = schedule->partial_rows = 0;
    schedule->chunks = schedule->together = 1;
    const int64_t batch = schedule->problem->a.batch;
    const int64_t kinds = entries != NULL ? batch : count_kinds(&schedule->problem->a);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t b = 0; b < kinds; b++) {
            struct af_sequence sequence = af_problem_sequence(schedule->problem, b);
            struct split split = split_of(schedule, &sequence);
            if ((split.kernel == schedule->tile_kernel) != (pass == 0))
                continue;
            if (entries != NULL)
                *entries++ = (struct af_schedule_entry){
                    b, schedule->task_count, schedule->merge_count, schedule->partial_rows};
            count_sequences(schedule, &split, kinds < batch ? batch : 1);
        }
    }
}

/* The most scratch that a task needs. */
static size_t scratch_of_tasks(const struct af_schedule *schedule)
{
    size_t most = 0;
    for (int64_t b = 0; b < count_kinds(&schedule->problem->a); b++) {
        struct af_sequence sequence = af_problem_sequence(schedule->problem, b);
        struct split split = split_rows(schedule, &sequence, schedule->rows_per_task);
        size_t bytes = split.kernel->scratch_bytes(schedule->problem, split.rows_per_block,
                                                   split.heads_per_task);
        most = split.blocks > 0 && bytes > most ? bytes : most;
    }
    return most;
}

/* Bytes of keys of one head that are adjacent; PIECE_BYTES if all of them are. */
static int64_t piece_bytes(const struct af_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t row = a->head_dim * (int64_t)problem->key_bytes;
    if (a->k.row_stride > a->k.head_stride)
        return row;
    return a->block_table != NULL ? a->page_size * row : PIECE_BYTES;
}

/*
 * Key heads of a task of few rows: several if the keys of one head are in short pieces,
 * because the keys of the next head follow them in memory.
 */
static int64_t choose_heads(const struct af_schedule *schedule, int workers)
{
    const int64_t kv_heads = schedule->problem->a.kv_heads;
    const int64_t enough = (int64_t)workers * TASKS_PER_WORKER;
    const bool is_short = piece_bytes(schedule->problem) < PIECE_BYTES;
    int64_t heads = is_short ? smaller(kv_heads, HEADS_MAX) : 1;
    while (heads > 1 && (kv_heads % heads != 0 || schedule->task_count / heads < enough))
        heads--;
    return af_larger(heads, 1);
}

static enum anyflash_status add_up(struct af_forward_plan *plan, int workers,
                                   struct anyflash_error *err)
{
    const struct af_schedule *schedule = &plan->schedule;
    const struct anyflash_attend_args *a = &schedule->problem->a;
    const size_t row_bytes = ((size_t)a->value_dim + 2) * sizeof(float);
    size_t partials, scratch, front;
    plan->prepare_bytes = af_context_round_up(af_prepare_bytes(schedule->problem));
    plan->entry_bytes =
        af_context_round_up((size_t)a->batch * sizeof(struct af_schedule_entry));
    plan->worker_bytes = af_context_round_up(schedule->scratch_bytes);
    if (!af_size_mul((size_t)schedule->partial_rows, row_bytes, &partials) ||
        !af_size_mul(plan->worker_bytes, (size_t)workers, &scratch) ||
        !af_size_add(plan->prepare_bytes, plan->entry_bytes, &front) ||
        !af_size_add(front, plan->partial_bytes = af_context_round_up(partials), &front) ||
        !af_size_add(front, scratch, &plan->total_bytes))
        return af_fail(err, ANYFLASH_E_LIMIT, "this attention call needs too much memory");
    return ANYFLASH_OK;
}

enum anyflash_status af_forward_plan_init(struct af_forward_plan *plan,
                                          const struct af_problem *problem,
                                          uint32_t cpu_features, int workers,
                                          struct anyflash_error *err)
{
    struct af_schedule *schedule = &plan->schedule;
    *schedule = (struct af_schedule){
        .problem = problem,
        .heads_per_task = 1,
        .tile_kernel = af_kernel_choose(problem, AF_FORWARD, cpu_features),
        .decode_kernel = af_kernel_choose(problem, AF_DECODE, cpu_features)};
    if (schedule->tile_kernel == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "no kernel supports this attention call");
    schedule->rows_per_task = choose_rows(schedule);
    const int64_t kinds = count_kinds(&problem->a);
    for (int64_t b = 0; b < kinds; b++) {
        struct af_sequence sequence = af_problem_sequence(problem, b);
        struct split split = split_rows(schedule, &sequence, schedule->rows_per_task);
        schedule->work += work_of(schedule, &split);
    }
    if (kinds < problem->a.batch)
        schedule->work *= (double)problem->a.batch;
    count_tasks(schedule, NULL);
    schedule->heads_per_task = choose_heads(schedule, workers);
    count_tasks(schedule, NULL);
    schedule->scratch_bytes = scratch_of_tasks(schedule);
    return add_up(plan, workers, err);
}

char *af_forward_plan_place(struct af_forward_plan *plan, char *memory)
{
    struct af_schedule *schedule = &plan->schedule;
    struct af_schedule_entry *entries =
        (struct af_schedule_entry *)(void *)(memory + plan->prepare_bytes);
    count_tasks(schedule, entries);
    memory += plan->prepare_bytes + plan->entry_bytes;
    schedule->entries = entries;
    schedule->partial_o = (float *)(void *)memory;
    schedule->partial_ml =
        schedule->partial_o + schedule->partial_rows * schedule->problem->a.value_dim;
    return memory + plan->partial_bytes;
}

/* The entry of task `index`, or of row `index` of those that are merged. */
static const struct af_schedule_entry *entry_of(const struct af_schedule *schedule,
                                                int64_t index, bool is_merge)
{
    int64_t low = 0, high = schedule->problem->a.batch;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const struct af_schedule_entry *entry = &schedule->entries[middle];
        if ((is_merge ? entry->first_merge : entry->first_task) <= index)
            low = middle;
        else
            high = middle;
    }
    return &schedule->entries[low];
}

/* Sets what all tasks of a sequence share; returns how it is split. */
static struct split start_task(const struct af_schedule *schedule,
                               const struct af_schedule_entry *entry,
                               struct af_forward_task *task)
{
    *task = (struct af_forward_task){.problem = schedule->problem};
    task->sequence = af_problem_sequence(schedule->problem, entry->batch);
    return split_of(schedule, &task->sequence);
}

/* Fills in chunk `chunk` of a block of rows. */
static void fill_task(const struct af_schedule *schedule, const struct af_schedule_entry *entry,
                      const struct split *split, int64_t kv_head, int64_t block, int64_t chunk,
                      struct af_forward_task *task)
{
    task->kv_head = kv_head;
    task->kv_head_count = split->heads_per_task;
    task->row_begin = block * split->rows_per_block;
    task->row_end = smaller(task->row_begin + split->rows_per_block, split->rows);
    task->key_begin = split->keys.first + chunk * split->keys_per_chunk;
    task->key_end = smaller(task->key_begin + split->keys_per_chunk, split->keys.end);
    if (split->chunks == 1)
        return;
    const int64_t part = (kv_head * split->blocks + block) * split->chunks + chunk;
    const int64_t row = entry->first_row + part * split->rows_per_block;
    task->partial_stride = split->blocks * split->chunks * split->rows_per_block;
    task->partial_o = schedule->partial_o + row * schedule->problem->a.value_dim;
    task->partial_ml = schedule->partial_ml + row * 2;
}

const struct af_kernel *af_schedule_task(const struct af_schedule *schedule, int64_t index,
                                         struct af_forward_task *task)
{
    const struct af_schedule_entry *entry = entry_of(schedule, index, false);
    const struct split split = start_task(schedule, entry, task);
    const int64_t chunk = (index - entry->first_task) % split.chunks;
    const int64_t row_task = (index - entry->first_task) / split.chunks;
    int64_t block = row_task % split.blocks;
    if (schedule->problem->a.causal)
        block = split.blocks - 1 - block;
    fill_task(schedule, entry, &split, row_task / split.blocks * split.heads_per_task, block,
              chunk, task);
    const bool windowed = af_first_moves(&schedule->problem->a);
    task->keys_are_new = split.chunks > 1 || windowed || row_task % split.blocks == 0;
    return split.kernel;
}

/* Adds a chunk's row to the merged one; m is the final maximum. */
static void add_part(bool natural, const float *o, const float *ml, float m, int64_t dim,
                     float *line, float *l)
{
    /* Parts with a weight of 0 count, too: they may be NaN. */
    float weight = ml[1] != 0 ? af_exp_of(natural, ml[0] - m) : 0;
    *l += weight * ml[1];
    for (int64_t d = 0; d < dim; d++)
        line[d] += weight * o[d];
}

void af_schedule_merge(const struct af_schedule *schedule, int64_t index, float *line)
{
    const struct af_problem *problem = schedule->problem;
    const int64_t dim = problem->a.value_dim;
    const struct af_schedule_entry *entry = entry_of(schedule, index, true);
    struct af_forward_task task;
    const struct split split = start_task(schedule, entry, &task);
    const int64_t number = (index - entry->first_merge) % split.rows;
    const int64_t kv_head = (index - entry->first_merge) / split.rows;
    const int64_t row = number % split.rows_per_block, step = split.rows_per_block;
    fill_task(schedule, entry, &split, kv_head, number / step, 0, &task);
    float m = -INFINITY, l = 0, lse;
    for (int64_t c = 0; c < split.chunks; c++) {
        const float *ml = task.partial_ml + (c * step + row) * 2;
        if (ml[1] != 0 && !(ml[0] <= m))
            m = ml[0];
    }
    memset(line, 0, (size_t)dim * sizeof *line);
    for (int64_t c = 0; c < split.chunks; c++)
        add_part(af_is_natural(problem), task.partial_o + (c * step + row) * dim,
                 task.partial_ml + (c * step + row) * 2, m, dim, line, &l);
    int64_t head = kv_head * problem->group + number % problem->group;
    int64_t i = number / problem->group;
    af_scale(line, af_close_row(problem, head, m, l, &lse), dim);
    af_convert_store_floats(&problem->a.o, &task.sequence, head, i, line, dim);
    float *at = af_lse_at(problem, &task.sequence, head, i);
    if (at != NULL)
        *at = lse;
}
