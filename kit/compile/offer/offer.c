/*
 * offer.c: estimates of builds, and their command lines.
 */
#include "kit/compile/offer/offer.h"

#include <math.h>
#include <string.h>

#include "kit/base/shell.h"
#include "kit/base/text.h"

#define HOUR 3600.0
#define OTHER_WORDS_MAX 8 /* of a command, besides the selection */

/*
 * Measured with NVRTC 13.0 on one core of a Zen 4, for one head size and type without features:
 * kernels, and CPU seconds. A feature multiplies both.
 */
#define FORWARD_KERNELS 46
#define BACKWARD_KERNELS 18
#define FORWARD_SECONDS 330.0
#define BACKWARD_SECONDS 190.0
#define LONGEST_SECONDS 150.0  /* of a single program: backward */
#define KERNEL_BYTES 11000     /* in a wheel */
#define PTX_BYTES 500000       /* in the cache */
#define PASSING_BYTES 40000000 /* the sources, unpacked */
static const struct {
    enum af_flash_feature feature;
    double factor;
} features[] = {{AF_FLASH_LOCAL, 1.35},
                {AF_FLASH_SOFTCAP, 1.6},
                {AF_FLASH_ALIBI, 1.3},
                {AF_FLASH_DROPOUT, 1.25}};

/* How often the work of one head size and type without features is done. */
static double times_of(const struct af_selection *selection)
{
    int sizes[AF_SELECTION_HEAD_DIMS];
    bool both = selection->dtypes == (AF_SELECTION_BF16 | AF_SELECTION_FP16);
    double times = (double)af_selection_head_dims(selection, sizes) * (both ? 2 : 1);
    for (size_t i = 0; i < AF_COUNT(features); i++)
        if ((selection->features & features[i].feature) != 0)
            times *= features[i].factor;
    return times;
}

struct af_offer_build_needs af_offer_build_needs_of(const struct af_selection *selection,
                                                    int64_t cores, uint64_t memory_bytes)
{
    const uint64_t one = AF_RUNG_BUILD_MEMORY_BYTES;
    double times = times_of(selection);
    double kernels = times * (FORWARD_KERNELS + (selection->backward ? BACKWARD_KERNELS : 0));
    uint64_t jobs = cores < 1 ? 1 : (uint64_t)cores;
    if (memory_bytes > 0 && jobs > memory_bytes / one)
        jobs = memory_bytes / one;
    struct af_offer_build_needs needs = {
        .kernel_count = (int)kernels,
        .cpu_seconds = times * (FORWARD_SECONDS + (selection->backward ? BACKWARD_SECONDS : 0)),
        .peak_bytes = one,
        .memory_bytes = one * (jobs == 0 ? 1 : jobs),
        .download_bytes = AF_RUNG_BUILD_SDIST_BYTES + AF_RUNG_BUILD_NVRTC_BYTES,
        .wheel_bytes = (uint64_t)(kernels * KERNEL_BYTES)};
    needs.disk_bytes = (uint64_t)(kernels * PTX_BYTES) + needs.wheel_bytes + PASSING_BYTES +
                       3 * AF_RUNG_BUILD_NVRTC_BYTES;
    if (cores > 0 && jobs > 0)
        needs.wall_seconds = fmax(needs.cpu_seconds / (double)jobs, LONGEST_SECONDS);
    return needs;
}

void af_selection_usual(struct af_selection *selection)
{
    af_selection_all(selection);
    selection->head_dims = 0;
    selection->dtypes = AF_SELECTION_BF16;
    af_selection_add_head_dim(selection, 128);
}

const char *const *af_offer_build_command(const struct af_rung *rung,
                                          const struct af_machine *machine, bool full,
                                          struct af_arena *arena, size_t *argc_out)
{
    const char *python = af_fact_text_or(&machine->python.executable, NULL);
    const char **words =
        af_arena_array(arena, rung->build.word_count + OTHER_WORDS_MAX, sizeof *words);
    size_t count = 0;
    words[count++] = "anyflash";
    words[count++] = "build";
    if (python != NULL) {
        words[count++] = "--python";
        words[count++] = python;
    }
    if (full)
        words[count++] = "--full";
    for (size_t i = 0; !full && i < rung->build.word_count; i++)
        words[count++] = rung->build.words[i];
    *argc_out = count;
    return words;
}

const char *af_offer_build_line(const struct af_offer_build_offer *offer,
                                struct af_arena *arena)
{
    return af_shell_command(AF_SHELL_POSIX, NULL, 0, offer->argv, offer->argc, arena);
}

void af_offer_build_offers(const struct af_rung *rung, const struct af_machine *machine,
                           const struct af_selection *selection, struct af_arena *arena,
                           struct af_offer_build_offer offers_out[AF_OFFER_BUILD_OFFERS])
{
    const struct af_resources *resources = &machine->resources;
    int64_t cores = af_fact_int_or(&resources->cores, 0);
    int64_t memory = af_fact_int_or(&resources->memory_available_bytes,
                                    af_fact_int_or(&resources->memory_total_bytes, 0));
    for (size_t i = 0; i < AF_OFFER_BUILD_OFFERS; i++) {
        struct af_selection chosen = *selection;
        if (i > 0)
            af_selection_all(&chosen);
        offers_out[i] = (struct af_offer_build_offer){
            .name = i == 0 ? "slim" : "full",
            .holds = af_selection_text(&chosen, arena),
            .needs = af_offer_build_needs_of(&chosen, cores < 0 ? 0 : cores,
                                             memory < 0 ? 0 : (uint64_t)memory)};
        offers_out[i].argv =
            af_offer_build_command(rung, machine, i > 0, arena, &offers_out[i].argc);
    }
}

const char *af_offer_build_time_text(struct af_arena *arena,
                                     const struct af_offer_build_needs *needs)
{
    double seconds = needs->wall_seconds;
    return seconds <= 0
               ? af_arena_format(arena, "%.0f min of one core", ceil(needs->cpu_seconds / 60))
           : seconds >= 2 * HOUR ? af_arena_format(arena, "about %.1f hours", seconds / HOUR)
                                 : af_arena_format(arena, "about %.0f min", ceil(seconds / 60));
}

const char *af_offer_build_needs_text(struct af_arena *arena,
                                      const struct af_offer_build_needs *needs)
{
    return af_arena_format(
        arena,
        "needs %s of memory (up to %s per compiler process), %s of disk and a %s download",
        af_text_bytes(arena, (int64_t)needs->memory_bytes),
        af_text_bytes(arena, (int64_t)needs->peak_bytes),
        af_text_bytes(arena, (int64_t)needs->disk_bytes),
        af_text_bytes(arena, (int64_t)needs->download_bytes));
}
