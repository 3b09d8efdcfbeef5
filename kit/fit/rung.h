/*
 * rung.h: what the files of the ladder share; fit.c calls them in order.
 */
#ifndef AF_KIT_FIT_RUNG_H
#define AF_KIT_FIT_RUNG_H

#include "kit/fit/verdict.h"

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

/* The rungs. Each starts and finishes itself; allocation failures show in the arena. */
void af_rung_wheel(struct af_rung_context *context);
void af_rung_torch_kernels(struct af_rung_context *context);
void af_rung_torch_change(struct af_rung_context *context);
void af_rung_engine(struct af_rung_context *context);

/* The first GPU of the view that torch was not compiled for; NULL: none is known to be. */
const struct af_view_gpu *af_rung_gpu_without_torch(const struct af_view *view);

/* Names the nearest torch build with code for every GPU in the rung, if there is one. */
void af_rung_torch_for_gpu(struct af_rung_context *context);

/* "official", or who published the wheel: "mjun0812"; in the arena. */
const char *af_fit_publisher(struct af_arena *arena, const struct af_catalog_wheel *wheel);

/* "8.9" for 89, in the arena. */
const char *af_sm_text(struct af_arena *arena, int sm);

#endif
