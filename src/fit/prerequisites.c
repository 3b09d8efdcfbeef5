/*
 * prerequisites.c: the tools and the room that a source build needs.
 *
 * torch's extension builder refuses a toolkit of another CUDA major and only
 * warns of another minor; nvcc itself refuses host compilers above the limit in
 * its host_config.h; torch's headers need gcc 9 or newer.
 */
#include "fit/rung_build.h"

#include "base/text.h"
#include "fit/build_cost.h"

#include <stdio.h>
#include <string.h>

#define GCC_MIN 9
#define GIB 1073741824.0

static const struct af_toolkit *toolkit_of(const struct af_machine *machine)
{
    const struct af_toolkit *first = NULL;
    for (size_t i = 0; i < machine->toolkits.count; i++) {
        const struct af_toolkit *toolkit = &machine->toolkits.rows[i];
        if (af_fact_truth(&toolkit->torch_takes_it) == AF_YES)
            return toolkit;
        if (first == NULL ||
            (first->nvcc.state != AF_FACT_KNOWN && toolkit->nvcc.state == AF_FACT_KNOWN))
            first = toolkit;
    }
    return first;
}

/* The lowest CUDA minor of `major` whose nvcc knows `target`. */
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

static void judge_targets(struct af_build *build, const struct af_dotted *version)
{
    for (size_t i = 0; i < build->sm_count; i++) {
        if (!knows_target(build->climb->judge->tables, version, build->sms[i]))
            af_build_row(build, "gpu-target", AF_NO, AF_REASON_NVCC_OLD,
                         af_arena_format(build->climb->arena, "nvcc %d.%d, SM %d.%d",
                                         version->part[0], version->part[1], build->sms[i] / 10,
                                         build->sms[i] % 10));
    }
}

static void judge_toolkit(struct af_build *build)
{
    const struct af_machine *machine = build->view->machine;
    const struct af_toolkit *toolkit = toolkit_of(machine);
    struct af_dotted version;
    build->toolkit = toolkit;
    if (toolkit == NULL) {
        enum af_answer answer = machine->toolkits.state == AF_FACT_UNKNOWN ? AF_UNKNOWN : AF_NO;
        af_build_row(
            build, "cuda-toolkit", answer,
            answer == AF_NO ? AF_REASON_NVCC_MISSING : AF_REASON_UNKNOWN_TOOLKIT,
            af_arena_format(build->climb->arena, "none known (%s)",
                            machine->toolkits.source == NULL ? "" : machine->toolkits.source));
        return;
    }
    const char *root = af_fact_text_or(&toolkit->root, "given");
    bool known = af_dotted_parse(af_fact_text_or(&toolkit->version, NULL), &version);
    int major = build->view->torch.cuda_major;
    const char *evidence = af_arena_format(build->climb->arena, "CUDA %s in %s",
                                           af_fact_text_or(&toolkit->version, "?"), root);
    if (toolkit->nvcc.state == AF_FACT_ABSENT)
        af_build_row(build, "cuda-toolkit", AF_NO, AF_REASON_NVCC_MISSING, evidence);
    else if (!known)
        af_build_row(build, "cuda-toolkit", AF_UNKNOWN, AF_REASON_UNKNOWN_TOOLKIT, evidence);
    else if (major >= 0 && version.part[0] != major)
        af_build_row(build, "cuda-toolkit", AF_NO, AF_REASON_NVCC_CUDA, evidence);
    else
        af_build_row(build, "cuda-toolkit", AF_YES, AF_REASON_NVCC_MISSING, evidence);
    if (toolkit->headers.state == AF_FACT_KNOWN && !toolkit->headers.value.truth)
        af_build_row(build, "cuda-headers", AF_NO, AF_REASON_CUDA_HEADERS, evidence);
    if (known)
        judge_targets(build, &version);
}

/* What this toolkit allows: host_config.h if it was read, else the table. */
static int64_t gcc_limit(const struct af_build *build)
{
    struct af_dotted version;
    if (build->toolkit == NULL)
        return -1;
    int64_t limit = af_fact_int_or(&build->toolkit->gcc_max, -1);
    if (limit >= 0 ||
        !af_dotted_parse(af_fact_text_or(&build->toolkit->version, NULL), &version))
        return limit;
    const struct af_cuda_toolkit *row = af_tables_cuda(
        build->climb->judge->tables, version.part[0], version.count > 1 ? version.part[1] : 0);
    return row == NULL ? -1 : row->gcc_max;
}

