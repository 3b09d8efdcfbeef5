/*
 * prerequisites.c: the tools that flash-attn's own source build needs, and the memory and the
 * disk space of both builds.
 *
 * nvcc refuses host compilers above the limit in its host_config.h. The kernels are C++17.
 */
#include "kit/fit/rung.h"

#include "kit/fit/gpu_targets.h"

#include <stdio.h>
#include <string.h>

#define GCC_MIN 9
#define GIB 1073741824.0

/* The toolkit that CUDA_HOME or PATH names; else the first with a compiler. */
static const struct af_toolkit *system_toolkit(const struct af_machine *machine)
{
    const struct af_toolkit *chosen = af_machine_toolkit(machine);
    for (size_t i = 0; chosen == NULL && i < machine->toolkits.count; i++) {
        if (machine->toolkits.rows[i].nvcc.state == AF_FACT_KNOWN)
            chosen = &machine->toolkits.rows[i];
    }
    return chosen == NULL && machine->toolkits.count > 0 ? &machine->toolkits.rows[0] : chosen;
}

/* Whether the system's toolkit can be used, or the reason why not. */
static void choose_toolkit(const struct af_view *view, struct af_toolkit_choice *choice)
{
    const struct af_toolkit *toolkit = system_toolkit(view->machine);
    const char *need = NULL;
    choice->here = toolkit;
    if (toolkit == NULL) {
        bool unknown = view->machine->toolkits.state == AF_FACT_UNKNOWN;
        choice->answer = unknown ? AF_UNKNOWN : AF_NO;
        choice->id = unknown ? AF_REASON_UNKNOWN_TOOLKIT : AF_REASON_NVCC_MISSING;
        return;
    }
    bool known = af_dotted_parse(af_fact_text_or(&toolkit->version, NULL), &choice->version);
    bool bare = toolkit->headers.state == AF_FACT_KNOWN && !toolkit->headers.value.truth;
    choice->answer = AF_NO;
    if (toolkit->nvcc.state == AF_FACT_ABSENT) {
        choice->id = AF_REASON_NVCC_MISSING;
    } else if (!known) {
        choice->answer = AF_UNKNOWN;
        choice->id = AF_REASON_UNKNOWN_TOOLKIT;
    } else if (af_driver_serves(view, choice->version.part[0], &need) == AF_NO) {
        choice->id = AF_REASON_DRIVER;
    } else if (bare) {
        choice->id = AF_REASON_CUDA_HEADERS;
    } else {
        choice->answer = AF_YES;
    }
}

/* Whether the tables say that nvcc of this version supports `target`. */
static bool knows_target(const struct af_dotted *version, int target)
{
    char text[16];
    const struct af_cuda_toolkit *row =
        af_tables_cuda(version->part[0], version->count > 1 ? version->part[1] : 0);
    if (row == NULL || row->sm_targets.count == 0)
        return true; /* newer than the tables */
    snprintf(text, sizeof text, "%d.%d", target / 10, target % 10);
    return af_words_have(row->sm_targets, text);
}

static void check_targets(struct af_rung_build_target *build)
{
    const struct af_dotted *version = &build->toolkit.version;
    for (size_t i = 0; i < build->sm_count && version->count > 0; i++) {
        if (!knows_target(version, build->sms[i]))
            af_rung_build_row(build, "gpu-target", AF_NO, AF_REASON_NVCC_OLD,
                              af_arena_format(build->context->arena, "nvcc %d.%d, SM %d.%d",
                                              version->part[0], version->part[1],
                                              build->sms[i] / 10, build->sms[i] % 10));
    }
}

/* "CUDA 12.8 in /usr/local/cuda", or where it was searched. */
static const char *system_text(const struct af_rung_build_target *build)
{
    struct af_arena *arena = build->context->arena;
    const struct af_toolkit *toolkit = build->toolkit.here;
    const char *source = build->view->machine->toolkits.source;
    if (toolkit == NULL)
        return af_arena_format(arena, "none found (%s)", source == NULL ? "" : source);
    return af_arena_format(arena, "CUDA %s in %s", af_fact_text_or(&toolkit->version, "?"),
                           af_fact_text_or(&toolkit->root, "given"));
}

static void check_toolkit(struct af_rung_build_target *build)
{
    choose_toolkit(build->view, &build->toolkit);
    af_rung_build_row(build, "cuda-toolkit", build->toolkit.answer, build->toolkit.id,
                      system_text(build));
    if (build->toolkit.answer == AF_YES)
        check_targets(build);
}

int64_t af_rung_build_gcc_limit(const struct af_rung_build_target *build)
{
    const struct af_toolkit_choice *toolkit = &build->toolkit;
    const struct af_dotted *version = &toolkit->version;
    int64_t limit = toolkit->here == NULL ? -1 : af_fact_int_or(&toolkit->here->gcc_max, -1);
    if (limit >= 0 || version->count == 0)
        return limit;
    const struct af_cuda_toolkit *row =
        af_tables_cuda(version->part[0], version->count > 1 ? version->part[1] : 0);
    return row == NULL ? -1 : row->gcc_max;
}

