/*
 * preflight.c: the prerequisites of a build on this machine: those of the machine's
 * record, and those that need a program to run or the cache to be read. A compiler
 * that exists may still not run, so both compile something small, with a time limit.
 *
 * And how long the build takes. Before it starts, the model of offer/kernel_selection.h gives
 * the time of the files that no earlier build has finished. While it runs, the pace of the
 * compilers so far does.
 */
#include <math.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/fit/rung.h"
#include "kit/system/file.h"
#include "kit/system/process.h"

#define ANSWER_MS 20000
#define LINE_BYTES 300
#define PRIOR_SECONDS 30.0 /* weight of the assumptions before anything was measured */
#define PRIOR_PACE 0.9     /* CPU seconds per second of a compiler with a core of its own */
#define PACE_MIN 0.02      /* below it a compiler makes no progress */
#define LEAST_SHARE 0.2    /* what a file still needs that takes longer than predicted */

struct checking {
    struct af_build *build;
    struct af_build_check *check;
};

static void add(struct checking *checking, const char *name, enum af_answer answer,
                const char *evidence, const char *fix)
{
    struct af_build_check *check = checking->check;
    if (check->row_count < AF_BUILD_CHECKS_MAX)
        check->rows[check->row_count++] =
            (struct af_prerequisite){.name = name,
                                     .answer = answer,
                                     .evidence = evidence == NULL ? "" : evidence,
                                     .fix = answer == AF_YES ? NULL : fix};
}

/* The row of that name, or NULL. */
static struct af_prerequisite *row_of(const struct checking *checking, const char *name)
{
    for (size_t i = 0; i < checking->check->row_count; i++) {
        if (strcmp(checking->check->rows[i].name, name) == 0)
            return &checking->check->rows[i];
    }
    return NULL;
}

/* The output of a program; NULL if it fails, and *why_out says why. */
static const char *ask(struct checking *checking, const char *const *argv, const char **why_out)
{
    struct af_arena *arena = checking->build->arena;
    const struct af_program program = {.argv = argv, .limit_ms = ANSWER_MS};
    struct af_program_result result;
    struct anyflash_error err = {0};
    char line[LINE_BYTES];
    enum anyflash_status status = af_program_run(&program, arena, &result, &err);
    arena->failed |= status == ANYFLASH_E_NO_MEMORY;
    if (status == ANYFLASH_E_TIMEOUT) {
        *why_out = af_arena_format(arena, "'%s' did not answer within %d s", argv[0],
                                   ANSWER_MS / 1000);
        return NULL;
    }
    if (status != ANYFLASH_OK) {
        *why_out = af_arena_format(arena, "cannot run '%s': %s", argv[0], err.message);
        return NULL;
    }
    if (result.exit_code != 0) {
        struct af_span said = result.errors.len > 0 ? result.errors : result.output;
        struct af_span first = {"", 0};
        af_text_line(&said, &first);
        *why_out = result.exit_code == 127
                       ? af_arena_format(arena, "'%s' was not found", argv[0])
                       : af_arena_format(
                             arena, "'%s' failed (exit code %d): %s", argv[0], result.exit_code,
                             af_text_quote(line, sizeof line, first.data, first.len));
        return NULL;
    }
    return af_arena_text_n(arena, result.output.data, result.output.len);
}

/* Changes the row's answer to no if the program does not work. */
static void check_program(struct checking *checking, const char *name, const char *const *argv,
                          const char *fix)
{
    struct af_prerequisite *row = row_of(checking, name);
    const char *why = NULL;
    if (row == NULL || row->answer == AF_NO || ask(checking, argv, &why) != NULL)
        return;
    row->answer = AF_NO;
    row->evidence = why == NULL ? "" : why;
    row->fix = fix;
    row->why = NULL;
}

static void check_compilers(struct checking *checking, bool from_index)
{
    struct af_build *build = checking->build;
    const struct af_compiler_rows *rows = &build->machine->compilers;
    const char *host =
        rows->count > 0 ? af_fact_text_or(&rows->rows[0].path, "c++") : "/usr/bin/c++";
    const char *const small[] = {host, "-std=c++17", "-include",  "vector", "-fsyntax-only",
                                 "-x", "c++",        "/dev/null", NULL};
    check_program(checking, "host-compiler", small, af_fix_compiler(build->machine));
    if (from_index)
        return;
    const struct af_toolkit *toolkit = af_machine_toolkit(build->machine);
    const char *const version[] = {
        toolkit == NULL ? NULL : af_fact_text_or(&toolkit->nvcc, NULL), "--version", NULL};
    if (version[0] != NULL)
        check_program(checking, "cuda-toolkit", version,
                      "reinstall the toolkit, or use the one from PyPI: --toolkit index");
}

