/*
 * builder.c: assembles steps, and chooses the environment that they install
 * into.
 */
#include "kit/answer/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

#define TITLE_BYTES 1024

static struct af_step *add_step(struct af_builder *builder, enum af_step_kind kind,
                                const char *title)
{
    if (builder->steps == NULL || builder->step_count == AF_STEPS_MAX)
        return NULL;
    struct af_step *step = &builder->steps[builder->step_count++];
    *step = (struct af_step){.kind = kind, .title = title};
    return step;
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

void af_builder_start(struct af_builder *builder)
{
    builder->words = af_arena_array(builder->arena, AF_STEP_WORDS_MAX, sizeof *builder->words);
    builder->word_count = 0;
}

void af_builder_word(struct af_builder *builder, const char *word)
{
    if (builder->words != NULL && builder->word_count < AF_STEP_WORDS_MAX)
        builder->words[builder->word_count++] = af_arena_text(builder->arena, word);
}

void af_builder_end(struct af_builder *builder, enum af_step_kind kind, const char *title)
{
    struct af_step *step = add_step(builder, kind, title);
    if (step == NULL || builder->words == NULL)
        return;
    step->argv = builder->words;
    step->argc = builder->word_count;
}

/* Python brings pip along; only Debian moves that to another package. */
static void get_pip(struct af_builder *builder)
{
    static const char *const words[] = {"-m", "ensurepip"};
    builder->target.lacks_pip = false;
    af_builder_start(builder);
    af_builder_word(builder, builder->target.python);
    for (size_t i = 0; i < AF_COUNT(words); i++)
        af_builder_word(builder, words[i]);
    af_builder_end(
        builder, AF_STEP_TOOL,
        "get pip, because neither uv nor pip is here; or install uv, and plan again");
}

void af_builder_install(struct af_builder *builder)
{
    if (builder->target.lacks_pip)
        get_pip(builder);
    af_builder_start(builder);
    if (!builder->target.uv) {
        af_builder_word(builder, builder->target.python);
        af_builder_word(builder, "-m");
        af_builder_word(builder, "pip");
        af_builder_word(builder, "install");
        return;
    }
    af_builder_word(builder, "uv");
    af_builder_word(builder, "pip");
    af_builder_word(builder, "install");
    af_builder_word(builder, "--python");
    af_builder_word(builder, builder->target.python);
}

struct af_step *af_builder_last(struct af_builder *builder)
{
    if (builder->step_count == 0 || builder->steps == NULL)
        return NULL;
    return &builder->steps[builder->step_count - 1];
}

/* Sets *list to a copy with `text` at its end; nothing if memory runs out. */
static void append(struct af_arena *arena, const char *const **list, size_t *count,
                   const char *text)
{
    const char **longer = af_arena_array(arena, *count + 1, sizeof *longer);
    if (longer == NULL)
        return;
    if (*count > 0)
        memcpy(longer, *list, *count * sizeof *longer);
    longer[(*count)++] = text;
    *list = longer;
}

void af_builder_require(struct af_builder *builder, const char *requirement)
{
    struct af_step *step = af_builder_last(builder);
    if (step != NULL)
        append(builder->arena, &step->requirements, &step->requirement_count,
               af_arena_text(builder->arena, requirement));
}

void af_builder_set(struct af_builder *builder, const char *name, const char *value)
{
    struct af_step *step = af_builder_last(builder);
    if (step != NULL && value != NULL)
        append(builder->arena, &step->environment, &step->environment_count,
               af_arena_format(builder->arena, "%s=%s", name, value));
}

const struct af_package *af_builder_package(const struct af_builder *builder, const char *name)
{
    return af_machine_package(builder->target.machine, name);
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
    af_builder_start(builder);
    if (target->uv) {
        af_builder_word(builder, "uv");
        af_builder_word(builder, "venv");
        af_builder_word(builder, "--python");
        af_builder_word(builder, target->python);
    } else {
        af_builder_word(builder, target->python);
        af_builder_word(builder, "-m");
        af_builder_word(builder, "venv");
        target->lacks_pip = false; /* the new one has pip */
    }
    af_builder_word(builder, "--system-site-packages");
    af_builder_word(builder, ".venv");
    af_builder_end(builder, AF_STEP_ENVIRONMENT, title);
    target->python = ".venv/bin/python";
    target->prefix = ".venv";
}