static void check_compiler(struct af_rung_build_target *build)
{
    const struct af_compiler_rows *list = &build->view->machine->compilers;
    struct af_dotted version;
    int64_t limit = af_rung_build_gcc_limit(build);
    if (list->count == 0) {
        enum af_answer answer = list->state == AF_FACT_UNKNOWN ? AF_UNKNOWN : AF_NO;
        af_rung_build_row(build, "host-compiler", answer,
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
        af_rung_build_row(build, "host-compiler", AF_UNKNOWN, AF_REASON_UNKNOWN_COMPILER,
                          evidence);
    else if (!af_fact_is(&compiler->family, "gcc"))
        af_rung_build_row(build, "host-compiler", AF_YES, AF_REASON_COMPILER_MISSING, evidence);
    else if (limit >= 0 && version.part[0] > limit)
        af_rung_build_row(build, "host-compiler", AF_NO, AF_REASON_GCC_NEW,
                          af_arena_format(build->context->arena,
                                          "%s; this nvcc accepts gcc up to %d", evidence,
                                          (int)limit));
    else if (version.part[0] < GCC_MIN)
        af_rung_build_row(build, "host-compiler", AF_NO, AF_REASON_GCC_OLD,
                          af_arena_format(build->context->arena,
                                          "%s; gcc %d or newer is needed", evidence, GCC_MIN));
    else
        af_rung_build_row(build, "host-compiler", AF_YES, AF_REASON_COMPILER_MISSING,
                          limit < 0 ? evidence
                                    : af_arena_format(build->context->arena,
                                                      "%s; this nvcc accepts gcc up to %d",
                                                      evidence, (int)limit));
}

void af_rung_build_check_tools(struct af_rung_build_target *build)
{
    check_toolkit(build);
    check_compiler(build);
}

/* Bytes of memory that a build may use; -1: unknown. */
static int64_t memory_of(const struct af_resources *resources)
{
    int64_t available = af_fact_int_or(&resources->memory_available_bytes, -1);
    int64_t total = af_fact_int_or(&resources->memory_total_bytes, -1);
    int64_t limit = af_fact_int_or(&resources->memory_limit_bytes, -1);
    if (available < 0)
        available = total;
    return limit >= 0 && available > limit ? limit : available;
}

/* The disk of the builds' folder; NULL: unknown. */
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

static void check_memory(struct af_rung_build_target *build)
{
    const struct af_resources *resources = &build->view->machine->resources;
    bool upstream = build->context->fit->options->upstream_build;
    int64_t memory = memory_of(resources);
    int64_t cores = af_fact_int_or(&resources->cores, -1);
    int64_t base = upstream ? AF_RUNG_UPSTREAM_BASE_BYTES : 0;
    int64_t need = upstream ? AF_RUNG_UPSTREAM_JOB_BYTES : AF_RUNG_BUILD_MEMORY_BYTES;
    if (memory < 0) {
        af_rung_build_row(build, "memory", AF_UNKNOWN, AF_REASON_UNKNOWN_MEMORY,
                          resources->memory_available_bytes.source);
        return;
    }
    int64_t jobs = (memory - base) / need;
    jobs = cores > 0 && jobs > cores ? cores : jobs > 512 ? 512 : jobs;
    af_rung_build_row(build, "memory", jobs > 0 ? AF_YES : AF_NO, AF_REASON_OOM,
                      af_arena_format(build->context->arena,
                                      "%.1f GiB free; %.1f GiB for the largest compiler",
                                      (double)memory / GIB, (double)need / GIB));
    build->context->rung->build.jobs = jobs < 0 ? 0 : (int)jobs;
    build->context->rung->price.memory_bytes = base + need;
}

static void check_disk(struct af_rung_build_target *build)
{
    const struct af_disk *disk = disk_of(build->view->machine);
    int64_t free_bytes = disk == NULL ? -1 : af_fact_int_or(&disk->free_bytes, -1);
    bool upstream = build->context->fit->options->upstream_build;
    int64_t need = upstream ? AF_RUNG_UPSTREAM_DISK_BYTES : AF_RUNG_BUILD_DISK_BYTES;
    build->context->rung->price.disk_bytes = need;
    if (free_bytes < 0) {
        af_rung_build_row(build, "disk", AF_UNKNOWN, AF_REASON_UNKNOWN_DISK, NULL);
        return;
    }
    const char *path = af_fact_text_or(&disk->path, "the cache folder");
    bool read_only = af_fact_truth(&disk->writable) == AF_NO;
    const char *evidence =
        af_arena_format(build->context->arena, "%.1f GiB free in %s%s, %.1f GiB needed",
                        (double)free_bytes / GIB, path,
                        read_only ? ", which is not writable" : "", (double)need / GIB);
    af_rung_build_row(build, "disk", free_bytes >= need && !read_only ? AF_YES : AF_NO,
                      read_only ? AF_REASON_DISK_READ_ONLY : AF_REASON_DISK, evidence);
    if (upstream && disk->in_memory.state == AF_FACT_KNOWN)
        af_rung_build_row(
            build, "temporary-folder", disk->in_memory.value.truth ? AF_NO : AF_YES,
            AF_REASON_DISK_IN_MEMORY,
            af_arena_format(
                build->context->arena, "%s, %s", path,
                disk->in_memory.value.truth
                    ? "which is in memory (tmpfs)"
                    : "on disk, not in memory; compilers write temporary files there"));
}

void af_rung_build_check_resources(struct af_rung_build_target *build)
{
    check_memory(build);
    check_disk(build);
}
