/*
 * pasted_report.c: lines of the form "key: value": torch's collect_env and its
 * relatives, lscpu, /proc/meminfo, nvidia-smi -q, rocminfo, pip show. One table
 * of keys; each handler checks the form of the value and ignores others ("N/A",
 * "Could not collect").
 */
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 48

/* A key's handler; false if the value says nothing. */
typedef bool take(struct af_pasted_reader *reader, const char *value);

static bool keep_version(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                         const char *value)
{
    value += *value == '\'' || *value == '"' ? 1 : 0;
    size_t len = af_pasted_version_len(value);
    af_pasted_take(reader, fact, value, len);
    return len > 0;
}

static bool is_none(const char *value)
{
    return af_equal(value, "None") || af_equal(value, "No CUDA");
}

/* "None" means a CPU build of torch; "N/A" a ROCm build, or that importing torch failed. */
static bool take_torch_cuda(struct af_pasted_reader *reader, const char *value)
{
    if (is_none(value) && reader->values[AF_PASTED_TORCH].text != NULL)
        af_pasted_take(reader, AF_PASTED_TORCH_CUDA, "none", 4);
    return is_none(value) || keep_version(reader, AF_PASTED_TORCH_CUDA, value);
}

static bool take_torch_hip(struct af_pasted_reader *reader, const char *value)
{
    if (af_starts_with(value, "N/A") && reader->values[AF_PASTED_TORCH].text != NULL)
        af_pasted_take(reader, AF_PASTED_TORCH_HIP, "none", 4);
    return af_starts_with(value, "N/A") || keep_version(reader, AF_PASTED_TORCH_HIP, value);
}

/* The first two numbers of HIP's version are those of ROCm's. */
static bool take_hip_runtime(struct af_pasted_reader *reader, const char *value)
{
    const char *dot = isdigit((unsigned char)*value) ? strchr(value, '.') : NULL;
    if (dot == NULL)
        return false;
    af_pasted_take(reader, AF_PASTED_ROCM, value,
                   (size_t)(dot - value) + 1 + strspn(dot + 1, "0123456789"));
    return true;
}

/* "Ubuntu 22.04.4 LTS (x86_64)"; a name without a known system is a Linux distribution's */
static bool take_os(struct af_pasted_reader *reader, const char *value)
{
    const char *open = strrchr(value, '(');
    char text[120];
    if (!isalpha((unsigned char)*value) || af_equal(value, "Could not collect") ||
        af_equal(value, "N/A") || af_equal(value, "posix"))
        return false;
    if (af_equal(value, "nt")) /* Python's os.name */
        value = "Windows";
    size_t len = strlen(value);
    if (open != NULL && af_pasted_take_arch(reader, open + 1))
        len = (size_t)(open - value);
    snprintf(text, sizeof text, "%.*s", (int)(len < 100 ? len : 100), value);
    af_pasted_take(reader, AF_PASTED_OS, text, strlen(text));
    return true;
}

/* "(Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "(GCC) 8.5.0 20210514 (Red Hat 8.5.0-18)" */
static bool take_gcc(struct af_pasted_reader *reader, const char *value)
{
    const char *close = *value == '(' ? strstr(value, ") ") : NULL;
    value = close != NULL ? close + 2 : value;
    size_t len = strspn(value, "0123456789.");
    af_pasted_take(reader, AF_PASTED_GCC, value, len);
    return len > 0;
}

static bool take_clang(struct af_pasted_reader *reader, const char *value)
{
    size_t len = strspn(value, "0123456789.");
    af_pasted_take(reader, AF_PASTED_CLANG, value, len);
    return len > 0;
}

static bool take_libc(struct af_pasted_reader *reader, const char *value)
{
    if (!af_starts_with(value, "glibc-"))
        return false;
    af_pasted_take_glibc(reader, value + strlen("glibc-"));
    return true;
}

/* "3.11.7 (main, Dec 4 2023) [GCC 12.3.0] (64-bit runtime)"; on Windows with processor */
static bool take_python(struct af_pasted_reader *reader, const char *value)
{
    char text[60];
    size_t len = af_pasted_version_len(value);
    if (len == 0)
        return false;
    const char *kind = strstr(value, "free-threading build") != NULL ? "t"
                       : strstr(value, "PyPy") != NULL               ? " pypy"
                                                                     : "";
    snprintf(text, sizeof text, "%.*s%s", (int)(len < 40 ? len : 40), value, kind);
    af_pasted_take(reader, AF_PASTED_PYTHON, text, strlen(text));
    if (strstr(value, "(AMD64)") != NULL)
        af_pasted_take_arch(reader, "AMD64");
    return true;
}

/* collect_env runs nvcc; it prints "No CUDA" if neither nvcc nor nvidia-smi can be run. */
static bool take_toolkit(struct af_pasted_reader *reader, const char *value)
{
    if (is_none(value))
        af_pasted_take(reader, AF_PASTED_TOOLKIT, "none", 4);
    return is_none(value) || keep_version(reader, AF_PASTED_TOOLKIT, value);
}

