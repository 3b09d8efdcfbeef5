/*
 * rung_build.h: whether flash-attn can be built from source on a machine: the
 * prerequisites one by one, with evidence, and the command that fixes what is
 * missing.
 *
 * torch is not needed: the wheel works with every torch from AF_RUNG_BUILD_TORCH_MINOR on.
 * The CUDA toolkit comes from the system if the driver runs what it makes, else from the
 * Python package index; a system without a toolkit is normal. The package index has complete
 * compilers from CUDA 13 on, for glibc on x86_64 and aarch64; its packages for CUDA 12
 * contain no nvcc.
 */
#ifndef AF_KIT_FIT_RUNG_BUILD_H
#define AF_KIT_FIT_RUNG_BUILD_H

#include "kit/fit/rung.h"
#include "kit/fit/view.h"

#define AF_TOOLKIT_INDEX_CUDA 13
#define AF_TOOLKIT_INDEX_VERSION "13.0.2" /* has all targets; needs the oldest driver of 13 */
#define AF_RUNG_BUILD_FLASH_ATTN "2.8.3.post2" /* the version that is built */
#define AF_RUNG_BUILD_TORCH_MINOR 4 /* torch 2.4: the oldest that the wheel supports */

/*
 * Needs of a build, measured with 2.8.3.post2, CUDA 13.0 and gcc 12: memory of the
 * largest compiler process of all (backward, head size 256), of the largest of head
 * size 128, and of the build itself; bytes to download; bytes on disk.
 */
#define AF_RUNG_BUILD_JOB_BYTES INT64_C(7194070221)  /* 6.7 GiB */
#define AF_RUNG_BUILD_SLIM_BYTES INT64_C(6657199308) /* 6.2 GiB */
#define AF_RUNG_BUILD_BASE_BYTES INT64_C(536870912)  /* 0.5 GiB */
#define AF_RUNG_BUILD_SDIST_BYTES INT64_C(8400000)
#define AF_RUNG_BUILD_TOOLKIT_BYTES INT64_C(103000000) /* of the package index */
#define AF_RUNG_BUILD_DISK_BYTES INT64_C(1610612736)   /* a slim build and a margin: 1.5 GiB */

/* Adds the rung of a source build to the decision of the context. */
void af_rung_build(struct af_rung_context *context);

/*
 * The rung of a source build alone, on one machine, with all its prerequisites: what
 * `anyflash build --check` shows. Needs no catalog. Texts in `arena`.
 */
enum anyflash_status af_rung_build_alone(const struct af_machine *machine,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct af_rung *rung_out,
                                         struct anyflash_error *err);

/* The package manager's command that installs a C++ compiler. Static text. */
const char *af_fix_compiler(const struct af_machine *machine);

/* Below: shared by rung_build.c and prerequisites.c only. */

#define AF_PREREQUISITES_MAX 16

struct af_toolkit_choice {
    enum af_answer answer;
    enum af_reason_id id;          /* if the answer is not YES */
    const struct af_toolkit *here; /* the system's toolkit; NULL: none */
    bool from_index;               /* if YES: from the package index, not `here` */
    struct af_dotted version;      /* of the chosen toolkit; count 0: unknown */
};

/* The build whose prerequisites are checked. */
struct af_rung_build_target {
    struct af_rung_context *context;
    const struct af_view *view;
    const struct af_catalog_flash_release *release; /* to build */
    int sms[AF_VIEW_GPUS_MAX];                      /* targets, 80, 90, ...; each once */
    size_t sm_count;
    int gpus[AF_VIEW_GPUS_MAX]; /* that they serve, 86, 89, 90, ...; each once */
    size_t gpu_count;
    struct af_toolkit_choice toolkit;
    struct af_prerequisite *rows;
    size_t row_count;
};

/*
 * Adds a row. If the answer is not YES, `id` becomes a reason of the rung and the
 * row gets its fix. `evidence` is copied; NULL: none.
 */
void af_rung_build_row(struct af_rung_build_target *build, const char *name,
                       enum af_answer answer, enum af_reason_id id, const char *evidence);

/* Checks the toolkit and the host compiler. */
void af_rung_build_check_tools(struct af_rung_build_target *build);

/* The newest gcc that the toolkit's nvcc accepts: host_config.h, else the table; -1 unknown. */
int64_t af_rung_build_gcc_limit(const struct af_rung_build_target *build);

/* Checks memory and disk; sets jobs and price of the rung. */
void af_rung_build_check_resources(struct af_rung_build_target *build);

#endif
