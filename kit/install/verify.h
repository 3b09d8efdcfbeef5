/*
 * verify.h: imports and calls an installed FlashAttention.
 *
 * Each attempt is a child process with a time limit: a crash, a hang or endless
 * output of the package becomes a row of the answer. On each GPU that torch sees,
 * one causal problem with grouped heads is computed forward and backward in bf16 and
 * compared with the engine in f32 on the same inputs. Without a GPU a call with CPU
 * tensors shows at least that the Python files match the extension; the rest is
 * reported as unknown.
 */
#ifndef AF_KIT_INSTALL_VERIFY_H
#define AF_KIT_INSTALL_VERIFY_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_VERIFY_LIMIT_MS 180000
#define AF_VERIFY_DEVICES_MAX 16u
/* import, version, call; then forward and backward of each device */
#define AF_VERIFY_ROWS_MAX (4u + 2u * AF_VERIFY_DEVICES_MAX)

/*
 * Largest difference allowed, relative to the largest expected value: bf16 rounds
 * the output, the probabilities and the gradients to 8 bits.
 */
#define AF_VERIFY_BOUND_FORWARD (1.0 / 64)
#define AF_VERIFY_BOUND_BACKWARD (1.0 / 32)

struct af_verify_row {
    const char *name; /* "import", "version", "call", "forward on cuda:0", ... */
    enum af_answer answer;
    const char *evidence; /* one sentence */
};

/* Zero-initialised it is empty. Texts in the arena of the call. */
struct af_verify_report {
    struct af_verify_row rows[AF_VERIFY_ROWS_MAX];
    size_t row_count;
};

struct af_verify_options {
    const char *python;  /* the interpreter to start */
    const char *module;  /* "flash_attn", "flash_attn_interface" */
    const char *version; /* what METADATA says; NULL: not compared */
    const char *device;  /* compute on this device of torch; NULL: on every GPU */
    int limit_ms;        /* for each child; 0: AF_VERIFY_LIMIT_MS */
};

/* Appends a row; false when the arena failed or no row is left. */
bool af_verify_row_add(struct af_verify_report *report, const char *name, enum af_answer answer,
                       const char *evidence);

/* NO when a row is NO; else UNKNOWN when one is; else YES. */
enum af_answer af_verify_answer(const struct af_verify_report *report);

/*
 * Imports and calls; appends rows to *report. Fails only with NO_MEMORY: errors of
 * the package are rows.
 */
enum anyflash_status af_verify_calls(const struct af_verify_options *options,
                                     struct af_arena *arena, struct af_verify_report *report,
                                     struct anyflash_error *err);

/*
 * Loads compiled parts of a package in one child: words "package:NAME",
 * "module:NAME" (imported), "library:FILE" (as torch loads libraries). One row
 * for each that fails, or one for all. Fails only with NO_MEMORY.
 */
enum anyflash_status af_verify_extensions(const char *python, const char *const *words,
                                          size_t count, struct af_arena *arena,
                                          struct af_verify_report *report,
                                          struct anyflash_error *err);

#endif
