/*
 * selection_cost.c: what compiling a selection costs, by a measured model, and how long
 * it takes with some cores and memory.
 *
 * The time of a file has a fixed part and a part for each kernel, so the kernels are
 * counted as the templates generate them: the distinct results of all combinations of
 * the switches. Memory hardly depends on the number of kernels but on the number of
 * tile shapes: cicc's front end reads the templates for each.
 *
 * Measured on 2.8.3.post2 with CUDA 13.0.88, gcc 12.2, one target, cores of a
 * Zen 5: seconds 35 + 2.4 k (backward, and 12 for each further tile shape),
 * 22 + 2.4 k (forward, and 3), 24 + 2.9 k (split), of which 9 do not depend on
 * the targets; a file of the glue
 * 4 s; wheels 8.6 MB for 251 kernels.
 */
#include "kit/compile/offer/kernel_selection.h"

#define SHARED_SECONDS 9.0
#define GLUE_SECONDS 4.0
#define GLUE_BYTES (UINT64_C(300) << 20)
#define MIB (UINT64_C(1) << 20)
#define SWITCH_BITS 7
#define TILE_CHOICES 3
#define KEYS 512 /* TILE_CHOICES << SWITCH_BITS, and more */
#define MARGIN_PERCENT 3
#define FEATURES_PERCENT 4
#define WALL_FACTOR 1.1    /* of CPU seconds, for waiting for files */
#define SERIAL_SECONDS 3.0 /* linking, packing */

/* The template switches of a kernel. */
struct switches {
    bool dropout, alibi, softcap, window;
    bool even_mn, even_k, third, fourth; /* the last two: of the pass */
};

static bool bit(unsigned value, unsigned at)
{
    return (value >> at & 1u) != 0;
}

/* Combination `index` of the switches; false if it needs a feature that is not in `left`. */
static bool switches_of(unsigned index, unsigned left, struct switches *on)
{
    *on = (struct switches){bit(index, 0), bit(index, 1), bit(index, 2), bit(index, 3),
                            bit(index, 4), bit(index, 5), bit(index, 6), bit(index, 7)};
    return (!on->dropout || (left & AF_FLASH_DROPOUT) != 0) &&
           (!on->alibi || (left & AF_FLASH_ALIBI) != 0) &&
           (!on->softcap || (left & AF_FLASH_SOFTCAP) != 0) &&
           (!on->window || (left & AF_FLASH_LOCAL) != 0);
}

static unsigned key_of(unsigned tile, const bool bits[SWITCH_BITS])
{
    unsigned key = tile;
    for (size_t i = 0; i < SWITCH_BITS; i++)
        key = key << 1 | (bits[i] ? 1u : 0u);
    return key;
}

/* run_mha_fwd_hdimN(): up to two tile shapes for each dropout; third is Return_softmax. */
static unsigned forward_key(const struct af_selection_file *file, const struct switches *on,
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
    const bool bits[SWITCH_BITS] = {
        d && !on->softcap,
        window,
        on->alibi,
        on->even_mn && on->even_k && !on->window && !on->alibi && !on->third &&
            file->head_dim <= 128,
        on->even_k && !on->third && !on->alibi,
        on->softcap,
        on->third && d && !on->softcap,
    };
    return key_of(tile, bits);
}

/* run_flash_splitkv_fwd(): third is Split, fourth Append_KV. */
static unsigned split_key(const struct af_selection_file *file, const struct switches *on)
{
    const bool bits[SWITCH_BITS] = {
        on->window && !file->causal,
        on->alibi,
        on->even_mn && !on->fourth && on->even_k && !on->window && !on->alibi &&
            file->head_dim <= 128,
        on->even_k && !on->alibi,
        on->softcap,
        on->third,
        on->fourth,
    };
    return key_of(0, bits);
}

/* run_mha_bwd_hdimN(): two tile shapes for each dropout, chosen by the GPU's memory. */
static unsigned backward_key(const struct af_selection_file *file, const struct switches *on,
                             unsigned choice)
{
    bool small = file->head_dim == 32 || file->head_dim == 96;
    unsigned tile = small ? choice == 0 && on->dropout : choice;
    const bool bits[SWITCH_BITS] = {
        on->dropout && !on->softcap,
        on->window && !file->causal,
        on->alibi,
        on->even_mn && on->even_k && !on->window && !on->alibi && file->head_dim <= 128,
        on->even_k && !on->alibi,
        on->softcap,
    };
    return key_of(tile, bits);
}

/* The tile shapes that a launcher may choose, as bits. */
enum { FIRST = 1, SECOND = 2, THIRD = 4 };

static unsigned forward_choices(const struct af_selection_gpu *gpu, int head_dim)
{
    if (head_dim != 256)
        return gpu->is_sm8x == AF_UNKNOWN ? FIRST | SECOND
               : gpu->is_sm8x == AF_YES   ? FIRST
                                          : SECOND;
    if (gpu->smem_per_block == 0)
        return FIRST | SECOND;
    return gpu->smem_per_block >= 131072 && gpu->smem_per_sm < 196608 ? FIRST : SECOND;
}

