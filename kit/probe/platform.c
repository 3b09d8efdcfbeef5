/*
 * platform.c: the probe of the operating system: kernel, distribution, C library, libstdc++,
 * WSL and containers. Runs after the Python probe, because the C library that matters is that
 * of the interpreter.
 */
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <string.h>
#include <sys/utsname.h>

#define SMALL_FILE_BYTES 65536u

static void probe_kernel(struct af_probe *probe)
{
    struct af_platform *platform = &probe->machine->platform;
    struct utsname names;
    const char *path = af_probe_path(probe, "/proc/sys/kernel/osrelease");
    if (uname(&names) != 0)
        return;
    const char *text = af_probe_small_text(probe, path);
    const char *source = text == NULL ? "uname(2)" : path;
    af_fact_text(probe->arena, &platform->os, "linux", "uname(2)");
    af_fact_text(probe->arena, &platform->arch, names.machine, "uname(2)");
    af_fact_text(probe->arena, &platform->kernel, text == NULL ? names.release : text, source);
}

/* The value of KEY=value or KEY="value" in os-release(5), or NULL. */
static const char *release_value(struct af_arena *arena, struct af_span bytes, const char *key)
{
    struct af_span line;
    size_t key_len = strlen(key);
    while (af_text_line(&bytes, &line)) {
        if (line.len <= key_len || strncmp(line.data, key, key_len) != 0 ||
            line.data[key_len] != '=')
            continue;
        struct af_span value =
            af_text_trim((struct af_span){line.data + key_len + 1, line.len - key_len - 1});
        if (value.len >= 2 && (value.data[0] == '"' || value.data[0] == '\'')) {
            value.data++;
            value.len -= 2;
        }
        return af_arena_text_n(arena, value.data, value.len);
    }
    return NULL;
}

static void probe_distribution(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->platform.distribution;
    struct anyflash_error err = {0};
    struct af_span bytes;
    const char *path = af_probe_path(probe, "/etc/os-release");
    if (!af_file_is_regular(path))
        path = af_probe_path(probe, "/usr/lib/os-release");
    if (af_file_read(probe->arena, path, SMALL_FILE_BYTES, &bytes, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        return;
    }
    const char *id = release_value(probe->arena, bytes, "ID");
    const char *version = release_value(probe->arena, bytes, "VERSION_ID");
    if (id == NULL)
        af_fact_unknown(probe->arena, fact, "no ID in '%s'", path);
    else
        af_fact_text(probe->arena, fact,
                     version == NULL ? id : af_arena_format(probe->arena, "%s %s", id, version),
                     path);
}

static void probe_libc(struct af_probe *probe)
{
    struct af_platform *platform = &probe->machine->platform;
    const struct af_python *python = &probe->machine->python;
    const char *program = af_fact_text_or(&python->base_executable, NULL);
    struct af_libc libc;
    if (program == NULL)
        program = af_probe_path(probe, "/bin/sh"); /* no Python: use the system's own program */
    af_libc_of_program(probe, program, &libc);
    if (libc.kind != NULL)
        af_fact_text(probe->arena, &platform->libc, libc.kind, libc.source);
    else
        af_fact_unknown(probe->arena, &platform->libc, "%s", libc.problem);
    if (libc.version != NULL)
        af_fact_text(probe->arena, &platform->libc_version, libc.version, libc.source);
    else
        af_fact_unknown(probe->arena, &platform->libc_version, "%s", libc.problem);
}

/* Reads the GLIBCXX version from folder/libstdc++.so.6; false when it does not exist. */
static bool take_glibcxx(struct af_probe *probe, const char *folder)
{
    struct af_fact *fact = &probe->machine->platform.glibcxx;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    const char *highest;
    const char *path = af_path_join(probe->arena, folder, "libstdc++.so.6");
    if (!af_file_is_regular(path))
        return false;
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        return true;
    }
    highest = af_dynamic_version_max(&elf.dynamic, "GLIBCXX_", true);
    if (highest != NULL)
        af_fact_text(probe->arena, fact, highest, path);
    else
        af_fact_unknown(probe->arena, fact, "no GLIBCXX version in '%s'", path);
    af_probe_elf_close(&elf);
    return true;
}

