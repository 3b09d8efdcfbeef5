/*
 * finite_template.h: quickly tests many rows for NaN and infinity: the sum of 0
 * times each element is NaN if one of them is not finite.
 *
 * Parameters: AF_FN(name); AF_ELEMENT; AF_LOAD(p), AF_LOAD_SOME(p, n); a
 * vectors.
 */

/* sums += 0 * the elements of a row, four vectors at a time. */
AF_INLINE void AF_FN(sum_zeros)(const AF_ELEMENT *row, int64_t count, vec sums[4])
{
    const vec zero = vec_zero();
    int64_t d = 0;
    for (; d + 4 * AF_LANES <= count; d += 4 * AF_LANES) {
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            sums[i] = vec_fma(AF_LOAD(row + d + i * AF_LANES), zero, sums[i]);
    }
    for (; d + AF_LANES <= count; d += AF_LANES)
        sums[0] = vec_fma(AF_LOAD(row + d), zero, sums[0]);
    if (d < count)
        sums[1] = vec_fma(AF_LOAD_SOME(row + d, (int)(count - d)), zero, sums[1]);
}

AF_INLINE bool AF_FN(is_finite)(const vec sums[4])
{
    return vec_sum(vec_add(vec_add(sums[0], sums[1]), vec_add(sums[2], sums[3]))) == 0;
}
