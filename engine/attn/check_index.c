/*
 * check_index.c: the index arrays of a problem: lengths that fit their rows,
 * batches and pages that exist, room for what is appended. Called by
 * problem.c after the arrays are known to be aligned.
 */
#include "engine/attn/check.h"
#include "engine/attn/mask.h"

#define SEEN_BITS 32768

/* Numbers met so far, modulo SEEN_BITS: "not seen" is certain, "seen" is not. */
struct seen {
    uint64_t words[SEEN_BITS / 64];
};

static bool seen_before(struct seen *seen, int64_t number)
{
    uint64_t *word = &seen->words[number % SEEN_BITS / 64];
    uint64_t bit = (uint64_t)1 << (number % 64);
    bool before = (*word & bit) != 0;
    *word |= bit;
    return before;
}

static enum anyflash_status check_packed(const char *name, const int32_t *cu_seqlens,
                                         int64_t batch, const char *longest_name,
                                         int64_t longest, const char *total_name, int64_t total,
                                         struct anyflash_error *err)
{
    if (cu_seqlens == NULL)
        return ANYFLASH_OK;
    if (cu_seqlens[0] < 0)
        return af_refuse_at(err, name, 0, cu_seqlens[0], "it must be 0 or more");
    for (int64_t b = 1; b <= batch; b++) {
        if (cu_seqlens[b] < cu_seqlens[b - 1])
            return af_refuse_at(err, name, b, cu_seqlens[b],
                                "it must not be below the entry before it, %d",
                                (int)cu_seqlens[b - 1]);
        if (cu_seqlens[b] - cu_seqlens[b - 1] > longest)
            return af_refuse_at(
                err, name, b, cu_seqlens[b], "that makes a sequence of %d rows, and %s is %lld",
                (int)(cu_seqlens[b] - cu_seqlens[b - 1]), longest_name, (long long)longest);
    }
    if (cu_seqlens[batch] > total)
        return af_refuse_at(err, name, batch, cu_seqlens[batch], "%s is %lld", total_name,
                            (long long)total);
    return ANYFLASH_OK;
}

/* Keys that sequence `b` has room for. */
static int64_t key_capacity(const struct anyflash_attend_args *a, int64_t b)
{
    return a->cu_seqlens_k == NULL ? a->k_len : a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b];
}

static enum anyflash_status check_lengths(const struct anyflash_attend_args *a, int64_t b,
                                          const struct af_sequence *s,
                                          struct anyflash_error *err)
{
    int64_t capacity = key_capacity(a, b);
    if (a->seqused_q != NULL && (s->q_count < 0 || s->q_count > s->q_full))
        return af_refuse_at(err, "seqused_q", b, s->q_count, "it must be 0 to %lld",
                            (long long)s->q_full);
    if (a->seqused_k != NULL && (a->seqused_k[b] < 0 || s->k_count > capacity)) {
        if (a->new_len > 0)
            return af_refuse_at(err, "seqused_k", b, a->seqused_k[b],
                                "with new_len %lld it must be 0 to %lld", (long long)a->new_len,
                                (long long)(capacity - a->new_len));
        return af_refuse_at(err, "seqused_k", b, a->seqused_k[b], "it must be 0 to %lld",
                            (long long)capacity);
    }
    if (a->leftpad_k != NULL && (s->k_first < 0 || s->k_first > s->k_count))
        return af_refuse_at(err, "leftpad_k", b, s->k_first, "it must be 0 to %lld",
                            (long long)s->k_count);
    if (a->cache_batch_idx != NULL && (s->cache < 0 || s->cache >= a->cache_batch))
        return af_refuse_at(err, "cache_batch_idx", b, s->cache, "cache_batch is %lld",
                            (long long)a->cache_batch);
    return ANYFLASH_OK;
}

/* Rows of rotary_cos that the new keys and the queries of a sequence need. */
static enum anyflash_status check_rotary_rows(const struct anyflash_attend_args *a, int64_t b,
                                              const struct af_sequence *s,
                                              struct anyflash_error *err)
{
    if (a->rotary_cos == NULL)
        return ANYFLASH_OK;
    int64_t past_q = af_rotary_position(a, b, s->q_count - 1) + 1;
    int64_t past_k = a->seqused_k[b] + a->new_len;
    int64_t needed = s->q_count > 0 && past_q > past_k ? past_q : past_k;
    if (needed > a->rotary_rows)
        return af_refuse(err, "rotary_rows", a->rotary_rows,
                         "sequence %lld, whose seqused_k is %lld, needs %lld rows",
                         (long long)b, (long long)a->seqused_k[b], (long long)needed);
    return ANYFLASH_OK;
}

