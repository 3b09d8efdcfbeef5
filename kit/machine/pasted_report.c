/*
 * pasted_report.c: lines "key: value": those of torch's collect_env and its relatives, lscpu,
 * /proc/meminfo, nvidia-smi -q, rocminfo and pip show. Rows name the facts; a value of another
 * form than its fact has is ignored ("N/A", "Could not collect").
 */
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define KEY_BYTES 48

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

/* A key's handler; false if the value says nothing. */
typedef bool take(struct af_pasted_reader *reader, const char *value);

/* The value is a GPU, or it is empty and the GPUs are on the following lines. */
static bool take_gpus(struct af_pasted_reader *reader, const char *value)
{
    if (af_given_is_word(value, strlen(value), "None|No CUDA"))
        af_pasted_take(reader, AF_PASTED_GPUS_NONE, "none", 4);
    else if (af_starts_with(value, "GPU "))
        return af_pasted_gpu_line(reader, value);
    else if (strstr(value, "AMD ") != NULL || strstr(value, "NVIDIA ") != NULL)
        af_pasted_take_gpu(reader, 0, span_of(value), NULL);
    return true;
}

/* "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB, 40960 MiB" */
static bool take_gpu_type(struct af_pasted_reader *reader, const char *value)
{
    size_t len = strcspn(value, ",");
    if (!isalpha((unsigned char)*value) || strlen(value) < 4 ||
        af_equal(value, "not available"))
        return false;
    af_pasted_take_gpu(reader, 0, (struct af_span){value, len}, NULL);
    if (value[len] == ',' && strstr(value, " MiB") != NULL)
        af_pasted_take_gpu_memory(reader, 0, value + len + 1 + strspn(value + len + 1, " "));
    return true;
}

static bool take_capability(struct af_pasted_reader *reader, const char *value)
{
    af_pasted_take_gpu(reader, 0, (struct af_span){0}, value);
    return true;
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
    return reader->in_query && af_pasted_read_fact(reader, AF_PASTED_CUDA_API, value);
}

static bool take_product(struct af_pasted_reader *reader, const char *value)
{
    reader->frame_buffer = false;
    af_pasted_take_gpu(reader, reader->query_next++, span_of(value), NULL);
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
        af_pasted_take_gpu(reader, reader->query_next++, (struct af_span){0}, value);
    else
        snprintf(reader->json_name, sizeof reader->json_name, "%.*s",
                 (int)sizeof reader->json_name - 1, value);
    return reader->agent_is_gpu;
}

static bool take_marketing_name(struct af_pasted_reader *reader, const char *value)
{
    if (!reader->agent_is_gpu || reader->query_next == 0)
        return false;
    af_pasted_take_gpu(reader, reader->query_next - 1, span_of(value), NULL);
    return true;
}

static bool take_shown_version(struct af_pasted_reader *reader, const char *value)
{
    struct af_span name = {reader->json_name, strlen(reader->json_name)};
    bool taken = name.len > 0 && af_pasted_take_package(reader, name, span_of(value));
    reader->json_name[0] = '\0';
    return taken;
}

/* Keys in lower case, without remarks in parentheses; the value of a fact, unless there is a
   handler. */
static const struct {
    const char *key;
    take *take;
    enum af_pasted_fact fact;
} keys[] = {
    {"cuda used to build pytorch", NULL, AF_PASTED_TORCH_CUDA},
    {"torch.version.cuda", NULL, AF_PASTED_TORCH_CUDA},
    {"torch cuda version", NULL, AF_PASTED_TORCH_CUDA},
    {"rocm used to build pytorch", NULL, AF_PASTED_TORCH_HIP},
    {"hip runtime version", NULL, AF_PASTED_ROCM_OF_HIP},
    {"rocm version", NULL, AF_PASTED_ROCM},
    {"gcc version", NULL, AF_PASTED_GCC},
    {"clang version", NULL, AF_PASTED_CLANG},
    {"libc version", NULL, AF_PASTED_LIBC},
    {"python version", NULL, AF_PASTED_PYTHON},
    {"python", NULL, AF_PASTED_PYTHON},
    {"python executable", NULL, AF_PASTED_EXECUTABLE},
    {"cuda runtime version", NULL, AF_PASTED_TOOLKIT},
    {"nvcc version", NULL, AF_PASTED_TOOLKIT},
    {"nvidia driver version", NULL, AF_PASTED_DRIVER},
    {"driver version", NULL, AF_PASTED_DRIVER},
    {"architecture", NULL, AF_PASTED_ARCH},
    {"cpu(s)", NULL, AF_PASTED_CORES},
    {"memtotal", NULL, AF_PASTED_MEMORY},
    {"memavailable", NULL, AF_PASTED_MEMORY_AVAILABLE},
    {"system ram", NULL, AF_PASTED_MEMORY},
    {"os", NULL, AF_PASTED_OS},
    {"description", NULL, AF_PASTED_OS}, /* lsb_release */
    {"platform", af_pasted_take_system, 0},
    {"python platform", af_pasted_take_system, 0},
    {"gpu models and configuration", take_gpus, 0},
    {"gpu type", take_gpu_type, 0},
    {"accelerator", take_gpu_type, 0},
    {"gpu.name", take_gpu_type, 0},
    {"gpu.compute_capability", take_capability, 0},
    {"attached gpus", begin_query, 0},
    {"cuda version", take_cuda_api, 0},
    {"product name", take_product, 0},
    {"total", take_total, 0},
    {"name", take_name, 0},
    {"marketing name", take_marketing_name, 0},
    {"version", take_shown_version, 0},
};

/*
 * Splits "key: value". Writes the key to `key` in lower case, without a leading
 * bullet or rule, a remark in parentheses as in "PyTorch version (GPU?)", or trailing
 * blanks. Returns the value; NULL if the line has no key.
 */
static const char *split(const char *line, char *key)
{
    line += strspn(line, "-*:=#> ");
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

/* "transformers version: 4.44.0", "torch.__version__ = '2.4.0'", "flash-attn: 2.5.9" */
static bool take_package_version(struct af_pasted_reader *reader, const char *key,
                                 const char *value)
{
    static const char *const ends[] = {" version", ".version", ".__version__"};
    struct af_span name = span_of(key);
    for (size_t i = 0; i < AF_COUNT(ends); i++)
        name.len -= af_ends_with(key, ends[i]) ? strlen(ends[i]) : 0;
    value += *value == '\'' || *value == '"';
    return af_pasted_take_known(reader, name,
                                (struct af_span){value, af_pasted_version_len(value)});
}

bool af_pasted_report_line(struct af_pasted_reader *reader, const char *line)
{
    char key[KEY_BYTES];
    if (strstr(line, "FB Memory Usage") != NULL)
        reader->frame_buffer = true;
    reader->in_query = reader->in_query || strstr(line, "=NVSMI LOG=") != NULL;
    const char *value = split(line, key);
    for (size_t i = 0; value != NULL && i < AF_COUNT(keys); i++) {
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].take != NULL ? keys[i].take(reader, value)
                                        : af_pasted_read_fact(reader, keys[i].fact, value);
    }
    return value != NULL && take_package_version(reader, key, value);
}
