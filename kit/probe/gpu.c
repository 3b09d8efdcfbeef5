/*
 * gpu.c: the probe of the driver and its GPUs. A child process queries libcuda, because that
 * library can hang, crash and change the process it is loaded into. The child unsets
 * CUDA_VISIBLE_DEVICES first, so that hidden devices are known, too; which devices the variable
 * hides is decided later. If the child fails, nvidia-smi and then files of /proc and /sys at
 * least show which devices there are, and the reason why more is not known is recorded.
 *
 * Source: CUDA driver API; attribute numbers as in cuda.h of CUDA 13.0.
 */
#include <ctype.h>
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

static void read_kernel_driver(struct af_probe *probe)
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

static size_t add_nvidia_from_files(struct af_probe *probe, const char *why)
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

static void add_amd_from_files(struct af_probe *probe)
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

#define DEFAULT_LIMIT_MS 3000
#define WORDS_MAX 7

/* What the child reported, and the reason if something is missing. */
struct answer {
    const char *library;
    int64_t driver;
    int64_t init; /* result of cuInit; -1: cuInit was not reached */
    size_t gpu_count;
    const char *why;
};

static int limit_ms(const struct af_probe *probe)
{
    return probe->options->gpu_limit_ms > 0 ? probe->options->gpu_limit_ms : DEFAULT_LIMIT_MS;
}

/* The variable's value. An empty value is kept, because it hides every device. */
static const char *visible_devices(const struct af_probe *probe)
{
    char *const *all = probe->options->environment;
    for (size_t i = 0; all != NULL && all[i] != NULL; i++) {
        if (af_starts_with(all[i], "CUDA_VISIBLE_DEVICES="))
            return all[i] + strlen("CUDA_VISIBLE_DEVICES=");
    }
    return NULL;
}

static const char *init_problem(struct af_probe *probe, int64_t result)
{
    static const struct {
        int64_t result;
        const char *meaning;
    } meanings[] = {
        {34, "it is the toolkit's stub, not a driver"},
        {46, "devices are busy or exclusive"},
        {100, "no device, or none that this process may open"},
        {802, "the system is not ready (is the fabric manager running?)"},
        {803, "libcuda and the kernel module are of different driver versions"},
        {804, "forward compatibility is not supported on this device"},
        {999, "unknown error of the driver"},
    };
    for (size_t i = 0; i < AF_COUNT(meanings); i++) {
        if (meanings[i].result == result)
            return af_arena_format(probe->arena, "cuInit failed with %d: %s", (int)result,
                                   meanings[i].meaning);
    }
    return af_arena_format(probe->arena, "cuInit failed with %d", (int)result);
}

/* Splits a line into words at tabs or commas; missing words are "". */
static void split(struct af_probe *probe, struct af_span line, char mark,
                  const char *words[WORDS_MAX])
{
    for (size_t i = 0; i < WORDS_MAX; i++) {
        const char *found = line.len == 0 ? NULL : memchr(line.data, mark, line.len);
        size_t len = found == NULL ? line.len : (size_t)(found - line.data);
        struct af_span word = af_text_trim((struct af_span){line.data, len});
        const char *copy =
            af_arena_text_n(probe->arena, word.len == 0 ? "" : word.data, word.len);
        words[i] = copy == NULL ? "" : copy;
        size_t taken = found == NULL ? len : len + 1;
        line.data += taken;
        line.len -= taken;
    }
}

static void add_gpu(struct af_probe *probe, const char *const words[WORDS_MAX])
{
    const char *source = "libcuda";
    int64_t bytes;
    struct af_gpu *gpu = af_machine_row_add(probe->machine, offsetof(struct af_machine, gpus),
                                            "libcuda did not report it");
    if (gpu == NULL)
        return;
    const char *sm = af_arena_format(probe->arena, "%s.%s", words[2], words[3]);
    af_fact_text(probe->arena, &gpu->vendor, "nvidia", source);
    if (words[1][0] != '\0')
        af_fact_text(probe->arena, &gpu->name, words[1], source);
    if (strcmp(words[2], "0") != 0)
        af_fact_text(probe->arena, &gpu->sm, sm, source);
    if (af_parse_i64(words[4], 1, INT64_MAX, &bytes))
        af_fact_int(probe->arena, &gpu->memory_bytes, bytes, source);
    if (words[5][0] != '\0')
        af_fact_text(probe->arena, &gpu->uuid, words[5], source);
    af_fact_bool(probe->arena, &gpu->integrated, strcmp(words[6], "1") == 0, source);
}

