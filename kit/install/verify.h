/*
 * verify.h: imports and calls an installed FlashAttention.
 *
 * Each attempt is a child process with a time limit: a crash, a hang or endless output of the
 * package becomes a row of the report. On each GPU that torch sees, one causal problem with
 * grouped heads is computed forward and backward in bf16 and compared with what torch's own
 * operations give in f32 on the processor. Without a GPU, a call with CPU tensors only shows
 * that the Python files match the extension; everything else is reported as unknown.
 */
#ifndef AF_KIT_INSTALL_VERIFY_H
#define AF_KIT_INSTALL_VERIFY_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_VERIFY_LIMIT_MS 180000
#define AF_VERIFY_DEVICES_MAX 16u
/* import, version, call; then forward and backward of each device */
#define AF_VERIFY_ROWS_MAX (4u + 2u * AF_VERIFY_DEVICES_MAX)

/*
 * Largest allowed difference, relative to the largest expected value: in bf16 the output, the
 * probabilities and the gradients are rounded to 8 bits.
 */
#define AF_VERIFY_BOUND_FORWARD (1.0 / 64)
#define AF_VERIFY_BOUND_BACKWARD (1.0 / 32)

struct af_verify_row {
    const char *name; /* "import", "version", "call", "forward on cuda:0", ... */
    enum af_answer answer;
    const char *evidence; /* one sentence */
};

/* Rows of a verification; empty when zero-initialised. Texts are in the call's arena. */
struct af_verify_report {
    struct af_verify_row rows[AF_VERIFY_ROWS_MAX];
    size_t row_count;
};

struct af_verify_options {
    const char *python;  /* the interpreter to start */
    const char *module;  /* "flash_attn", "flash_attn_interface" */
    const char *version; /* version from METADATA; NULL: not compared */
    const char *device;  /* torch device to compute on; NULL: every GPU */
};

/* Appends a row; beyond the last it is dropped. */
void af_verify_row_add(struct af_verify_report *report, const char *name, enum af_answer answer,
                       const char *evidence);

/* NO when a row is NO; else UNKNOWN when one is; else YES. */
enum af_answer af_verify_answer(const struct af_verify_report *report);

/* Imports and calls the package; appends rows to *report. Errors of the package are rows. */
void af_verify_calls(const struct af_verify_options *options, struct af_arena *arena,
                     struct af_verify_report *report);

/*
 * Loads compiled parts of a package in one child process. The words are "package:NAME",
 * "module:NAME" (imported) and "library:FILE" (loaded as torch loads libraries). Appends one
 * row for each part that fails, or one row for all. (load_extensions.c)
 */
void af_verify_extensions(const char *python, const char *const *words, size_t count,
                          struct af_arena *arena, struct af_verify_report *report);

/* Shared by the two files that run scripts: */
#define AF_VERIFY_MARK "anyflash-verify " /* before each line that a script prints for us */
#define AF_VERIFY_TEXT_BYTES 300          /* of what a package says */
/* Python finds modules in the current folder, whose files may be anybody's. */
#define AF_VERIFY_FOLDER "/"

#endif
