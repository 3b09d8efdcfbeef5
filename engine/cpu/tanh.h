/*
 * tanh.h: hyperbolic tangent with the functions of vec_*.h, for softcap.
 *
 * Below 0.625 an odd polynomial (the coefficients of Cephes' tanhf), above it 1
 * - 2 / (e^2x + 1). Relative error below 2e-7.
 */
#ifndef AF_ENGINE_CPU_TANH_H
#define AF_ENGINE_CPU_TANH_H

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

#endif
