/*
 * doctor_environment.c: rules about driver, GPUs, torch, the packages beside
 * flash-attn, and what would make a source build fail.
 */
#include <string.h>

#include "kit/doctor/doctor.h"
#include "kit/fit/amd_target.h"
#include "kit/fit/gpu_targets.h"

/*
 * Rules about the NVIDIA driver and the devices: what stops every CUDA program
 * here, with or without flash-attn.
 */

static bool has_gpu_of(const struct af_machine *machine, const char *vendor)
{
    for (size_t i = 0; i < machine->gpus.count; i++)
        if (af_fact_is(&machine->gpus.rows[i].vendor, vendor))
            return true;
    return false;
}

static void driver_versions(struct af_examination *examination)
{
    const struct af_driver *driver = &examination->machine->driver;
    const char *kernel = af_fact_text_or(&driver->kernel_version, NULL);
    const char *user = af_fact_text_or(&driver->user_version, NULL);
    /* A compat library is newer than the kernel module on purpose. */
    if (kernel == NULL || user == NULL || strcmp(kernel, user) == 0 ||
        strstr(driver->user_version.source, "compat") != NULL)
        return;
    af_examination_add(examination, AF_REASON_DRIVER_MISMATCH,
                       "kernel module %s (%s), library %s (%s)", kernel,
                       driver->kernel_version.source, user, driver->user_version.source);
}

void af_examine_driver(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const struct af_driver *driver = &machine->driver;
    bool on_wsl = af_fact_truth(&machine->platform.wsl) == AF_YES; /* has no kernel module */
    if (has_gpu_of(machine, "nvidia") && driver->kernel_version.state == AF_FACT_ABSENT &&
        !on_wsl && driver->cuda_api.state != AF_FACT_KNOWN)
        af_examination_add(examination, AF_REASON_DRIVER_MISSING, "no kernel module (%s)",
                           driver->kernel_version.source);
    if (!on_wsl)
        driver_versions(examination);
    /* Within one major version CUDA is compatible; across majors it is not. */
    int served = af_examination_number(&driver->cuda_api, 0);
    int wanted = af_examination_number(&machine->torch.cuda, 0);
    if (served >= 0 && wanted > served)
        af_examination_add(examination, AF_REASON_DRIVER,
                           "the driver supports CUDA %s, torch is built for CUDA %s",
                           driver->cuda_api.value.text, machine->torch.cuda.value.text);
}

/* Whether torch's code may run on it. */
static bool torch_serves(const struct af_torch *torch, int sm)
{
    const struct af_fact *targets = &torch->gpu_targets;
    return targets->state != AF_FACT_KNOWN || targets->value.list.count == 0 ||
           af_sm_list_covers(targets->value.list.items, targets->value.list.count, sm) != AF_NO;
}

void af_examine_devices(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    size_t known_count = 0;
    size_t hidden_count = 0;
    size_t old_count = 0;
    const struct af_gpu *old = NULL;
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct af_gpu *gpu = &machine->gpus.rows[i];
        int sm = af_sm_parse(af_fact_text_or(&gpu->sm, NULL));
        if (!af_fact_is(&gpu->vendor, "nvidia"))
            continue;
        hidden_count += af_fact_truth(&gpu->visible) == AF_NO;
        known_count++;
        if (sm < 0)
            continue;
        if (sm < 80) {
            old_count++;
            old = gpu;
        }
        if (!torch_serves(&machine->torch, sm))
            af_examination_add(examination, AF_REASON_TORCH_OTHER_GPU,
                               "%s is sm %s; torch's code is for other GPUs (%s)",
                               af_fact_text_or(&gpu->name, "the GPU"), gpu->sm.value.text,
                               machine->torch.gpu_targets.source);
    }
    if (known_count > 0 && hidden_count == known_count &&
        machine->driver.visible_devices.state == AF_FACT_KNOWN)
        af_examination_add(examination, AF_REASON_GPU_HIDDEN, "CUDA_VISIBLE_DEVICES='%s'",
                           machine->driver.visible_devices.value.text);
    if (old != NULL && old_count == known_count)
        af_examination_add(examination, AF_REASON_SM_UNSUPPORTED, "%s is sm %s",
                           af_fact_text_or(&old->name, "the GPU"), old->sm.value.text);
}

/* Rules about builds of torch for which there is no published wheel. */

/* conda's torch has the usual library names; Debian's names contain a version. */
static void check_distribution(struct af_examination *examination, const struct af_torch *torch)
{
    const struct af_python *python = &examination->machine->python;
    bool is_conda = af_fact_is(&python->kind, "conda") || af_fact_is(&python->kind, "pixi");
    if (!af_fact_is(&torch->build, "distribution"))
        return;
    af_examination_add(examination,
                       is_conda ? AF_REASON_TORCH_CONDA : AF_REASON_TORCH_DISTRIBUTION,
                       "torch %s (%s)", torch->version.value.text, torch->version.source);
}