static void judge_compiler(struct af_build *build)
{
    const struct af_compiler_rows *list = &build->view->machine->compilers;
    struct af_dotted version;
    int64_t limit = gcc_limit(build);
    if (list->count == 0) {
        enum af_answer answer = list->state == AF_FACT_UNKNOWN ? AF_UNKNOWN : AF_NO;
        af_build_row(build, "host-compiler", answer,
                     answer == AF_NO ? AF_REASON_COMPILER_MISSING : AF_REASON_UNKNOWN_COMPILER,
                     list->source);
        return;
    }
    const struct af_compiler *compiler = &list->rows[0];
    const char *text = af_fact_text_or(&compiler->version, NULL);
    const char *evidence = af_arena_format(
        build->climb->arena, "%s %s, %s", af_fact_text_or(&compiler->family, "gcc"),
        text == NULL ? "?" : text, af_fact_text_or(&compiler->path, "given"));
    if (!af_dotted_parse(text, &version))
        af_build_row(build, "host-compiler", AF_UNKNOWN, AF_REASON_UNKNOWN_COMPILER, evidence);
    else if (!af_fact_is(&compiler->family, "gcc"))
        af_build_row(build, "host-compiler", AF_YES, AF_REASON_COMPILER_MISSING, evidence);
    else if (limit >= 0 && version.part[0] > limit)
        af_build_row(build, "host-compiler", AF_NO, AF_REASON_GCC_NEW,
                     af_arena_format(build->climb->arena, "%s; this nvcc takes gcc %d at most",
                                     evidence, (int)limit));
    else if (version.part[0] < GCC_MIN)
        af_build_row(build, "host-compiler", AF_NO, AF_REASON_GCC_OLD, evidence);
    else
        af_build_row(build, "host-compiler", AF_YES, AF_REASON_COMPILER_MISSING, evidence);
}

void af_build_judge_tools(struct af_build *build)
{
    judge_toolkit(build);
    judge_compiler(build);
    af_build_row(build, "build-helpers", AF_YES, AF_REASON_BUILD_PREREQUISITE,
                 "setuptools, wheel, packaging, psutil and ninja are installed first");
}

/* Memory that a build may take: what is available, and free swap. */
static int64_t memory_of(const struct af_resources *resources)
{
    int64_t available = af_fact_int_or(&resources->memory_available_bytes, -1);
    int64_t total = af_fact_int_or(&resources->memory_total_bytes, -1);
    int64_t limit = af_fact_int_or(&resources->memory_limit_bytes, -1);
    if (available < 0)
        available = total;
    return limit >= 0 && available > limit ? limit : available;
}

/* The folder temporaries go to, or NULL when none is known. */
static const struct af_disk *temporary_of(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->disks.count; i++) {
        if (af_fact_is(&machine->disks.rows[i].use, "temporary"))
            return &machine->disks.rows[i];
    }
    return machine->disks.count > 0 ? &machine->disks.rows[0] : NULL;
}

static void judge_memory(struct af_build *build)
{
    const struct af_resources *resources = &build->view->machine->resources;
    int64_t memory = memory_of(resources);
    if (memory < 0) {
        af_build_row(build, "memory", AF_UNKNOWN, AF_REASON_UNKNOWN_MEMORY,
                     resources->memory_available_bytes.source);
        return;
    }
    int jobs = af_build_jobs(memory, af_fact_int_or(&resources->cores, -1));
    const char *evidence =
        af_arena_format(build->climb->arena, "%.1f GiB free, %.1f GiB for one compiler process",
                        (double)memory / GIB, (double)AF_BUILD_JOB_BYTES / GIB);
    af_build_row(build, "memory", jobs > 0 ? AF_YES : AF_NO, AF_REASON_OOM, evidence);
    build->climb->rung->jobs = jobs;
    build->climb->rung->price.memory_bytes =
        AF_BUILD_BASE_BYTES + AF_BUILD_JOB_BYTES * (jobs < 1 ? 1 : jobs);
}

static void judge_disk(struct af_build *build)
{
    const struct af_disk *disk = temporary_of(build->view->machine);
    int64_t free_bytes = disk == NULL ? -1 : af_fact_int_or(&disk->free_bytes, -1);
    if (free_bytes < 0) {
        af_build_row(build, "disk", AF_UNKNOWN, AF_REASON_UNKNOWN_DISK, NULL);
        return;
    }
    const char *evidence = af_arena_format(
        build->climb->arena, "%.1f GiB free in %s%s", (double)free_bytes / GIB,
        af_fact_text_or(&disk->path, "the temporary folder"),
        af_fact_truth(&disk->in_memory) == AF_YES ? ", which takes memory" : "");
    af_build_row(build, "disk", free_bytes >= AF_BUILD_DISK_BYTES ? AF_YES : AF_NO,
                 AF_REASON_DISK, evidence);
}

void af_build_judge_room(struct af_build *build)
{
    judge_memory(build);
    judge_disk(build);
}