/* Searches LD_LIBRARY_PATH, then conda's folder, then the system's, as the loader does. */
static void probe_glibcxx(struct af_probe *probe)
{
    static const char *const system_folders[] = {"/usr/lib/x86_64-linux-gnu",
                                                 "/usr/lib/aarch64-linux-gnu",
                                                 "/lib64",
                                                 "/usr/lib64",
                                                 "/usr/lib",
                                                 "/lib"};
    const struct af_python *python = &probe->machine->python;
    const char *rest = af_probe_variable(probe, "LD_LIBRARY_PATH");
    const char *folder;
    while ((folder = af_probe_next_folder(probe, &rest, NULL)) != NULL) {
        if (take_glibcxx(probe, folder))
            return;
    }
    if (af_fact_is(&python->kind, "conda") || af_fact_is(&python->kind, "pixi")) {
        const char *lib =
            af_path_join(probe->arena, af_fact_text_or(&python->prefix, ""), "lib");
        if (take_glibcxx(probe, lib))
            return;
    }
    for (size_t i = 0; i < AF_COUNT(system_folders); i++) {
        folder = af_probe_path(probe, system_folders[i]);
        if (take_glibcxx(probe, folder))
            return;
    }
    af_fact_absent(probe->arena, &probe->machine->platform.glibcxx,
                   "no libstdc++.so.6 where the loader looks");
}

static void probe_wsl(struct af_probe *probe)
{
    const struct af_platform *platform = &probe->machine->platform;
    const char *kernel = af_fact_text_or(&platform->kernel, "");
    bool wsl = strstr(kernel, "microsoft") != NULL || strstr(kernel, "Microsoft") != NULL;
    af_fact_bool(probe->arena, &probe->machine->platform.wsl, wsl, platform->kernel.source);
}

/* Looks for signs that container runtimes leave, the most reliable ones first. */
static void probe_container(struct af_probe *probe)
{
    static const struct {
        const char *variable;
        const char *file;
        const char *name;
    } marks[] = {
        {"APPTAINER_CONTAINER", NULL, "apptainer"},
        {"SINGULARITY_CONTAINER", "/.singularity.d", "singularity"},
        {"COLAB_RELEASE_TAG", NULL, "colab"},
        {"KAGGLE_KERNEL_RUN_TYPE", NULL, "kaggle"},
        {"KUBERNETES_SERVICE_HOST", "/var/run/secrets/kubernetes.io", "kubernetes"},
        {NULL, "/run/.containerenv", "podman"},
        {NULL, "/.dockerenv", "docker"},
    };
    struct af_fact *fact = &probe->machine->platform.container;
    for (size_t i = 0; i < AF_COUNT(marks); i++) {
        const char *path = af_probe_path(probe, marks[i].file);
        if (marks[i].variable != NULL && af_probe_variable(probe, marks[i].variable) != NULL)
            af_fact_text(probe->arena, fact, marks[i].name, marks[i].variable);
        else if (path != NULL && af_file_exists(path))
            af_fact_text(probe->arena, fact, marks[i].name, path);
        else
            continue;
        return;
    }
    const char *manager = af_probe_variable(probe, "container"); /* convention of systemd */
    if (manager != NULL)
        af_fact_text(probe->arena, fact, manager, "variable 'container'");
    else
        af_fact_absent(probe->arena, fact, "no sign of a container runtime");
}

void af_probe_platform(struct af_probe *probe)
{
    probe_kernel(probe);
    probe_distribution(probe);
    probe_libc(probe);
    probe_glibcxx(probe);
    probe_wsl(probe);
    probe_container(probe);
}
