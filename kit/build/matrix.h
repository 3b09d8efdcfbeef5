/*
 * matrix.h: many source builds: every combination of torch, Python, CUDA and
 * architecture as a job that makes one wheel, or the reason why it cannot be.
 *
 * Nothing is done and nothing is read here. A job stands for itself: it makes
 * its own environment with that torch and that Python by uv, then runs one
 * `anyflash build` there; jobs share nothing but the folder of the wheels, so
 * they may run at the same time, on one machine or on many. The wheels are for
 * Linux on x86_64.
 */
#ifndef AF_KIT_BUILD_MATRIX_H
#define AF_KIT_BUILD_MATRIX_H

#include "kit/build/offer/slim.h"
#include "kit/catalog/tables.h"
#include "kit/plan/plan.h"

#define AF_MATRIX_VALUES_MAX 32u /* of one axis */
#define AF_MATRIX_JOBS_MAX 1000u /* Slurm's MaxArraySize is 1001 where nobody changed it */
#define AF_MATRIX_GITHUB_JOBS_MAX 256u /* GitHub Actions, usage limits: jobs of a matrix */
#define AF_MATRIX_STEPS 3

/* What is asked. Texts are borrowed for as long as the matrix lives. */
struct af_matrix_question {
    const char *const *axes; /* "torch=2.9,2.10", "python=3.12", "arch=80,90", "cuda=12.8" */
    size_t axis_count;
    const char *version;        /* of flash-attn, as "2.8.3.post2" */
    const struct af_slim *slim; /* what each wheel holds; its targets are not read */
    const char *memory;         /* as --memory was typed; NULL: not said */
    uint64_t memory_bytes;      /* the same */
    const char *slots;          /* as --jobs: a number; NULL: not said */
    const char *toolkit;        /* as --toolkit; NULL: not said */
    const char *output;         /* folder for the wheels */
};

/* One combination. */
struct af_matrix_job {
    const char *name;        /* "torch2.9.1-cu128-cp312-sm90": letters, digits, '.' and '-' */
    const char *torch;       /* "2.9.1"; as asked where it is not known */
    const char *python;      /* "3.12", "3.13t" */
    const char *cuda;        /* of that torch, "cu128"; NULL: not known */
    int sm;                  /* target of flash-attn: 80, 90, 100, 120 */
    const char *reason;      /* why it is left out; NULL: it is a job, and all below is there */
    const char *environment; /* folder of its virtual environment */
    struct af_step steps[AF_MATRIX_STEPS]; /* environment, torch, build */
    const char *commands[AF_MATRIX_STEPS]; /* the same for a POSIX shell */
};

struct af_matrix {
    const struct af_matrix_job *jobs; /* torch slowest, arch fastest, as asked */
    size_t job_count;
    const struct af_matrix_job *left_out;
    size_t left_out_count;
};

/*
 * All combinations, each once, in `arena`. A torch of two numbers is its newest
 * patch release; a GPU's architecture is the target of flash-attn that serves
 * it (8.9: 80). Without cuda= it is the CUDA of the torch that the Python
 * package index brings. Left out is what no torch, no Python or no CUDA
 * compiler is there for, by `tables`. Fails with ARGUMENT, naming the word: an
 * axis that is unknown, missing, empty or given twice, a value that is none;
 * LIMIT beyond the caps; NO_MEMORY.
 */
enum anyflash_status af_matrix_make(const struct af_matrix_question *question,
                                    const struct af_tables *tables, struct af_arena *arena,
                                    struct af_matrix *matrix_out, struct anyflash_error *err);

/*
 * A workflow of GitHub Actions (YAML) with one matrix entry a job; each keeps its
 * wheel as an artifact. Runners need uv and anyflash on PATH, a C++ compiler,
 * and for torch with CUDA 12 that toolkit. Fails with LIMIT
 * beyond AF_MATRIX_GITHUB_JOBS_MAX, ARGUMENT when the output folder would be
 * read as an expression there; else memory is `text`'s affair (text->failed).
 */
enum anyflash_status af_matrix_github(const struct af_matrix *matrix,
                                      const struct af_matrix_question *question,
                                      struct af_text *text, struct anyflash_error *err);

/*
 * A script for sbatch: an array with one task a job; --memory and --jobs become
 * what is asked of Slurm (--mem, --cpus-per-task). Memory as above. Needs jobs.
 */
void af_matrix_slurm(const struct af_matrix *matrix, const struct af_matrix_question *question,
                     struct af_text *text);

#endif