static void read_answer(struct af_probe *probe, struct af_span output, struct answer *answer)
{
    struct af_span line;
    const char *words[WORDS_MAX];
    while (af_text_line(&output, &line)) {
        split(probe, line, '\t', words);
        if (strcmp(words[0], "library") == 0)
            answer->library = words[1];
        else if (strcmp(words[0], "driver") == 0)
            af_parse_i64(words[1], 1000, 999999, &answer->driver);
        else if (strcmp(words[0], "init") == 0)
            af_parse_i64(words[1], 0, INT32_MAX, &answer->init);
        else if (strcmp(words[0], "gpu") == 0 && answer->gpu_count < AF_MACHINE_ROWS_MAX) {
            add_gpu(probe, words);
            answer->gpu_count++;
        }
    }
}

static void collect(struct af_probe *probe, struct af_child *child, struct answer *answer)
{
    struct anyflash_error err = {0};
    struct af_span output = {NULL, 0};
    int exit_code = 0;
    *answer = (struct answer){.init = -1, .why = "no libcuda.so.1 was found"};
    if (child->pid == 0)
        return;
    if (af_child_collect(child, limit_ms(probe), probe->arena, &output, &exit_code, &err) !=
        ANYFLASH_OK) {
        answer->why = af_arena_format(probe->arena, "asking libcuda: %s", err.message);
        return;
    }
    read_answer(probe, output, answer);
    if (exit_code != 0)
        answer->why = "libcuda lacks calls that every driver has";
    else if (answer->init == 0)
        answer->why = "the driver reports no devices";
    else if (answer->init > 0)
        answer->why = init_problem(probe, answer->init);
}

/*
 * Reads the version from the file name libcuda.so.580.95.05; on WSL and Tegra the name has
 * none.
 */
static void set_user_version(struct af_probe *probe, const struct answer *answer)
{
    struct af_fact *fact = &probe->machine->driver.user_version;
    const char *start = "libcuda.so.";
    if (answer->library == NULL) {
        if (strstr(answer->why, "no libcuda") != NULL)
            af_fact_absent(probe->arena, fact, answer->why);
        else
            af_fact_unknown(probe->arena, fact, "%s", answer->why);
        return;
    }
    const char *name = af_path_name(answer->library);
    const char *version = af_starts_with(name, start) ? name + strlen(start) : "";
    const char *dot = strchr(version, '.');
    if (dot != NULL && dot - version >= 3)
        af_fact_text(probe->arena, fact, version, answer->library);
    else
        af_fact_unknown(probe->arena, fact, "the file name of '%s' has no version",
                        answer->library);
}

static void set_cuda_api(struct af_probe *probe, const struct answer *answer)
{
    struct af_driver *driver = &probe->machine->driver;
    const char *version =
        af_fact_text_or(&driver->user_version, af_fact_text_or(&driver->kernel_version, NULL));
    const char *cuda = version == NULL ? NULL : af_machine_gpu_driver_cuda(version);
    if (answer->driver > 0)
        af_fact_text(probe->arena, &driver->cuda_api,
                     af_arena_format(probe->arena, "%d.%d", (int)(answer->driver / 1000),
                                     (int)(answer->driver % 1000 / 10)),
                     "cuDriverGetVersion");
    else if (cuda != NULL)
        af_fact_text(probe->arena, &driver->cuda_api, cuda, "NVIDIA's table of drivers");
    else if (driver->kernel_version.state == AF_FACT_ABSENT && answer->library == NULL)
        af_fact_absent(probe->arena, &driver->cuda_api, answer->why);
    else
        af_fact_unknown(probe->arena, &driver->cuda_api, "%s", answer->why);
}

