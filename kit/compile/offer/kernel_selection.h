/*
 * kernel_selection.h: which part of flash-attn 2 a source build contains: the selection, the
 * source files that it keeps, and what each file costs to compile.
 *
 * flash-attn 2.8 has one CUDA file for each pass (forward, forward with split keys,
 * backward), head size, data type and causality; macros remove features from all of
 * them. Two things cannot be left out: the file without causality, because a call with
 * one query uses it; and the split pass, because forward chooses it when batch times
 * heads is small. So the minimum is four files for each head size and type, six with
 * backward.
 *
 * Sources: csrc/flash_attn/src/ of 2.8.3 (generate_kernels.py, static_switch.h,
 * the launch templates); costs measured with CUDA 13.0 and gcc 12.
 */
#ifndef AF_KIT_COMPILE_OFFER_KERNEL_SELECTION_H
#define AF_KIT_COMPILE_OFFER_KERNEL_SELECTION_H

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/formats/flash_kernel.h"

#define AF_SELECTION_HEAD_DIMS 6 /* 32, 64, 96, 128, 192, 256 */
#define AF_SELECTION_ARCHS_MAX 8
#define AF_SELECTION_FILES_MAX 96
#define AF_SELECTION_FEATURES                                                                  \
    (AF_FLASH_DROPOUT | AF_FLASH_LOCAL | AF_FLASH_ALIBI | AF_FLASH_SOFTCAP)

enum af_selection_dtype { AF_SELECTION_FP16 = 1, AF_SELECTION_BF16 = 2 };

/* A selection. */
struct af_selection {
    unsigned head_dims; /* bit i: the i-th of 32, 64, 96, 128, 192, 256 */
    unsigned dtypes;    /* of enum af_selection_dtype */
    unsigned features;  /* of enum af_flash_feature within AF_SELECTION_FEATURES */
    bool backward;
    int archs[AF_SELECTION_ARCHS_MAX]; /* ascending: af_selection_add_arch() */
    size_t arch_count;
    bool joins; /* two files may be compiled as one: af_selection_units() */
};

/* Selects everything: all head sizes, types and features, with backward. `archs` stay. */
void af_selection_all(struct af_selection *selection);

/* Adds the kernels for `head_dim` (rounded up); false below 1 or above 256. */
bool af_selection_add_head_dim(struct af_selection *selection, int64_t head_dim);

/*
 * Adds the target for the GPU `sm`: 80 for 8.0; 86 for 8.6 and 8.9 only; 87, Orin; 90;
 * 100 for 10.x; 110, Thor; 120 for 12.x. False if flash-attn 2 has none, as for 7.5.
 */
bool af_selection_add_arch(struct af_selection *selection, int sm);

/* Its head sizes, ascending, as numbers; returns how many. */
size_t af_selection_head_dims(const struct af_selection *selection,
                              int head_dims_out[AF_SELECTION_HEAD_DIMS]);

/* What is compiled for one of `archs`: 80 for 86, else itself. */
int af_selection_target(int arch);

/*
 * GPU properties by which flash-attn's launchers choose a tile shape: those that all
 * GPUs of `archs` share, else 0 and AF_UNKNOWN. A choice that they determine is made
 * at compile time: kernels that no such GPU would run are left out. Code for 86 also
 * runs on 8.0 and 8.7, with tiles that are smaller than necessary. Sources:
 * flash_fwd_launch_template.h, flash_bwd_launch_template.h; CUDA C++ Programming
 * Guide, "Technical Specifications per Compute Capability".
 */
struct af_selection_gpu {
    int smem_per_block;     /* maximum bytes of a block */
    int smem_per_sm;        /* bytes of a multiprocessor */
    enum af_answer is_sm8x; /* 8.x, but not 8.0 */
};
void af_selection_gpu(const struct af_selection *selection, struct af_selection_gpu *gpu_out);

/*
 * Read a comma-separated list: "64,128" or "all"; "bf16,fp16" (also bfloat16, float16);
 * "window,softcap,alibi,dropout", "none" or "all". The list replaces that part of
 * `selection`. Fail with ARGUMENT, naming the word and what is allowed.
 */
enum anyflash_status af_selection_read_head_dims(const char *list,
                                                 struct af_selection *selection,
                                                 struct anyflash_error *err);
enum anyflash_status af_selection_read_dtypes(const char *list, struct af_selection *selection,
                                              struct anyflash_error *err);
enum anyflash_status af_selection_read_features(const char *list,
                                                struct af_selection *selection,
                                                struct anyflash_error *err);

