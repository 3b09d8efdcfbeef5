/*
 * slim_cost.c: what compiling a selection costs, by a measured model.
 *
 * A file costs a fixed part and a part for each kernel that its switches make;
 * so the kernels are counted as the templates make them: all combinations of
 * the switches, and of these those that differ. Memory hardly depends on the
 * number of kernels: it is cicc's front end over the templates.
 *
 * Measured on 2.8.3.post2 with CUDA 13.0.88, gcc 12.2, one target, cores of a
 * Zen 5: seconds 47 + 2.4 k (backward), 25 + 2.4 k (forward), 24 + 2.9 k
 * (split), of which 9 do not depend on the targets; flash_api.cpp 26 s and
 * 1.6 GiB; a stub file 3.4 s and 0.4 GiB; wheels 8.6 MB for 251 kernels.
 */
#include "plan/slim.h"

#include <string.h>

#define SHARED_SECONDS 9.0
#define STUB_SECONDS 4.0
#define HOST_SECONDS 26.0                 /* flash_api.cpp */
#define HOST_BYTES (UINT64_C(1990) << 20) /* measured 1.6 GiB with torch 2.11, 1.9 with 2.15 */
#define STUB_BYTES (UINT64_C(550) << 20)
#define MIB (UINT64_C(1) << 20)
#define KEYS 512
#define JOINED_PERCENT 15 /* more for two forward files as one; the other passes need no more */

/* What a kernel was compiled for; each switch one bit of a key. */
struct switches {
    bool dropout, alibi, softcap, window;
    bool even_mn, even_k, third, fourth; /* the last two: of the pass */
};

static bool bit(unsigned value, unsigned at)
{
    return (value >> at & 1u) != 0;
}

/* Combination number `index` of the switches; false when it has what `left` lacks. */
static bool switches_of(unsigned index, unsigned left, struct switches *on)
{
    *on = (struct switches){bit(index, 0), bit(index, 1), bit(index, 2), bit(index, 3),
                            bit(index, 4), bit(index, 5), bit(index, 6), bit(index, 7)};
    return (!on->dropout || (left & AF_FLASH_DROPOUT) != 0) &&
           (!on->alibi || (left & AF_FLASH_ALIBI) != 0) &&
           (!on->softcap || (left & AF_FLASH_SOFTCAP) != 0) &&
           (!on->window || (left & AF_FLASH_LOCAL) != 0);
}

static unsigned key_of(unsigned tile, const bool *bits, size_t count)
{
    unsigned key = tile;
    for (size_t i = 0; i < count; i++)
        key = key << 1 | (bits[i] ? 1u : 0u);
    return key;
}

/* run_mha_fwd_hdimN(): up to two tile shapes for each dropout; third is Return_softmax. */
static unsigned forward_key(const struct af_slim_file *file, const struct switches *on,
                            unsigned choice)
{
    bool d = on->dropout;
    unsigned tile = 0;
    switch (file->head_dim) {
    case 64:
    case 192:
        tile = d;
        break;
    case 96:
        tile = choice == 1 || !file->causal;
        break;
    case 128:
        tile = d ? 1 : choice == 1 ? 2 : !file->causal;
        break;
    case 256:
        tile = choice;
        break;
    default:
        break;
    }
    bool window = on->window && !file->causal;
    bool bits[] = {
        d && !on->softcap,
        window,
        on->alibi,
        on->even_mn && on->even_k && !on->window && !on->alibi && !on->third &&
            file->head_dim <= 128,
        on->even_k && !on->third && !on->alibi,
        on->softcap,
        on->third && d && !on->softcap,
    };
    return key_of(tile, bits, AF_COUNT(bits));
}

/* run_flash_splitkv_fwd(): third is Split, fourth Append_KV. */
static unsigned split_key(const struct af_slim_file *file, const struct switches *on)
{
    bool bits[] = {
        on->window && !file->causal,
        on->alibi,
        on->even_mn && !on->fourth && on->even_k && !on->window && !on->alibi &&
            file->head_dim <= 128,
        on->even_k && !on->alibi,
        on->softcap,
        on->third,
        on->fourth,
    };
    return key_of(0, bits, AF_COUNT(bits));
}

/* run_mha_bwd_hdimN(): two tile shapes for each dropout, chosen by the GPU's memory. */
static unsigned backward_key(const struct af_slim_file *file, const struct switches *on,
                             unsigned choice)
{
    bool small = file->head_dim == 32 || file->head_dim == 96;
    unsigned tile = small ? choice == 0 && on->dropout : choice;
    bool bits[] = {
        on->dropout && !on->softcap,
        on->window && !file->causal,
        on->alibi,
        on->even_mn && on->even_k && !on->window && !on->alibi && file->head_dim <= 128,
        on->even_k && !on->alibi,
        on->softcap,
    };
    return key_of(tile, bits, AF_COUNT(bits));
}

