/*
 * pasted_lines.c: lines of a known form. "key: value" of torch's collect_env and its
 * relatives, lscpu, /proc/meminfo, nvidia-smi -q, rocminfo, pip show; and what nvcc, gcc,
 * ldd, python, pip, uv, uname, free and os-release print, also Python when asked for a
 * version. Rows name the facts; a value of another form than its fact has is ignored ("N/A",
 * "Could not collect").
 */
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 48
static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

/* The release of a Linux kernel; WSL's has Microsoft's name. */
static void take_kernel(struct af_pasted_reader *reader, const char *text, size_t len)
{
    af_pasted_take(reader, AF_PASTED_KERNEL, text, len);
    af_pasted_take(reader, AF_PASTED_SYSTEM, "linux", 5);
    for (size_t i = 0; i + 8 <= len; i++) {
        if (memcmp(text + i, "icrosoft", 8) == 0)
            af_pasted_take(reader, AF_PASTED_WSL, "true", 4);
    }
}

/*
 * Python's "Linux-5.15.0-97-generic-x86_64-with-glibc2.35" or "macOS-14.5-arm64-arm-64bit",
 * uname's "Linux host 5.15.0-97-generic #107-Ubuntu SMP ... x86_64 GNU/Linux".
 */
static bool take_platform(struct af_pasted_reader *reader, const char *text)
{
    static const char *const systems[][2] = {
        {"Linux", "linux"}, {"Windows", "windows"}, {"macOS", "macos"}, {"Darwin", "macos"}};
    const char *libc = strstr(text, "-with-glibc");
    const char *arch;
    size_t len = strspn(text, "LinuxWdowsmacOSDr");
    size_t i = 0;
    while (i < AF_COUNT(systems) &&
           !af_text_span_equal((struct af_span){text, len}, systems[i][0]))
        i++;
    bool windows = i == 1;
    const char *release = text + len + (text[len] != '\0');
    if (i == AF_COUNT(systems) || isalnum((unsigned char)text[len]))
        return false;
    bool uname = text[len] == ' ' && !windows;
    if (uname)
        release = strchr(release, ' ') == NULL ? "" : strchr(release, ' ') + 1;
    if (!windows && (!isdigit((unsigned char)*release) || strchr(release, '.') == NULL))
        return false;
    bool has_arch = af_pasted_read_arch(reader, release, &arch);
    if (uname && !has_arch)
        return false;
    len = strcspn(release, " ");
    if (has_arch && arch > release && arch < release + len)
        len = (size_t)(arch - 1 - release);
    if (i == 0)
        take_kernel(reader, release, len);
    else
        af_pasted_take(reader, AF_PASTED_SYSTEM, systems[i][1], strlen(systems[i][1]));
    if (libc != NULL)
        af_pasted_read_fact(reader, AF_PASTED_LIBC, libc + strlen("-with-"));
    return true;
}

/* Whether a Python states its version, as in "3.11.7", "3.12.3 | packaged by conda-forge |
   (main, ...) [GCC 12.3.0]", and no sentence goes on. */
static bool is_python(const char *version)
{
    const char *rest = version + af_pasted_version_len(version);
    return strchr(version, '.') != NULL &&
           (*rest == '\0' || (*rest == ' ' && strchr("(|:", rest[1]) != NULL) ||
            strstr(rest, "free-threading") != NULL);
}

/* "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "x86_64-conda-linux-gnu-c++ (...) 12.3.0" */
static bool take_gcc(struct af_pasted_reader *reader, const char *line)
{
    static const char *const names[] = {"gcc", "g++", "cc", "c++"};
    char command[40];
    size_t len = strcspn(line, " ");
    if (!af_starts_with(line + len, " ("))
        return false;
    snprintf(command, sizeof command, "%.*s", (int)(len < 39 ? len : 39), line);
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (af_ends_with(command, names[i]))
            return af_pasted_read_fact(reader, AF_PASTED_GCC, line + len + 1);
    }
    return false;
}

