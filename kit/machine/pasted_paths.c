/*
 * pasted_paths.c: facts in the names of files: a folder of packages names Python and the
 * system, an extension also the processor, a wheel of torch its version; and "(you have X)",
 * by which programs set what they were built for beside what is there.
 *
 * Sources: PEP 3149 and PEP 425; warnings of xformers; the folders of ComfyUI for Windows.
 */
#include "kit/machine/pasted_parts.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

static void take_text(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                      const char *text)
{
    af_pasted_take(reader, fact, text, strlen(text));
}

void af_pasted_take_platform(struct af_pasted_reader *reader, const char *at)
{
    const size_t len = strcspn(at, " /\\'\",)");
    const char *const arms[] = {"aarch64", "arm64"}, *const intels[] = {"x86_64", "amd64"};
    char tag[64];
    if (len >= sizeof tag)
        return;
    snprintf(tag, sizeof tag, "%.*s", (int)len, at);
    const char *os = strstr(tag, "linux") != NULL    ? "linux"
                     : af_starts_with(tag, "win_")   ? "windows"
                     : af_starts_with(tag, "macosx") ? "macos"
                                                     : NULL;
    if (os == NULL)
        return;
    take_text(reader, AF_PASTED_TRACE, os);
    for (size_t i = 0; i < AF_COUNT(arms); i++)
        if (strstr(tag, arms[i]) != NULL)
            take_text(reader, AF_PASTED_ARCH, "aarch64");
        else if (strstr(tag, intels[i]) != NULL)
            take_text(reader, AF_PASTED_ARCH, "x86_64");
}

/* ".cpython-312-x86_64-linux-gnu.so", ".cp312-win_amd64.pyd" */
static bool take_extension(struct af_pasted_reader *reader, const char *line)
{
    static const char *const starts[] = {".cpython-", ".cp3"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        const char *found = strstr(line, starts[i]);
        const char *digits = found == NULL ? NULL : found + strlen(starts[i]) - i;
        char tag[8];
        size_t len = digits == NULL ? 0 : strspn(digits, "0123456789");
        if (len < 2 || len > 3 || digits[len] != '-')
            continue;
        snprintf(tag, sizeof tag, "%.*s", (int)len, digits);
        af_pasted_take_platform(reader, digits + len + 1);
        return af_pasted_take_tag(reader, tag);
    }
    return false;
}

/* "build/lib.linux-x86_64-cpython-312", "/usr/lib/x86_64-linux-gnu" */
static void take_folders(struct af_pasted_reader *reader, const char *line)
{
    if (strstr(line, "flash_attn-") != NULL && strstr(line, ".whl") != NULL)
        return; /* what was asked for */
    static const char *const names[][2] = {{"linux-x86_64", "x86_64"},
                                           {"x86_64-linux-gnu", "x86_64"},
                                           {"linux-aarch64", "aarch64"},
                                           {"aarch64-linux-gnu", "aarch64"}};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (strstr(line, names[i][0]) != NULL)
            take_text(reader, AF_PASTED_ARCH, names[i][1]);
    const char *python = strstr(line, "-cpython-3");
    char tag[8];
    if (python == NULL)
        return;
    python += strlen("-cpython-");
    snprintf(tag, sizeof tag, "%.*s", (int)strspn(python, "0123456789"), python);
    af_pasted_take_tag(reader, tag);
}

/* ".../lib/python3.12/site-packages"; another folder of a Python's is only likely to be it. */
static bool take_packages(struct af_pasted_reader *reader, const char *line)
{
    const char *found = strstr(line, "/python3.");
    const char *version = found == NULL ? NULL : found + strlen("/python");
    size_t len = version == NULL ? 0 : strspn(version, "0123456789.");
    if (len < 3 || len > 4 || version[len] != '/')
        return false;
    const enum af_origin_kind kind = reader->kind;
    const bool is_here = af_starts_with(version + len, "/site-packages") ||
                         af_starts_with(version + len, "/dist-packages");
    const bool is_library = found - line >= 3 && memcmp(found - 3, "lib", 3) == 0;
    if (!is_here)
        reader->kind = AF_ORIGIN_PROSE;
    if (is_here || is_library)
        af_pasted_take(reader, AF_PASTED_PYTHON, version, len);
    reader->kind = kind;
    return is_here;
}

