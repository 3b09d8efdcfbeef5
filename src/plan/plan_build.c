/*
 * plan_build.c: a source build with the words that keep it small: only the
 * targets of the GPUs here, one thread a compiler, so many compilers as memory
 * allows. The helpers come first because isolation is off: setup.py imports
 * torch. Caches are passed over: they do not know for which torch they built.
 */
#include "base/text.h"
#include "plan/builder.h"

static void install_helpers(struct af_builder *builder)
{
    static const char *const helpers[] = {"setuptools", "wheel", "packaging",
                                          "psutil",     "ninja", "einops"};
    af_builder_install(builder);
    for (size_t i = 0; i < AF_COUNT(helpers); i++)
        af_builder_word(builder, helpers[i]);
    af_builder_end(builder, AF_STEP_BUILD,
                   "install what setup.py needs, as the build is not isolated");
}

static const char *cuda_home(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->toolkits.count; i++) {
        if (af_fact_truth(&machine->toolkits.rows[i].torch_takes_it) == AF_YES)
            return af_fact_text_or(&machine->toolkits.rows[i].root, NULL);
    }
    return machine->toolkits.count == 0
               ? NULL
               : af_fact_text_or(&machine->toolkits.rows[0].root, NULL);
}

/* A folder on disk for temporaries, where the usual one is in memory; else NULL. */
static const char *temporary(const struct af_machine *machine)
{
    bool in_memory = false;
    const char *other = NULL;
    for (size_t i = 0; i < machine->disks.count; i++) {
        const struct af_disk *disk = &machine->disks.rows[i];
        if (af_fact_is(&disk->use, "temporary"))
            in_memory = af_fact_truth(&disk->in_memory) == AF_YES;
        else if (af_fact_truth(&disk->in_memory) == AF_NO &&
                 af_fact_truth(&disk->writable) == AF_YES)
            other = af_fact_text_or(&disk->path, other);
    }
    return in_memory ? other : NULL;
}

static void set_environment(struct af_builder *builder)
{
    const struct af_machine *machine = builder->target.machine;
    struct af_arena *arena = builder->arena;
    int jobs = builder->rung->jobs < 1 ? 1 : builder->rung->jobs;
    af_builder_set(builder, "FLASH_ATTENTION_FORCE_BUILD", "TRUE");
    af_builder_set(builder, "FLASH_ATTN_CUDA_ARCHS", builder->rung->arch_list);
    af_builder_set(builder, "MAX_JOBS", af_arena_format(arena, "%d", jobs));
    af_builder_set(builder, "NVCC_THREADS", "1");
    af_builder_set(builder, "CUDA_HOME", cuda_home(machine));
    af_builder_set(builder, "TMPDIR", temporary(machine));
    if (!builder->target.uv && builder->target.prefix != NULL)
        af_builder_set(builder, "PATH", /* so that torch finds ninja */
                       af_arena_format(arena, "%s/bin:/usr/local/bin:/usr/bin:/bin",
                                       builder->target.prefix));
}

void af_plan_build(struct af_builder *builder)
{
    bool uv = builder->target.uv;
    const char *version = builder->rung->flash_attn;
    if (version == NULL)
        return;
    install_helpers(builder);
    af_builder_install(builder);
    af_builder_word(builder, "--no-build-isolation");
    af_builder_word(builder, "--no-deps");
    af_builder_word(builder, uv ? "--no-cache" : "--no-cache-dir");
    af_builder_word(builder, uv ? "--reinstall-package" : "--force-reinstall");
    if (uv)
        af_builder_word(builder, "flash-attn");
    af_builder_word(builder, af_arena_format(builder->arena, "flash-attn==%s", version));
    af_builder_end(builder, AF_STEP_BUILD, "compile and install flash-attn");
    set_environment(builder);
}
