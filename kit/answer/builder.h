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
    const char **words; /* of the command under construction */
    size_t word_count;
};

/* A step without a command; the formatted text is its title. */
void af_builder_advice(struct af_builder *builder, const char *format, ...) AF_PRINTF(2, 3);

/* Starts a command. Words follow, then af_builder_end() with its kind and title. */
void af_builder_start(struct af_builder *builder);
void af_builder_word(struct af_builder *builder, const char *word);
void af_builder_end(struct af_builder *builder, enum af_step_kind kind, const char *title);

/* Starts "uv pip install --python P" or "P -m pip install". */
void af_builder_install(struct af_builder *builder);

/* Adds a requirement to the last step. */
void af_builder_require(struct af_builder *builder, const char *requirement);

/* The last step, or NULL if there is none. */
struct af_step *af_builder_last(struct af_builder *builder);

/* Sets the environment variable NAME=value for the last step. */
void af_builder_set(struct af_builder *builder, const char *name, const char *value);

/* The package in the target environment, or NULL. */
const struct af_package *af_builder_package(const struct af_builder *builder, const char *name);

/* If the current environment is not writable, makes a new one first. */
void af_plan_prepare(struct af_builder *builder);

/* Runs code that shows whether the package works. */
void af_plan_try(struct af_builder *builder, const char *code, const char *module);

/*
 * The steps without flash-attn: torch's own kernels or the engine, through
 * anyflash's Python package where it runs.
 */
void af_plan_kernels(struct af_builder *builder);

#endif
