/*
 * plan_wheel.c: installing one exact file by its address, without letting the
 * installer choose or pull a torch: upstream's metadata pins none. einops, the
 * other dependency, by itself.
 */
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/plan/builder.h"

#include <string.h>

/* "flash_attn" as installers list it: "flash-attn". */
static const char *listed_name(struct af_arena *arena, const char *package)
{
    char *name = af_arena_text(arena, package);
    for (char *at = name; at != NULL && *at != '\0'; at++)
        *at = *at == '_' ? '-' : *at;
    return name;
}

/* Whether this very file is installed, with nothing missing. */
static bool is_installed(const struct af_builder *builder, const char *name, const char *url)
{
    const struct af_package *package = af_builder_package(builder, name);
    if (package == NULL || package->origin.state != AF_FACT_KNOWN ||
        (package->missing_files.state == AF_FACT_KNOWN &&
         package->missing_files.value.list.count > 0))
        return false;
    return af_equal(af_url_encode_plus(builder->arena, package->origin.value.text), url);
}

static const char *full_version(struct af_arena *arena, const struct af_catalog_wheel *wheel)
{
    return wheel->local == NULL ? af_arena_text(arena, wheel->version)
                                : af_arena_format(arena, "%s+%s", wheel->version, wheel->local);
}

void af_plan_file(struct af_builder *builder, const struct af_step_wheel *wheel)
{
    bool uv = builder->target.uv;
    struct af_step_wheel *kept = af_arena_alloc(builder->arena, sizeof *kept);
    if (kept == NULL)
        return;
    *kept = *wheel;
    af_builder_install(builder);
    af_builder_word(builder, "--no-deps");
    if (af_builder_package(builder, wheel->package) != NULL) {
        af_builder_word(builder, uv ? "--reinstall-package" : "--force-reinstall");
        if (uv)
            af_builder_word(builder, wheel->package);
    }
    af_builder_word(builder, wheel->path != NULL ? wheel->path : wheel->url);
    af_builder_end(builder, AF_STEP_WHEEL,
                   wheel->path != NULL ? "install the wheel from this file"
                                       : "install the wheel by its exact address");
    if (af_builder_last(builder) != NULL)
        af_builder_last(builder)->wheel = kept;
}

static void install_wheel(struct af_builder *builder, const struct af_catalog_wheel *wheel,
                          const char *name, const char *url)
{
    const struct af_step_wheel file = {.package = name,
                                       .filename =
                                           af_arena_text(builder->arena, wheel->filename),
                                       .url = url,
                                       .version = full_version(builder->arena, wheel)};
    af_plan_file(builder, &file);
}

static void install_einops(struct af_builder *builder)
{
    if (af_builder_package(builder, "einops") != NULL)
        return;
    af_builder_install(builder);
    af_builder_word(builder, "einops");
    af_builder_end(builder, AF_STEP_PACKAGES, "install einops, which flash-attn needs");
    af_builder_require(builder, "einops");
}

void af_plan_try(struct af_builder *builder, const char *code, const char *module)
{
    af_builder_start(builder);
    af_builder_word(builder, builder->target.python);
    af_builder_word(builder, "-c");
    af_builder_word(builder, code);
    af_builder_end(builder, AF_STEP_TRY, "see that it loads");
    if (af_builder_last(builder) != NULL)
        af_builder_last(builder)->module = af_arena_text(builder->arena, module);
}

void af_plan_check(struct af_builder *builder, const char *package)
{
    if (af_equal(package, "flash_attn") || af_equal(package, "flash-attn"))
        af_plan_try(builder, "import torch, flash_attn; print(flash_attn.__version__)",
                    "flash_attn");
    else if (af_starts_with(package, "flash_attn_3") || af_starts_with(package, "flash-attn-3"))
        af_plan_try(builder, "import torch, flash_attn_interface", "flash_attn_interface");
}

/* Projects and environments whose manager would undo an install by hand. */
static void advise(struct af_builder *builder)
{
    const struct af_machine *machine = builder->target.machine;
    for (size_t i = 0; i < machine->project_files.count; i++) {
        const struct af_project_file *file = &machine->project_files.rows[i];
        if (!af_fact_is(&file->tool, "uv"))
            continue;
        af_builder_advice(builder, "add it to the project, or the next `uv sync` removes it: "
                                   "`anyflash config uv --write`");
        break;
    }
    if (builder->target.conda)
        af_builder_advice(
            builder, "if torch is from conda-forge, install conda-forge's flash-attn instead");
}

void af_plan_wheel(struct af_builder *builder)
{
    const struct af_catalog_wheel *wheel = builder->rung->wheel;
    if (wheel == NULL || wheel->url == NULL)
        return;
    const char *url = af_url_encode_plus(builder->arena, wheel->url);
    const char *name = listed_name(builder->arena, wheel->package);
    if (url == NULL || name == NULL)
        return;
    if (is_installed(builder, name, url))
        af_builder_advice(builder, "nothing to install: this file is installed already");
    else
        install_wheel(builder, wheel, name, url);
    if (builder->rung->prove_first)
        af_builder_advice(builder,
                          "it is not proved that it loads: `anyflash install %s` checks that "
                          "first and installs nothing that does not load",
                          url);
    install_einops(builder);
    af_plan_check(builder, wheel->package);
    advise(builder);
}
