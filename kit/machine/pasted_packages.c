/*
 * pasted_packages.c: lists of installed packages: pip and uv (columns, JSON,
 * freeze, show), conda, mamba, and the lists inside environment reports. torch,
 * Python and the CUDA runtime become facts. Other packages are kept only if a
 * decision needs them.
 */
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ROWS_ENOUGH 10u /* a longer list that ends before "torch" may be cut */

static const char *const names[AF_PASTED_PACKAGES_MAX] = {
    "flash-attn",   "flash-attn-3", "flash-attn-4", "flashattn-hopper",  "xformers",
    "transformers", "vllm",         "einops",       "transformer-engine"};

const char *af_pasted_package_name(size_t index)
{
    return index < AF_COUNT(names) ? names[index] : NULL;
}

/* Whether the words can be a name and a PEP 440 version; writes the normalised name. */
static bool is_package(struct af_span name, struct af_span version, char *buffer, size_t bytes)
{
    struct af_version parsed;
    return version.len > 0 && version.len < 80 && isdigit((unsigned char)version.data[0]) &&
           af_version_parse(version.data, version.len, &parsed) &&
           af_name_normalise(name, buffer, bytes);
}

/* Torch's parts for processors that are neither NVIDIA's nor AMD's: Ascend, Moore, ... */
static const char foreign[] =
    "torch-npu|torch-musa|torch-mlu|torch-gcu|habana-torch-plugin|torch-neuronx|torch-xla";

bool af_pasted_take_package(struct af_pasted_reader *reader, struct af_span name,
                            struct af_span version)
{
    char normalised[64];
    if (!is_package(name, version, normalised, sizeof normalised))
        return false;
    if (af_given_is_word(normalised, strlen(normalised), "torch|pytorch"))
        af_pasted_take(reader, AF_PASTED_TORCH, version.data, version.len);
    else if (strcmp(normalised, "nvidia-cuda-runtime") == 0 ||
             af_starts_with(normalised, "nvidia-cuda-runtime-cu"))
        af_pasted_take(reader, AF_PASTED_TORCH_RUNTIME, version.data, version.len);
    else if (af_given_is_word(normalised, strlen(normalised), foreign)) {
        af_pasted_take(reader, AF_PASTED_TORCH_CUDA, "none", 4);
        af_pasted_take(reader, AF_PASTED_GPUS_NONE, "none", 4);
    }
    for (size_t i = 0; af_pasted_package_name(i) != NULL; i++) {
        if (strcmp(normalised, names[i]) == 0)
            af_pasted_keep(reader, &reader->packages[i], names[i], version.data, version.len);
    }
    return true;
}

bool af_pasted_take_known(struct af_pasted_reader *reader, struct af_span name,
                          struct af_span version)
{
    char normalised[64];
    if (!is_package(name, version, normalised, sizeof normalised))
        return false;
    bool known = af_given_is_word(normalised, strlen(normalised), "torch|pytorch") ||
                 af_given_is_word(normalised, strlen(normalised), foreign);
    for (size_t i = 0; !known && af_pasted_package_name(i) != NULL; i++)
        known = strcmp(normalised, names[i]) == 0;
    return known && af_pasted_take_package(reader, name, version);
}

static void begin_table(struct af_pasted_reader *reader, enum af_pasted_table table)
{
    af_pasted_packages_end(reader);
    reader->table = table;
    reader->row_count = 0;
    reader->last_name[0] = '\0';
}

/* A list in columns or JSON has all packages, unless it is long and ends before "torch". */
void af_pasted_packages_end(struct af_pasted_reader *reader)
{
    bool lists_all =
        reader->table == AF_PASTED_TABLE_COLUMNS || reader->table == AF_PASTED_TABLE_JSON;
    bool ends_early = reader->row_count > ROWS_ENOUGH && strcmp(reader->last_name, "torch") < 0;
    if (lists_all && reader->row_count > 0 && !ends_early)
        reader->list_complete = true;
    reader->table = AF_PASTED_TABLE_NONE;
}

