/*
 * builder.h: making steps: what the files of this module share. Failure is the
 * arena's and sticky.
 */
#ifndef AF_PLAN_BUILDER_H
#define AF_PLAN_BUILDER_H

#include "plan/plan.h"

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

/* A step without a command. The format's result is the step's title. */
void af_builder_advice(struct af_builder *builder, const char *format, ...) AF_PRINTF(2, 3);

/* Starts a command: words follow, then af_builder_end() with its title. */
void af_builder_start(struct af_builder *builder);
void af_builder_word(struct af_builder *builder, const char *word);
void af_builder_end(struct af_builder *builder, const char *title);

/* Starts "uv pip install --python P" or "P -m pip install". */
void af_builder_install(struct af_builder *builder);

/* "NAME=value" for the last step. */
void af_builder_set(struct af_builder *builder, const char *name, const char *value);

/* The package of the target, or NULL. */
const struct af_package *af_builder_package(const struct af_builder *builder, const char *name);

/* A new environment first, where the present one may not be written to. */
void af_plan_prepare(struct af_builder *builder);

/* The steps of each kind of rung. */
void af_plan_wheel(struct af_builder *builder);
void af_plan_torch(struct af_builder *builder);
void af_plan_build(struct af_builder *builder);
void af_plan_sdpa(struct af_builder *builder);

#endif