static unsigned backward_choices(const struct af_selection_gpu *gpu, int head_dim)
{
    static const struct {
        int head_dim, first, second; /* bytes for a block that each shape asks for */
    } rows[] = {{32, 106496, 0},  {64, 147456, 0},  {96, 118784, 0},
                {128, 147456, 0}, {192, 139264, 0}, {256, 180224, 147456}};
    size_t row = 0;
    while (rows[row].head_dim != head_dim)
        row++;
    if (gpu->smem_per_block == 0)
        return rows[row].second == 0 ? FIRST | SECOND : FIRST | SECOND | THIRD;
    return gpu->smem_per_block >= rows[row].first    ? FIRST
           : gpu->smem_per_block >= rows[row].second ? SECOND
                                                     : THIRD;
}

static unsigned tile_choices(const struct af_selection *selection,
                             const struct af_selection_file *file)
{
    struct af_selection_gpu gpu;
    af_selection_gpu(selection, &gpu);
    return file->pass == AF_FLASH_FORWARD_SPLIT ? FIRST
           : file->pass == AF_FLASH_FORWARD     ? forward_choices(&gpu, file->head_dim)
                                                : backward_choices(&gpu, file->head_dim);
}

/* What the templates generate from a file. */
struct made {
    int kernels;    /* distinct ones */
    unsigned tiles; /* tile shapes, one bit each */
};

static void count_one(const struct af_selection_file *file, unsigned features, unsigned choices,
                      struct made *made)
{
    bool seen[KEYS] = {false};
    for (unsigned index = 0; index < 256; index++)
        for (unsigned choice = 0; choice < TILE_CHOICES; choice++) {
            struct switches on;
            if (!bit(choices, choice) || !switches_of(index, features, &on) ||
                (choice == 2 && on.dropout))
                continue; /* the third shape, for little memory, has no dropout */
            unsigned key = file->pass == AF_FLASH_BACKWARD ? backward_key(file, &on, choice)
                           : file->pass == AF_FLASH_FORWARD_SPLIT
                               ? split_key(file, &on)
                               : forward_key(file, &on, choice);
            made->kernels += !seen[key];
            made->tiles |= 1u << (key >> SWITCH_BITS);
            seen[key] = true;
        }
}

static struct made count(const struct af_selection *selection,
                         const struct af_selection_file *file)
{
    struct af_selection_file causal = *file;
    struct made made = {0, 0};
    unsigned choices = tile_choices(selection, file);
    causal.causal = true;
    count_one(file, selection->features, choices, &made);
    if (file->joined)
        count_one(&causal, selection->features, choices, &made);
    return made;
}

int af_selection_kernels(const struct af_selection *selection,
                         const struct af_selection_file *file)
{
    return count(selection, file).kernels;
}

/*
 * MiB of cicc: what a pass needs for any kernel, and for each tile shape that
 * it has (bf16, without the four features, which add FEATURES_PERCENT). Kernels
 * of one shape share what is read, so their number hardly counts. Shapes that
 * differ only in what is kept in registers (backward 32, 96, 192) share nearly
 * everything.
 */
static const struct {
    int head_dim;
    int backward, backward_tiles[TILE_CHOICES];
    int forward, forward_tile;
    int split;
} peaks[] = {
    {32, 4241, {50, 50, 0}, 2667, 600, 3584},  {64, 3062, {1096, 1720, 0}, 2677, 600, 3543},
    {96, 5346, {50, 50, 0}, 3015, 600, 3871},  {128, 3724, {1372, 884, 0}, 2935, 600, 3789},
    {192, 4691, {50, 50, 0}, 2923, 600, 3645}, {256, 3800, {839, 20, 1843}, 2314, 973, 3656},
};

static uint64_t peak_of(const struct af_selection_file *file, unsigned tiles, bool features)
{
    size_t row = 0;
    while (peaks[row].head_dim != file->head_dim)
        row++;
    int mib = file->pass == AF_FLASH_BACKWARD        ? peaks[row].backward
              : file->pass == AF_FLASH_FORWARD_SPLIT ? peaks[row].split
                                                     : peaks[row].forward;
    for (unsigned tile = 0; tile < TILE_CHOICES && file->pass != AF_FLASH_FORWARD_SPLIT; tile++)
        mib += !bit(tiles, tile)                 ? 0
               : file->pass == AF_FLASH_BACKWARD ? peaks[row].backward_tiles[tile]
                                                 : peaks[row].forward_tile;
    int percent = 100 + MARGIN_PERCENT + (features ? FEATURES_PERCENT : 0);
    return (uint64_t)(mib * percent / 100) * MIB;
}

