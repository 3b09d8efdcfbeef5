/*
 * offer.c: estimates of builds, and their command lines.
 */
#include "kit/compile/offer/offer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/shell.h"
#include "kit/base/text.h"

#define HOUR 3600.0

/* Disk for objects, libraries and wheel, as a multiple of the wheel. */
#define DISK_OF_WHEEL 9
#define OTHER_WORDS_MAX 8 /* of a command, besides the selection */

/* Memory of the first compilers together: those that start before one has ended. */
static uint64_t memory_at_once(const struct af_selection *selection, int64_t cores,
                               uint64_t limit)
{
    struct af_selection_file files[AF_SELECTION_FILES_MAX];
    size_t count = af_selection_units(selection, files);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count && cores > 0; i++) {
        uint64_t one = af_selection_file_cost(selection, &files[i]).peak_bytes;
        if (limit > 0 && bytes + one > limit)
            continue;
        bytes += one;
        cores--;
    }
    return bytes + AF_RUNG_BUILD_BASE_BYTES;
}

struct af_offer_build_needs af_offer_build_needs_of(const struct af_selection *selection,
                                                    int64_t cores, uint64_t memory_bytes,
                                                    bool toolkit_from_index)
{
    struct af_selection_total total;
    af_selection_total(selection, &total);
    int64_t running = cores < 1 ? 1 : cores;
    if (running > (int64_t)total.file_count)
        running = (int64_t)total.file_count;
    struct af_offer_build_needs needs = {
        .file_count = total.file_count,
        .cpu_seconds = total.cpu_seconds,
        .peak_bytes = total.peak_bytes,
        .memory_bytes = memory_at_once(selection, running, memory_bytes),
        .wheel_bytes = total.wheel_bytes,
        .disk_bytes = (uint64_t)(AF_RUNG_BUILD_SDIST_BYTES + AF_OFFER_BUILD_SOURCES_DISK +
                                 AF_OFFER_BUILD_COMPILER_DISK * running) +
                      DISK_OF_WHEEL * total.wheel_bytes,
        .download_bytes = AF_RUNG_BUILD_SDIST_BYTES};
    if (toolkit_from_index) {
        needs.download_bytes += AF_RUNG_BUILD_TOOLKIT_BYTES;
        needs.disk_bytes += AF_OFFER_BUILD_TOOLKIT_DISK;
    }
    if (cores > 0)
        needs.wall_seconds =
            af_selection_wall_seconds(selection, cores > 4096 ? 4096 : (int)cores,
                                      memory_bytes == 0 ? UINT64_MAX / 2 : memory_bytes);
    return needs;
}

void af_selection_usual(struct af_selection *selection)
{
    af_selection_all(selection);
    selection->head_dims = 0;
    selection->dtypes = AF_SELECTION_BF16;
    af_selection_add_head_dim(selection, 128);
}

/* "89,90": the GPUs, or else all targets of the release. */
static const char *arch_option(const struct af_rung *rung, struct af_arena *arena)
{
    char *list = af_arena_text(arena, rung->build.gpu_list == NULL ? rung->build.arch_list
                                                                   : rung->build.gpu_list);
    for (char *at = list; at != NULL && *at != '\0'; at++)
        *at = *at == ';' ? ',' : *at;
    return list;
}

static void add_archs(struct af_selection *selection, const char *list)
{
    selection->arch_count = 0;
    while (list != NULL && *list != '\0') {
        af_selection_add_arch(selection, (int)strtol(list, NULL, 10));
        list += strcspn(list, ",");
        list += *list == ',';
    }
}

const char *const *af_offer_build_command(const struct af_rung *rung,
                                          const struct af_machine *machine, bool full,
                                          struct af_arena *arena, size_t *argc_out)
{
    const char *python = af_fact_text_or(&machine->python.executable, NULL);
    const char **words =
        af_arena_array(arena, rung->build.word_count + OTHER_WORDS_MAX, sizeof *words);
    size_t count = 0;
    if (words == NULL)
        return NULL;
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
    words[count++] = "--arch";
    words[count++] = arch_option(rung, arena);
    *argc_out = count;
    return words;
}

const char *af_offer_build_line(const struct af_offer_build_offer *offer,
                                struct af_arena *arena)
{
    return offer->argv == NULL
               ? NULL
               : af_shell_command(AF_SHELL_POSIX, NULL, 0, offer->argv, offer->argc, arena);
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
        chosen.joins = cores > 0 && cores <= AF_SELECTION_JOIN_CORES;
        add_archs(&chosen, arch_option(rung, arena));
        offers_out[i] = (struct af_offer_build_offer){
            .name = i == 0 ? "slim" : "full",
            .holds = af_selection_text(&chosen, arena),
            .needs = af_offer_build_needs_of(&chosen, cores < 0 ? 0 : cores,
                                             memory < 0 ? 0 : (uint64_t)memory,
                                             rung->build.toolkit_from_index)};
        offers_out[i].argv =
            af_offer_build_command(rung, machine, i > 0, arena, &offers_out[i].argc);
    }
}

const char *af_offer_build_time_text(struct af_arena *arena,
                                     const struct af_offer_build_needs *needs)
{
    double seconds = needs->wall_seconds;
    const char *text =
        seconds <= 0
            ? af_arena_format(arena, "%.0f min of one core", ceil(needs->cpu_seconds / 60))
        : seconds >= 2 * HOUR ? af_arena_format(arena, "about %.1f hours", seconds / HOUR)
                              : af_arena_format(arena, "about %.0f min", ceil(seconds / 60));
    return text == NULL ? "" : text;
}

const char *af_offer_build_needs_text(struct af_arena *arena,
                                      const struct af_offer_build_needs *needs)
{
    const char *text = af_arena_format(
        arena,
        "needs %s of memory (up to %s per compiler process), %s of disk and a %s download",
        af_text_bytes(arena, (int64_t)needs->memory_bytes),
        af_text_bytes(arena, (int64_t)needs->peak_bytes),
        af_text_bytes(arena, (int64_t)needs->disk_bytes),
        af_text_bytes(arena, (int64_t)needs->download_bytes));
    return text == NULL ? "" : text;
}
