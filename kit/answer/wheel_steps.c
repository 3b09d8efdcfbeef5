/*
 * wheel_steps.c: the steps that install a wheel, one exact file by its URL, and before it
 * another torch; and the commands that prove a wheel.
 *
 * The installer must not choose or download a torch, because upstream's metadata pins none. The
 * other dependency, einops, is installed separately.
 */
#include <string.h>

#include "kit/answer/builder.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/wheel_name.h"

static bool is_empty(const struct af_fact *list)
{
    return list->state != AF_FACT_KNOWN || list->value.list.count == 0;
}

/* Whether exactly this file is installed, with nothing missing or incomplete. */
static bool is_installed(const struct af_builder *builder, const char *name,
                         const struct af_catalog_wheel *wheel, const char *url)
{
    const struct af_package *package = af_machine_package(builder->target.machine, name);
    if (package == NULL || package->origin.state != AF_FACT_KNOWN ||
        !is_empty(&package->missing_files) || !is_empty(&package->broken_files))
        return false;
    return wheel->path != NULL ? af_url_names_file(package->origin.value.text, wheel->filename)
                               : af_url_equal(package->origin.value.text, url);
}

static const char *full_version(struct af_arena *arena, const struct af_catalog_wheel *wheel)
{
    return wheel->local == NULL ? af_arena_text(arena, wheel->version)
                                : af_arena_format(arena, "%s+%s", wheel->version, wheel->local);
}

/* The option that replaces a package that is there. */
static void reinstall(struct af_builder *builder, const char *package, bool is_there)
{
    if (is_there)
        af_builder_words(builder, builder->target.uv
                                      ? AF_STEP_WORDS("--reinstall-package", package)
                                      : AF_STEP_WORDS("--force-reinstall"));
}

/* Installs one exact file. */
static void install_file(struct af_builder *builder, const struct af_step_wheel *wheel)
{
    struct af_step_wheel *kept = af_arena_alloc(builder->arena, sizeof *kept);
    *kept = *wheel;
    af_builder_install(builder, AF_STEP_WORDS("--no-deps"));
    reinstall(builder, wheel->package,
              af_machine_package(builder->target.machine, wheel->package) != NULL);
    af_builder_words(builder, AF_STEP_WORDS(wheel->path != NULL
                                                ? wheel->path
                                                : af_url_with_sha256(builder->arena, wheel->url,
                                                                     wheel->sha256)));
    af_builder_end(builder, AF_STEP_WHEEL,
                   wheel->path != NULL ? "install the wheel from this file"
                                       : "install the wheel from its exact URL");
    builder->last->wheel = kept;
}

/* `url` is NULL if the wheel is a file on this machine. */
static void install_wheel(struct af_builder *builder, const struct af_catalog_wheel *wheel,
                          const char *name, const char *url)
{
    const struct af_step_wheel file = {.package = name,
                                       .filename =
                                           af_arena_text(builder->arena, wheel->filename),
                                       .url = url,
                                       .path = af_arena_text(builder->arena, wheel->path),
                                       .sha256 = af_catalog_sha256(builder->arena, wheel),
                                       .version = full_version(builder->arena, wheel)};
    install_file(builder, &file);
}

static bool is_listed(const struct af_fact *list, const char *name)
{
    for (size_t i = 0; !is_empty(list) && i < list->value.list.count; i++)
        if (strcmp(list->value.list.items[i], name) == 0)
            return true;
    return false;
}

static void install_einops(struct af_builder *builder)
{
    const struct af_package *flash = af_machine_flash_attn(builder->target.machine);
    bool gone = flash != NULL && is_listed(&flash->missing_requirements, "einops");
    bool recorded = af_machine_package(builder->target.machine, "einops") != NULL;
    if (recorded && !gone)
        return;
    af_builder_install(builder, AF_STEP_WORDS(NULL));
    reinstall(builder, "einops", recorded);
    af_builder_words(builder, AF_STEP_WORDS("einops"));
    af_builder_end(builder, AF_STEP_PACKAGES, "install einops, which flash-attn needs");
    af_builder_require(builder, "einops");
}

