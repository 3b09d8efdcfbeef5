/*
 * prerequisites.c: the tools and the room that a source build needs.
 *
 * Which toolkit is toolkit.c's. nvcc itself refuses host compilers above the
 * limit in its host_config.h; torch's headers need gcc 9 or newer, from torch
 * 2.14 on C++20, which gcc has from 10 on. setup.py asks for C++17: `anyflash
 * build` changes that word in the lists of both compilers.
 */
#include "kit/build/offer/rung_build.h"

#include "kit/base/text.h"
#include "kit/build/offer/build_cost.h"

#include <stdio.h>
#include <string.h>

#define GCC_MIN 9
#define GCC_CXX20_MIN 10
#define GIB 1073741824.0

/* Whether nvcc of this version knows `target`, by the tables. */
static bool knows_target(const struct af_tables *tables, const struct af_dotted *version,
                         int target)
{
    char text[16];
    const struct af_cuda_toolkit *row =
        af_tables_cuda(tables, version->part[0], version->count > 1 ? version->part[1] : 0);
    if (row == NULL || row->sm_targets.count == 0)
        return true; /* newer than the tables */
    snprintf(text, sizeof text, "%d.%d", target / 10, target % 10);
    return af_words_have(row->sm_targets, text);
}

static void check_targets(struct af_offer_build_target *build)
{
    const struct af_dotted *version = &build->toolkit.version;
    for (size_t i = 0; i < build->sm_count && version->count > 0; i++) {
        if (!knows_target(build->context->fit->tables, version, build->sms[i]))
            af_offer_build_row(build, "gpu-target", AF_NO, AF_REASON_NVCC_OLD,
                               af_arena_format(build->context->arena, "nvcc %d.%d, SM %d.%d",
                                               version->part[0], version->part[1],
                                               build->sms[i] / 10, build->sms[i] % 10));
    }
}

/* "CUDA 12.8 in /usr/local/cuda", or where it was looked for. */
static const char *system_text(const struct af_offer_build_target *build)
{
    struct af_arena *arena = build->context->arena;
    const struct af_toolkit *toolkit = build->toolkit.here;
    const char *source = build->view->machine->toolkits.source;
    if (toolkit == NULL)
        return af_arena_format(arena, "none known (%s)", source == NULL ? "" : source);
    return af_arena_format(arena, "CUDA %s in %s", af_fact_text_or(&toolkit->version, "?"),
                           af_fact_text_or(&toolkit->root, "given"));
}

static const char *index_text(const struct af_offer_build_target *build)
{
    const struct af_dotted *version = &build->toolkit.version;
    struct af_arena *arena = build->context->arena;
    const char *seen = build->toolkit.here == NULL
                           ? "none on the system, which is normal"
                           : af_arena_format(arena, "the system's is %s", system_text(build));
    return version->count > 1
               ? af_arena_format(arena, "CUDA %d.%d from the Python package index (%s)",
                                 version->part[0], version->part[1], seen)
               : af_arena_format(arena, "CUDA %d from the Python package index (%s)",
                                 version->part[0], seen);
}

static void check_toolkit(struct af_offer_build_target *build)
{
    const struct af_view_torch *torch = &build->view->torch;
    struct af_arena *arena = build->context->arena;
    if (torch->cuda_major < 0)
        return; /* torch's row says so; its CUDA decides */
    build->toolkit =
        af_toolkit_choose(build->view, build->context->fit->options->build_toolkit);
    if (build->toolkit.from_index)
        af_offer_build_row(build, "cuda-toolkit", AF_YES, AF_REASON_NVCC_MISSING,
                           index_text(build));
    else if (build->toolkit.answer == AF_NO && torch->cuda_major < AF_TOOLKIT_INDEX_CUDA_MIN)
        af_offer_build_row(
            build, "cuda-toolkit", AF_NO, build->toolkit.id,
            af_arena_format(arena,
                            "%s; torch has CUDA %d, and the package index's compilers "
                            "begin with CUDA %d",
                            system_text(build), torch->cuda_major, AF_TOOLKIT_INDEX_CUDA_MIN));
    else
        af_offer_build_row(build, "cuda-toolkit", build->toolkit.answer, build->toolkit.id,
                           system_text(build));
    if (build->toolkit.answer == AF_YES)
        check_targets(build);
    build->context->rung->toolkit_from_index = build->toolkit.from_index;
}

