/*
 * instructions.h: compiles part of a file for an instruction set of its own, so that
 * one library serves every machine of an architecture and the engine needs no
 * compiler flag for any file. After the system headers:
 *
 *     #include "engine/base/instructions.h"
 *     #ifdef AF_HAVE_AVX2
 *     AF_INSTRUCTIONS_AVX2
 *     ...
 *     AF_INSTRUCTIONS_END
 *     #endif
 *
 * AF_HAVE_x: the architecture and the compiler have instruction set x. System
 * headers are included here, because clang would add the target to their
 * functions, too.
 */
#ifndef AF_ENGINE_BASE_INSTRUCTIONS_H
#define AF_ENGINE_BASE_INSTRUCTIONS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define AF_HAVE_AVX2
#define AF_HAVE_AVX512
#if defined(__clang__) ? __clang_major__ >= 9 : __GNUC__ >= 10
#define AF_HAVE_AVX512BF16
#endif
/* How a process asks for the tiles is known for Linux only. */
#if defined(__linux__) && defined(__LP64__) &&                                                 \
    (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define AF_HAVE_AMX
#endif
#elif defined(__aarch64__)
#include <arm_neon.h>
#define AF_HAVE_NEON
#endif

#define AF_INSTRUCTIONS_DO(directive) _Pragma(#directive)
#if defined(__clang__)
#define AF_INSTRUCTIONS_BEGIN(set)                                                             \
    AF_INSTRUCTIONS_DO(clang attribute push(__attribute__((target(set))), apply_to = function))
#define AF_INSTRUCTIONS_END AF_INSTRUCTIONS_DO(clang attribute pop)
#else
#define AF_INSTRUCTIONS_BEGIN(set)                                                             \
    AF_INSTRUCTIONS_DO(GCC push_options) AF_INSTRUCTIONS_DO(GCC target(set))
#define AF_INSTRUCTIONS_END AF_INSTRUCTIONS_DO(GCC pop_options)
#endif

#define AF_INSTRUCTIONS_AVX2 AF_INSTRUCTIONS_BEGIN("avx2,fma,f16c")
#define AF_INSTRUCTIONS_AVX512                                                                 \
    AF_INSTRUCTIONS_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define AF_INSTRUCTIONS_AVX512BF16                                                             \
    AF_INSTRUCTIONS_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#define AF_INSTRUCTIONS_AVX512VBMI_BF16                                                        \
    AF_INSTRUCTIONS_BEGIN(                                                                     \
        "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")
#define AF_INSTRUCTIONS_AMX                                                                    \
    AF_INSTRUCTIONS_BEGIN(                                                                     \
        "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#define AF_INSTRUCTIONS_AMX_VBMI                                                               \
    AF_INSTRUCTIONS_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,"       \
                          "avx512bf16,amx-tile,amx-bf16")

#endif