static bool is_fa4(const char *package)
{
    return af_starts_with(package, "flash_attn_4") || af_starts_with(package, "flash-attn-4");
}

/*
 * Its packages require any torch; naming the one that is or will be installed keeps it. Without
 * the local part, which the metadata of the package index's torch lacks.
 */
static void install_fa4_needs(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    const char *torch = af_fact_text_or(&builder->target.machine->torch.version, NULL);
    if (rung->torch_version != NULL)
        torch = rung->torch_version;
    if (rung->need_count == 0) {
        af_builder_advice(builder, "install what its METADATA requires (Requires-Dist), except "
                                   "torch: what this beta requires is not known here");
        return;
    }
    if (torch != NULL)
        torch = af_arena_format(builder->arena, "torch==%.*s", (int)strcspn(torch, "+"), torch);
    af_builder_install(builder, AF_STEP_WORDS(NULL));
    for (size_t i = 0; i < rung->need_count; i++)
        af_builder_words(builder, AF_STEP_WORDS(rung->needs[i]));
    af_builder_words(builder, AF_STEP_WORDS(torch));
    af_builder_end(builder, AF_STEP_NEEDS,
                   torch != NULL ? "install what it needs; torch is named, so that it stays"
                                 : "install what it needs");
    for (size_t i = 0; i < rung->need_count; i++)
        af_builder_require(builder, rung->needs[i]);
    if (torch != NULL)
        af_builder_require(builder, torch);
}

/* Notes on the wheel that a reader must not miss. */
static void tell_notes(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    for (size_t i = 0; i < rung->reason_count; i++) {
        const struct af_reason *reason = &rung->reasons[i];
        const char *message = af_reasons[reason->id].message;
        if (reason->id == AF_REASON_FA4_FORWARD || reason->id == AF_REASON_FA4_NO_PAGES)
            af_builder_advice(builder, "%s; %s", message, af_reasons[reason->id].hint);
        else if (reason->id == AF_REASON_GLIBC_DECIDES)
            af_builder_advice(builder, "%s, %s: %s", message, reason->detail,
                              af_reasons[reason->id].hint);
    }
}

/*
 * How to install an official wheel that is only on PyTorch's index. uv's --torch-backend does
 * not ask that index for it, and PyPI has nothing but an empty release.
 */
static void offer_official(struct af_builder *builder, const struct af_catalog_wheel *wheel)
{
    const char *name = af_wheel_listed_name(builder->arena, wheel->package);
    af_builder_advice(builder,
                      "%s (%s). To install it instead, take the command with --index-url "
                      "that pytorch.org shows for CUDA %s, and write `--no-deps %s==%s` in "
                      "place of the packages",
                      af_reasons[AF_REASON_OFFICIAL_ELSEWHERE].message, wheel->filename,
                      wheel->cuda, name, wheel->version);
}

/* Runs code that shows whether the package works. */
void af_plan_try(struct af_builder *builder, const char *code, const char *module)
{
    af_builder_start(builder, AF_STEP_WORDS(builder->target.python, "-c", code));
    af_builder_end(builder, AF_STEP_TRY, "check that it loads");
    builder->last->module = module;
}

/* Runs the code that is known to show whether the package works. */
static void try_known(struct af_builder *builder, const char *package)
{
    if (af_equal(package, "flash_attn") || af_equal(package, "flash-attn"))
        af_plan_try(builder, "import torch, flash_attn; print(flash_attn.__version__)",
                    "flash_attn");
    else if (af_starts_with(package, "flash_attn_3") || af_starts_with(package, "flash-attn-3"))
        af_plan_try(builder, "import torch, flash_attn_interface", "flash_attn_interface");
    else if (is_fa4(package))
        af_plan_try(builder, "import torch; from flash_attn.cute import flash_attn_func", NULL);
}