int64_t af_offer_build_gcc_limit(const struct af_offer_build_target *build)
{
    const struct af_toolkit_choice *toolkit = &build->toolkit;
    const struct af_dotted *version = &toolkit->version;
    int64_t limit = toolkit->from_index || toolkit->here == NULL
                        ? -1
                        : af_fact_int_or(&toolkit->here->gcc_max, -1);
    if (limit >= 0 || version->count == 0)
        return limit;
    const struct af_cuda_toolkit *row =
        af_tables_cuda(build->context->fit->tables, version->part[0],
                       version->count > 1 ? version->part[1] : 0);
    return row == NULL ? -1 : row->gcc_max;
}

static bool needs_cxx20(const struct af_offer_build_target *build)
{
    const struct af_catalog_torch_release *release = build->view->torch.release;
    return release != NULL && release->cxx_std_min >= 20;
}

static void check_compiler(struct af_offer_build_target *build)
{
    const struct af_compiler_rows *list = &build->view->machine->compilers;
    struct af_dotted version;
    int64_t limit = af_offer_build_gcc_limit(build);
    int least = needs_cxx20(build) ? GCC_CXX20_MIN : GCC_MIN;
    if (list->count == 0) {
        enum af_answer answer = list->state == AF_FACT_UNKNOWN ? AF_UNKNOWN : AF_NO;
        af_offer_build_row(build, "host-compiler", answer,
                           answer == AF_NO ? AF_REASON_COMPILER_MISSING
                                           : AF_REASON_UNKNOWN_COMPILER,
                           list->source);
        return;
    }
    const struct af_compiler *compiler = &list->rows[0];
    const char *text = af_fact_text_or(&compiler->version, NULL);
    const char *evidence = af_arena_format(
        build->context->arena, "%s %s, %s", af_fact_text_or(&compiler->family, "gcc"),
        text == NULL ? "?" : text, af_fact_text_or(&compiler->path, "given"));
    if (!af_dotted_parse(text, &version))
        af_offer_build_row(build, "host-compiler", AF_UNKNOWN, AF_REASON_UNKNOWN_COMPILER,
                           evidence);
    else if (!af_fact_is(&compiler->family, "gcc"))
        af_offer_build_row(build, "host-compiler", AF_YES, AF_REASON_COMPILER_MISSING,
                           evidence);
    else if (limit >= 0 && version.part[0] > limit)
        af_offer_build_row(build, "host-compiler", AF_NO, AF_REASON_GCC_NEW,
                           af_arena_format(build->context->arena,
                                           "%s; this nvcc takes gcc %d at most", evidence,
                                           (int)limit));
    else if (version.part[0] < least)
        af_offer_build_row(build, "host-compiler", AF_NO, AF_REASON_GCC_OLD,
                           af_arena_format(build->context->arena,
                                           "%s; gcc %d or newer is needed", evidence, least));
    else
        af_offer_build_row(build, "host-compiler", AF_YES, AF_REASON_COMPILER_MISSING,
                           limit < 0 ? evidence
                                     : af_arena_format(build->context->arena,
                                                       "%s; this nvcc takes up to gcc %d",
                                                       evidence, (int)limit));
}

static void check_cxx_standard(struct af_offer_build_target *build)
{
    if (build->view->torch.state != AF_FACT_KNOWN)
        return;
    af_offer_build_row(
        build, "c++-standard", AF_YES, AF_REASON_BUILD_PREREQUISITE,
        needs_cxx20(build)
            ? "C++20, which this torch's headers demand, is asked of both compilers "
              "in place of setup.py's C++17"
            : "C++17, as setup.py asks for it");
}

void af_offer_rung_build_check_tools(struct af_offer_build_target *build)
{
    check_toolkit(build);
    check_compiler(build);
    check_cxx_standard(build);
    af_offer_build_row(
        build, "build-tools", AF_YES, AF_REASON_BUILD_PREREQUISITE,
        "setuptools, wheel, packaging, psutil and ninja come into the build's own "
        "environment");
    if (build->context->rung->toolkit_from_index)
        build->context->rung->setup_lacks = "there is no CUDA toolkit on the system";
    else if (needs_cxx20(build))
        build->context->rung->setup_lacks = "this torch's headers need C++20";
}

