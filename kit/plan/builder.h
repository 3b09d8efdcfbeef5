/*
 * builder.h: making steps: what the files of this module share. Failure is the
 * arena's and sticky.
 */
#ifndef AF_KIT_PLAN_BUILDER_H
#define AF_KIT_PLAN_BUILDER_H

#include "kit/plan/plan.h"

#define AF_STEPS_MAX 16
#define AF_STEP_WORDS_MAX 32

/* The environment that the steps change, and with which installer. */
struct af_target {
    const struct af_machine *machine;
    const char
        *python; /* its interpreter; another one once a step has made a new environment */
    const char *prefix; /* NULL unknown */
    bool uv;            /* uv installs; else pip */
    bool conda;
};

struct af_builder {
    struct af_arena *arena;
    const struct af_rung *rung;
    struct af_target target;
    struct af_step *steps; /* room for AF_STEPS_MAX */
    size_t step_count;
    const char **words; /* of the command being made */
    size_t word_count;
};

/*
 * A builder of steps for `machine` into plan->arena, which is initialised; and
 * its end, where the plan is published or memory lacked and all is released.
 */
void af_builder_begin(struct af_builder *builder, struct af_plan *plan,
                      const struct af_machine *machine);
enum anyflash_status af_builder_finish(const struct af_builder *builder, struct af_plan *made,
                                       struct af_plan *plan_out, struct anyflash_error *err);

/* A step without a command. The format's result is the step's title. */
void af_builder_advice(struct af_builder *builder, const char *format, ...) AF_PRINTF(2, 3);

/* Starts a command: words follow, then af_builder_end() with what it is and its title. */
void af_builder_start(struct af_builder *builder);
void af_builder_word(struct af_builder *builder, const char *word);
void af_builder_end(struct af_builder *builder, enum af_step_kind kind, const char *title);

/* Starts "uv pip install --python P" or "P -m pip install". */
void af_builder_install(struct af_builder *builder);

/* One more requirement of the last step. */
void af_builder_require(struct af_builder *builder, const char *requirement);

/* The last step, or NULL while there is none. */
struct af_step *af_builder_last(struct af_builder *builder);

/* "NAME=value" for the last step. */
void af_builder_set(struct af_builder *builder, const char *name, const char *value);

/* The package of the target, or NULL. */
const struct af_package *af_builder_package(const struct af_builder *builder, const char *name);

/* A new environment first, where the present one may not be written to. */
void af_plan_prepare(struct af_builder *builder);

/* One exact file. */
void af_plan_file(struct af_builder *builder, const struct af_step_wheel *wheel);

/* Code that shows whether it works; af_plan_check(): that of a package, where it is known. */
void af_plan_try(struct af_builder *builder, const char *code, const char *module);
void af_plan_check(struct af_builder *builder, const char *package);

#endif
