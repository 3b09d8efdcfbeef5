/*
 * plan_build.c: a source build as steps: `anyflash build` makes the wheel, in
 * an environment of its own and as memory allows; then the wheel is installed.
 * Its name ends with the glibc that it turns out to need, so the build's last
 * line is the command that installs it.
 */
#include "kit/build/offer/offer.h"
#include "kit/plan/builder.h"

void af_plan_build(struct af_builder *builder)
{
    size_t count;
    const char *const *words;
    if (builder->rung->flash_attn == NULL || builder->rung->arch_list == NULL)
        return;
    words = af_offer_build_command(builder->rung, builder->target.machine, false,
                                   builder->arena, &count);
    af_builder_start(builder);
    for (size_t i = 0; words != NULL && i < count; i++)
        af_builder_word(builder, words[i]);
    af_builder_end(builder, AF_STEP_BUILD,
                   "compile the part of flash-attn that is needed (--full: all of it); "
                   "--check says whether it can start, --dry-run what it takes");
    af_builder_advice(builder, "install the wheel: the build ends with the command for it");
}