/* A program at the start of a line and the words before its version or other values. */
static bool take_versions(struct af_pasted_reader *reader, const char *line)
{
    static const struct {
        const char *program;
        const char *before;
        enum af_pasted_fact fact;
    } rows[] = {{"Cuda compilation tools", ", V", AF_PASTED_TOOLKIT},
                {"Cuda compilation tools", "release ", AF_PASTED_TOOLKIT},
                {"NVCC: Cuda compilation tools", "release ", AF_PASTED_TOOLKIT},
                {"", "clang version ", AF_PASTED_CLANG},
                {"Python ", " ", AF_PASTED_PYTHON},
                {"Using Python ", "on ", AF_PASTED_PYTHON},
                {"Using CPython ", "on ", AF_PASTED_PYTHON},
                {"pip ", "(python ", AF_PASTED_PYTHON},
                {"| NVIDIA-SMI ", "Driver Version:", AF_PASTED_DRIVER},
                {"| NVIDIA-SMI ", "KMD Version:", AF_PASTED_DRIVER},
                {"| NVIDIA-SMI ", "CUDA Version:", AF_PASTED_CUDA_API},
                {"| NVIDIA-SMI ", "CUDA UMD Version:", AF_PASTED_CUDA_API},
                {"ldd (", ") ", AF_PASTED_LIBC},
                {"GNU C Library", "version ", AF_PASTED_LIBC},
                {"musl libc ", "(", AF_PASTED_ARCH},
                {"PRETTY_NAME=", "=", AF_PASTED_OS},
                {"Microsoft Windows [", "Microsoft ", AF_PASTED_OS},
                {"CUDA_VISIBLE_DEVICES=", "=", AF_PASTED_VISIBLE},
                {"export CUDA_VISIBLE_DEVICES=", "=", AF_PASTED_VISIBLE}};
    bool any = false;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const char *at =
            af_starts_with(line, rows[i].program) ? strstr(line, rows[i].before) : NULL;
        bool bare = rows[i].before[0] == ' '; /* "Python 3.11" may begin a sentence */
        if (at == NULL || (rows[i].program[0] == '\0' && at >= line + 16) ||
            (bare && !is_python(at + 1)))
            continue;
        at += strlen(rows[i].before);
        any |= af_pasted_read_fact(reader, rows[i].fact, at + strspn(at, " "));
    }
    if (any && af_ends_with(line, " on linux"))
        af_pasted_take(reader, AF_PASTED_SYSTEM, "linux", 5);
    else if (any && af_ends_with(line, " on win32"))
        af_pasted_take(reader, AF_PASTED_SYSTEM, "windows", 7);
    return any;
}

/* "musl libc (x86_64)", then "Version 1.2.4" */
static bool take_musl(struct af_pasted_reader *reader, const char *line)
{
    char text[40];
    if (af_starts_with(line, "musl libc (")) {
        reader->musl = true;
        return false;
    }
    if (!reader->musl || !af_starts_with(line, "Version "))
        return false;
    reader->musl = false;
    snprintf(text, sizeof text, "musl %.16s", line + strlen("Version "));
    af_pasted_take(reader, AF_PASTED_LIBC, text, strlen(text));
    return true;
}

/* The unit that the options of a `free` command select. */
static char unit_of_free(const char *options)
{
    size_t len = strspn(options, " -abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < len; i++) {
        if (strchr("gmb", options[i]) != NULL)
            return options[i];
    }
    return 'k';
}

/* A number of `free`, with a unit or in that of the command; unknown without one. */
static void take_amount(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                        const char *word)
{
    char text[32];
    bool bare = word[strspn(word, "0123456789.")] == '\0';
    snprintf(text, sizeof text, "%s%.1s", word, bare ? &reader->free_unit : "");
    af_pasted_read_fact(reader, fact, text);
}

/* The command `free` with its options, and its line "Mem:". */
static bool take_free(struct af_pasted_reader *reader, const char *line)
{
    char first[24] = "";
    char last[24] = "";
    const char *command = strstr(line, "free ");
    if (af_equal(line, "free") || af_ends_with(line, "$ free") || af_ends_with(line, "# free"))
        reader->free_unit = 'k';
    else if (command != NULL && command[5] == '-' && (command == line || command[-1] == ' '))
        reader->free_unit = unit_of_free(command + 5);
    if (!af_starts_with(line, "Mem: "))
        return false;
    sscanf(strchr(line, ' '), "%23s %*s %*s %*s %*s %23s", first, last);
    take_amount(reader, AF_PASTED_MEMORY, first);
    take_amount(reader, AF_PASTED_MEMORY_AVAILABLE, last);
    return true;
}

