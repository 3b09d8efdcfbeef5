/*
 * unroll.h: AF_UNROLL before a loop whose count is a constant once its function
 * is inlined: it must be unrolled completely, or arrays of vectors are spilled
 * from registers. AF_UNROLL_2 is for loops of any count, AF_ROLLED for those
 * that must stay loops. AF_OPAQUE hides the value of a vector from the compiler:
 * Clang 14 makes one memset() of adjacent vectors that become zero, which then
 * have to be in memory. AF_OPAQUE_ADDRESS hides how an address was computed: Clang 14
 * does not keep the addresses of a tile's rows in registers, but adds the stride
 * again for each row and word. AF_IN_ORDER: the compiler moves no load or prefetch
 * across it.
 */
#ifndef AF_ENGINE_CPU_UNROLL_H
#define AF_ENGINE_CPU_UNROLL_H

#define AF_INLINE static inline __attribute__((always_inline))
#define AF_IN_ORDER() __asm__ volatile("" ::: "memory")

#if defined(__clang__) && (defined(__x86_64__) || defined(__i386__))
#define AF_OPAQUE(vector) __asm__("" : "+x"(vector))
#else
#define AF_OPAQUE(vector) ((void)0)
#endif

#if defined(__clang__)
#define AF_OPAQUE_ADDRESS(pointer) __asm__("" : "+r"(pointer))
#define AF_UNROLL _Pragma("clang loop unroll(full)")
#define AF_UNROLL_2 _Pragma("clang loop unroll_count(2)")
#define AF_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define AF_OPAQUE_ADDRESS(pointer) ((void)0)
#define AF_UNROLL _Pragma("GCC unroll 16")
#define AF_UNROLL_2 _Pragma("GCC unroll 2")
#define AF_ROLLED _Pragma("GCC unroll 1")
#endif

#endif