/* Reads one device per line: name, compute_cap, uuid, memory.total in MiB. */
static size_t read_smi(struct af_probe *probe, struct af_span output)
{
    struct af_span line;
    const char *words[WORDS_MAX];
    size_t count = 0;
    while (af_text_line(&output, &line)) {
        split(probe, line, ',', words);
        char sm[16];
        int64_t mib;
        if (!af_machine_gpu_sm_parse(words[1], sm, sizeof sm) || strchr(words[1], '.') == NULL)
            continue;
        struct af_gpu *gpu =
            af_machine_row_add(probe->machine, offsetof(struct af_machine, gpus),
                               "nvidia-smi was not asked for it");
        if (gpu == NULL)
            break;
        af_fact_text(probe->arena, &gpu->name, words[0], "nvidia-smi");
        af_fact_text(probe->arena, &gpu->vendor, "nvidia", "nvidia-smi");
        af_fact_text(probe->arena, &gpu->sm, sm, "nvidia-smi");
        af_fact_text(probe->arena, &gpu->uuid, words[2], "nvidia-smi");
        if (af_parse_i64(words[3], 1, INT64_C(1) << 30, &mib))
            af_fact_int(probe->arena, &gpu->memory_bytes, mib << 20, "nvidia-smi");
        count++;
    }
    return count;
}

/* Runs nvidia-smi, but only if there is a driver and libcuda did not answer. */
static size_t ask_smi(struct af_probe *probe)
{
    struct af_child child = {0};
    struct af_span output;
    int exit_code;
    const char *program = af_probe_on_path(probe, "nvidia-smi");
    const char *wsl = af_probe_path(probe, "/usr/lib/wsl/lib/nvidia-smi");
    if (program == NULL && af_file_is_executable(wsl))
        program = wsl;
    const char *argv[] = {program, "--query-gpu=name,compute_cap,uuid,memory.total",
                          "--format=csv,noheader,nounits", NULL};
    if (program == NULL || af_child_start_program(argv, NULL, &child, NULL) != ANYFLASH_OK)
        return 0;
    if (af_child_collect(&child, limit_ms(probe), probe->arena, &output, &exit_code, NULL) !=
            ANYFLASH_OK ||
        exit_code != 0)
        return 0;
    return read_smi(probe, output);
}

static void set_no_devices(struct af_probe *probe, const struct answer *answer)
{
    struct af_gpu_rows *gpus = &probe->machine->gpus;
    bool wsl = af_fact_truth(&probe->machine->platform.wsl) == AF_YES;
    const char *bus = af_probe_path(probe, "/sys/bus/pci/devices");
    bool looked = answer->init == 0 || answer->init == 100 || (!wsl && af_file_is_folder(bus));
    if (probe->machine->gpus.count > 0)
        return;
    gpus->state = looked ? AF_FACT_KNOWN : AF_FACT_UNKNOWN;
    gpus->source = af_arena_format(probe->arena, "%s; %s", answer->why,
                                   looked ? "no NVIDIA or AMD device on the PCI bus"
                                          : "there is no PCI bus");
}

void af_probe_gpu_finish(struct af_probe *probe, struct af_child *child)
{
    struct af_machine *machine = probe->machine;
    struct answer answer;
    const char *visible = visible_devices(probe);
    collect(probe, child, &answer);
    read_kernel_driver(probe);
    set_user_version(probe, &answer);
    set_cuda_api(probe, &answer);
    bool driver_there = machine->driver.kernel_version.state == AF_FACT_KNOWN ||
                        answer.library != NULL || strstr(answer.why, "no libcuda") == NULL;
    size_t found = answer.gpu_count;
    if (found == 0 && driver_there && answer.init != 0)
        found = ask_smi(probe);
    if (found > 0) {
        af_machine_gpu_visibility(machine, visible,
                                  visible == NULL ? "CUDA_VISIBLE_DEVICES is not set"
                                                  : "CUDA_VISIBLE_DEVICES");
    } else if (add_nvidia_from_files(probe, answer.why) > 0) {
        bool refused = answer.init > 0 || !driver_there; /* else it did not answer in time */
        for (size_t i = 0; refused && i < machine->gpus.count; i++)
            af_fact_bool(probe->arena, &machine->gpus.rows[i].visible, false, answer.why);
    }
    add_amd_from_files(probe);
    set_no_devices(probe, &answer);
    if (visible == NULL)
        af_fact_absent(probe->arena, &machine->driver.visible_devices, "environment");
    else
        af_fact_text(probe->arena, &machine->driver.visible_devices, visible, "environment");
}