/* Whether uv manages a project that does not name this wheel yet. */
static bool lacks_in_project(const struct af_builder *builder)
{
    const struct af_project_file_rows *files = &builder->target.machine->project_files;
    const char *full = builder->rung->wheel->filename;
    const char *plain = af_wheel_plain_name(builder->arena, full);
    bool is_uv = false;
    for (size_t i = 0; i < files->count; i++) {
        const struct af_fact *named = &files->rows[i].flash_attn_wheel;
        if (af_fact_is(named, full) || (plain != NULL && af_fact_is(named, plain)))
            return false;
        is_uv = is_uv || af_fact_is(&files->rows[i].tool, "uv");
    }
    return is_uv;
}

/* Projects and environments whose manager would undo a manual install. */
static void advise(struct af_builder *builder)
{
    if (lacks_in_project(builder))
        af_builder_advice(builder, "add it to the project, or the next `uv sync` removes it: "
                                   "`anyflash config uv --write`");
    if (builder->target.conda)
        af_builder_advice(
            builder, "if torch is from conda-forge, install conda-forge's flash-attn instead");
}

/* A system that is not stated counts as Linux here, which most machines with GPUs run. */
static bool runs_anyflash(const struct af_machine *machine)
{
    const struct af_fact *os = &machine->platform.os;
    return os->state != AF_FACT_KNOWN || af_fact_is(os, "linux");
}

void af_plan_wheel(struct af_builder *builder)
{
    const struct af_catalog_wheel *wheel = builder->rung->wheel;
    if (wheel == NULL || (wheel->url == NULL && wheel->path == NULL))
        return;
    const char *url =
        wheel->url == NULL ? NULL : af_url_encode_plus(builder->arena, wheel->url);
    const char *name = af_wheel_listed_name(builder->arena, wheel->package);
    if (is_installed(builder, name, wheel, url))
        af_builder_advice(builder, "nothing to install: this file is already installed");
    else
        install_wheel(builder, wheel, name, url);
    if (!wheel->listed)
        af_builder_advice(builder,
                          "if that URL does not exist (404), run `anyflash update` and "
                          "plan again: the file is likely there, but was not seen; its "
                          "URL was derived from its publisher's build workflow");
    if (builder->rung->prove_first)
        af_builder_advice(builder, runs_anyflash(builder->target.machine)
                                       ? "it may not load: the last step tells, and `anyflash "
                                         "inspect` before anything is installed"
                                       : "it may not load: the last step tells");
    if (is_fa4(wheel->package))
        install_fa4_needs(builder);
    else
        install_einops(builder);
    try_known(builder, wheel->package);
    tell_notes(builder);
    if (builder->rung->official_elsewhere != NULL)
        offer_official(builder, builder->rung->official_elsewhere);
    advise(builder);
}

/*
 * Changes torch, and the packages that depend on it, in one command; then
 * installs the wheel. uv's --torch-backend chooses the CUDA build and the local
 * version pins it: "torch==2.9.1" alone would accept another build. pip has no
 * such option, so uv is installed if it is missing.
 */

/* A package that must change because torch does. */
static bool moves_with(const struct af_fit_package_change *move)
{
    return move->to != NULL && strcmp(move->name, "torch") != 0;
}

/* The driver that this torch needs, if that of the machine is unknown. */
static void tell_driver(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    for (size_t i = 0; i < rung->reason_count; i++)
        if (rung->reasons[i].id == AF_REASON_UNKNOWN_DRIVER)
            af_builder_advice(builder,
                              "first check the driver: %s; `nvidia-smi` prints the "
                              "installed one",
                              rung->reasons[i].detail);
}

