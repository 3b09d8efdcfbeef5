/*
 * builder.h: makes steps; shared by the files of this module. Allocation
 * failure is recorded in the arena and stays there.
 */
#ifndef AF_KIT_ANSWER_BUILDER_H
#define AF_KIT_ANSWER_BUILDER_H

#include "kit/answer/plan.h"

#define AF_STEPS_MAX 16
#define AF_STEP_WORDS_MAX 32

/* The environment that the steps change, and with which installer. */
struct af_target {
    const struct af_machine *machine;
    const char
        *python; /* its interpreter; a different one after a step has made a new environment */
    const char *prefix; /* NULL: unknown */
    bool uv;            /* uv installs; else pip */
    bool lacks_pip;     /* pip installs, but must be made first */
    bool conda;
};

struct af_builder {
    struct af_arena *arena;
    const struct af_rung *rung;
    struct af_target target;
    struct af_step *steps; /* space for AF_STEPS_MAX */
    size_t step_count;
    struct af_step *last; /* the step that was added last */
    struct af_step spare; /* is that one if there is no space */
    const char **words;   /* of the command under construction */
    size_t word_count;
};

/* A step without a command; the formatted text is its title. */
void af_builder_advice(struct af_builder *builder, const char *format, ...) AF_PRINTF(2, 3);

/* The words of a command, as the next functions take them: they end with NULL. */
#define AF_STEP_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Starts a command. More words may follow, then af_builder_end() with its kind and title. */
void af_builder_start(struct af_builder *builder, const char *const *words);
void af_builder_words(struct af_builder *builder, const char *const *words);
void af_builder_end(struct af_builder *builder, enum af_step_kind kind, const char *title);

/* Starts "uv pip install --python P WORDS" or "P -m pip install WORDS". */
void af_builder_install(struct af_builder *builder, const char *const *words);

/* Adds a requirement to the last step. */
void af_builder_require(struct af_builder *builder, const char *requirement);

/* Sets the environment variable NAME=value for the last step. */
void af_builder_set(struct af_builder *builder, const char *name, const char *value);

/* If the current environment is not writable, makes a new one first. */
void af_plan_prepare(struct af_builder *builder);

/* Puts anyflash's own Python package into the target; with `stand_in`, as flash_attn, too. */
void af_plan_package(struct af_builder *builder, bool stand_in);

/* The steps that install the wheel of the builder's rung (wheel_steps.c). */
void af_plan_wheel(struct af_builder *builder);

/* The steps that change torch as the builder's rung says, and then install its wheel. */
void af_plan_torch(struct af_builder *builder);

/*
 * The steps that install this wheel, then the requirements in `missing`, and check that
 * `module` (NULL: none) loads.
 */
void af_plan_named_wheel(struct af_builder *builder, const struct af_step_wheel *wheel,
                         const char *module, const char *const *missing, size_t count);

/* Runs code that shows whether the package works; `module` as in struct af_step, or NULL. */
void af_plan_try(struct af_builder *builder, const char *code, const char *module);

/*
 * The steps without flash-attn: torch's own kernels or the engine, through
 * anyflash's Python package where it runs.
 */
void af_plan_kernels(struct af_builder *builder);

#endif