/* RDNA 3 and 4: torch has flash kernels for them, but uses them only when told to. */
static void check_rdna(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const char *name = "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL";
    const char *value = af_machine_variable(examination->machine, name);
    if (value != NULL && strcmp(value, "0") != 0)
        return;
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const char *sm = af_fact_text_or(&machine->gpus.rows[i].sm, "");
        if (af_amd_target_of(sm).backend == AF_AMD_BACKEND_TRITON) {
            af_examination_add(examination, AF_REASON_ROCM_EXPERIMENTAL,
                               "%s, and %s is not set", sm, name);
            return;
        }
    }
}

void af_examine_torch(struct af_examination *examination)
{
    static const struct {
        const char *build;
        enum af_reason_id cause;
    } builds[] = {
        {"prerelease", AF_REASON_TORCH_NIGHTLY},
        {"source", AF_REASON_TORCH_OWN_BUILD},
        {"vendor", AF_REASON_NGC_PRERELEASE},
    };
    const struct af_torch *torch = &examination->machine->torch;
    bool has_python = examination->machine->python.prefix.state != AF_FACT_ABSENT;
    if (torch->version.state == AF_FACT_ABSENT && has_python)
        af_examination_add(examination, AF_REASON_TORCH_MISSING, "%s", torch->version.source);
    if (torch->version.state != AF_FACT_KNOWN)
        return;
    for (size_t i = 0; i < AF_COUNT(builds); i++)
        if (af_fact_is(&torch->build, builds[i].build))
            af_examination_add(examination, builds[i].cause, "torch %s (%s)",
                               torch->version.value.text, torch->version.source);
    check_distribution(examination, torch);
    bool is_nvidia = has_gpu_of(examination->machine, "nvidia");
    bool is_amd = has_gpu_of(examination->machine, "amd");
    if (torch->hip.state == AF_FACT_KNOWN && (is_amd || !is_nvidia)) {
        af_examination_add(examination, AF_REASON_MACHINE_ROCM, "torch %s, ROCm %s",
                           torch->version.value.text, torch->hip.value.text);
        check_rdna(examination);
    } else if (torch->cuda.state == AF_FACT_ABSENT && is_nvidia)
        af_examination_add(examination, AF_REASON_TORCH_CPU, "torch %s (%s)",
                           torch->version.value.text, torch->cuda.source);
}

/*
 * Rules about packages beside flash-attn: those that accept only some
 * versions of it or of torch, and packages that are installed twice.
 */

/* Whether the metadata or code of the peer package rejects flash-attn `version`. */
static bool refuses(const struct af_package *peer, const struct af_version *version)
{
    struct af_version bound;
    const char *needs = af_fact_text_or(&peer->needs_flash_attn, NULL);
    if (needs != NULL && af_specifier_contains(needs, version) == AF_NO)
        return true;
    if (af_examination_version(&peer->flash_attn_min, &bound) &&
        af_version_compare_public(version, &bound) < 0)
        return true;
    return af_examination_version(&peer->flash_attn_max, &bound) &&
           af_version_compare_public(version, &bound) > 0;
}

static void check_window(struct af_examination *examination, const struct af_package *peer,
                         const struct af_package *flash, const struct af_version *version)
{
    if (!refuses(peer, version))
        return;
    const char *low = af_fact_text_or(&peer->flash_attn_min, NULL);
    const char *high = af_fact_text_or(&peer->flash_attn_max, NULL);
    const char *needs = af_fact_text_or(&peer->needs_flash_attn, "");
    af_examination_add(examination, AF_REASON_PEER_WINDOW,
                       "%s %s accepts flash-attn %s%s%s%s, but %s is installed",
                       af_fact_text_or(&peer->name, "a package"),
                       af_fact_text_or(&peer->version, ""),
                       low == NULL && high == NULL ? needs : "", low != NULL ? low : "",
                       low != NULL || high != NULL ? " to " : "", high != NULL ? high : "",
                       af_fact_text_or(&flash->version, "?"));
}

static void check_torch(struct af_examination *examination, const struct af_package *peer,
                        const struct af_version *torch)
{
    const char *needs = af_fact_text_or(&peer->needs_torch, NULL);
    if (needs == NULL || af_fact_is(&peer->name, "flash-attn") ||
        af_specifier_contains(needs, torch) != AF_NO)
        return;
    af_examination_add(
        examination, AF_REASON_TORCH_FORCED, "%s %s needs torch %s, but %s is installed",
        af_fact_text_or(&peer->name, "a package"), af_fact_text_or(&peer->version, ""), needs,
        examination->machine->torch.version.value.text);
}

