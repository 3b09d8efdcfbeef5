/*
 * builder.c: assembles steps, and chooses the environment that they install
 * into.
 */
#include "kit/answer/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TITLE_BYTES 1024

static void add_step(struct af_builder *builder, enum af_step_kind kind, const char *title)
{
    bool has_space = builder->step_count < AF_STEPS_MAX;
    builder->last = has_space ? &builder->steps[builder->step_count++] : &builder->spare;
    *builder->last = (struct af_step){.kind = kind, .title = title};
}

void af_builder_advice(struct af_builder *builder, const char *format, ...)
{
    char title[TITLE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(title, sizeof title, format, args);
    va_end(args);
    add_step(builder, AF_STEP_ADVICE, af_arena_text(builder->arena, title));
}

void af_builder_words(struct af_builder *builder, const char *const *words)
{
    for (; *words != NULL && builder->word_count < AF_STEP_WORDS_MAX; words++)
        builder->words[builder->word_count++] = af_arena_text(builder->arena, *words);
}

void af_builder_start(struct af_builder *builder, const char *const *words)
{
    builder->words = af_arena_array(builder->arena, AF_STEP_WORDS_MAX, sizeof *builder->words);
    builder->word_count = 0;
    af_builder_words(builder, words);
}

void af_builder_end(struct af_builder *builder, enum af_step_kind kind, const char *title)
{
    add_step(builder, kind, title);
    builder->last->argv = builder->words;
    builder->last->argc = builder->word_count;
}

void af_builder_install(struct af_builder *builder, const char *const *words)
{
    struct af_target *target = &builder->target;
    if (target->lacks_pip) { /* Python brings pip along; only Debian moves that elsewhere */
        target->lacks_pip = false;
        af_builder_start(builder, AF_STEP_WORDS(target->python, "-m", "ensurepip"));
        af_builder_end(
            builder, AF_STEP_TOOL,
            "get pip, because neither uv nor pip is here; or install uv, and plan again");
    }
    if (target->uv)
        af_builder_start(builder,
                         AF_STEP_WORDS("uv", "pip", "install", "--python", target->python));
    else
        af_builder_start(builder, AF_STEP_WORDS(target->python, "-m", "pip", "install"));
    af_builder_words(builder, words);
}

/* Sets *list to a copy with `text` at its end. */
static void append(struct af_arena *arena, const char *const **list, size_t *count,
                   const char *text)
{
    const char **longer = af_arena_array(arena, *count + 1, sizeof *longer);
    if (*count > 0)
        memcpy(longer, *list, *count * sizeof *longer);
    longer[(*count)++] = text;
    *list = longer;
}

void af_builder_require(struct af_builder *builder, const char *requirement)
{
    append(builder->arena, &builder->last->requirements, &builder->last->requirement_count,
           af_arena_text(builder->arena, requirement));
}

void af_builder_set(struct af_builder *builder, const char *name, const char *value)
{
    append(builder->arena, &builder->last->environment, &builder->last->environment_count,
           af_arena_format(builder->arena, "%s=%s", name, value));
}

/*
 * The environment that steps install into. If the distribution manages the
 * system Python (PEP 668) or the folder is not writable, a virtual environment
 * is made on top that still sees the torch below.
 */

void af_plan_prepare(struct af_builder *builder)
{
    struct af_target *target = &builder->target;
    const struct af_python *python = &target->machine->python;
    bool managed = af_fact_truth(&python->externally_managed) == AF_YES;
    bool closed = python->writable.state == AF_FACT_KNOWN && !python->writable.value.truth;
    if (!managed && !closed)
        return;
    const char *title = managed ? "make an environment: the distribution manages this Python, "
                                  "and its torch stays visible"
                                : "make an environment: this one cannot be written to, and its "
                                  "torch stays visible";
    if (target->uv) {
        af_builder_start(builder, AF_STEP_WORDS("uv", "venv", "--python", target->python));
    } else {
        af_builder_start(builder, AF_STEP_WORDS(target->python, "-m", "venv"));
        target->lacks_pip = false; /* the new one has pip */
    }
    af_builder_words(builder, AF_STEP_WORDS("--system-site-packages", ".venv"));
    af_builder_end(builder, AF_STEP_ENVIRONMENT, title);
    target->python = ".venv/bin/python";
    target->prefix = ".venv";
}
