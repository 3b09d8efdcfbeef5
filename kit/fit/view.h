/*
 * view.h: the facts of one machine as the rules need them: parsed once, each
 * known, known to be absent, or unknown.
 *
 * A missing fact is inferred from PyTorch's release tables only where that is
 * certain: the release "2.8.0+cu128" implies its CUDA and its C++ ABI. A symbol
 * that was read overrides that. Nothing is inferred for pre-releases and builds
 * that PyTorch did not publish. `abi_source` says where the ABI comes from.
 */
#ifndef AF_KIT_FIT_VIEW_H
#define AF_KIT_FIT_VIEW_H

#include "kit/catalog/tables.h"
#include "kit/fit/reason.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"
#include "kit/machine/machine.h"

#define AF_VIEW_GPUS_MAX 64
#define AF_SM_FLASH_MIN 80 /* the first GPU that FlashAttention 2 supports */

/* "12.8" or "580.95.05" as numbers; `count` is how many there were. */
struct af_dotted {
    int part[4];
    int count;
};

/* False when `text` is NULL or does not start with a number. */
bool af_dotted_parse(const char *text, struct af_dotted *dotted_out);

/* <0, 0, >0; missing parts count as 0. */
int af_dotted_compare(const struct af_dotted *a, const struct af_dotted *b);

/* "8.9" as 89, "12.1" as 121, "9.0a" as 90; -1 if it is not an SM. */
int af_sm_parse(const char *text);

enum af_fit_torch_build {
    AF_FIT_TORCH_RELEASE,
    AF_FIT_TORCH_PRERELEASE,
    AF_FIT_TORCH_VENDOR,
    AF_FIT_TORCH_OTHER /* from a distribution, or built by the user */
};

struct af_view_torch {
    enum af_fact_state state;
    const char *text; /* "2.8.0+cu128" */
    int major;        /* -1: unknown, also in the next two */
    int minor;
    int patch;
    enum af_fit_torch_build build;
    enum af_answer own_sonames; /* NO: libraries have a distribution's names */
    enum af_fact_state cuda;    /* ABSENT: no CUDA in this build */
    bool rocm;
    int cuda_major; /* -1: unknown */
    int cuda_minor;
    enum af_answer abi;
    const char *abi_source;
    const struct af_catalog_torch_release *release; /* NULL: not in the tables */
    const struct af_catalog_torch_variant *variant; /* NULL: unknown which one */
};

struct af_view_gpu {
    int sm; /* -1: unknown */
    const char *name;
    const char *text;        /* "NVIDIA L4 (sm 8.9)"; the name alone if its SM is unknown */
    enum af_answer in_torch; /* whether the view's torch was compiled for it */
};

struct af_view {
    const struct af_machine *machine;
    const char *os;       /* NULL: unknown; "linux", "windows", "macos" */
    const char *arch;     /* NULL: unknown; "x86_64", "aarch64" */
    const char *platform; /* as in the torch tables, "linux_x86_64"; NULL: unknown or none */
    bool musl;
    struct af_dotted glibc; /* count 0: unknown */
    bool python_known;
    bool cpython;
    struct af_interpreter interpreter;
    const char *python_text; /* "3.12", "3.13t" */
    struct af_view_torch torch;
    enum af_fact_state gpu;     /* NVIDIA GPUs that a program would see */
    enum af_reason_id gpu_lack; /* if ABSENT: no GPU was found, or one of another vendor */
    const char *gpu_source; /* what showed that there are none, or why they are unknown; if the
                               GPU is of another vendor, its name; "": nothing is known */
    struct af_view_gpu gpus[AF_VIEW_GPUS_MAX];
    size_t gpu_count;
    bool amd;                   /* there is an AMD GPU and no NVIDIA one */
    const struct af_gpu *other; /* a GPU of Intel or Apple, and neither of those; or NULL */
    struct af_dotted driver;    /* count 0: unknown */
    const char *driver_text;
    struct af_dotted driver_cuda; /* highest CUDA that it supports; count 0: unknown */
};

/*
 * Reads the machine. `arch` ("9.0") replaces the machine's GPUs; NULL: uses
 * those. The view borrows from machine and `arena`; the caller checks
 * the arena for failure.
 */
void af_view_make(const struct af_machine *machine, const char *arch, struct af_arena *arena,
                  struct af_view *view);

/*
 * Whether GPUs are used through ROCm here: the GPU is AMD's, or torch is a ROCm build and no
 * GPU of another vendor is known. A ROCm torch beside an NVIDIA GPU is one without CUDA.
 */
bool af_view_uses_rocm(const struct af_view *view);

/* Whether FlashAttention 2 and newer support none of the GPUs, which are all known. */
bool af_view_gpus_are_too_old(const struct af_view *view);

/*
 * The first GPU that FlashAttention supports, if torch was compiled for none of these; else
 * NULL. If FlashAttention supports no GPU here, all GPUs are looked at.
 */
const struct af_view_gpu *af_view_torch_lacks_all(const struct af_view *view);

/* Whether torch was not compiled for the GPU, but for another one that can be used instead. */
bool af_view_torch_leaves_out(const struct af_view *view, const struct af_view_gpu *gpu);

/*
 * "T4 (sm 7.5), V100 (sm 7.0)": the marked GPUs, each text once. A GPU that torch leaves out
 * says so: "GTX 1080 (sm 6.1; not in torch 2.9.1+cu128)". The text is in the arena.
 */
const char *af_view_gpus_text(const struct af_view *view, const bool marked[AF_VIEW_GPUS_MAX],
                              struct af_arena *arena);

/* What to say where the platform is not known well enough: which part of it is missing. */
enum af_reason_id af_view_unknown_platform(const struct af_view *view);

/* Replaces the view's torch by the build `variant` of `release`. */
void af_view_change_torch(struct af_view *view, const struct af_catalog_torch_release *release,
                          const struct af_catalog_torch_variant *variant,
                          struct af_arena *arena);

#endif