/* The interpreter of "C:\ComfyUI\python_embeded\Lib\site-packages", or of a venv. */
static bool take_windows(struct af_pasted_reader *reader, const char *line)
{
    static const struct {
        const char *folder;
        const char *program;
    } kinds[] = {{"\\python_embeded", "\\python.exe"},
                 {"\\python_embedded", "\\python.exe"},
                 {"\\venv", "\\Scripts\\python.exe"},
                 {"\\.venv", "\\Scripts\\python.exe"}};
    const char *end = strstr(line, "\\Lib\\site-packages");
    if (end == NULL)
        end = strstr(line, "\\lib\\site-packages");
    const char *start = end;
    while (start != NULL && start > line && strchr("\"'`<>|*?", start[-1]) == NULL)
        start--;
    if (start == NULL || end - start < 4 || start[1] != ':')
        return false;
    take_text(reader, AF_PASTED_TRACE, "windows");
    for (size_t i = 0; i < AF_COUNT(kinds); i++) {
        size_t len = strlen(kinds[i].folder);
        char path[300];
        if ((size_t)(end - start) < len || (size_t)(end - start) > 250 ||
            strncmp(end - len, kinds[i].folder, len) != 0)
            continue;
        snprintf(path, sizeof path, "%.*s%s", (int)(end - start), start, kinds[i].program);
        take_text(reader, AF_PASTED_EXECUTABLE, path);
    }
    return true;
}

/* "torch-2.9.0+cu129-cp312-cp312-win_amd64.whl" */
static bool take_wheel(struct af_pasted_reader *reader, const char *line)
{
    const char *found = strstr(line, "torch-");
    const char *end = found == NULL ? NULL : strstr(found, ".whl");
    const char *version = found == NULL ? NULL : found + strlen("torch-");
    const char *tag = version == NULL ? NULL : strstr(version, "-cp3");
    if (end == NULL || tag == NULL || tag > end ||
        (found > line && strchr(" /\\'\"`=(", found[-1]) == NULL))
        return false;
    const char *platform = strchr(tag + 1, '-');
    platform = platform == NULL ? NULL : strchr(platform + 1, '-');
    af_pasted_take_known(reader, (struct af_span){"torch", 5},
                         (struct af_span){version, (size_t)(tag - version)});
    char digits[8];
    snprintf(digits, sizeof digits, "%.*s", (int)strspn(tag + 3, "0123456789"), tag + 3);
    af_pasted_take_tag(reader, digits);
    if (platform != NULL && platform < end)
        af_pasted_take_platform(reader, platform + 1);
    return true;
}

bool af_pasted_path_line(struct af_pasted_reader *reader, const char *line)
{
    bool any = take_extension(reader, line);
    any |= take_packages(reader, line);
    any |= take_windows(reader, line);
    any |= take_wheel(reader, line);
    take_folders(reader, line);
    return any;
}

bool af_pasted_you_have(struct af_pasted_reader *reader, const char *line)
{
    static const char mark[] = "(you have ";
    const char *at = strstr(line, mark);
    const char *torch = strstr(line, "PyTorch "), *python = strstr(line, "Python ");
    if (at == NULL || (torch == NULL && python == NULL))
        return false;
    at += strlen(mark);
    if (torch != NULL && torch < at)
        return af_pasted_take_package(reader, (struct af_span){"torch", 5},
                                      (struct af_span){at, strcspn(at, " ,)")});
    af_pasted_take(reader, AF_PASTED_PYTHON, at, strspn(at, "0123456789."));
    return true;
}