/* The value is a GPU, or it is empty and the GPUs are on the following lines. */
static bool take_gpus(struct af_pasted_reader *reader, const char *value)
{
    if (is_none(value))
        af_pasted_take(reader, AF_PASTED_GPUS_NONE, "none", 4);
    else if (af_starts_with(value, "GPU "))
        return af_pasted_gpu_line(reader, value) != AF_PASTED_NONE;
    else if (strstr(value, "AMD ") != NULL || strstr(value, "NVIDIA ") != NULL)
        af_pasted_take_gpu(reader, 0, value, NULL);
    return true;
}

/* "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB, 40960 MiB" */
static bool take_gpu_type(struct af_pasted_reader *reader, const char *value)
{
    char name[120];
    size_t len = strcspn(value, ",");
    if (!isalpha((unsigned char)*value) || strlen(value) < 4 ||
        af_equal(value, "not available"))
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(len < 119 ? len : 119), value);
    af_pasted_take_gpu(reader, 0, name, NULL);
    if (value[len] == ',' && strstr(value, " MiB") != NULL)
        af_pasted_take_gpu_memory(reader, 0, value + len + 1 + strspn(value + len + 1, " "));
    return true;
}

static bool take_capability(struct af_pasted_reader *reader, const char *value)
{
    af_pasted_take_gpu(reader, 0, NULL, value);
    return true;
}

static bool take_driver(struct af_pasted_reader *reader, const char *value)
{
    size_t len = strspn(value, "0123456789.");
    if (is_none(value))
        af_pasted_take(reader, AF_PASTED_DRIVER, "none", 4);
    else
        af_pasted_take(reader, AF_PASTED_DRIVER, value, len);
    return is_none(value) || len > 0;
}

static bool take_cores(struct af_pasted_reader *reader, const char *value)
{
    size_t len = strspn(value, "0123456789");
    if (len == 0 || value[len] != '\0')
        return false;
    af_pasted_take(reader, AF_PASTED_CORES, value, len);
    return true;
}

/* "65842160 kB" of /proc/meminfo, "125.72 GB" of accelerate */
static bool keep_memory(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                        const char *value)
{
    char *end;
    char text[32];
    double number = strtod(value, &end);
    const char *unit = end + strspn(end, " ");
    double factor = af_equal_fold(unit, "kB") ? 1024.0
                    : af_equal(unit, "GB")    ? 1073741824.0
                                              : 0;
    if (end == value || factor == 0 || !(number > 0 && number < 1e14))
        return false;
    snprintf(text, sizeof text, "%.0f", number * factor);
    af_pasted_take(reader, fact, text, strlen(text));
    return true;
}

static bool take_memory(struct af_pasted_reader *reader, const char *value)
{
    return keep_memory(reader, AF_PASTED_MEMORY, value);
}

static bool take_memory_available(struct af_pasted_reader *reader, const char *value)
{
    return keep_memory(reader, AF_PASTED_MEMORY_AVAILABLE, value);
}

static bool take_swap_free(struct af_pasted_reader *reader, const char *value)
{
    return keep_memory(reader, AF_PASTED_SWAP_FREE, value);
}

static bool begin_query(struct af_pasted_reader *reader, const char *value)
{
    reader->in_query = true;
    reader->query_next = 0;
    return isdigit((unsigned char)*value);
}

/* Only in the output of nvidia-smi -q is "CUDA Version" what the driver supports. */
static bool take_cuda_api(struct af_pasted_reader *reader, const char *value)
{
    return reader->in_query && keep_version(reader, AF_PASTED_CUDA_API, value);
}

static bool take_product(struct af_pasted_reader *reader, const char *value)
{
    reader->frame_buffer = false;
    af_pasted_take_gpu(reader, reader->query_next++, value, NULL);
    return true;
}

static bool take_total(struct af_pasted_reader *reader, const char *value)
{
    bool mine = reader->frame_buffer && reader->query_next > 0;
    if (mine)
        af_pasted_take_gpu_memory(reader, reader->query_next - 1, value);
    reader->frame_buffer = false;
    return mine;
}

/* rocminfo: "Name: gfx1100" begins a GPU; pip show: "Name: torch" */
static bool take_name(struct af_pasted_reader *reader, const char *value)
{
    reader->agent_is_gpu = af_starts_with(value, "gfx");
    if (reader->agent_is_gpu)
        af_pasted_take_gpu(reader, reader->query_next++, NULL, value);
    else
        snprintf(reader->json_name, sizeof reader->json_name, "%.*s",
                 (int)sizeof reader->json_name - 1, value);
    return reader->agent_is_gpu;
}

static bool take_marketing_name(struct af_pasted_reader *reader, const char *value)
{
    if (!reader->agent_is_gpu || reader->query_next == 0)
        return false;
    af_pasted_take_gpu(reader, reader->query_next - 1, value, NULL);
    return true;
}

static bool take_shown_version(struct af_pasted_reader *reader, const char *value)
{
    struct af_span name = {reader->json_name, strlen(reader->json_name)};
    bool taken = name.len > 0 &&
                 af_pasted_take_package(reader, name, (struct af_span){value, strlen(value)});
    reader->json_name[0] = '\0';
    return taken;
}

