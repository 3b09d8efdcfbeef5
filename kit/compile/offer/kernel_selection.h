/*
 * kernel_selection.h: which part of flash-attn 2 a build contains.
 *
 * The forward pass with split keys cannot be left out, because forward chooses it when batch
 * times heads is small; nor can kernels without causality, because a call with one query uses
 * them.
 */
#ifndef AF_KIT_COMPILE_OFFER_KERNEL_SELECTION_H
#define AF_KIT_COMPILE_OFFER_KERNEL_SELECTION_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/formats/flash_kernel.h"

#define AF_SELECTION_HEAD_DIMS 6 /* 32, 64, 96, 128, 192, 256 */
#define AF_SELECTION_FEATURES                                                                  \
    (AF_FLASH_DROPOUT | AF_FLASH_LOCAL | AF_FLASH_ALIBI | AF_FLASH_SOFTCAP)

enum af_selection_dtype { AF_SELECTION_FP16 = 1, AF_SELECTION_BF16 = 2 };

/* A selection. */
struct af_selection {
    unsigned head_dims; /* bit i: the i-th of 32, 64, 96, 128, 192, 256 */
    unsigned dtypes;    /* of enum af_selection_dtype */
    unsigned features;  /* of enum af_flash_feature within AF_SELECTION_FEATURES */
    bool backward;
};

/* Selects everything: all head sizes, types and features, with backward. */
void af_selection_all(struct af_selection *selection);

/* Adds the kernels for `head_dim` (rounded up); false below 1 or above 256. */
bool af_selection_add_head_dim(struct af_selection *selection, int64_t head_dim);

/* Its head sizes, ascending, as numbers; returns how many. */
size_t af_selection_head_dims(const struct af_selection *selection,
                              int head_dims_out[AF_SELECTION_HEAD_DIMS]);

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

/* "head sizes 64 and 128, bf16, forward and backward, window, softcap". */
const char *af_selection_text(const struct af_selection *selection, struct af_arena *arena);

/* Its types and features as they are read above: "bf16,fp16"; "window,softcap", or "none". */
const char *af_selection_dtypes(const struct af_selection *selection);
const char *af_selection_features(const struct af_selection *selection, struct af_arena *arena);

/* Its head sizes in the same form: "64,128". */
const char *af_selection_sizes(const struct af_selection *selection, struct af_arena *arena);

#endif