/*
 * Selects what the model of a Hugging Face config.json needs: head sizes (of its text,
 * vision and other parts), type, window, softcap and ALiBi; with `training` also
 * dropout and backward. `name` is the file in error messages. *remark_out is NULL or a
 * sentence about an assumption (static). Fails with DATA or LIMIT if it is not such a
 * configuration, UNSUPPORTED if flash-attn 2 does not support the model; the message
 * names the key.
 */
enum anyflash_status af_selection_read_model(struct af_span json, const char *name,
                                             bool training, struct af_selection *selection,
                                             const char **remark_out,
                                             struct anyflash_error *err);

/* One CUDA file of flash-attn 2. */
struct af_selection_file {
    enum af_flash_operation pass; /* FORWARD, FORWARD_SPLIT or BACKWARD */
    int head_dim;
    enum af_selection_dtype dtype;
    bool causal;
    bool joined; /* both files, causal and not, see af_selection_units(); `causal` is false */
};

/* "flash_bwd_hdim128_bf16_causal_sm80.cu"; arena text. */
const char *af_selection_file_name(const struct af_selection_file *file,
                                   struct af_arena *arena);

/*
 * What is compiled, the longest first: the files kept; with `joins`, the two files of
 * one pass, head size and type become one generated unit that includes both, if that
 * saves time. With few kernels, reading the templates is most of the work, and a unit
 * reads them once. With many kernels the unit would be the longest call of the build.
 * Which files are joined depends only on features, size and GPUs, so a build that
 * grows keeps its objects.
 */
size_t af_selection_units(const struct af_selection *selection,
                          struct af_selection_file *units_out);

/* Files are joined with at most this many cores; with more, long units cost time. */
#define AF_SELECTION_JOIN_CORES 4

/* Main kernels in the file, by features and GPUs. The compile time depends on it. */
int af_selection_kernels(const struct af_selection *selection,
                         const struct af_selection_file *file);

/* The cost of one compiler call, with its targets compiled one after the other. */
struct af_selection_cost {
    double cpu_seconds; /* user and system, on the kind of core of the measurements */
    uint64_t peak_bytes;
};
struct af_selection_cost af_selection_file_cost(const struct af_selection *selection,
                                                const struct af_selection_file *file);

/* The same for one file of our glue (engine/cuda), and how many there are, about. */
#define AF_SELECTION_GLUE_FILES 6
struct af_selection_cost af_selection_glue_cost(void);

/* All of it: the files and the glue. */
struct af_selection_total {
    size_t file_count; /* units */
    int kernel_count;  /* main kernels of all of them, for each target */
    double cpu_seconds;
    uint64_t peak_bytes;  /* of the largest single compiler */
    uint64_t wheel_bytes; /* approximately */
};
void af_selection_total(const struct af_selection *selection,
                        struct af_selection_total *total_out);

/*
 * Wall seconds of at most AF_SELECTION_CALLS_MAX compiler calls with `cores` cores and
 * `memory_bytes`, started longest first while they fit, with linking and packing. 0 if not
 * even one fits.
 */
#define AF_SELECTION_CALLS_MAX (AF_SELECTION_FILES_MAX + 32)
double af_selection_schedule(const struct af_selection_cost *costs, size_t count, int cores,
                             uint64_t memory_bytes);

/* The same for all calls of the selection. */
double af_selection_wall_seconds(const struct af_selection *selection, int cores,
                                 uint64_t memory_bytes);

/* "-DFLASHATTENTION_DISABLE_DROPOUT" and so on; at most 4, NULL-terminated. */
#define AF_SELECTION_MACROS_MAX 4
void af_selection_macros(const struct af_selection *selection,
                         const char *macros_out[AF_SELECTION_MACROS_MAX + 1]);

/* "head sizes 64 and 128, bf16, forward and backward, window, softcap, SM 9.0". */
const char *af_selection_text(const struct af_selection *selection, struct af_arena *arena);

/*
 * Its part of a wheel's local version: "sm90.hd128.bf16.bwd.window"; "full.sm90"
 * for everything. Lower case, digits and dots (PEP 440, local version identifiers).
 */
const char *af_selection_local(const struct af_selection *selection, struct af_arena *arena);

/* Its types and features as they are read above: "bf16,fp16"; "window,softcap", or "none". */
const char *af_selection_dtypes(const struct af_selection *selection);
const char *af_selection_features(const struct af_selection *selection, struct af_arena *arena);

/* The options of `anyflash build` for it: "--head-dim 128 --dtype bf16 ...". */
const char *af_selection_options(const struct af_selection *selection, struct af_arena *arena);

#endif