/* What downloads: uv, or Python's venv and pip, which install uv. */
static void check_installer(struct checking *checking)
{
    struct af_build *build = checking->build;
    const char *python = af_fact_text_or(&build->machine->python.executable, "python3");
    const char *const argv[] = {python, "-I", "-c", "import venv, ensurepip", NULL};
    const char *uv = af_build_uv(build);
    const char *why = NULL;
    if (uv != NULL)
        add(checking, "installer", AF_YES, af_arena_format(build->arena, "uv, %s", uv), NULL);
    else if (ask(checking, argv, &why) != NULL)
        add(checking, "installer", AF_YES,
            "Python's own venv and pip, which install uv into the cache", NULL);
    else
        add(checking, "installer", AF_NO, "neither uv nor Python's own venv and pip",
            "install uv: pip install uv");
}

static bool is_kept(struct af_arena *arena, const char *folder, const char *name)
{
    const char *path = af_path_join(arena, folder, name);
    return path != NULL && af_file_is_regular(path);
}

static bool says_no(const struct af_build_check *check)
{
    for (size_t i = 0; i < check->row_count; i++) {
        if (check->rows[i].answer == AF_NO)
            return true;
    }
    return false;
}

/* Reports what an earlier build left in the cache; the rest needs the network. */
static void check_kept(struct checking *checking, const struct af_build_place *place)
{
    struct af_build *build = checking->build;
    struct af_arena *arena = build->arena;
    const char *root = af_build_root(arena);
    const char *kept = root == NULL ? NULL : af_path_join(arena, root, "sources");
    const char *archive = af_arena_format(arena, "flash_attn-%s.tar.gz", build->version);
    bool unpacked = af_file_is_folder(place->sources);
    bool sources =
        unpacked || (kept != NULL && archive != NULL && is_kept(arena, kept, archive));
    bool tools = !place->cuda_from_index || is_kept(arena, place->tools, "complete");
    bool located = kept != NULL && is_kept(arena, kept, "pylock.flash-attn.toml");
    if (!build->offline && ((!unpacked && !located) || !tools))
        check_installer(checking);
    add(checking, "sources", sources || !build->offline ? AF_YES : AF_NO,
        sources          ? "in the cache from an earlier build"
        : build->offline ? "not in the cache and cannot be downloaded because of --offline"
                         : "will be downloaded from PyPI; its hash is checked",
        "run it once without --offline");
    if (place->cuda_from_index)
        add(checking, "cuda-compiler", tools || !build->offline ? AF_YES : AF_UNKNOWN,
            tools ? place->tools
            : build->offline
                ? "not in the cache: with --offline only the installer's own cache "
                  "can be used"
                : "will be put into the cache; your environment is only read",
            "run it once without --offline");
}

/* The usual hint for an unknown fact names --given, which `build` does not have: this
   replaces it. */
static void name_own_options(struct checking *checking)
{
    static const struct {
        const char *name, *fix;
    } rows[] = {{"host-compiler", "choose a compiler: CC=gcc-12 CXX=g++-12 anyflash build"},
                {"memory", "say how much memory the build may use: anyflash build --memory 8G"},
                {"disk", "set ANYFLASH_CACHE to a folder with enough space"}};
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_prerequisite *row = row_of(checking, rows[i].name);
        if (row != NULL && row->answer == AF_UNKNOWN)
            row->fix = rows[i].fix;
    }
}

static void conclude(struct af_build_check *check)
{
    for (size_t i = 0; i < check->row_count; i++) {
        const struct af_prerequisite *row = &check->rows[i];
        bool is_risk_only = strcmp(row->name, "memory") == 0 ||
                            strcmp(row->name, "temporary-folder") == 0 ||
                            strcmp(row->name, "torch") == 0;
        check->missing_count += row->answer == AF_NO;
        if (row->answer == AF_NO && !is_risk_only && check->obstacle == NULL)
            check->obstacle = row;
    }
    check->can_start = check->missing_count == 0;
}