void af_examine_peers(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const struct af_package *flash = af_machine_package(machine, "flash-attn");
    struct af_version flash_version;
    struct af_version torch;
    bool has_flash = flash != NULL && af_examination_version(&flash->version, &flash_version);
    bool has_torch = af_examination_version(&machine->torch.version, &torch);
    for (size_t i = 0; i < machine->packages.count; i++) {
        const struct af_package *peer = &machine->packages.rows[i];
        if (has_flash && peer != flash)
            check_window(examination, peer, flash, &flash_version);
        if (has_torch)
            check_torch(examination, peer, &torch);
    }
}

/* The later one of two is reported, once. */
void af_examine_double_installs(struct af_examination *examination)
{
    const struct af_package_rows *packages = &examination->machine->packages;
    for (size_t i = 1; i < packages->count; i++) {
        const struct af_package *package = &packages->rows[i];
        const char *name = af_fact_text_or(&package->name, NULL);
        bool is_torch = af_equal(name, "torch");
        if (!is_torch && !af_equal(name, "flash-attn"))
            continue;
        const struct af_package *first = af_machine_package(examination->machine, name);
        if (first == NULL || first == package)
            continue;
        enum af_reason_id cause = is_torch ? AF_REASON_TWO_TORCH : AF_REASON_TWO_INSTALLS;
        const char *version = af_fact_text_or(&first->version, "?");
        const char *folder = af_fact_text_or(&first->folder, "?");
        const char *other = af_fact_text_or(&package->version, "?");
        const char *other_folder = af_fact_text_or(&package->folder, "?");
        if (af_equal(folder, other_folder))
            af_examination_add(examination, cause,
                               "%s %s and %s, both in %s: files of one replaced the other's",
                               name, version, other, folder);
        else
            af_examination_add(examination, cause,
                               "%s %s in %s, then %s in %s: the first one wins", name, version,
                               folder, other, other_folder);
    }
}

/*
 * Obstacles to a source build. They matter if the user tried `pip install
 * flash-attn`, or if a source build is the only option.
 */

static void check_compiler(struct af_examination *examination, const struct af_toolkit *toolkit)
{
    const struct af_compiler_rows *compilers = &examination->machine->compilers;
    if (compilers->count == 0)
        return;
    /* A build uses the first one. */
    const struct af_compiler *compiler = &compilers->rows[0];
    bool is_clang = af_fact_is(&compiler->family, "clang");
    int64_t limit = af_fact_int_or(is_clang ? &toolkit->clang_max : &toolkit->gcc_max, -1);
    int major = af_examination_number(&compiler->version, 0);
    if (limit >= 0 && major > limit)
        af_examination_add(
            examination, AF_REASON_GCC_NEW, "%s is %s %s; CUDA %s supports up to %lld (%s)",
            af_fact_text_or(&compiler->command, "the compiler"), is_clang ? "clang" : "gcc",
            compiler->version.value.text, af_fact_text_or(&toolkit->version, "?"),
            (long long)limit, is_clang ? toolkit->clang_max.source : toolkit->gcc_max.source);
}

static void check_path(struct af_examination *examination, const struct af_toolkit *taken)
{
    const struct af_toolkit_rows *toolkits = &examination->machine->toolkits;
    for (size_t i = 0; i < toolkits->count; i++) {
        const struct af_toolkit *toolkit = &toolkits->rows[i];
        if (toolkit == taken || af_fact_truth(&toolkit->first_on_path) != AF_YES ||
            af_equal(af_fact_text_or(&toolkit->version, NULL),
                     af_fact_text_or(&taken->version, NULL)))
            continue;
        af_examination_add(
            examination, AF_REASON_NVCC_CUDA,
            "first on PATH: CUDA %s (%s); a build uses CUDA %s (%s)",
            af_fact_text_or(&toolkit->version, "?"), af_fact_text_or(&toolkit->root, "?"),
            af_fact_text_or(&taken->version, "?"), af_fact_text_or(&taken->root, "?"));
    }
}

void af_examine_building(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const struct af_toolkit *taken = af_machine_toolkit(machine);
    if (taken != NULL) {
        int toolkit = af_examination_number(&taken->version, 0);
        int torch = af_examination_number(&machine->torch.cuda, 0);
        if (toolkit >= 0 && torch >= 0 && toolkit != torch)
            af_examination_add(examination, AF_REASON_TOOLKIT_MAJOR,
                               "CUDA %s in %s, torch is built for CUDA %s",
                               taken->version.value.text,
                               af_fact_text_or(&taken->root, "an unknown folder"),
                               machine->torch.cuda.value.text);
        check_path(examination, taken);
        check_compiler(examination, taken);
    }
    for (size_t i = 0; i < machine->disks.count; i++) {
        const struct af_disk *disk = &machine->disks.rows[i];
        if (af_fact_is(&disk->use, "temporary") && af_fact_truth(&disk->in_memory) == AF_YES)
            af_examination_add(examination, AF_REASON_TMP_IN_MEMORY, "%s (%s)",
                               af_fact_text_or(&disk->path, "the temporary folder"),
                               disk->in_memory.source);
    }
}
