/*
 * plan_torch.c: moving torch, and what moves with it, in one command, then the
 * wheel. The CUDA build is chosen by uv's --torch-backend and pinned by its
 * local version: "torch==2.9.1" alone would be content with another build. pip
 * has no such option, so uv is installed where it is missing.
 */
#include "kit/base/text.h"
#include "kit/plan/builder.h"

#include <string.h>

static void get_uv(struct af_builder *builder)
{
    if (builder->target.uv)
        return;
    af_builder_install(builder);
    af_builder_word(builder, "uv");
    af_builder_end(builder, AF_STEP_TOOL,
                   "install uv, which can choose the CUDA build of torch");
}

/* "uv pip install --python P", with uv as a module where it was just installed. */
static void start(struct af_builder *builder, bool as_module)
{
    if (!as_module) {
        af_builder_install(builder);
        return;
    }
    static const char *const words[] = {"-m", "uv", "pip", "install", "--python"};
    af_builder_start(builder);
    af_builder_word(builder, builder->target.python);
    for (size_t i = 0; i < AF_COUNT(words); i++)
        af_builder_word(builder, words[i]);
    af_builder_word(builder, builder->target.python);
}

/* A package that must move because torch does. */
static bool moves_with(const struct af_fit_package_change *move)
{
    return move->to != NULL && strcmp(move->name, "torch") != 0;
}

void af_plan_torch(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    bool as_module = !builder->target.uv;
    if (rung->torch_version == NULL || rung->torch_cuda == NULL)
        return;
    get_uv(builder);
    start(builder, as_module);
    af_builder_word(builder, "--torch-backend");
    af_builder_word(builder, rung->torch_cuda);
    const char *torch =
        af_arena_format(builder->arena, "torch==%s+%s", rung->torch_version, rung->torch_cuda);
    af_builder_word(builder, torch);
    for (size_t i = 0; i < rung->move_count; i++)
        if (moves_with(&rung->moves[i]))
            af_builder_word(builder, rung->moves[i].name);
    af_builder_end(builder, AF_STEP_TORCH, "install the torch that the wheel was built for");
    af_builder_require(builder, torch);
    for (size_t i = 0; i < rung->move_count; i++)
        if (moves_with(&rung->moves[i]))
            af_builder_require(builder, rung->moves[i].name);
    if (af_builder_last(builder) != NULL)
        af_builder_last(builder)->torch_backend = rung->torch_cuda;
    for (size_t i = 0; i < rung->move_count; i++) {
        if (rung->moves[i].to == NULL)
            af_builder_advice(builder, "%s %s breaks: it %s", rung->moves[i].name,
                              rung->moves[i].from == NULL ? "" : rung->moves[i].from,
                              rung->moves[i].why);
    }
    af_plan_wheel(builder);
}
