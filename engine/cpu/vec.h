/*
 * vec.h: functions of vectors that are written in the same way for every instruction set. A
 * word is one float or, with AF_PAIRS, two bf16.
 */
#ifndef AF_ENGINE_CPU_VEC_H
#define AF_ENGINE_CPU_VEC_H

AF_INLINE vec vec_add(vec a, vec b)
{
    return a + b;
}

AF_INLINE vec vec_sub(vec a, vec b)
{
    return a - b;
}

AF_INLINE vec vec_mul(vec a, vec b)
{
    return a * b;
}

AF_INLINE vec vec_div(vec a, vec b)
{
    return a / b;
}

/*
 * Hyperbolic tangent, for softcap. Below 0.625 an odd polynomial (the coefficients of Cephes'
 * tanhf), above it 1 - 2 / (e^2x + 1). Relative error below 2e-7.
 */
AF_INLINE vec vec_tanh(vec x)
{
    vec z = vec_mul(x, x);
    vec p = vec_set(-5.70498872745e-3f);
    p = vec_fma(p, z, vec_set(2.06390887954e-2f));
    p = vec_fma(p, z, vec_set(-5.37397155531e-2f));
    p = vec_fma(p, z, vec_set(1.33314422036e-1f));
    p = vec_fma(p, z, vec_set(-3.33332819422e-1f));
    p = vec_fma(vec_mul(p, z), x, x);
    vec e = vec_exp2(vec_mul(x, vec_set(2.0f * AF_LOG2E)));
    vec far = vec_sub(vec_set(1.0f), vec_div(vec_set(2.0f), vec_add(e, vec_set(1.0f))));
    return vec_where_small(x, 0.625f, p, far);
}

/* c + a * b, or the sum of c and both products of each pair. */
AF_INLINE vec vec_mac(vec a, vec b, vec c)
{
#if AF_PAIRS
    return vec_dot_pairs(a, b, c);
#else
    return vec_fma(a, b, c);
#endif
}

/* Broadcasts a word to every lane. */
AF_INLINE vec vec_word(const float *word)
{
#if AF_PAIRS
    return vec_set_word(word);
#else
    return vec_set(*word);
#endif
}

/* Element `i` of a row of words. */
static inline float af_word_element(const float *words, int64_t i)
{
#if AF_PAIRS
    uint16_t bits;
    memcpy(&bits, (const char *)words + i * 2, sizeof bits);
    return af_f32_of_bf16(bits);
#else
    return words[i];
#endif
}

/* 2^x, as accurate as probabilities are stored in words. */
AF_INLINE vec vec_exp2_stored(vec x)
{
#if AF_PAIRS
    return vec_exp2_coarse(x);
#else
    return vec_exp2(x);
#endif
}

#endif
