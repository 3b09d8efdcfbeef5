/*
 * pasted_installers.c: what installers, build programs and torch print about the environment
 * in which they run.
 *
 * Sources: pip 26, uv 0.13; torch/utils/cpp_extension.py; flash-attn's setup.py.
 */
#include "kit/machine/pasted_parts.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"

/* What the value belongs to, unless it is a fact of the reader. */
enum { OF_PACKAGE = AF_PASTED_FACT_COUNT, OF_GPU };

static const struct row {
    const char *first; /* the line has it */
    const char *then;  /* and, farther on, this; NULL: the value follows */
    const char *after; /* what follows the value; NULL: anything */
    int fact;
    const char *package;
    bool replaces; /* what was said before */
} rows[] = {
    {"torch.__version__", NULL, NULL, AF_PASTED_TORCH, NULL, true},
    {"but you have torch ", NULL, " which", AF_PASTED_TORCH, NULL, true},
    {"Successfully installed ", " torch-", NULL, AF_PASTED_TORCH, NULL, true},
    {"Successfully installed torch-", NULL, NULL, AF_PASTED_TORCH, NULL, true},
    {"/torch-", NULL, ".dist-info", AF_PASTED_TORCH, NULL, false},
    {"Found existing installation: torch ", NULL, NULL, AF_PASTED_TORCH, NULL, false},
    {"used to compile PyTorch (", NULL, ")", AF_PASTED_TORCH_CUDA, NULL, true},
    {"The detected CUDA version (", NULL, ")", AF_PASTED_TOOLKIT, NULL, true},
    {"/include/c++/", NULL, "/", AF_PASTED_GCC, NULL, false},
    {"Successfully installed ", "flash-attn-", NULL, OF_PACKAGE, "flash-attn", true},
    {"Successfully installed ", "flash_attn-", NULL, OF_PACKAGE, "flash-attn", true},
    {"/flash_attn-", NULL, ".dist-info", OF_PACKAGE, "flash-attn", false},
    {"CUDA capability sm_", NULL, " is not compatible", OF_GPU, NULL, false},
};

static void take_gpu(struct af_pasted_reader *reader, struct af_span digits)
{
    char sm[16];
    if (digits.len < 2 || digits.len > 3 || reader->gpu_count > 1)
        return;
    snprintf(sm, sizeof sm, "%.*s.%c", (int)digits.len - 1, digits.data,
             digits.data[digits.len - 1]);
    af_pasted_take_gpu(reader, 0, (struct af_span){"", 0}, sm);
}

/* The value of the row in the line; empty: it has none. */
static struct af_span value_of(const struct row *row, const char *line)
{
    const struct af_span none = {"", 0};
    struct af_version version;
    const char *at = strstr(line, row->first);
    if (at == NULL)
        return none;
    at += strlen(row->first);
    const char *then = row->then == NULL ? NULL : strstr(at - 1, row->then);
    if (row->then != NULL && then == NULL)
        return none;
    at = then == NULL ? at + strspn(at, " =") : then + strlen(row->then);
    const char *end = row->after == NULL ? at + strcspn(at, " ,;)'\"") : strstr(at, row->after);
    size_t len = end == NULL ? 0 : (size_t)(end - at);
    return len > 0 && len < 40 && af_version_parse(at, len, &version)
               ? (struct af_span){at, len}
               : none;
}

/* What was taken with the strength of a record is a line as any other for those that follow. */
static void weaken(struct af_pasted_reader *reader)
{
    for (size_t i = 0; i < AF_PASTED_FACT_COUNT; i++)
        if (reader->values[i].origin.kind == AF_ORIGIN_READ)
            reader->values[i].origin.kind = AF_ORIGIN_LINE;
    for (size_t i = 0; i < AF_PASTED_PACKAGES_MAX; i++)
        if (reader->packages[i].origin.kind == AF_ORIGIN_READ)
            reader->packages[i].origin.kind = AF_ORIGIN_LINE;
}

static void take_row(struct af_pasted_reader *reader, const struct row *row,
                     struct af_span value)
{
    if (row->replaces)
        reader->kind = AF_ORIGIN_READ;
    if (row->fact == OF_GPU)
        take_gpu(reader, value);
    else if (row->fact == OF_PACKAGE)
        af_pasted_take_package(reader, (struct af_span){row->package, strlen(row->package)},
                               value);
    else
        af_pasted_take(reader, (enum af_pasted_fact)row->fact, value.data, value.len);
    reader->kind = AF_ORIGIN_LINE;
    weaken(reader);
}

/*
 * flash-attn's setup.py makes the name of a wheel from what it finds: "Guessing wheel URL:
 * .../flash_attn-2.8.3+cu12torch2.9cxx11abiTRUE-cp313-cp313-linux_x86_64.whl".
 */
static bool take_guess(struct af_pasted_reader *reader, const char *line)
{
    struct af_wheel_name wheel;
    struct af_wheel_local local;
    const char *at = strstr(line, "Guessing wheel URL");
    const char *name = at == NULL ? NULL : strstr(at, "flash_attn-");
    if (name == NULL ||
        af_wheel_name_parse(name, strcspn(name, " "), &wheel) != AF_WHEEL_NAME_VALID)
        return false;
    af_wheel_local_parse(wheel.version.local, AF_FORMATS_TORCH_DIGITS_NONE, &local);
    af_pasted_take(reader, AF_PASTED_TORCH, local.torch, strlen(local.torch));
    if (af_starts_with(wheel.python, "cp"))
        af_pasted_take_tag(reader, wheel.python + 2);
    af_pasted_take_platform(reader, wheel.platform);
    return true;
}

static void take_installer(struct af_pasted_reader *reader, const char *line)
{
    const char *resolved = strstr(line, "Resolved ");
    if (strstr(line, "subprocess-exited-with-error") != NULL)
        af_pasted_take(reader, AF_PASTED_INSTALLER, "pip", 3);
    else if (strstr(line, "The build backend returned an error") != NULL ||
             (resolved != NULL && strstr(resolved, " packages in") != NULL))
        af_pasted_take(reader, AF_PASTED_INSTALLER, "uv", 2);
}

bool af_pasted_installer_line(struct af_pasted_reader *reader, const char *line)
{
    bool any = take_guess(reader, line);
    take_installer(reader, line);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_span value = value_of(&rows[i], line);
        if (value.len > 0)
            take_row(reader, &rows[i], value);
        any |= value.len > 0;
    }
    return any;
}

bool af_pasted_begins_log(const char *line)
{
    static const char *const starts[] = {
        "Traceback (most", "File \"",  "Collecting ", "Requirement already", "Building wheel",
        "Processing /",    "ERROR: ",  "error: ",     "Resolved ",           "Downloading ",
        "running ",        "copying ", "[1/",         "\xC3\x97 ",           "Using cached "};
    for (size_t i = 0; i < AF_COUNT(starts); i++)
        if (af_starts_with(line, starts[i]))
            return true;
    return false;
}
