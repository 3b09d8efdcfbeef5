/*
 * doctor_gpu.c: rules about the NVIDIA driver and the devices: what keeps every
 * CUDA program here from running, flash-attn or not.
 */
#include <stdio.h>
#include <string.h>

#include "kit/doctor/rules.h"
#include "kit/formats/version.h"

static bool has_nvidia_gpu(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->gpus.count; i++)
        if (af_fact_is(&machine->gpus.rows[i].vendor, "nvidia"))
            return true;
    return false;
}

/* The first number of "12.8", or -1. */
static int64_t major_of(const char *text)
{
    struct af_version version;
    if (text == NULL || !af_version_parse(text, strlen(text), &version))
        return -1;
    return version.release[0];
}

static void driver_versions(struct af_examination *examination)
{
    const struct af_driver *driver = &examination->machine->driver;
    const char *kernel = af_fact_text_or(&driver->kernel_version, NULL);
    const char *user = af_fact_text_or(&driver->user_version, NULL);
    /* A compat library is newer than the module on purpose. */
    if (kernel == NULL || user == NULL || strcmp(kernel, user) == 0 ||
        strstr(driver->user_version.source, "compat") != NULL)
        return;
    af_examination_add(examination, AF_CAUSE_DRIVER_MISMATCH,
                       "kernel module %s (%s), library %s (%s)", kernel,
                       driver->kernel_version.source, user, driver->user_version.source);
}

void af_examine_driver(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const struct af_driver *driver = &machine->driver;
    bool on_wsl = af_fact_truth(&machine->platform.wsl) == AF_YES; /* has no kernel module */
    if (has_nvidia_gpu(machine) && driver->kernel_version.state == AF_FACT_ABSENT && !on_wsl &&
        driver->cuda_api.state != AF_FACT_KNOWN)
        af_examination_add(examination, AF_CAUSE_DRIVER_MISSING, "no kernel module (%s)",
                           driver->kernel_version.source);
    if (!on_wsl)
        driver_versions(examination);
    /* Within one major version CUDA is compatible; across majors it is not. */
    int64_t served = major_of(af_fact_text_or(&driver->cuda_api, NULL));
    int64_t wanted = major_of(af_fact_text_or(&machine->torch.cuda, NULL));
    if (served >= 0 && wanted > served)
        af_examination_add(examination, AF_CAUSE_DRIVER_OLD,
                           "the driver supports CUDA %s, torch is built for CUDA %s",
                           driver->cuda_api.value.text, machine->torch.cuda.value.text);
}

struct sm {
    int major;
    int minor;
};

/* "8.9" */
static bool sm_parse(const char *text, struct sm *sm_out)
{
    char rest = 0;
    return text != NULL &&
           sscanf(text, "%2d.%1d%c", &sm_out->major, &sm_out->minor, &rest) == 2;
}

/* A target as "sm_89" or "compute_120" runs on `sm`: same major, or PTX of an older one. */
static bool target_serves(const char *target, struct sm sm)
{
    int number = 0;
    bool is_ptx = sscanf(target, "compute_%4d", &number) == 1;
    if (!is_ptx && sscanf(target, "sm_%4d", &number) != 1)
        return false;
    int here = sm.major * 10 + sm.minor;
    return number <= here && (is_ptx || number / 10 == sm.major);
}

static bool torch_serves(const struct af_torch *torch, struct sm sm)
{
    if (torch->gpu_targets.state != AF_FACT_KNOWN || torch->gpu_targets.value.list.count == 0)
        return true;
    for (size_t i = 0; i < torch->gpu_targets.value.list.count; i++)
        if (target_serves(torch->gpu_targets.value.list.items[i], sm))
            return true;
    return false;
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
        struct sm sm;
        if (!af_fact_is(&gpu->vendor, "nvidia"))
            continue;
        hidden_count += af_fact_truth(&gpu->visible) == AF_NO;
        known_count++;
        if (!sm_parse(af_fact_text_or(&gpu->sm, NULL), &sm))
            continue;
        if (sm.major < 8) {
            old_count++;
            old = gpu;
        }
        if (!torch_serves(&machine->torch, sm))
            af_examination_add(examination, AF_CAUSE_TORCH_OTHER_GPU,
                               "%s is sm %s; torch's code is for other GPUs (%s)",
                               af_fact_text_or(&gpu->name, "the GPU"), gpu->sm.value.text,
                               machine->torch.gpu_targets.source);
    }
    if (known_count > 0 && hidden_count == known_count &&
        machine->driver.visible_devices.state == AF_FACT_KNOWN)
        af_examination_add(examination, AF_CAUSE_GPU_HIDDEN, "CUDA_VISIBLE_DEVICES='%s'",
                           machine->driver.visible_devices.value.text);
    if (old != NULL && old_count == known_count)
        af_examination_add(examination, AF_CAUSE_GPU_OLD, "%s is sm %s",
                           af_fact_text_or(&old->name, "the GPU"), old->sm.value.text);
}
