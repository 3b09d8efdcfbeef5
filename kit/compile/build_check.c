/*
 * build_check.c: the prerequisites of a build on this machine: those of the machine's record,
 * and those that need a program to run or the cache to be read. A compiler that exists may
 * still not run, so it compiles something small, with a time limit.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/fit/rung.h"
#include "kit/system/file.h"
#include "kit/system/process.h"

#define ANSWER_MS 20000
#define LINE_BYTES 300

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
                                     .evidence = evidence,
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
    row->evidence = why;
    row->fix = fix;
    row->why = NULL;
}

/* Those of flash-attn's own build. */
static void check_compilers(struct checking *checking)
{
    struct af_build *build = checking->build;
    const struct af_compiler_rows *rows = &build->machine->compilers;
    const char *host =
        rows->count > 0 ? af_fact_text_or(&rows->rows[0].path, "c++") : "/usr/bin/c++";
    const char *const small[] = {host, "-std=c++17", "-include",  "vector", "-fsyntax-only",
                                 "-x", "c++",        "/dev/null", NULL};
    check_program(checking, "host-compiler", small, af_fix_compiler(build->machine));
    const struct af_toolkit *toolkit = af_machine_toolkit(build->machine);
    const char *const version[] = {
        toolkit == NULL ? NULL : af_fact_text_or(&toolkit->nvcc, NULL), "--version", NULL};
    if (version[0] != NULL)
        check_program(checking, "cuda-toolkit", version, "reinstall the CUDA toolkit");
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

/* Reports what an earlier build left in the cache; the rest needs the network. */
static void check_kept(struct checking *checking, const struct af_build_place *place)
{
    struct af_build *build = checking->build;
    struct af_arena *arena = build->arena;
    const char *kept = af_path_join(arena, af_build_root(arena), "sources");
    const char *archive = af_arena_format(arena, "flash_attn-%s.tar.gz", build->version);
    bool unpacked = af_file_is_folder(place->sources);
    bool sources = unpacked || af_file_is_regular(af_path_join(arena, kept, archive));
    if (!build->offline && !sources)
        check_installer(checking);
    add(checking, "sources", sources || !build->offline ? AF_YES : AF_NO,
        sources          ? "in the cache from an earlier build"
        : build->offline ? "not in the cache and cannot be downloaded because of --offline"
                         : "will be downloaded from PyPI; its hash is checked",
        "run it once without --offline");
}

/* The environment's Python runs the scripts. */
static void check_python(struct checking *checking)
{
    struct af_build *build = checking->build;
    const char *python = af_fact_text_or(&build->machine->python.executable, "python3");
    static const char script[] = "import ctypes, gzip, sys, zipfile; print(sys.version); "
                                 "sys.exit(sys.version_info < (3, 9))";
    const char *const argv[] = {python, "-I", "-c", script, NULL};
    const char *why = NULL;
    const char *text = ask(checking, argv, &why);
    add(checking, "python", text != NULL ? AF_YES : AF_NO, text != NULL ? python : why,
        "name another Python, 3.9 or newer: --python PATH");
}

/* The usual hint for an unknown fact names --given, which `build` does not have: this
   replaces it. */
static void name_own_options(struct checking *checking)
{
    static const struct {
        const char *name, *fix;
    } rows[] = {{"host-compiler", "name a compiler in CC and CXX"},
                {"memory", "see that 6 GiB are free"},
                {"disk", "set ANYFLASH_CACHE to a folder with enough space"}};
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_prerequisite *row = row_of(checking, rows[i].name);
        if (row != NULL && row->answer == AF_UNKNOWN)
            row->fix = rows[i].fix;
    }
}

static bool is_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The wheel can be made on another machine than it is used on: what only its use needs is a
   remark. */
static void conclude(struct af_build_check *check)
{
    static const char *const risks[] = {"memory", "temporary-folder"};
    static const char *const later[] = {"gpu", "driver", "torch"};
    for (size_t i = 0; i < check->row_count; i++) {
        const struct af_prerequisite *row = &check->rows[i];
        if (row->answer != AF_NO || is_of(later, AF_COUNT(later), row->name))
            continue;
        check->missing_count++;
        if (!is_of(risks, AF_COUNT(risks), row->name) && check->obstacle == NULL)
            check->obstacle = row;
    }
    check->can_start = check->missing_count == 0;
}

/* The rows that need this machine; those of a record stand above. */
static void check_here(struct checking *checking)
{
    struct af_build_place place;
    struct anyflash_error why = {0};
    check_python(checking);
    if (af_build_find_place(checking->build, &place, &why) == ANYFLASH_OK)
        check_kept(checking, &place);
    else
        add(checking, "cache", AF_NO, af_arena_text(checking->build->arena, why.message),
            "set ANYFLASH_CACHE to another folder");
}

enum anyflash_status af_build_check(struct af_build *build, bool upstream, const int *targets,
                                    size_t target_count, struct af_build_check *check_out,
                                    struct anyflash_error *err)
{
    const struct af_fit_options options = {.upstream_build = upstream,
                                           .build_targets = targets,
                                           .build_target_count = target_count};
    struct checking checking = {build, check_out};
    struct af_rung rung;
    enum anyflash_status status =
        af_rung_build_alone(build->machine, &options, build->arena, &rung, err);
    if (status != ANYFLASH_OK)
        return status;
    *check_out =
        (struct af_build_check){.jobs = rung.build.jobs, .arch_list = rung.build.arch_list};
    for (size_t i = 0; i < rung.build.prerequisite_count; i++)
        check_out->rows[check_out->row_count++] = rung.build.prerequisites[i];
    name_own_options(&checking);
    if (upstream)
        check_compilers(&checking);
    else
        check_here(&checking);
    conclude(check_out);
    return ANYFLASH_OK;
}