static unsigned tile_choices(const struct af_slim_file *file)
{
    if (file->pass == AF_FLASH_FORWARD_SPLIT)
        return 1;
    return file->pass == AF_FLASH_BACKWARD && file->head_dim == 256 ? 3 : 2;
}

static int kernels_of_one(const struct af_slim_file *file, unsigned left)
{
    bool seen[KEYS] = {false};
    int count = 0;
    for (unsigned index = 0; index < 256; index++)
        for (unsigned choice = 0; choice < tile_choices(file); choice++) {
            struct switches on;
            if (!switches_of(index, left, &on) || (choice == 2 && on.dropout))
                continue; /* the third shape of 256 is the one for little memory */
            unsigned key = file->pass == AF_FLASH_BACKWARD ? backward_key(file, &on, choice)
                           : file->pass == AF_FLASH_FORWARD_SPLIT
                               ? split_key(file, &on)
                               : forward_key(file, &on, choice);
            count += !seen[key];
            seen[key] = true;
        }
    return count;
}

int af_slim_kernels(const struct af_slim_file *file, unsigned left)
{
    struct af_slim_file causal = *file;
    causal.causal = true;
    return kernels_of_one(file, left) + (file->joined ? kernels_of_one(&causal, left) : 0);
}

/* MiB of cicc, bf16, not causal, without the four features. */
static const struct {
    int head_dim;
    uint64_t backward, forward, split;
} peaks[] = {
    {32, 4291, 3267, 3584},  {64, 5878, 3277, 3543},  {96, 5396, 3615, 3871},
    {128, 5980, 4116, 3789}, {192, 4741, 3523, 3645}, {256, 6502, 4260, 3656},
};

static uint64_t peak_of(const struct af_slim_file *file, bool features)
{
    uint64_t joined = file->joined ? JOINED_PERCENT : 0;
    for (size_t i = 0; i < AF_COUNT(peaks); i++) {
        if (peaks[i].head_dim != file->head_dim)
            continue;
        if (file->pass == AF_FLASH_BACKWARD)
            return peaks[i].backward * (features ? 106 : 103) / 100 * MIB;
        if (file->pass == AF_FLASH_FORWARD_SPLIT)
            return peaks[i].split * (features ? 108 : 103) / 100 * MIB;
        return peaks[i].forward * ((features ? 120 : 103) + joined) / 100 * MIB;
    }
    return 0;
}

struct af_slim_cost af_slim_file_cost(const struct af_slim *slim,
                                      const struct af_slim_file *file)
{
    double kernels = af_slim_kernels(file, slim->features);
    double one = file->pass == AF_FLASH_BACKWARD        ? 47 + 2.4 * kernels
                 : file->pass == AF_FLASH_FORWARD_SPLIT ? 24 + 2.9 * kernels
                                                        : 25 + 2.4 * kernels;
    double archs = slim->arch_count == 0 ? 1 : (double)slim->arch_count;
    return (struct af_slim_cost){SHARED_SECONDS + (one - SHARED_SECONDS) * archs,
                                 peak_of(file, slim->features != 0)};
}

struct af_slim_cost af_slim_host_cost(void)
{
    return (struct af_slim_cost){HOST_SECONDS, HOST_BYTES};
}

struct af_slim_cost af_slim_stubs_cost(void)
{
    return (struct af_slim_cost){STUB_SECONDS, STUB_BYTES};
}

void af_slim_total(const struct af_slim *slim, struct af_slim_total *total_out)
{
    struct af_slim_file files[AF_SLIM_FILES_MAX];
    struct af_slim_total total = {.cpu_seconds = HOST_SECONDS + STUB_SECONDS,
                                  .peak_bytes = HOST_BYTES};
    uint64_t kernels = 0;
    total.file_count = af_slim_units(slim, files);
    for (size_t i = 0; i < total.file_count; i++) {
        struct af_slim_cost cost = af_slim_file_cost(slim, &files[i]);
        total.cpu_seconds += cost.cpu_seconds;
        if (cost.cpu_seconds > total.longest_seconds)
            total.longest_seconds = cost.cpu_seconds;
        if (cost.peak_bytes > total.peak_bytes)
            total.peak_bytes = cost.peak_bytes;
        kernels += (uint64_t)af_slim_kernels(&files[i], slim->features) + 8;
    }
    total.wheel_bytes =
        MIB + kernels * 32768 * (slim->arch_count == 0 ? 1 : (uint64_t)slim->arch_count);
    *total_out = total;
}
