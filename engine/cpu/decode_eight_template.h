/*
 * decode_eight_template.h: raw scores of eight rows at a time, for groups of 5 to 8 and of 13
 * to 16 heads and for keys of 32 words, fp8 also of 64. Third of the five parts of the decode
 * kernel.
 *
 *     c [16 keys][8 rows][2 words] += q [8 rows][2 words] * k [16 keys][2 words], broadcast
 *
 * The rows lie in the lanes, so that only two lanes of a sum remain to be added; score_rows()
 * adds sixteen, which takes as long as the products of 32 words. Each word is broadcast from
 * memory, so loads are the limit, and the keys need one base address: those that do not lie
 * one after the other, or have to be widened, are copied first.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_F8, AF_PAIRS (decode_template.h). Uses
 * decode_block_template.h. Defines suits_eights(), eights_at() and, with 16 lanes,
 * score_eights().
 */

/*
 * Whether to use score_eights() for this many rows. With bf16 keys of 64 words it is up to 10 %
 * faster when the keys are in a cache, but slower for pages of 16 keys on slow memory.
 */
static bool AF_FN(suits_eights)(int rows, int64_t dim)
{
    return HAS_EIGHTS && rows % 8 == 0 &&
           (dim == 32 * (1 + AF_PAIRS) || (IN_REGISTERS && dim == 64 * (1 + AF_PAIRS)));
}

/* Where words `w` and w + 1 of row `r` are in the packed queries; w is even. */
static int64_t AF_FN(eights_at)(const struct AF_FN(work) *work, int r, int64_t w)
{
    return (r / 8 * work->words + w) * 8 + r % 4 * 4 + r % 8 / 4 * 2;
}

#if AF_LANES == 16
/* Widens or copies AF_LANES keys to `to`, one after the other. */
AF_INLINE void AF_FN(copy_keys)(const int words, const vec *table, const void *const *keys,
                                float *to)
{
    AF_ROLLED
    for (int i = 0; i < AF_LANES; i++, to += words) {
        AF_UNROLL
        for (int w = 0; w < words; w += 2 * AF_LANES) {
            vec both[2];
            AF_FN(two_words)(IN_REGISTERS, table, keys[i], w * (1 + AF_PAIRS), both);
            vec_store(to + w, both[0]);
            vec_store(to + w + AF_LANES, both[1]);
        }
    }
}

/* Computes rows [row, row + 8). fetch_some() explains `pauses`; it is called every 4 words. */
AF_INLINE void AF_FN(score_eight)(const int words, int pauses, const struct AF_FN(work) *work,
                                  int row, const struct AF_FN(rows) *keys,
                                  struct AF_FN(fetch) fetch[2])
{
    const float *q = work->q + row * words;
    float copy[AF_LANES * 64] __attribute__((aligned(64)));
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(IN_REGISTERS, work, table);
    for (int key = 0; key < work->block; key += AF_LANES) {
        const char *k = (const char *)keys->at[key];
        if (IN_REGISTERS || !keys->straight) {
            AF_FN(copy_keys)(words, table, keys->at + key, copy);
            k = (const char *)copy;
        }
        vec c[AF_LANES];
        AF_UNROLL
        for (int i = 0; i < AF_LANES; i++)
            c[i] = vec_zero();
        AF_ROLLED
        for (int four = 0; four < words; four += 4) {
            AF_FN(fetch_some)(true, pauses, four, fetch);
            AF_UNROLL
            for (int w = four; w < four + 4; w += 2) {
                const vec two = vec_load(q + w * 8);
                AF_UNROLL
                for (int i = 0; i < AF_LANES; i++)
                    c[i] = AF_FN(mac)(vec_set_two(k + (i * words + w) * 4), two, c[i]);
            }
        }
        vec_store_eight(c, work->s + row * BLOCK_KEYS + key, BLOCK_KEYS);
    }
}

/* Functions of their own, as in decode_block_template.h. */
#define SCORE_OF(name, words)                                                                  \
    static __attribute__((noinline)) void AF_FN(name)(                                         \
        const struct AF_FN(work) *work, const struct AF_FN(rows) *keys,                        \
        const struct AF_FN(rows) *values, const struct AF_FN(rows) *next_keys)                 \
    {                                                                                          \
        const struct anyflash_attend_args *a = &work->problem->a;                              \
        const int pauses = ((IN_REGISTERS ? 2 : 1) * work->padded / 8 - 1) * 4;                \
        struct AF_FN(fetch) fetch[2] = {AF_FN(fetch_of)(work, next_keys, a->head_dim),         \
                                        AF_FN(fetch_of)(work, values, a->value_dim)};          \
        for (int row = 0; row < work->padded; row += 8)                                        \
            AF_FN(score_eight)(words, pauses, work, row, keys, fetch);                         \
    }
SCORE_OF(score_eights_32, 32)
SCORE_OF(score_eights_64, 64)
#undef SCORE_OF

/* Computes the raw scores of a block, and prefetches as score_block() does. */
static void AF_FN(score_eights)(const struct AF_FN(work) *work, const struct AF_FN(rows) *keys,
                                const struct AF_FN(rows) *values,
                                const struct AF_FN(rows) *next_keys)
{
    if (!IN_REGISTERS || work->words == 32)
        AF_FN(score_eights_32)(work, keys, values, next_keys);
    else
        AF_FN(score_eights_64)(work, keys, values, next_keys);
}
#endif