/* Installers sort their lists; an unsorted one was put together by hand and may lack
   packages. */
static void count_row(struct af_pasted_reader *reader, struct af_span name)
{
    char before = reader->last_name[0];
    reader->row_count++;
    af_name_normalise(name, reader->last_name, sizeof reader->last_name);
    bool words = isalpha((unsigned char)before) && isalpha((unsigned char)reader->last_name[0]);
    reader->list_cut = reader->list_cut || (words && reader->last_name[0] < before);
}

/* The next word of *text, which is advanced; empty at its end. */
static struct af_span next_word(const char **text)
{
    *text += strspn(*text, " ");
    size_t len = strcspn(*text, " ");
    struct af_span word = {*text, len};
    *text += len;
    return word;
}

/* conda's build string names the CUDA of its pytorch: py3.11_cuda12.1_cudnn9, cuda120_py310. */
static void take_conda_build(struct af_pasted_reader *reader, struct af_span build)
{
    const char *cuda = build.len == 0 ? NULL : strstr(build.data, "cuda");
    const char *cpu = build.len == 0 ? NULL : strstr(build.data, "cpu");
    const char *end = build.data + build.len;
    bool read =
        cuda != NULL && cuda < end && af_pasted_read_fact(reader, AF_PASTED_TORCH_CUDA, cuda);
    if (!read && cpu != NULL && cpu < end)
        af_pasted_take(reader, AF_PASTED_TORCH_CUDA, "none", 4);
}

/* "torch  2.4.0+cu121", "pytorch  2.4.0  py3.11_cuda12.1_cudnn9.1.0_0  pytorch" */
static bool take_columns(struct af_pasted_reader *reader, const char *line)
{
    struct af_span name = next_word(&line);
    struct af_span version = next_word(&line);
    struct af_span build = next_word(&line);
    if (af_text_span_equal(name, "python") && build.len > 0) /* conda's, not on PyPI */
        af_pasted_take(reader, AF_PASTED_PYTHON, version.data, version.len);
    if (af_text_span_equal(name, "ld_impl_linux-64") ||
        af_text_span_equal(name, "ld_impl_linux-aarch64")) { /* conda's */
        af_pasted_take(reader, AF_PASTED_SYSTEM, "linux", 5);
        af_pasted_read_fact(reader, AF_PASTED_ARCH, name.len == 16 ? "x86_64" : "aarch64");
    }
    if (af_text_span_equal(name, "libtorch"))
        af_pasted_take(reader, AF_PASTED_TORCH_CONDA, version.data, version.len);
    if (!af_pasted_take_package(reader, name, version))
        return false;
    if (af_text_span_equal(name, "pytorch"))
        take_conda_build(reader, build);
    return true;
}

/* An installed wheel fits its interpreter and system: cp310-linux_x86_64 */
static void take_tags(struct af_pasted_reader *reader, const struct af_wheel_name *wheel)
{
    const char *arch;
    if (af_starts_with(wheel->python, "cp") && !af_equal(wheel->abi, "abi3"))
        af_pasted_take_tag(reader, wheel->python + 2);
    if (strstr(wheel->platform, "linux") != NULL)
        af_pasted_take(reader, AF_PASTED_SYSTEM, "linux", 5);
    else if (af_starts_with(wheel->platform, "win_"))
        af_pasted_take(reader, AF_PASTED_SYSTEM, "windows", 7);
    af_pasted_read_arch(reader, wheel->platform, &arch);
}

/* The version in the wheel's file name at the end of an address or path. */
static bool take_wheel(struct af_pasted_reader *reader, const char *address)
{
    struct af_wheel_name wheel;
    size_t len = strcspn(address, "#? ");
    const char *file = address;
    for (size_t i = 0; i < len; i++)
        file = address[i] == '/' ? address + i + 1 : file;
    size_t file_len = (size_t)(address + len - file);
    if (af_wheel_name_parse(file, file_len, &wheel) != AF_WHEEL_NAME_VALID)
        return false;
    take_tags(reader, &wheel);
    return af_pasted_take_package(
        reader, (struct af_span){wheel.package, strlen(wheel.package)},
        (struct af_span){wheel.version_text, strlen(wheel.version_text)});
}

