/*
 * plan_sdpa.c: no flash-attn: torch's attention, which uses the FlashAttention
 * kernels inside torch where it has them for the GPU, and on CPUs the engine of
 * this project where its Python package is there.
 */
#include "kit/base/text.h"
#include "kit/plan/builder.h"

static void install_torch(struct af_builder *builder)
{
    const struct af_machine *machine = builder->target.machine;
    if (machine->torch.version.state != AF_FACT_ABSENT ||
        af_fact_is(&machine->platform.libc, "musl"))
        return; /* no torch is published for musl */
    af_builder_install(builder);
    if (builder->target.uv) {
        af_builder_word(builder, "--torch-backend");
        af_builder_word(builder, "auto");
    }
    af_builder_word(builder, "torch");
    af_builder_end(builder, AF_STEP_TORCH, "install torch");
    af_builder_require(builder, "torch");
    if (builder->target.uv && af_builder_last(builder) != NULL)
        af_builder_last(builder)->torch_backend = "auto";
}

static void try_kernels(struct af_builder *builder)
{
    af_builder_start(builder);
    af_builder_word(builder, builder->target.python);
    af_builder_word(builder, "-c");
    af_builder_word(
        builder, "import torch; from torch.nn.attention import sdpa_kernel, SDPBackend as B; "
                 "q = torch.ones(1, 1, 64, 64, device=\"cuda\", dtype=torch.half); "
                 "c = sdpa_kernel(B.FLASH_ATTENTION); c.__enter__(); "
                 "print(torch.nn.functional.scaled_dot_product_attention(q, q, q).shape)");
    af_builder_end(builder, AF_STEP_TRY, "see that torch's FlashAttention kernels run here");
}

static bool takes_package(const struct af_rung *rung)
{
    for (size_t i = 0; i < rung->reason_count; i++) {
        if (rung->reasons[i].id == AF_REASON_ENGINE_BY_PACKAGE)
            return true;
    }
    return false;
}

void af_plan_sdpa(struct af_builder *builder)
{
    install_torch(builder);
    af_builder_advice(builder,
                      "in programs, call torch.nn.functional.scaled_dot_product_attention; in "
                      "transformers, pass attn_implementation=\"sdpa\"");
    if (builder->rung->kind == AF_RUNG_TORCH_KERNELS)
        try_kernels(builder);
    if (takes_package(builder->rung))
        af_builder_advice(builder,
                          "for tensors on the CPU, let the engine of this project compute it: "
                          "pip install . in the folder of anyflash's sources, then in "
                          "programs: import anyflash.torch; anyflash.torch.enable()");
}
