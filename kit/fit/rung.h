/*
 * rung.h: what the files of the ladder share; fit.c calls them in order.
 */
#ifndef AF_KIT_FIT_RUNG_H
#define AF_KIT_FIT_RUNG_H

#include "kit/fit/verdict.h"
#include "kit/fit/view.h"

#define AF_RUNG_REASONS_MAX 24

/* A rung under evaluation: its reasons are collected here, each once. */
struct af_rung_context {
    const struct af_fit_context *fit;
    const struct af_view *view; /* whose reasons are being added; NULL: those of all machines */
    struct af_decision *decision;
    struct af_arena *arena; /* the decision's */
    struct af_rung *rung;
    struct af_reason *reasons;
    size_t reason_count;
};

/* Starts `kind`; the answer is UNKNOWN until af_rung_finish(). */
void af_rung_start(struct af_rung_context *context, enum af_rung_kind kind);

/* Adds a reason of `context->view` unless it is already there. `format` NULL: no detail. */
void af_rung_add_reason(struct af_rung_context *context, enum af_reason_id id,
                        const char *format, ...) AF_PRINTF(3, 4);

/* Adds a reason that was found elsewhere, unless it is already there. */
void af_rung_take_reason(struct af_rung_context *context, const struct af_reason *reason);

bool af_rung_has_reason(const struct af_rung_context *context, enum af_reason_id id);

/*
 * Whether the Python package of this project works on every machine of the
 * context: Linux on x86_64 or aarch64, and torch 2.4 or newer if torch is
 * installed. What is unknown does not speak against it.
 */
bool af_rung_python_package_fits(const struct af_rung_context *context);

/* Makes `wheel` the rung's, with what it requires beside a torch for this major of CUDA. */
void af_rung_set_wheel(struct af_rung_context *context, const struct af_catalog_wheel *wheel,
                       int cuda_major);

/* Publishes the reasons and the answer that follows from them. */
void af_rung_finish(struct af_rung_context *context);

/* The rungs. Each starts and finishes itself. */
void af_rung_wheel(struct af_rung_context *context);
void af_rung_torch_kernels(struct af_rung_context *context);
void af_rung_torch_change(struct af_rung_context *context);
void af_rung_engine(struct af_rung_context *context);

/* Removes the notes, so that only the reasons against a wheel are left; how many there are. */
size_t af_rung_drop_notes(struct af_reason *reasons, size_t count);

/* Of the decision: the wheels that people try first, if none fits (near_misses.c). */
void af_rung_find_near_misses(struct af_rung_context *context);

/*
 * Whether a wheel that fits may exist although the catalog has none: torch is newer than the
 * catalog, and a wheel that was made for exactly these machines would fit (newer_torch.c).
 */
bool af_rung_may_be_unlisted(const struct af_rung_context *context);

/* Names each torch that is newer than the catalog, and the release pages to look at. */
void af_rung_say_newer_torch(struct af_rung_context *context);

/*
 * Says in the rung what changes on the first machine if it gets this torch ("2.9.1", "cu128"):
 * torch itself, and the packages that move or break with it (package_changes.c).
 */
void af_rung_add_package_changes(struct af_rung_context *context, const char *version,
                                 const char *cuda);

/*
 * Names in the rung the nearest torch build for all machines. It has code for every GPU, or at
 * least for one GPU of each machine. If no build serves view `at`, adds a reason with its GPU.
 */
void af_rung_torch_for_gpu(struct af_rung_context *context, size_t at);

/* "official", or who published the wheel: "mjun0812"; in the arena. */
const char *af_fit_publisher(struct af_arena *arena, const struct af_catalog_wheel *wheel);

/*
 * Whether flash-attn can be made here, prerequisite by prerequisite, with evidence, and the
 * command that fixes what is missing. There are two ways:
 *
 * `anyflash build` compiles the kernels to PTX, with NVRTC, for every GPU, torch and Python.
 * Neither a CUDA toolkit nor a C++ compiler is needed. This is the rung of a decision.
 *
 * flash-attn's own source build (options->upstream_build) makes machine code for the GPUs and
 * the torch that are here. It needs nvcc and a C++ compiler that nvcc accepts.
 */

#define AF_RUNG_BUILD_FLASH_ATTN "2.8.3.post2" /* the version that is built */
#define AF_RUNG_BUILD_TORCH_MINOR 4 /* torch 2.4: the oldest that the wheel supports */

/*
 * What `anyflash build` needs, measured with NVRTC 13.0: memory of the largest compiler
 * (backward), bytes to download, and bytes on disk with a margin.
 */
#define AF_RUNG_BUILD_MEMORY_BYTES INT64_C(6442450944) /* 6 GiB */
#define AF_RUNG_BUILD_SDIST_BYTES INT64_C(8400000)
#define AF_RUNG_BUILD_NVRTC_BYTES INT64_C(95000000) /* if torch brings none */
#define AF_RUNG_BUILD_DISK_BYTES INT64_C(1073741824)

/* What flash-attn's own build needs, measured with CUDA 13.0 and gcc 12. */
#define AF_RUNG_UPSTREAM_JOB_BYTES INT64_C(7194070221) /* 6.7 GiB: head size 256, backward */
#define AF_RUNG_UPSTREAM_BASE_BYTES INT64_C(536870912)
#define AF_RUNG_UPSTREAM_DISK_BYTES INT64_C(3221225472)
#define AF_RUNG_UPSTREAM_CPU_SECONDS 8000.0 /* all files for one target */

/* Adds the rung of a build to the decision of the context. */
void af_rung_build(struct af_rung_context *context);

/*
 * The rung of a build alone, on one machine, with all its prerequisites: what
 * `anyflash build --check` shows. Needs no catalog. Texts in `arena`.
 */
enum anyflash_status af_rung_build_alone(const struct af_machine *machine,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct af_rung *rung_out,
                                         struct anyflash_error *err);

/* The package manager's command that installs a C++ compiler. Static text. */
const char *af_fix_compiler(const struct af_machine *machine);

/* Below: shared by rung_build.c, prerequisites.c and prerequisite_fixes.c only. */

#define AF_PREREQUISITES_MAX 16

struct af_toolkit_choice {
    enum af_answer answer;
    enum af_reason_id id;          /* if the answer is not YES */
    const struct af_toolkit *here; /* the system's toolkit; NULL: none */
    struct af_dotted version;      /* of it; count 0: unknown */
};

/* The build whose prerequisites are checked. */
struct af_rung_build_target {
    struct af_rung_context *context;
    const struct af_view *view;
    const struct af_catalog_flash_release *release; /* to build */
    int sms[AF_VIEW_GPUS_MAX];                      /* targets, 80, 90, ...; each once */
    size_t sm_count;
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

/* The command that provides what `id` says is missing here; else its hint, or NULL. */
const char *af_rung_build_fix(const struct af_rung_build_target *build, enum af_reason_id id);

/* Checks the toolkit and the host compiler of flash-attn's own build. */
void af_rung_build_check_tools(struct af_rung_build_target *build);

/* The newest gcc that the toolkit's nvcc accepts: host_config.h, else the table; -1 unknown. */
int64_t af_rung_build_gcc_limit(const struct af_rung_build_target *build);

/* Checks memory and disk; sets jobs and price of the rung. */
void af_rung_build_check_resources(struct af_rung_build_target *build);

#endif