void af_plan_torch(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    const char *python = builder->target.python;
    if (rung->torch_version == NULL || rung->torch_cuda == NULL)
        return;
    tell_driver(builder);
    if (builder->target.uv) {
        af_builder_install(builder, AF_STEP_WORDS(NULL));
    } else { /* uv runs as a module if it was just installed */
        af_builder_install(builder, AF_STEP_WORDS("uv"));
        af_builder_end(builder, AF_STEP_TOOL,
                       "install uv, which can choose the CUDA build of torch");
        af_builder_start(
            builder, AF_STEP_WORDS(python, "-m", "uv", "pip", "install", "--python", python));
    }
    const char *torch =
        af_arena_format(builder->arena, "torch==%s+%s", rung->torch_version, rung->torch_cuda);
    af_builder_words(builder, AF_STEP_WORDS("--torch-backend", rung->torch_cuda, torch));
    for (size_t i = 0; i < rung->move_count; i++)
        if (moves_with(&rung->moves[i]))
            af_builder_words(builder, AF_STEP_WORDS(rung->moves[i].name));
    af_builder_end(builder, AF_STEP_TORCH, "install the torch that the wheel was built for");
    af_builder_require(builder, torch);
    for (size_t i = 0; i < rung->move_count; i++)
        if (moves_with(&rung->moves[i]))
            af_builder_require(builder, rung->moves[i].name);
    builder->last->torch_backend = rung->torch_cuda;
    for (size_t i = 0; i < rung->move_count; i++) {
        if (rung->moves[i].to == NULL)
            af_builder_advice(builder, "%s %s breaks: it %s", rung->moves[i].name,
                              rung->moves[i].from == NULL ? "" : rung->moves[i].from,
                              rung->moves[i].why);
    }
    af_plan_wheel(builder);
}

/*
 * The commands that prove a wheel whose name does not settle whether it loads:
 * `inspect` reads its bytes; `install` also reads them before it changes
 * anything, and tests the wheel afterwards.
 */

static const char *command(const char *const *words, size_t count, struct af_arena *arena)
{
    const struct af_step step = {.kind = AF_STEP_ADVICE, .argv = words, .argc = count};
    return af_step_command(&step, AF_SHELL_POSIX, arena);
}

bool af_plan_proof_make(const struct af_rung *rung, const struct af_machine *machine,
                        struct af_arena *arena, struct af_plan_proof *proof_out)
{
    if (!rung->prove_first || rung->wheel == NULL || rung->wheel->url == NULL ||
        !runs_anyflash(machine))
        return false;
    const char *url = af_url_encode_plus(arena, rung->wheel->url);
    const char *prefix = af_fact_text_or(&machine->python.prefix, NULL);
    const char *inspect[] = {"anyflash", "inspect", url, "--against", prefix};
    const char *install[] = {"anyflash", "install", url, "--python", prefix};
    size_t count = prefix == NULL ? 3 : 5;
    *proof_out =
        (struct af_plan_proof){command(inspect, count, arena), command(install, count, arena)};
    return true;
}

/*
 * "flash-attn" and similar packages are tested after importing torch, whose
 * libraries they need.
 */
void af_plan_named_wheel(struct af_builder *builder, const struct af_step_wheel *wheel,
                         const char *module, const char *const *missing, size_t count)
{
    const char *torch =
        builder->target.machine->torch.version.state == AF_FACT_KNOWN ? "torch, " : "";
    install_file(builder, wheel);
    for (size_t i = 0; i < count; i++) {
        af_builder_install(builder, AF_STEP_WORDS("--no-deps", missing[i]));
        af_builder_end(builder, AF_STEP_PACKAGES, "install its requirements");
        af_builder_require(builder, missing[i]);
    }
    bool known = af_equal(module, "flash_attn") && torch[0] != '\0';
    if (known)
        try_known(builder, module);
    else if (module != NULL)
        af_plan_try(builder, af_arena_format(builder->arena, "import %s%s", torch, module),
                    NULL);
}
