/*
 * rung_build.h: the prerequisites of a source build; private to rung_build.c,
 * prerequisites.c and build_fix.c.
 */
#ifndef AF_KIT_BUILD_OFFER_RUNG_BUILD_H
#define AF_KIT_BUILD_OFFER_RUNG_BUILD_H

#include "kit/build/offer/toolkit.h"
#include "kit/fit/rung.h"

#define AF_PREREQUISITES_MAX 16

/* A build being judged: on which machine, for which targets. */
struct af_offer_build_target {
    struct af_rung_context *context;
    const struct af_view *view;
    const struct af_catalog_flash_release *release; /* the newest */
    int sms[AF_VIEW_GPUS_MAX];                      /* targets, 80, 90, ...; each once */
    size_t sm_count;
    int gpus[AF_VIEW_GPUS_MAX]; /* what they serve, 86, 89, 90, ...; each once */
    size_t gpu_count;
    struct af_toolkit_choice toolkit;
    struct af_prerequisite *rows;
    size_t row_count;
};

/*
 * Adds a row. When the answer is not YES, `id` becomes a reason of the rung, and
 * the row's fix is that of af_offer_build_fix(). `evidence` is copied; NULL is none.
 */
void af_offer_build_row(struct af_offer_build_target *build, const char *name,
                        enum af_answer answer, enum af_reason_id id, const char *evidence);

/* The command that settles `id` on this machine; else its hint, NULL without one. */
const char *af_offer_build_fix(const struct af_offer_build_target *build, enum af_reason_id id);

/* The toolkit, the compiler, torch's headers and the tools. */
void af_offer_rung_build_check_tools(struct af_offer_build_target *build);

/* The newest gcc that the toolkit's nvcc takes: host_config.h, else the table; -1 unknown. */
int64_t af_offer_build_gcc_limit(const struct af_offer_build_target *build);

/* Memory and disk; fills jobs and price of the rung. */
void af_offer_rung_build_check_resources(struct af_offer_build_target *build);

/*
 * The rung of a source build alone, on one machine, with all its prerequisites:
 * what `anyflash build --check` shows. No catalog is needed. Texts in `arena`.
 */
enum anyflash_status af_offer_build_rung(const struct af_machine *machine,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct af_rung *rung_out,
                                         struct anyflash_error *err);

/* The rung of a source build. Starts and ends its climb; memory failure is the arena's. */
void af_offer_rung_build(struct af_rung_context *context);

#endif