/* "torch==2.4.0", "flash_attn @ https://.../flash_attn-2.7.4+cu12torch2.4-cp311-...whl" */
static bool take_freeze(struct af_pasted_reader *reader, const char *line)
{
    size_t len = strcspn(line, " =@<>!~;#");
    struct af_span name = {line, len};
    const char *at = line + len;
    if (len > 0 && at[0] == '=' && at[1] == '=') {
        at += 2 + strspn(at + 2, "= ");
        struct af_span version = next_word(&at);
        return *at == '\0' && af_pasted_take_package(reader, name, version);
    }
    at += strspn(at, " ");
    if (len == 0 || *at != '@')
        return false;
    at += 1 + strspn(at + 1, " ");
    return take_wheel(reader, at) ||
           (reader->table == AF_PASTED_TABLE_FREEZE && strstr(at, "://") != NULL);
}

/* "[pip3] torch==2.4.0", "[conda] torch  2.4.0  pypi_0  pypi" */
static bool take_bracketed(struct af_pasted_reader *reader, const char *line)
{
    bool conda = af_starts_with(line, "[conda] ");
    if (!conda && !af_starts_with(line, "[pip] ") && !af_starts_with(line, "[pip3] "))
        return false;
    const char *rest = strchr(line, ' ') + 1;
    if (conda || strstr(rest, "==") == NULL)
        take_columns(reader, rest);
    else
        take_freeze(reader, rest);
    return true;
}

/* The heads of tables; the rule below one is part of it. */
static bool take_head(struct af_pasted_reader *reader, const char *line)
{
    const char *at = line + (line[0] == '#');
    struct af_span first = next_word(&at);
    struct af_span second = next_word(&at);
    bool pip = af_text_span_equal(first, "Package");
    bool conda = af_text_span_equal(first, "Name") && strstr(at, "Build") != NULL;
    if (!af_text_span_equal(second, "Version") || (!pip && !conda))
        return false;
    begin_table(reader, AF_PASTED_TABLE_COLUMNS);
    return true;
}

static bool is_rule(const char *line)
{
    size_t len = strspn(line, " -\xE2\x94\x80"); /* also box drawing, U+2500 */
    return len > 2 && line[len] == '\0';
}

/* A row of the current table; another line ends it. */
static bool take_row(struct af_pasted_reader *reader, const char *line)
{
    bool columns = reader->table == AF_PASTED_TABLE_COLUMNS;
    const char *at = line;
    struct af_span name = next_word(&at);
    struct af_span version = next_word(&at);
    /* conda's versions follow other rules than Python's: 3.4.3_0, 2024a, 9e */
    bool conda = columns && version.len > 0 && *at != '\0' &&
                 isdigit((unsigned char)version.data[0]) &&
                 isalnum((unsigned char)name.data[0]);
    if ((columns ? take_columns(reader, line) : take_freeze(reader, line)) || conda) {
        count_row(reader, name);
        return true;
    }
    if (columns && (is_rule(line) || line[0] == '#'))
        return true;
    if (line[0] == '.' || af_starts_with(line, "[...") || af_starts_with(line, "\xE2\x80\xA6"))
        reader->list_cut = true; /* "..." */
    af_pasted_packages_end(reader);
    return false;
}

/* "torch    2.4.0" without a head, as `pip list | grep torch` prints it. */
static bool take_grepped(struct af_pasted_reader *reader, const char *line)
{
    const char *at = line;
    struct af_span name = next_word(&at);
    bool apart = at[0] == ' ' && at[1] == ' ';
    struct af_span version = next_word(&at);
    at += strspn(at, " ");
    return (!reader->is_log || apart) &&
           (*at == '\0' || strstr(at, "pypi") != NULL || *at == '/') &&
           af_pasted_take_known(reader, name, version);
}

