/*
 * gpu_files.c: what files of /proc, /sys and ROCm say about GPUs and their drivers.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

/* The first version such as "580.95.05" after "Kernel Module"; other words vary. */
static const char *version_in_banner(struct af_probe *probe, const char *banner)
{
    const char *at = strstr(banner, "Kernel Module");
    while (at != NULL && *at != '\0') {
        at += strcspn(at, " \t");
        at += strspn(at, " \t");
        size_t len = strspn(at, "0123456789.");
        if (len > 3 && memchr(at, '.', len) != NULL &&
            (isspace((unsigned char)at[len]) || at[len] == '\0'))
            return af_arena_text_n(probe->arena, at, len);
    }
    return NULL;
}

void af_probe_gpu_kernel_driver(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->driver.kernel_version;
    const char *module = af_probe_path(probe, "/sys/module/nvidia/version");
    const char *proc = af_probe_path(probe, "/proc/driver/nvidia/version");
    const char *version = af_probe_small_text(probe, module);
    if (version != NULL && version[0] != '\0') {
        af_fact_text(probe->arena, fact, version, module);
        return;
    }
    const char *banner = af_probe_small_text(probe, proc);
    version = banner == NULL ? NULL : version_in_banner(probe, banner);
    if (version != NULL)
        af_fact_text(probe->arena, fact, version, proc);
    else if (banner != NULL)
        af_fact_unknown(probe->arena, fact, "no version in '%s'", proc);
    else if (af_fact_truth(&probe->machine->platform.wsl) == AF_YES)
        af_fact_unknown(probe->arena, fact, "WSL keeps the kernel driver on the Windows side");
    else
        af_fact_absent(probe->arena, fact,
                       "no /sys/module/nvidia/version or /proc/driver/nvidia/version");
}

/* "Model: ..." or "GPU UUID: ..." from the driver's file about a device. */
static const char *information(struct af_probe *probe, const char *text, const char *key)
{
    const char *found = text == NULL ? NULL : strstr(text, key);
    if (found == NULL)
        return NULL;
    found += strlen(key);
    struct af_span value = af_text_trim((struct af_span){found, strcspn(found, "\n")});
    return af_arena_text_n(probe->arena, value.data, value.len);
}

static void add_nvidia(struct af_probe *probe, const char *address, const char *folder,
                       const char *why)
{
    struct af_gpu *gpu =
        af_machine_row_add(probe->machine, offsetof(struct af_machine, gpus), why);
    const char *path = af_probe_path(
        probe,
        af_arena_format(probe->arena, "/proc/driver/nvidia/gpus/%s/information", address));
    const char *text = af_probe_small_text(probe, path);
    if (gpu == NULL)
        return;
    af_fact_text(probe->arena, &gpu->vendor, "nvidia", folder);
    af_fact_text(probe->arena, &gpu->name, information(probe, text, "Model:"), path);
    af_fact_text(probe->arena, &gpu->uuid, information(probe, text, "GPU UUID:"), path);
}

size_t af_probe_gpu_nvidia_files(struct af_probe *probe, const char *why)
{
    const char *bus = af_probe_path(probe, "/sys/bus/pci/devices");
    const char *const *names;
    size_t found = 0;
    size_t count = af_probe_list(probe, bus, &names);
    for (size_t i = 0; i < count; i++) {
        const char *folder = af_path_join(probe->arena, bus, names[i]);
        const char *vendor =
            af_probe_small_text(probe, af_path_join(probe->arena, folder, "vendor"));
        if (!af_equal(vendor, "0x10de"))
            continue;
        const char *kind =
            af_probe_small_text(probe, af_path_join(probe->arena, folder, "class"));
        /* a GPU's audio function is a device, too */
        if (kind == NULL || !af_starts_with(kind, "0x03"))
            continue;
        add_nvidia(probe, names[i], folder, why);
        found++;
    }
    return found;
}

/*
 * The name for a gfx_target_version: 90402 is gfx942, 110000 is gfx1100. The digits are MMmmss;
 * the step ss is written in hexadecimal.
 */
static const char *gfx_of(struct af_arena *arena, long number)
{
    return af_arena_format(arena, "gfx%ld%ld%lx", number / 10000, number / 100 % 100,
                           (unsigned long)(number % 100));
}

void af_probe_gpu_amd_files(struct af_probe *probe)
{
    const char *info = af_probe_path(probe, "/opt/rocm/.info/version");
    const char *nodes = af_probe_path(probe, "/sys/class/kfd/kfd/topology/nodes");
    const char *rocm = af_probe_small_text(probe, info);
    const char *const *names;
    if (rocm != NULL)
        af_fact_text(probe->arena, &probe->machine->driver.rocm, rocm, info);
    else
        af_fact_absent(probe->arena, &probe->machine->driver.rocm,
                       "no /opt/rocm/.info/version");
    size_t count = af_probe_list(probe, nodes, &names);
    for (size_t i = 0; i < count; i++) {
        const char *path = af_arena_format(probe->arena, "%s/%s/properties", nodes, names[i]);
        const char *text = af_probe_small_text(probe, path);
        const char *found = text == NULL ? NULL : strstr(text, "gfx_target_version ");
        long number = found == NULL ? 0 : strtol(strchr(found, ' '), NULL, 10);
        struct af_gpu *gpu =
            number < 10000 || number > 999999
                ? NULL /* the node of a processor has 0 */
                : af_machine_row_add(probe->machine, offsetof(struct af_machine, gpus),
                                     "not read for AMD GPUs");
        if (gpu == NULL)
            continue;
        af_fact_text(probe->arena, &gpu->vendor, "amd", path);
        af_fact_text(probe->arena, &gpu->sm, gfx_of(probe->arena, number), path);
    }
}
