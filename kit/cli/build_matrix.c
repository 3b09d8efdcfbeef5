/*
 * build_matrix.c: the jobs of plan/matrix.h as JSON, as a workflow of GitHub
 * Actions, or as a script for Slurm.
 */
#include "kit/cli/build_matrix.h"

#include <string.h>

#include "kit/build/matrix.h"
#include "kit/cli/json_parts.h"
#include "kit/plan/saved.h"

/* More combinations left out than this are counted, not named. */
#define REMARKS_MAX 20u

static json_t *combination_json(const struct af_matrix_job *job)
{
    return json_pack("{s:s, s:s, s:s?, s:s, s:i}", "name", job->name, "torch", job->torch,
                     "cuda", job->cuda, "python", job->python, "arch", job->sm);
}

static json_t *job_json(const struct af_matrix_job *job, struct af_arena *arena)
{
    const struct af_plan plan = {.steps = job->steps, .step_count = AF_MATRIX_STEPS};
    json_t *json = combination_json(job);
    if (json == NULL ||
        json_object_set_new(json, "environment", json_string(job->environment)) != 0 ||
        json_object_set_new(json, "steps", af_plan_steps_json(&plan, arena)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static json_t *left_out_json(const struct af_matrix_job *job)
{
    json_t *json = combination_json(job);
    if (json == NULL || json_object_set_new(json, "reason", json_string(job->reason)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static enum anyflash_status write_json(struct af_cli *cli, const struct af_matrix *matrix,
                                       const struct af_matrix_question *question,
                                       struct anyflash_error *err)
{
    json_t *jobs = json_array();
    json_t *left_out = json_array();
    for (size_t i = 0; i < matrix->job_count; i++)
        jobs = af_cli_json_append(jobs, job_json(&matrix->jobs[i], &cli->arena));
    for (size_t i = 0; i < matrix->left_out_count; i++)
        left_out = af_cli_json_append(left_out, left_out_json(&matrix->left_out[i]));
    return af_cli_json_take(cli,
                            json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema",
                                      "anyflash-matrix/1", "version", question->version,
                                      "output", question->output, "jobs", jobs, "left_out",
                                      left_out),
                            err);
}

static void remark_left_out(struct af_cli *cli, const struct af_matrix *matrix)
{
    for (size_t i = 0; i < matrix->left_out_count && i < REMARKS_MAX; i++) {
        const struct af_matrix_job *job = &matrix->left_out[i];
        const char *text =
            af_arena_format(&cli->arena, "left out: %s: %s", job->name, job->reason);
        if (text != NULL)
            af_cli_remark(cli, text);
    }
    const char *rest = af_arena_format(&cli->arena, "left out: %zu more",
                                       matrix->left_out_count - REMARKS_MAX);
    if (matrix->left_out_count > REMARKS_MAX && rest != NULL)
        af_cli_remark(cli, rest);
}

/* Options whose place is an axis, and a form that is none. */
static enum anyflash_status check(struct af_cli *cli, const char *format,
                                  struct anyflash_error *err)
{
    static const struct {
        enum af_option_id id;
        const char *instead;
    } axes[] = {{AF_OPTION_ARCH, "arch=80,90"}, {AF_OPTION_PYTHON, "python=3.11,3.12"}};
    for (size_t i = 0; i < AF_COUNT(axes); i++) {
        if (af_option_given(&cli->options, axes[i].id))
            return af_fail(err, ANYFLASH_E_ARGUMENT, "with --matrix it is %s in place of --%s",
                           axes[i].instead, af_option_rows[axes[i].id].name);
    }
    const char *output = cli->options.values[AF_OPTION_OUTPUT];
    if (output != NULL && !af_text_is_utf8(output, strlen(output)))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "the --output of a matrix must be UTF-8");
    if (!af_equal(format, "json") && !af_equal(format, "github") && !af_equal(format, "slurm"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--format takes json, github or slurm");
    if (af_option_given(&cli->options, AF_OPTION_JSON) && !af_equal(format, "json"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--json and --format contradict each other");
    return ANYFLASH_OK;
}

static enum anyflash_status print(struct af_cli *cli, const struct af_matrix *matrix,
                                  const struct af_matrix_question *question, const char *format,
                                  struct anyflash_error *err)
{
    if (af_equal(format, "json"))
        return write_json(cli, matrix, question, err);
    if (matrix->job_count == 0)
        return ANYFLASH_OK;
    enum anyflash_status status = ANYFLASH_OK;
    if (af_equal(format, "github"))
        status = af_matrix_github(matrix, question, &cli->out, err);
    else
        af_matrix_slurm(matrix, question, &cli->out);
    return status == ANYFLASH_OK ? af_cli_finish(cli, err) : status;
}

enum anyflash_status af_cli_build_matrix(struct af_cli *cli, const struct af_slim *slim,
                                         const char *version, uint64_t memory_bytes,
                                         enum af_exit *exit_out, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    const char *format = options->values[AF_OPTION_FORMAT];
    const char *output = options->values[AF_OPTION_OUTPUT];
    struct af_tables tables = {0};
    struct af_matrix matrix = {0};
    const struct af_matrix_question question = {.axes = options->words.items,
                                                .axis_count = options->words.count,
                                                .version = version,
                                                .slim = slim,
                                                .memory = options->values[AF_OPTION_MEMORY],
                                                .memory_bytes = memory_bytes,
                                                .slots = options->values[AF_OPTION_JOBS],
                                                .toolkit = options->values[AF_OPTION_TOOLKIT],
                                                .output = output != NULL ? output : "wheels"};
    format = format != NULL ? format : "json";
    enum anyflash_status status = check(cli, format, err);
    if (status == ANYFLASH_OK)
        status = af_tables_load(&tables, err);
    if (status == ANYFLASH_OK)
        status = af_matrix_make(&question, &tables, &cli->arena, &matrix, err);
    if (status == ANYFLASH_OK) {
        remark_left_out(cli, &matrix);
        if (matrix.job_count == 0)
            *exit_out = AF_EXIT_NO;
        status = print(cli, &matrix, &question, format, err);
    }
    af_tables_release(&tables);
    return status;
}