static enum anyflash_status check_pages(const struct anyflash_attend_args *a, int64_t b,
                                        const struct af_sequence *s, struct anyflash_error *err)
{
    int64_t used = a->block_table == NULL ? 0 : (s->k_count + a->page_size - 1) / a->page_size;
    for (int64_t t = 0; t < used; t++) {
        int32_t page = a->block_table[b * a->block_table_stride + t];
        if (page < 0 || page >= a->page_count)
            return af_refuse_at(err, "block_table", b * a->block_table_stride + t, page,
                                "page_count is %lld", (long long)a->page_count);
    }
    return ANYFLASH_OK;
}

/* Pages [first, end) of its block table that sequence `b` appends to. */
static struct af_range written_pages(const struct anyflash_attend_args *a, int64_t b)
{
    int64_t used = a->seqused_k[b];
    struct af_range range = {used / a->page_size,
                             (used + a->new_len + a->page_size - 1) / a->page_size};
    return range;
}

static bool page_written_before(const struct anyflash_attend_args *a, int64_t b, int64_t t)
{
    int32_t page = a->block_table[b * a->block_table_stride + t];
    for (int64_t other = 0; other <= b; other++) {
        struct af_range range = written_pages(a, other);
        for (int64_t u = range.first; u < (other == b ? t : range.end); u++) {
            if (a->block_table[other * a->block_table_stride + u] == page)
                return true;
        }
    }
    return false;
}

/* Two sequences must not append to the same page or batch of the cache. */
static enum anyflash_status check_written_pages(const struct anyflash_attend_args *a,
                                                struct anyflash_error *err)
{
    struct seen seen = {{0}};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_range range = written_pages(a, b);
        for (int64_t t = range.first; t < range.end; t++) {
            int64_t at = b * a->block_table_stride + t;
            if (seen_before(&seen, a->block_table[at]) && page_written_before(a, b, t))
                return af_refuse_at(err, "block_table", at, a->block_table[at],
                                    "keys are appended to that page twice");
        }
    }
    return ANYFLASH_OK;
}

static enum anyflash_status check_written_batches(const struct anyflash_attend_args *a,
                                                  struct anyflash_error *err)
{
    struct seen seen = {{0}};
    for (int64_t b = 0; b < a->batch; b++) {
        if (!seen_before(&seen, a->cache_batch_idx[b]))
            continue;
        for (int64_t other = 0; other < b; other++) {
            if (a->cache_batch_idx[other] == a->cache_batch_idx[b])
                return af_refuse_at(err, "cache_batch_idx", b, a->cache_batch_idx[b],
                                    "keys are appended to that batch twice");
        }
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_problem_check_indexes(const struct af_problem *problem,
                                              struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->a;
    enum anyflash_status status = check_packed("cu_seqlens_q", a->cu_seqlens_q, a->batch,
                                               "q_len", a->q_len, "total_q", a->total_q, err);
    if (status == ANYFLASH_OK)
        status = check_packed("cu_seqlens_k", a->cu_seqlens_k, a->batch, "k_len", a->k_len,
                              "total_k", a->total_k, err);
    bool indexed = a->seqused_q != NULL || a->seqused_k != NULL || a->leftpad_k != NULL ||
                   a->cache_batch_idx != NULL || a->block_table != NULL;
    for (int64_t b = 0; status == ANYFLASH_OK && indexed && b < a->batch; b++) {
        struct af_sequence sequence = af_problem_sequence(problem, b);
        status = check_lengths(a, b, &sequence, err);
        if (status == ANYFLASH_OK)
            status = check_rotary_rows(a, b, &sequence, err);
        if (status == ANYFLASH_OK)
            status = check_pages(a, b, &sequence, err);
    }
    if (status == ANYFLASH_OK && a->new_len > 0 && a->block_table != NULL)
        status = check_written_pages(a, err);
    if (status == ANYFLASH_OK && a->new_len > 0 && a->cache_batch_idx != NULL)
        status = check_written_batches(a, err);
    return status;
}
