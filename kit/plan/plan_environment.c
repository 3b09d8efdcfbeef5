/*
 * plan_environment.c: the environment that steps install into. A system Python that the
 * distribution manages (PEP 668), or a folder we may not write to, gets a
 * virtual environment on top that still sees the torch below.
 */
#include "kit/base/text.h"
#include "kit/plan/builder.h"

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
    }
    af_builder_word(builder, "--system-site-packages");
    af_builder_word(builder, ".venv");
    af_builder_end(builder, AF_STEP_ENVIRONMENT, title);
    target->python = ".venv/bin/python";
    target->prefix = ".venv";
}