/* What was said of a package before it was replaced. */
static void forget(struct af_pasted_reader *reader, struct af_span name)
{
    if (af_text_span_equal(name, "torch"))
        reader->values[AF_PASTED_TORCH] = (struct af_pasted_value){0};
    for (size_t i = 0; af_pasted_package_name(i) != NULL; i++) {
        if (af_text_span_equal(name, names[i]))
            reader->packages[i] = (struct af_pasted_value){0};
    }
}

/*
 * What installers print about installed packages: uv's " + torch==2.4.0", pip's "Requirement
 * already satisfied: torch in /venv/lib/python3.10/site-packages (from flash-attn) (2.4.0)".
 */
static bool take_installer(struct af_pasted_reader *reader, const char *line)
{
    static const char satisfied[] = "Requirement already satisfied: ";
    const char *open = strrchr(line, '(');
    if (af_starts_with(line, "+ ") && strstr(line, "==") != NULL) {
        forget(reader, (struct af_span){line + 2, strcspn(line + 2, "=")});
        return take_freeze(reader, line + 2);
    }
    if (!af_starts_with(line, satisfied) || open == NULL)
        return false;
    const char *name = line + strlen(satisfied);
    const char *python = strstr(line, "/python3.");
    size_t len = python == NULL ? 0 : 2 + strspn(python + 9, "0123456789");
    if (python != NULL && af_starts_with(python + 7 + len, "/site-packages"))
        af_pasted_keep(reader, &reader->values[AF_PASTED_PYTHON], NULL, python + 7, len);
    return af_pasted_take_package(reader, (struct af_span){name, strcspn(name, " <>=!~;[")},
                                  (struct af_span){open + 1, strcspn(open + 1, ")")});
}

bool af_pasted_package_line(struct af_pasted_reader *reader, const char *line)
{
    if (take_bracketed(reader, line) || take_head(reader, line))
        return true;
    if (strstr(line, "freeze") != NULL && strstr(line, "pip") != NULL) {
        begin_table(reader, AF_PASTED_TABLE_FREEZE);
        return true;
    }
    bool in_table =
        reader->table == AF_PASTED_TABLE_COLUMNS || reader->table == AF_PASTED_TABLE_FREEZE;
    return (in_table && take_row(reader, line)) || take_installer(reader, line) ||
           take_grepped(reader, line) || (!reader->is_log && take_freeze(reader, line));
}

/* The value of "name" is kept until that of "version" follows, perhaps on another line. */
static bool take_json(struct af_pasted_reader *reader, struct af_span key, struct af_span text)
{
    struct af_span name = {reader->json_name, strlen(reader->json_name)};
    if (af_text_span_equal(key, "name")) {
        snprintf(reader->json_name, sizeof reader->json_name, "%.*s",
                 (int)(text.len < 63 ? text.len : 63), text.data);
        return true;
    }
    if (!af_text_span_equal(key, "version"))
        return false;
    if (name.len > 0) {
        af_pasted_take_package(reader, name, text);
        count_row(reader, name);
    }
    reader->json_name[0] = '\0';
    return true;
}

bool af_pasted_json_line(struct af_pasted_reader *reader, struct af_span line)
{
    struct af_span trimmed = af_text_trim(line);
    struct af_span key = {0};
    const char *end = trimmed.data + trimmed.len;
    bool any = false;
    if (af_text_span_equal(trimmed, "[") ||
        (trimmed.len > 1 && memcmp(trimmed.data, "[{", 2) == 0))
        begin_table(reader, AF_PASTED_TABLE_JSON);
    if (reader->table != AF_PASTED_TABLE_JSON || trimmed.len == 0)
        return false;
    for (const char *at = trimmed.data; (at = memchr(at, '"', (size_t)(end - at))) != NULL;) {
        const char *close = memchr(at + 1, '"', (size_t)(end - at - 1));
        if (close == NULL)
            break;
        struct af_span text = {at + 1, (size_t)(close - at - 1)};
        any |= take_json(reader, key, text);
        key = text;
        at = close + 1;
    }
    if (end[-1] == ']')
        af_pasted_packages_end(reader);
    return any;
}