/* Expressions whose value people print; a GPU's name is read wherever it stands. */
static const struct {
    const char *text;
    enum af_pasted_fact fact;
} expressions[] = {{"torch.__version__", AF_PASTED_TORCH},
                   {"torch.version.cuda", AF_PASTED_TORCH_CUDA},
                   {"sys.version", AF_PASTED_PYTHON},
                   {"platform.python_version", AF_PASTED_PYTHON},
                   {"flash_attn.__version__", AF_PASTED_FACT_COUNT}};

static bool take_value(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                       const char *value)
{
    size_t len = af_pasted_version_len(value);
    bool none = fact == AF_PASTED_TORCH_CUDA && af_equal(value, "None");
    if ((len == 0 || value[len] != '\0') && !none)
        return false;
    if (fact == AF_PASTED_FACT_COUNT)
        return af_pasted_take_package(reader, (struct af_span){"flash-attn", 10},
                                      (struct af_span){value, len});
    return af_pasted_read_fact(reader, fact, value);
}

/*
 * "2.4.0+cu121 12.1", "'2.4.0+cu121'", "('2.4.0', None)" after lines that asked for it. What
 * follows on the line, such as True and the name of a GPU, answers other questions.
 */
static bool take_answer(struct af_pasted_reader *reader, const char *line)
{
    static const char between[] = " '\"(),";
    size_t count = 0;
    for (const char *at = line + strspn(line, between); count < reader->asked_count;) {
        char word[48];
        size_t len = strcspn(at, between);
        snprintf(word, sizeof word, "%.*s", (int)(len < 47 ? len : 47), at);
        bool taken = take_value(reader, expressions[reader->asked[count]].fact, word);
        count += taken;
        if (!taken && !af_equal(word, "True") && !af_equal(word, "False"))
            break;
        at += len;
        at += strspn(at, between);
    }
    reader->asked_count -= count;
    memmove(reader->asked, reader->asked + count, reader->asked_count);
    return count > 0;
}

/* "python -c 'import torch; print(torch.__version__, torch.version.cuda)'" */
static bool note_question(struct af_pasted_reader *reader, const char *line)
{
    bool any = strstr(line, "print(") != NULL || af_starts_with(line, "import ");
    line = strstr(line, "version") == NULL ? "" : line; /* each of them has the word */
    for (; (line = strpbrk(line, "tfsp")) != NULL; line++) {
        for (size_t i = 0; i < AF_COUNT(expressions); i++) {
            if (!af_starts_with(line, expressions[i].text))
                continue;
            any = true;
            if (reader->asked_count < AF_PASTED_ASKED_MAX)
                reader->asked[reader->asked_count++] = (unsigned char)i;
        }
    }
    return any;
}

/* "2.10.0+cu130" alone on its line: of all packages only torch has such versions from 2 on. */
static bool take_bare_torch(struct af_pasted_reader *reader, const char *line)
{
    static const char blanks[] = " '\"";
    const char *at = line + strspn(line, blanks);
    size_t len = strspn(at, "0123456789.");
    const char *build = at + len;
    if (!af_starts_with(at, "2.") || !af_starts_with(build, "+cu") ||
        strspn(build + 3, "0123456789") != 3 || build[6 + strspn(build + 6, blanks)] != '\0')
        return false;
    char version[48];
    snprintf(version, sizeof version, "%.*s", (int)(len + 6), at);
    return af_pasted_read_fact(reader, AF_PASTED_TORCH, version);
}

bool af_pasted_tool_line(struct af_pasted_reader *reader, const char *line)
{
    if (take_answer(reader, line) || take_bare_torch(reader, line))
        return true;
    if (!note_question(reader, line))
        reader->asked_count = 0;
    return take_musl(reader, line) || take_versions(reader, line) || take_gcc(reader, line) ||
           take_platform(reader, line) || take_free(reader, line);
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
    {"platform", take_platform, 0},
    {"python platform", take_platform, 0},
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