/* Keys in lower case, without remarks in parentheses; a version, unless there is a handler. */
static const struct {
    const char *key;
    take *take;
    enum af_pasted_fact fact;
} keys[] = {
    {"pytorch version", NULL, AF_PASTED_TORCH},
    {"torch version", NULL, AF_PASTED_TORCH},
    {"pytorch.version", NULL, AF_PASTED_TORCH},
    {"torch.__version__", NULL, AF_PASTED_TORCH},
    {"cuda used to build pytorch", take_torch_cuda, 0},
    {"torch.version.cuda", take_torch_cuda, 0},
    {"torch cuda version", take_torch_cuda, 0},
    {"rocm used to build pytorch", take_torch_hip, 0},
    {"hip runtime version", take_hip_runtime, 0},
    {"rocm version", NULL, AF_PASTED_ROCM},
    {"os", take_os, 0},
    {"description", take_os, 0}, /* lsb_release */
    {"platform", af_pasted_take_platform, 0},
    {"python platform", af_pasted_take_platform, 0},
    {"gcc version", take_gcc, 0},
    {"clang version", take_clang, 0},
    {"libc version", take_libc, 0},
    {"python version", take_python, 0},
    {"python", take_python, 0},
    {"cuda runtime version", take_toolkit, 0},
    {"nvcc version", take_toolkit, 0},
    {"gpu models and configuration", take_gpus, 0},
    {"gpu type", take_gpu_type, 0},
    {"accelerator", take_gpu_type, 0},
    {"gpu.name", take_gpu_type, 0},
    {"gpu.compute_capability", take_capability, 0},
    {"nvidia driver version", take_driver, 0},
    {"architecture", af_pasted_take_arch, 0},
    {"cpu(s)", take_cores, 0},
    {"memtotal", take_memory, 0},
    {"memavailable", take_memory_available, 0},
    {"swapfree", take_swap_free, 0},
    {"system ram", take_memory, 0},
    {"attached gpus", begin_query, 0},
    {"cuda version", take_cuda_api, 0},
    {"driver version", NULL, AF_PASTED_DRIVER},
    {"product name", take_product, 0},
    {"total", take_total, 0},
    {"name", take_name, 0},
    {"marketing name", take_marketing_name, 0},
    {"version", take_shown_version, 0},
};

/*
 * Splits "key: value". Writes the key to `key` in lower case, without a leading
 * bullet, a remark in parentheses as in "PyTorch version (GPU?)", or trailing
 * blanks. Returns the value; NULL if the line has no key.
 */
static const char *split(const char *line, char *key)
{
    line += strspn(line, "-* ");
    const char *colon = strchr(line, ':');
    const char *equals = strchr(line, '=');
    if (equals != NULL && (colon == NULL || equals < colon) &&
        af_starts_with(line, "torch.__version__"))
        colon = equals;
    const char *dots = strstr(line, " ...");
    if (colon == NULL && dots != NULL) /* DeepSpeed's ds_report */
        colon = dots;
    if (colon == NULL || colon - line >= KEY_BYTES || colon == line)
        return NULL;
    size_t len = (size_t)(colon - line);
    for (size_t i = 1; i < len; i++) {
        if (line[i] == ' ' && line[i + 1] == '(')
            len = i;
    }
    while (len > 0 && line[len - 1] == ' ')
        len--;
    for (size_t i = 0; i < len; i++)
        key[i] = (char)tolower((unsigned char)line[i]);
    key[len] = '\0';
    colon += colon == dots ? strspn(colon, " .") : 1;
    return colon + strspn(colon, " ");
}

/* "transformers version: 4.44.0", "vLLM Version: 0.6.1.post2", "flash-attn: 2.5.9" */
static bool take_package_version(struct af_pasted_reader *reader, const char *key,
                                 const char *value)
{
    size_t len = strlen(key) - (af_ends_with(key, " version") ? strlen(" version") : 0);
    struct af_span name = {key, len};
    return af_pasted_package_is_known(name) &&
           af_pasted_take_package(reader, name,
                                  (struct af_span){value, af_pasted_version_len(value)});
}

enum af_pasted_kind af_pasted_report_line(struct af_pasted_reader *reader, const char *line)
{
    char key[KEY_BYTES];
    if (strstr(line, "FB Memory Usage") != NULL)
        reader->frame_buffer = true;
    const char *value = split(line, key);
    for (size_t i = 0; value != NULL && i < AF_COUNT(keys); i++) {
        if (strcmp(key, keys[i].key) != 0)
            continue;
        bool taken = keys[i].take != NULL ? keys[i].take(reader, value)
                                          : keep_version(reader, keys[i].fact, value);
        return taken ? AF_PASTED_REPORT : AF_PASTED_NONE;
    }
    return value != NULL && take_package_version(reader, key, value) ? AF_PASTED_REPORT
                                                                     : AF_PASTED_NONE;
}