/* Memory that a build may take. */
static int64_t memory_of(const struct af_resources *resources)
{
    int64_t available = af_fact_int_or(&resources->memory_available_bytes, -1);
    int64_t total = af_fact_int_or(&resources->memory_total_bytes, -1);
    int64_t limit = af_fact_int_or(&resources->memory_limit_bytes, -1);
    if (available < 0)
        available = total;
    return limit >= 0 && available > limit ? limit : available;
}

/* The folder builds go to, or NULL when none is known. */
static const struct af_disk *disk_of(const struct af_machine *machine)
{
    static const char *const uses[] = {"builds", "cache", "temporary"};
    for (size_t use = 0; use < AF_COUNT(uses); use++) {
        for (size_t i = 0; i < machine->disks.count; i++) {
            if (af_fact_is(&machine->disks.rows[i].use, uses[use]))
                return &machine->disks.rows[i];
        }
    }
    return NULL;
}

static void check_memory(struct af_offer_build_target *build)
{
    const struct af_resources *resources = &build->view->machine->resources;
    int64_t memory = memory_of(resources);
    int64_t need = build->context->fit->options->build_peak_bytes;
    int64_t most = build->context->fit->options->build_memory_bytes;
    if (most > 0 && (memory < 0 || most < memory))
        memory = most;
    if (memory < 0) {
        af_offer_build_row(build, "memory", AF_UNKNOWN, AF_REASON_UNKNOWN_MEMORY,
                           resources->memory_available_bytes.source);
        return;
    }
    need = need > 0 ? need : AF_OFFER_BUILD_SLIM_BYTES;
    const char *evidence = af_arena_format(build->context->arena,
                                           "%.1f GiB free, %.1f GiB for the largest compiler",
                                           (double)memory / GIB, (double)need / GIB);
    af_offer_build_row(build, "memory",
                       memory >= need + AF_OFFER_BUILD_BASE_BYTES ? AF_YES : AF_NO,
                       AF_REASON_OOM, evidence);
    build->context->rung->jobs =
        af_offer_build_jobs(memory, af_fact_int_or(&resources->cores, -1));
    build->context->rung->price.memory_bytes = AF_OFFER_BUILD_BASE_BYTES + need;
}

static void check_disk(struct af_offer_build_target *build)
{
    const struct af_disk *disk = disk_of(build->view->machine);
    int64_t free_bytes = disk == NULL ? -1 : af_fact_int_or(&disk->free_bytes, -1);
    int64_t need = build->context->fit->options->build_disk_bytes;
    need = need > 0 ? need : AF_OFFER_BUILD_DISK_BYTES;
    build->context->rung->price.disk_bytes = need;
    if (free_bytes < 0) {
        af_offer_build_row(build, "disk", AF_UNKNOWN, AF_REASON_UNKNOWN_DISK, NULL);
        return;
    }
    const char *path = af_fact_text_or(&disk->path, "the cache folder");
    bool read_only = af_fact_truth(&disk->writable) == AF_NO;
    const char *evidence =
        af_arena_format(build->context->arena, "%.1f GiB free in %s%s, %.1f GiB needed",
                        (double)free_bytes / GIB, path,
                        read_only ? ", which cannot be written to" : "", (double)need / GIB);
    af_offer_build_row(build, "disk", free_bytes >= need && !read_only ? AF_YES : AF_NO,
                       read_only ? AF_REASON_DISK_READ_ONLY : AF_REASON_DISK, evidence);
    if (disk->in_memory.state == AF_FACT_KNOWN)
        af_offer_build_row(build, "temporary-folder",
                           disk->in_memory.value.truth ? AF_NO : AF_YES,
                           AF_REASON_DISK_IN_MEMORY,
                           af_arena_format(build->context->arena, "%s, %s", path,
                                           disk->in_memory.value.truth
                                               ? "which is memory (tmpfs)"
                                               : "on a disk: the compilers' files go there"));
}

void af_offer_rung_build_check_resources(struct af_offer_build_target *build)
{
    check_memory(build);
    check_disk(build);
}
