/*
 * cpu.h: which instruction sets the processor has and the operating system
 * supports.
 */
#ifndef AF_ENGINE_BASE_CPU_H
#define AF_ENGINE_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Instruction sets, worst to best within an architecture; bits of
 * af_cpu_features(). They have the order of enum anyflash_cpu_level. That enum has no level
 * for AVX512VBMI, because every processor with AVX512BF16 except Cooper Lake has it.
 */
enum af_cpu_feature {
    AF_CPU_BASE = 1u << 0,
    AF_CPU_NEON = 1u << 1,
    AF_CPU_AVX2 = 1u << 2,       /* AVX2, FMA and F16C, and the OS saves YMM */
    AF_CPU_AVX512 = 1u << 3,     /* F, BW, DQ, VL and AVX2's, and the OS saves ZMM */
    AF_CPU_AVX512VBMI = 1u << 4, /* AVX512's and VPERMI2B */
    AF_CPU_AVX512BF16 = 1u << 5, /* AVX512's and VDPBF16PS */
    AF_CPU_AMX = 1u << 6         /* AVX512BF16's and TDPBF16PS, and Linux permits tiles */
};

/*
 * The usable instruction sets: bits of enum af_cpu_feature, always with
 * AF_CPU_BASE. They are detected on the first call and cached. On a processor with AMX that
 * call asks Linux for the tiles; Linux refuses if a thread's alternate signal stack is too
 * small to save them. In builds with
 * AF_CPU_MASK defined, the bits missing from the environment variable
 * ANYFLASH_CPU_MASK (a number such as 0x5) are removed, except AF_CPU_BASE. Safe
 * from any thread.
 */
uint32_t af_cpu_features(void);

#endif
