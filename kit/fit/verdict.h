/*
 * verdict.h: checks one wheel against one view: which reasons are against it.
 *
 * Every rule is a small function in rules_*.c on a struct af_fit_wheel_check;
 * verdict.c holds the table of rules and their order. Without an arena a check
 * collects only bits and stops at the first group of rules that rejects the
 * wheel, which makes it fast enough for thousands of wheels. With an arena all
 * rules run and add details.
 *
 * Ranks those that fit or may fit, best first. The rules of the order and why they exist are in
 * docs/design/ranking.md.
 */
#ifndef AF_KIT_FIT_VERDICT_H
#define AF_KIT_FIT_VERDICT_H

#include "kit/fit/fit.h"
#include "kit/fit/view.h"

/* What all checks of one decision share. */
struct af_fit_context {
    const struct af_catalog *catalog;
    const struct af_fit_options *options;
    struct af_view *views; /* one per machine */
    size_t view_count;
};

struct af_fit_wheel_check {
    const struct af_fit_context *fit;
    const struct af_view *view;
    const struct af_catalog_wheel *wheel;
    const struct af_proved_wheel *known; /* of this wheel; NULL: nothing was proved */
    uint64_t bits;
    struct af_arena *arena;    /* NULL: bits only */
    struct af_reason *reasons; /* with arena: space for 64 */
    size_t reason_count;
    const char *platform; /* the last platform tag that was checked, and its answer */
    enum af_answer platform_answer;
};

/*
 * Adds a reason; the detail is formatted only if the check has an arena. A
 * reason that comes from the wheel's name but is disproved by its bytes becomes
 * AF_REASON_PROVED.
 */
void af_fit_wheel_check_add_reason(struct af_fit_wheel_check *check, enum af_reason_id id,
                                   const char *format, ...) AF_PRINTF(3, 4);

/* Pure Python: fits every torch and CUDA. */
bool af_fit_wheel_is_pure(const struct af_catalog_wheel *wheel);

/* The CUDA major that the wheel's extension links to; -1: unknown. */
int af_fit_wheel_cuda_major(const struct af_catalog_wheel *wheel);

enum af_answer af_verdict_answer(uint64_t bits);

/* The first group with a reason of `bits` that blocks; AF_REASON_REJECTING_GROUPS: none. */
enum af_reason_group af_verdict_group(uint64_t bits);

/*
 * Checks `wheel` against `view`. Everything in `check` but `fit` must be zero
 * at the first call; it may be reused for many wheels. The bits are returned
 * and in check->bits.
 */
uint64_t af_verdict(struct af_fit_wheel_check *check, const struct af_view *view,
                    const struct af_catalog_wheel *wheel);

/* Whether --official and every list of publishers allow this wheel. */
bool af_fit_publisher_is_allowed(const struct af_fit_options *options,
                                 const struct af_catalog_wheel *wheel);

/* Whether the options select this wheel: package, version, publisher. */
bool af_fit_wheel_is_asked_for(const struct af_fit_options *options,
                               const struct af_catalog_wheel *wheel);

/*
 * Checks candidates, of which only the wheel is set, on all views, and sorts them: those that
 * fit, then the unknown ones, both by rank; then those that do not fit, in no particular order.
 * Counts the first two groups.
 */
void af_fit_candidates_check(const struct af_fit_context *fit, struct af_candidate *candidates,
                             size_t count, size_t *fitting_out, size_t *unknown_out);

/* The machine to name in a reason that `view` gives; NULL: there is only one, or no view. */
const struct af_machine *af_fit_machine_of(const struct af_fit_context *fit,
                                           const struct af_view *view);

/* The reasons with details over all views, each id once for a machine, in table order. */
struct af_reason *af_verdict_explain(const struct af_fit_context *fit,
                                     const struct af_catalog_wheel *wheel,
                                     struct af_arena *arena, size_t *count_out);

/*
 * Fills `fit`; each machine becomes a view in `arena`. Fails with ARGUMENT: no
 * machine, or an arch that is not a compute capability.
 */
enum anyflash_status af_fit_context_open(struct af_fit_context *fit,
                                         const struct af_catalog *catalog,
                                         const struct af_machine *const *machines,
                                         size_t machine_count,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct anyflash_error *err);

/* The rules, by file. */
void af_rule_file(struct af_fit_wheel_check *check);  /* rules_platform.c */
void af_rule_traps(struct af_fit_wheel_check *check); /* notes */
void af_rule_platform(struct af_fit_wheel_check *check);
void af_rule_python(struct af_fit_wheel_check *check);
void af_rule_torch(struct af_fit_wheel_check *check); /* rules_torch.c */
void af_rule_cuda(struct af_fit_wheel_check *check);
void af_rule_abi(struct af_fit_wheel_check *check);
void af_rule_system(struct af_fit_wheel_check *check); /* rules_platform.c */
void af_rule_driver(struct af_fit_wheel_check *check);
void af_rule_peers(struct af_fit_wheel_check *check);
void af_rule_gpu(struct af_fit_wheel_check *check); /* rules_gpu.c */

/* Whether nothing but unknown facts of the machine speaks against the wheel. */
bool af_candidate_fits_but_for_facts(const struct af_candidate *candidate);

/* <0 if `a` is better than `b`; 0 only for the same wheel. A total order. */
int af_rank_compare(const struct af_fit_context *fit, const struct af_candidate *a,
                    const struct af_candidate *b);

#endif