enum anyflash_status af_build_check(struct af_build *build, struct af_build_resources resources,
                                    struct af_build_check *check_out,
                                    struct anyflash_error *err)
{
    struct af_build_place place;
    struct anyflash_error why = {0};
    bool is_placed = af_build_find_place(build, &place, &why) == ANYFLASH_OK;
    int64_t kept =
        is_placed && resources.disk_bytes > 0 ? af_build_kept_bytes(build, &place) : 0;
    const struct af_fit_options options = {.build_peak_bytes = resources.peak_bytes,
                                           .build_disk_bytes = resources.disk_bytes - kept,
                                           .build_targets = build->selection.archs,
                                           .build_target_count = build->selection.arch_count,
                                           .build_memory_bytes = (int64_t)build->memory_bytes,
                                           .build_toolkit = build->toolkit};
    struct checking checking = {build, check_out};
    struct af_rung rung;
    enum anyflash_status status =
        af_rung_build_alone(build->machine, &options, build->arena, &rung, err);
    if (status != ANYFLASH_OK)
        return status;
    *check_out = (struct af_build_check){.row_count = 0};
    for (size_t i = 0; i < rung.build.prerequisite_count; i++)
        check_out->rows[check_out->row_count++] = rung.build.prerequisites[i];
    name_own_options(&checking);
    check_compilers(&checking, rung.build.toolkit_from_index);
    if (is_placed)
        check_kept(&checking, &place);
    else if (!says_no(check_out)) /* otherwise a row above says why */
        add(&checking, "cache", AF_NO, af_arena_text(build->arena, why.message),
            "set ANYFLASH_CACHE to another folder");
    conclude(check_out);
    return build->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* ---- time ---- */

enum anyflash_status af_build_find_estimate(struct af_build *build,
                                            const struct af_build_place *place, int cores,
                                            uint64_t memory_bytes,
                                            struct af_build_estimate *estimate_out,
                                            struct anyflash_error *err)
{
    struct af_selection_cost costs[AF_SELECTION_CALLS_MAX];
    struct af_build_estimate estimate = {0};
    struct af_build_jobs jobs;
    enum anyflash_status status = af_build_list_jobs(build, place, &jobs, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < jobs.count; i++) {
        const struct af_prediction *prediction = &jobs.rows[i].prediction;
        if (af_file_is_regular(jobs.rows[i].object)) {
            estimate.done_count++;
            continue;
        }
        costs[estimate.call_count++] =
            (struct af_selection_cost){prediction->seconds, prediction->bytes};
        estimate.cpu_seconds += prediction->seconds;
        if (prediction->bytes > estimate.peak_bytes)
            estimate.peak_bytes = prediction->bytes;
    }
    estimate.wall_seconds =
        af_selection_schedule(costs, estimate.call_count, cores, memory_bytes);
    *estimate_out = estimate;
    return ANYFLASH_OK;
}

void af_build_end_time_add(struct af_build_end_time *end_time,
                           const struct af_govern_event *event)
{
    end_time->predicted += event->file->seconds;
    end_time->worked += event->cpu_seconds;
    end_time->elapsed += event->seconds;
}

/* CPU seconds per second of one compiler. */
static double pace_of(const struct af_build_end_time *end_time,
                      const struct af_govern_event *event)
{
    double worked = PRIOR_PACE * PRIOR_SECONDS + end_time->worked;
    double elapsed = PRIOR_SECONDS + end_time->elapsed;
    for (size_t i = 0; i < event->row_count; i++) {
        worked += event->rows[i].cpu_seconds;
        elapsed += event->rows[i].elapsed;
    }
    return fmax(worked / elapsed, PACE_MIN);
}

/*
 * CPU seconds per predicted second: of the finished files, and of those that run longer than
 * predicted. The largest file runs first and alone can take half of a build, so waiting for its
 * end would be too late.
 */
static double scale_of(const struct af_build_end_time *end_time,
                       const struct af_govern_event *event)
{
    double worked = PRIOR_SECONDS + end_time->worked;
    double predicted = PRIOR_SECONDS + end_time->predicted;
    for (size_t i = 0; i < event->row_count; i++) {
        const struct af_govern_row *row = &event->rows[i];
        if (row->state != AF_JOB_RUNNING || row->cpu_seconds <= row->prediction->seconds)
            continue;
        worked += row->cpu_seconds;
        predicted += row->prediction->seconds;
    }
    return worked / predicted;
}

/* CPU seconds that a job still needs. */
static double left_of(const struct af_govern_row *row, double scale)
{
    double all = row->prediction->seconds * scale;
    return fmax(all - row->cpu_seconds, LEAST_SHARE * fmax(all, row->cpu_seconds));
}

double af_build_end_time_left(const struct af_build_end_time *end_time,
                              const struct af_govern_event *event)
{
    struct af_selection_cost costs[AF_SELECTION_CALLS_MAX];
    double scale = scale_of(end_time, event);
    int running = 0;
    size_t count = 0;
    for (size_t i = 0; i < event->row_count && count < AF_SELECTION_CALLS_MAX; i++) {
        running += event->rows[i].state == AF_JOB_RUNNING;
        costs[count++] = (struct af_selection_cost){left_of(&event->rows[i], scale), 0};
    }
    return af_selection_schedule(costs, count, running, 0) / pace_of(end_time, event);
}
