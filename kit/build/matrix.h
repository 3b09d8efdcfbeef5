/*
 * matrix.h: many source builds: each combination of torch, Python, CUDA and GPU
 * architecture as a job that makes one wheel, or the reason why it is impossible.
 *
 * Nothing is built here. A job is independent: uv makes an environment with its torch
 * and Python, and one `anyflash build` runs in it. Jobs share only the folder of the
 * wheels, so they may run at the same time, on one machine or on many. The wheels are
 * for Linux on x86_64.
 */
#ifndef AF_KIT_BUILD_MATRIX_H
#define AF_KIT_BUILD_MATRIX_H

#include "kit/base/json.h"
#include "kit/build/offer/slim.h"
#include "kit/catalog/tables.h"
#include "kit/plan/plan.h"

#define AF_MATRIX_VALUES_MAX 32u       /* of one axis */
#define AF_MATRIX_JOBS_MAX 1000u       /* Slurm's default MaxArraySize is 1001 */
#define AF_MATRIX_GITHUB_JOBS_MAX 256u /* GitHub Actions, usage limits */
#define AF_MATRIX_STEPS 3

/* What to build. Texts must live as long as the matrix. */
struct af_matrix_question {
    const char *const *axes; /* "torch=2.9,2.10", "python=3.12", "arch=80,90", "cuda=12.8" */
    size_t axis_count;
    const char *version;        /* of flash-attn, such as "2.8.3.post2" */
    const struct af_slim *slim; /* what each wheel contains; its targets are ignored */
    const char *memory;         /* value of --memory; NULL: not given */
    uint64_t memory_bytes;      /* the same */
    const char *slots;          /* value of --jobs; NULL: not given */
    const char *toolkit;        /* value of --toolkit; NULL: not given */
    const char *output;         /* folder for the wheels */
};

/* One combination. */
struct af_matrix_job {
    const char *name;        /* "torch2.9.1-cu128-cp312-sm90": letters, digits, '.' and '-' */
    const char *torch;       /* "2.9.1"; as typed if it is unknown */
    const char *python;      /* "3.12", "3.13t" */
    const char *cuda;        /* of that torch, "cu128"; NULL: unknown */
    int sm;                  /* target of flash-attn: 80, 90, 100, 120 */
    const char *reason;      /* why it is left out; NULL: it is a job, and the rest is set */
    const char *environment; /* folder of its virtual environment */
    struct af_step steps[AF_MATRIX_STEPS]; /* environment, torch, build */
    const char *commands[AF_MATRIX_STEPS]; /* the same for a POSIX shell */
};

struct af_matrix {
    const struct af_matrix_job *jobs; /* torch varies slowest, arch fastest */
    size_t job_count;
    const struct af_matrix_job *left_out;
    size_t left_out_count;
};

/*
 * All combinations, each once, in `arena`. torch "2.9" means its newest patch release;
 * an architecture means the target of flash-attn that serves it (8.9: 86). Without
 * cuda= each torch is the one of the package index. Combinations for which `tables`
 * have no torch, Python or CUDA compiler are left out. Fails with ARGUMENT, naming the
 * word (an axis that is unknown, missing, empty or repeated, an invalid value), with
 * LIMIT beyond the limits above, or NO_MEMORY.
 */
enum anyflash_status af_matrix_make(const struct af_matrix_question *question,
                                    const struct af_tables *tables, struct af_arena *arena,
                                    struct af_matrix *matrix_out, struct anyflash_error *err);

/* The matrix as `anyflash-matrix/1`, a new object; NULL without memory. */
json_t *af_matrix_json(const struct af_matrix *matrix,
                       const struct af_matrix_question *question, struct af_arena *arena);

/*
 * A workflow of GitHub Actions (YAML) with one matrix entry per job; each uploads its
 * wheel as an artifact. Runners need uv and anyflash on PATH, a C++ compiler and, for
 * torch with CUDA 12, that toolkit. Fails with LIMIT beyond AF_MATRIX_GITHUB_JOBS_MAX,
 * or ARGUMENT if GitHub would interpret the output folder; lack of memory is
 * text->failed.
 */
enum anyflash_status af_matrix_github(const struct af_matrix *matrix,
                                      const struct af_matrix_question *question,
                                      struct af_text *text, struct anyflash_error *err);

/*
 * A script for sbatch: an array with one task per job; --memory and --jobs become --mem
 * and --cpus-per-task. The matrix must have a job. Lack of memory is text->failed.
 */
void af_matrix_slurm(const struct af_matrix *matrix, const struct af_matrix_question *question,
                     struct af_text *text);

#endif
