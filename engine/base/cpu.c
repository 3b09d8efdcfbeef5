/*
 * cpu.c: detects instruction sets with CPUID and XGETBV (Intel SDM volume 1,
 * 13.3, 15.2 and 18.3) or the kernel's HWCAP.
 */
#include "engine/base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

#define XCR0_YMM 0x6u                 /* SSE and AVX state */
#define XCR0_ZMM 0xE6u                /* and opmask, upper halves, upper registers */
#define XCR0_AMX 0x60000u             /* tile configuration and tile data */
#define EDX_AMX (1u << 22 | 1u << 24) /* AMX-BF16 and AMX-TILE, of leaf 7 */

struct leaf {
    uint32_t eax, ebx, ecx, edx;
};

/* Reads a leaf of CPUID; zeros if it does not exist. */
static struct leaf read_leaf(uint32_t leaf, uint32_t subleaf)
{
    struct leaf r = {0, 0, 0, 0};
    if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0)
        return (struct leaf){0, 0, 0, 0};
    return r;
}

static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

/* The register state that the system saves; 0 if it does not say. */
static uint32_t saved_state(struct leaf one)
{
    uint32_t low = 0, high = 0;
    if (has(one.ecx, bit_OSXSAVE))
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Asks Linux for AMX's tiles (Documentation/arch/x86/xstate.rst); true if it permits them. */
static bool ask_for_tiles(void)
{
#if defined(__linux__) && defined(__x86_64__)
    const long request = 0x1023; /* ARCH_REQ_XCOMP_PERM */
    const long tile_data = 18;   /* the bit of XCR0 */
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
    return false;
#endif
}

static uint32_t look(void)
{
    const struct leaf one = read_leaf(1, 0);
    const struct leaf seven = read_leaf(7, 0);
    const uint32_t state = saved_state(one);
    uint32_t found = AF_CPU_BASE;
    if (!has(state, XCR0_YMM) || !has(one.ecx, bit_AVX | bit_FMA | bit_F16C) ||
        !has(seven.ebx, bit_AVX2))
        return found;
    found |= AF_CPU_AVX2;
    if (!has(state, XCR0_ZMM) ||
        !has(seven.ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return found;
    found |= AF_CPU_AVX512;
    if (has(seven.ecx, bit_AVX512VBMI))
        found |= AF_CPU_AVX512VBMI;
    if (seven.eax < 1 || !has(read_leaf(7, 1).eax, bit_AVX512BF16))
        return found;
    found |= AF_CPU_AVX512BF16;
    if (has(state, XCR0_AMX) && has(seven.edx, EDX_AMX) && ask_for_tiles())
        found |= AF_CPU_AMX;
    return found;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

#define HWCAP_BIT_ASIMD (1ul << 1) /* arch/arm64/include/uapi/asm/hwcap.h */

static uint32_t look(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_BIT_ASIMD) != 0 ? AF_CPU_BASE | AF_CPU_NEON
                                                        : AF_CPU_BASE;
}

#elif defined(__aarch64__) /* macOS and Windows run on no AArch64 processor without NEON */

static uint32_t look(void)
{
    return AF_CPU_BASE | AF_CPU_NEON;
}

#else

static uint32_t look(void)
{
    return AF_CPU_BASE;
}

#endif

/* Applies ANYFLASH_CPU_MASK to `found`, in builds that support it. */
static uint32_t cut_down(uint32_t found)
{
#ifdef AF_CPU_MASK
    const char *mask = getenv("ANYFLASH_CPU_MASK");
    if (mask != NULL && mask[0] != '\0')
        return (found & (uint32_t)strtoul(mask, NULL, 0)) | AF_CPU_BASE;
#endif
    return found;
}

uint32_t af_cpu_features(void)
{
    /*
     * Racing threads detect the same bits, so no lock is needed; CPUID is slow
     * in a virtual machine.
     */
    static _Atomic uint32_t remembered;
    uint32_t features = atomic_load_explicit(&remembered, memory_order_relaxed);
    if (features == 0) {
        features = cut_down(look());
        atomic_store_explicit(&remembered, features, memory_order_relaxed);
    }
    return features;
}
