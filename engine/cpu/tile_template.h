/*
 * tile_template.h: the two matrix products of a tile, "queries in the lanes".
 *
 *     scores     C[i][lane] = sum_w A[i * a_stride + w] * B[w][lane]   i < rows
 *     values     C[i][lane] = sum_j A[j * a_stride + i] * B[j][lane]   i < rows
 *
 * A holds keys or values as they lie in memory, read as scalars that are
 * broadcast; B is a packed matrix of TILE_VECS vectors a row. A word is one
 * float, or with AF_PAIRS two bf16 that one instruction multiplies and adds.
 * `rows` and `vecs` are constants at every call: the loops unroll and C stays
 * in registers.
 *
 * Parameters: AF_PAIRS 0 or 1; TILE_VECS, TILE_ROWS, the same for all of a file;
 * the vectors of an instruction set included before.
 */
#ifndef AF_ENGINE_CPU_TILE_TEMPLATE_H
#define AF_ENGINE_CPU_TILE_TEMPLATE_H

AF_INLINE void mac_step(const int rows, const int from, const int vecs, const float *const *a,
                        const int64_t at, const float *b, vec (*c)[TILE_VECS])
{
    vec packed[TILE_VECS];
    AF_UNROLL
    for (int v = from; v < vecs; v++)
        packed[v] = vec_load(b + AF_LANES * v);
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = from; v < vecs; v++)
            c[i][v] = vec_mac(vec_word(a[i] + at), packed[v], c[i][v]);
    }
}

AF_INLINE void clear(const int rows, const int vecs, vec (*c)[TILE_VECS])
{
    vec zero = vec_zero();
    AF_OPAQUE(zero);
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            c[i][v] = zero;
    }
}

/*
 * Scores of `rows` keys: A's rows are keys, a_stride words apart, `words` long.
 * Vectors before `from` are left 0.
 */
AF_INLINE void scores_from(const int rows, const int from, const int vecs, const float *a,
                           int64_t a_stride, const float *b, int64_t words, vec (*c)[TILE_VECS])
{
    const float *row[TILE_ROWS];
    clear(rows, vecs, c);
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        row[i] = a + i * a_stride;
        AF_OPAQUE_ADDRESS(row[i]);
    }
    int64_t w = 0;
    for (; w + 4 <= words; w += 4) {
        AF_UNROLL
        for (int u = 0; u < 4; u++)
            mac_step(rows, from, vecs, row, w + u, b + (w + u) * AF_LANES * vecs, c);
    }
    for (; w < words; w++)
        mac_step(rows, from, vecs, row, w, b + w * AF_LANES * vecs, c);
}

/*
 * Adds to C the values of `rows` columns of A, keys (or pairs) [j, end): key j
 * is at a + j * a_stride. Vectors before `from` are left alone.
 */
AF_INLINE void values_from(const int rows, const int from, const int vecs, const float *a,
                           int64_t a_stride, const float *b, int64_t j, int64_t end,
                           vec (*c)[TILE_VECS])
{
    AF_UNROLL_2
    for (; j < end; j++) {
        vec packed[TILE_VECS];
        AF_UNROLL
        for (int v = from; v < vecs; v++)
            packed[v] = vec_load(b + (j * vecs + v) * AF_LANES);
        AF_UNROLL
        for (int i = 0; i < rows; i++) {
            AF_UNROLL
            for (int v = from; v < vecs; v++)
                c[i][v] = vec_mac(vec_word(a + j * a_stride + i), packed[v], c[i][v]);
        }
    }
}

#endif
