/*
 * gpu.c: the probe of the driver and its GPUs. A child process queries libcuda (gpu_child.c),
 * because that library can hang, crash and change the process it is loaded into; which devices
 * CUDA_VISIBLE_DEVICES hides is decided here, later. If the child fails, nvidia-smi and then
 * files (gpu_files.c) at least show which devices there are, and the reason why more is not
 * known is recorded.
 */
#include <string.h>

#include "kit/probe/probes.h"
#include "kit/system/file.h"

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
    af_probe_gpu_kernel_driver(probe);
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
    } else if (af_probe_gpu_nvidia_files(probe, answer.why) > 0) {
        bool refused = answer.init > 0 || !driver_there; /* else it did not answer in time */
        for (size_t i = 0; refused && i < machine->gpus.count; i++)
            af_fact_bool(probe->arena, &machine->gpus.rows[i].visible, false, answer.why);
    }
    af_probe_gpu_amd_files(probe);
    set_no_devices(probe, &answer);
    if (visible == NULL)
        af_fact_absent(probe->arena, &machine->driver.visible_devices, "environment");
    else
        af_fact_text(probe->arena, &machine->driver.visible_devices, visible, "environment");
}
