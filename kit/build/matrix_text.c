/*
 * matrix_text.c: the jobs of a matrix as JSON, as a workflow of GitHub Actions, and as
 * an array script of Slurm.
 */
#include "kit/build/matrix.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/plan/saved.h"

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

json_t *af_matrix_json(const struct af_matrix *matrix,
                       const struct af_matrix_question *question, struct af_arena *arena)
{
    bool good = true;
    json_t *jobs = json_array();
    json_t *left_out = json_array();
    for (size_t i = 0; i < matrix->job_count; i++)
        good &= json_array_append_new(jobs, job_json(&matrix->jobs[i], arena)) == 0;
    for (size_t i = 0; i < matrix->left_out_count; i++)
        good &= json_array_append_new(left_out, left_out_json(&matrix->left_out[i])) == 0;
    json_t *json = json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", "anyflash-matrix/1",
                             "version", question->version, "output", question->output, "jobs",
                             jobs, "left_out", left_out);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

/* A double-quoted scalar of YAML 1.2, with control characters escaped. */
static void add_scalar(struct af_text *text, const char *value)
{
    af_text_add(text, "\"");
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            af_text_format(text, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f)
            af_text_format(text, "\\x%02x", (unsigned)(unsigned char)*c);
        else
            af_text_add_n(text, c, 1);
    }
    af_text_add(text, "\"");
}

static void add_pair(struct af_text *text, const char *before, const char *key,
                     const char *value)
{
    af_text_format(text, "%s%s: ", before, key);
    add_scalar(text, value);
    af_text_add(text, "\n");
}

/* The package index has CUDA compilers from CUDA 13 on. */
static void add_needs(struct af_text *text, const struct af_matrix *matrix, const char *who)
{
    bool is_old = false;
    for (size_t i = 0; i < matrix->job_count; i++)
        is_old |= strcmp(matrix->jobs[i].cuda, "cu130") < 0;
    af_text_format(text, "# %s need uv, anyflash and a C++ compiler%s.\n", who,
                   is_old ? "; jobs for CUDA 12 or older\n# also need that CUDA toolkit, with "
                            "nvcc"
                          : "");
}

static void add_entry(struct af_text *text, const struct af_matrix_job *job)
{
    char sm[16];
    snprintf(sm, sizeof sm, "%d", job->sm);
    add_pair(text, "          - ", "name", job->name);
    add_pair(text, "            ", "torch", job->torch);
    add_pair(text, "            ", "cuda", job->cuda);
    add_pair(text, "            ", "python", job->python);
    add_pair(text, "            ", "arch", sm);
    add_pair(text, "            ", "environment", job->commands[0]);
    add_pair(text, "            ", "install", job->commands[1]);
    add_pair(text, "            ", "build", job->commands[2]);
}

enum anyflash_status af_matrix_github(const struct af_matrix *matrix,
                                      const struct af_matrix_question *question,
                                      struct af_text *text, struct anyflash_error *err)
{
    if (matrix->job_count > AF_MATRIX_GITHUB_JOBS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "%zu jobs: GitHub Actions allows %u in a matrix",
                       matrix->job_count, AF_MATRIX_GITHUB_JOBS_MAX);
    if (strstr(question->output, "${{") != NULL ||
        strpbrk(question->output, "\r\n*?[]!") != NULL ||
        !af_text_is_utf8(question->output, strlen(question->output)))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "GitHub Actions would interpret this --output folder as a pattern");
    af_text_add(text, "# One job per wheel.\n");
    add_needs(text, matrix, "Runners");
    af_text_add(text, "name: wheels\n"
                      "on: workflow_dispatch\n"
                      "jobs:\n"
                      "  wheel:\n"
                      "    name: ${{ matrix.name }}\n"
                      "    runs-on: ubuntu-latest\n"
                      "    strategy:\n"
                      "      fail-fast: false\n"
                      "      matrix:\n"
                      "        include:\n");
    for (size_t i = 0; i < matrix->job_count; i++)
        add_entry(text, &matrix->jobs[i]);
    af_text_add(text, "    steps:\n"
                      "      - run: ${{ matrix.environment }}\n"
                      "      - run: ${{ matrix.install }}\n"
                      "      - run: ${{ matrix.build }}\n"
                      "      - uses: actions/upload-artifact@v4\n"
                      "        with:\n"
                      "          name: ${{ matrix.name }}\n"
                      "          if-no-files-found: error\n");
    struct af_text path = {0};
    af_text_format(&path, "%s/*.whl", question->output);
    add_pair(text, "          ", "path", af_text_get(&path));
    text->failed |= path.failed;
    af_text_release(&path);
    return ANYFLASH_OK;
}

void af_matrix_slurm(const struct af_matrix *matrix, const struct af_matrix_question *question,
                     struct af_text *text)
{
    af_text_add(text, "#!/bin/sh\n"
                      "# One task per wheel: sbatch THIS-FILE\n");
    add_needs(text, matrix, "Nodes");
    af_text_add(text, "#SBATCH --job-name=anyflash-build\n");
    af_text_format(text, "#SBATCH --array=0-%zu\n", matrix->job_count - 1);
    if (question->slots != NULL)
        af_text_format(text, "#SBATCH --cpus-per-task=%s\n", question->slots);
    if (question->memory_bytes > 0)
        af_text_format(text, "#SBATCH --mem=%lluM\n",
                       (unsigned long long)(question->memory_bytes >> 20));
    af_text_add(text, "set -eu\ncase ${SLURM_ARRAY_TASK_ID:?is not set: submit this file "
                      "with sbatch} in\n");
    for (size_t i = 0; i < matrix->job_count; i++) {
        af_text_format(text, "%zu) # %s\n", i, matrix->jobs[i].name);
        for (size_t step = 0; step < AF_MATRIX_STEPS; step++)
            af_text_format(text, "    %s\n", matrix->jobs[i].commands[step]);
        af_text_add(text, "    ;;\n");
    }
    af_text_add(text, "*)\n"
                      "    echo \"there is no job $SLURM_ARRAY_TASK_ID\" >&2\n"
                      "    exit 2\n"
                      "    ;;\n"
                      "esac\n");
}
