/*
 * gpu_child.c: the child process that queries libcuda. It unsets CUDA_VISIBLE_DEVICES first, so
 * that hidden devices are known, too. gpu.c reads what it writes.
 *
 * Source: CUDA driver API; attribute numbers as in cuda.h of CUDA 13.0.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define DEVICES_MAX 64
#define CANDIDATES_MAX 64

enum { CC_MAJOR = 75, CC_MINOR = 76, INTEGRATED = 18 };

struct driver_calls {
    int (*get_version)(int *);
    int (*init)(unsigned);
    int (*count)(int *);
    int (*device)(int *, int);
    int (*name)(char *, int, int);
    int (*attribute)(int *, int, int);
    int (*memory)(size_t *, int);
    int (*uuid)(unsigned char *, int);
};

/* Library files to try, in order; filled before the fork. */
struct candidates {
    const char *paths[CANDIDATES_MAX];
    size_t count;
};

/* Stores a function of any type from dlsym's void *. */
static void load(void *library, const char *name, void *function_out)
{
    void *symbol = dlsym(library, name);
    memcpy(function_out, &symbol, sizeof symbol);
}

static bool load_calls(void *library, struct driver_calls *calls)
{
    load(library, "cuDriverGetVersion", &calls->get_version);
    load(library, "cuInit", &calls->init);
    load(library, "cuDeviceGetCount", &calls->count);
    load(library, "cuDeviceGet", &calls->device);
    load(library, "cuDeviceGetName", &calls->name);
    load(library, "cuDeviceGetAttribute", &calls->attribute);
    load(library, "cuDeviceTotalMem_v2", &calls->memory);
    load(library, "cuDeviceGetUuid_v2", &calls->uuid);
    if (calls->uuid == NULL)
        load(library, "cuDeviceGetUuid", &calls->uuid);
    return calls->get_version != NULL && calls->init != NULL && calls->count != NULL &&
           calls->device != NULL && calls->name != NULL && calls->attribute != NULL &&
           calls->memory != NULL;
}

static int attribute(const struct driver_calls *calls, int number, int device)
{
    int value = 0;
    return calls->attribute(&value, number, device) == 0 ? value : 0;
}

static void uuid_text(const struct driver_calls *calls, int device, char text[48])
{
    unsigned char bytes[16];
    text[0] = '\0';
    if (calls->uuid == NULL || calls->uuid(bytes, device) != 0)
        return;
    size_t used = (size_t)snprintf(text, 48, "GPU-");
    for (size_t i = 0; i < sizeof bytes; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(text + used, 48 - used, "%s%02x", dash ? "-" : "", bytes[i]);
    }
}

static void write_device(int out_fd, const struct driver_calls *calls, int index)
{
    int device;
    char name[256] = "";
    char uuid[48];
    size_t bytes = 0;
    if (calls->device(&device, index) != 0)
        return;
    if (calls->name(name, sizeof name - 1, device) != 0)
        name[0] = '\0';
    if (calls->memory(&bytes, device) != 0)
        bytes = 0;
    name[strcspn(name, "\t\n")] = '\0';
    uuid_text(calls, device, uuid);
    dprintf(out_fd, "gpu\t%s\t%d\t%d\t%zu\t%s\t%d\n", name, attribute(calls, CC_MAJOR, device),
            attribute(calls, CC_MINOR, device), bytes, uuid,
            attribute(calls, INTEGRATED, device));
}

static void *open_library(const struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++) {
        void *library = dlopen(candidates->paths[i], RTLD_NOW | RTLD_LOCAL);
        if (library != NULL)
            return library;
    }
    return NULL;
}

/* Writes the real path of the file that has the function: its name has the version. */
static void write_library(int out_fd, void *function)
{
    Dl_info info;
    if (dladdr(function, &info) == 0 || info.dli_fname == NULL)
        return;
    char *real = realpath(info.dli_fname, NULL);
    dprintf(out_fd, "library\t%s\n", real == NULL ? info.dli_fname : real);
    free(real);
}

static int ask_driver(int out_fd, void *context)
{
    struct driver_calls calls = {0};
    int number = 0;
    unsetenv("CUDA_VISIBLE_DEVICES");
    void *library = open_library(context);
    if (library == NULL)
        return 0;
    write_library(out_fd, dlsym(library, "cuInit"));
    if (!load_calls(library, &calls))
        return 1;
    if (calls.get_version(&number) == 0) /* works before cuInit */
        dprintf(out_fd, "driver\t%d\n", number);
    int result = calls.init(0);
    dprintf(out_fd, "init\t%d\n", result);
    if (result == 0 && calls.count(&number) == 0) {
        for (int i = 0; i < number && i < DEVICES_MAX; i++)
            write_device(out_fd, &calls, i);
    }
    return 0;
}

/* Adds a file, unless it is a stub of the toolkit: cuInit of a stub fails. */
static void add_candidate(struct af_probe *probe, struct candidates *candidates,
                          const char *folder)
{
    const char *path = af_path_join(probe->arena, folder, "libcuda.so.1");
    if (strstr(path, "/stubs/") == NULL && af_file_exists(path) &&
        candidates->count < CANDIDATES_MAX)
        candidates->paths[candidates->count++] = path;
}

/* Adds the names that the loader searches, then folders that it does not search. */
static void find_candidates(struct af_probe *probe, struct candidates *candidates)
{
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib64",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/usr/lib/wsl/lib",
                                          "/usr/lib64-nvidia",
                                          "/usr/local/nvidia/lib64",
                                          "/run/opengl-driver/lib",
                                          "/usr/local/cuda/compat",
                                          "/usr/lib/aarch64-linux-gnu/nvidia",
                                          "/usr/lib/aarch64-linux-gnu/tegra"};
    const char *rest = af_probe_variable(probe, "LD_LIBRARY_PATH");
    const char *folder;
    while ((folder = af_probe_next_folder(probe, &rest, NULL)) != NULL)
        add_candidate(probe, candidates, folder);
    if (probe->options->root == NULL)
        candidates->paths[candidates->count++] = "libcuda.so.1";
    for (size_t i = 0; i < AF_COUNT(folders); i++)
        add_candidate(probe, candidates, af_probe_path(probe, folders[i]));
}

/*
 * Starts the child. It writes lines of words separated by tabs:
 *   library PATH            the real file that was loaded
 *   driver NUMBER           cuDriverGetVersion: 1000 * major + 10 * minor
 *   init NUMBER             result of cuInit; nothing follows unless it is 0
 *   gpu NAME MAJOR MINOR BYTES UUID INTEGRATED
 * and exits with 0. Without a driver library it writes nothing.
 */
void af_probe_gpu_start(struct af_probe *probe, struct af_child *child)
{
    struct candidates candidates = {.count = 0};
    find_candidates(probe, &candidates);
    if (candidates.count > 0)
        af_child_start_fork(ask_driver, &candidates, child, NULL);
}