static double seconds_of(const struct af_selection_file *file, int more_tiles, int kernels)
{
    return file->pass == AF_FLASH_BACKWARD        ? 35 + 12 * more_tiles + 2.4 * kernels
           : file->pass == AF_FLASH_FORWARD_SPLIT ? 24 + 2.9 * kernels
                                                  : 22 + 3 * more_tiles + 2.4 * kernels;
}

struct af_selection_cost af_selection_file_cost(const struct af_selection *selection,
                                                const struct af_selection_file *file)
{
    struct made made = count(selection, file);
    int more_tiles = 0;
    for (unsigned left = made.tiles & (made.tiles - 1); left != 0; left &= left - 1)
        more_tiles++;
    double one = seconds_of(file, more_tiles, made.kernels);
    double archs = selection->arch_count == 0 ? 1 : (double)selection->arch_count;
    return (struct af_selection_cost){SHARED_SECONDS + (one - SHARED_SECONDS) * archs,
                                      peak_of(file, made.tiles, selection->features != 0)};
}

struct af_selection_cost af_selection_glue_cost(void)
{
    return (struct af_selection_cost){GLUE_SECONDS, GLUE_BYTES};
}

void af_selection_total(const struct af_selection *selection,
                        struct af_selection_total *total_out)
{
    struct af_selection_file files[AF_SELECTION_FILES_MAX];
    struct af_selection_total total = {.cpu_seconds = AF_SELECTION_GLUE_FILES * GLUE_SECONDS,
                                       .peak_bytes = GLUE_BYTES};
    total.file_count = af_selection_units(selection, files);
    for (size_t i = 0; i < total.file_count; i++) {
        struct af_selection_cost cost = af_selection_file_cost(selection, &files[i]);
        total.cpu_seconds += cost.cpu_seconds;
        if (cost.peak_bytes > total.peak_bytes)
            total.peak_bytes = cost.peak_bytes;
        total.kernel_count += af_selection_kernels(selection, &files[i]);
    }
    int others = 8 * (int)total.file_count; /* small kernels that prepare and merge */
    total.wheel_bytes =
        MIB + (uint64_t)(total.kernel_count + others) * 32768 *
                  (selection->arch_count == 0 ? 1 : (uint64_t)selection->arch_count);
    *total_out = total;
}

/* Running compilers of a schedule. */
struct running {
    double left[AF_SELECTION_CALLS_MAX];
    uint64_t bytes[AF_SELECTION_CALLS_MAX];
    size_t count;
    uint64_t bytes_used;
};

/* Advances the time until the first of them has ended; returns that time. */
static double wait_for_one(struct running *running)
{
    size_t first = 0;
    for (size_t i = 1; i < running->count; i++) {
        if (running->left[i] < running->left[first])
            first = i;
    }
    double work = running->left[first];
    for (size_t i = 0; i < running->count; i++)
        running->left[i] -= work;
    running->bytes_used -= running->bytes[first];
    running->count--;
    running->left[first] = running->left[running->count];
    running->bytes[first] = running->bytes[running->count];
    return work;
}

static void start(struct running *running, const struct af_selection_cost *cost)
{
    running->left[running->count] = cost->cpu_seconds;
    running->bytes[running->count++] = cost->peak_bytes;
    running->bytes_used += cost->peak_bytes;
}

/* The longest waiting call that fits; `count` if there is none. */
static size_t longest_that_fits(const struct af_selection_cost *costs, size_t count,
                                const bool *started, uint64_t left_bytes)
{
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        if (!started[i] && costs[i].peak_bytes <= left_bytes &&
            (found == count || costs[i].cpu_seconds > costs[found].cpu_seconds))
            found = i;
    }
    return found;
}

double af_selection_schedule(const struct af_selection_cost *costs, size_t count, int cores,
                             uint64_t memory_bytes)
{
    struct running running = {.count = 0};
    bool started[AF_SELECTION_CALLS_MAX] = {false};
    double seconds = SERIAL_SECONDS;
    size_t places = cores < 1 ? 1 : (size_t)cores;
    for (size_t done = 0; done < count; done++) {
        while (running.count < places) {
            size_t next =
                longest_that_fits(costs, count, started, memory_bytes - running.bytes_used);
            if (next == count)
                break;
            started[next] = true;
            start(&running, &costs[next]);
        }
        if (running.count == 0)
            return 0; /* the memory is too small for any of them */
        seconds += wait_for_one(&running) * WALL_FACTOR;
    }
    return seconds;
}

double af_selection_wall_seconds(const struct af_selection *selection, int cores,
                                 uint64_t memory_bytes)
{
    struct af_selection_file units[AF_SELECTION_FILES_MAX];
    struct af_selection_cost costs[AF_SELECTION_CALLS_MAX];
    size_t count = af_selection_units(selection, units);
    for (size_t i = 0; i < count; i++)
        costs[i] = af_selection_file_cost(selection, &units[i]);
    for (size_t i = 0; i < AF_SELECTION_GLUE_FILES; i++)
        costs[count++] = af_selection_glue_cost();
    return af_selection_schedule(costs, count, cores, memory_bytes);
}
