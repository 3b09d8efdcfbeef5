/*
 * unroll.h: AF_UNROLL before a loop whose count is a constant once its function
 * is inlined: it must be unrolled completely, or arrays of vectors are spilled
 * from registers. AF_UNROLL_2 is for loops of any count, AF_ROLLED for those
 * that must stay loops.
 */
#ifndef AF_ENGINE_CPU_UNROLL_H
#define AF_ENGINE_CPU_UNROLL_H

#define AF_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define AF_UNROLL _Pragma("clang loop unroll(full)")
#define AF_UNROLL_2 _Pragma("clang loop unroll_count(2)")
#define AF_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define AF_UNROLL _Pragma("GCC unroll 16")
#define AF_UNROLL_2 _Pragma("GCC unroll 2")
#define AF_ROLLED _Pragma("GCC unroll 1")
#endif

#endif
