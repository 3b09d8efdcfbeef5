/*
 * pasted_tools.c: what programs print about themselves and the system, each in
 * its own form: nvcc, gcc, clang, ldd, python, pip, uv, uname, free, os-release,
 * and what Python prints when asked for a version.
 */
#include "kit/machine/pasted_parts.h"
#include "kit/machine/platform_tags.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB 1024

static bool take_dotted(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                        const char *text)
{
    size_t len = strspn(text, "0123456789.");
    while (len > 0 && text[len - 1] == '.')
        len--;
    if (!isdigit((unsigned char)*text))
        return false;
    af_pasted_take(reader, fact, text, len);
    return true;
}

/* Bytes of the name of a processor at the start of `text`; 0: none. */
static size_t arch_len(const char *text)
{
    static const char *const words[] = {"x86_64", "aarch64", "arm64",  "AMD64",
                                        "amd64",  "ppc64le", "riscv64"};
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        size_t len = strlen(words[i]);
        if (af_starts_with(text, words[i]) && !isalnum((unsigned char)text[len]))
            return len;
    }
    return 0;
}

bool af_pasted_take_arch(struct af_pasted_reader *reader, const char *text)
{
    af_pasted_take(reader, AF_PASTED_ARCH, text, arch_len(text));
    return arch_len(text) > 0;
}

/* The last processor that is a word of the text, which is kept; NULL: none. */
static const char *take_last_arch(struct af_pasted_reader *reader, const char *text)
{
    const char *last = NULL;
    for (const char *at = text; *at != '\0'; at++) {
        if (arch_len(at) > 0 && (at == text || !isalnum((unsigned char)at[-1])))
            last = at;
    }
    return last != NULL && af_pasted_take_arch(reader, last) ? last : NULL;
}

/*
 * Before 3.8, Python reported the newest glibc symbol version that its executable
 * needs, such as 2.9, instead of the installed version. Versions that old are
 * ignored: no system in use has them.
 */
void af_pasted_take_glibc(struct af_pasted_reader *reader, const char *version)
{
    char text[40];
    int major;
    int minor;
    size_t len = strspn(version, "0123456789.");
    snprintf(text, sizeof text, "%.*s", (int)(len < 16 ? len : 16), version);
    if (!af_machine_libc_version_parse(text, &major, &minor) || major != 2 || minor < 17)
        return;
    snprintf(text, sizeof text, "glibc %d.%d", major, minor);
    af_pasted_take(reader, AF_PASTED_LIBC, text, strlen(text));
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

bool af_pasted_take_platform(struct af_pasted_reader *reader, const char *text)
{
    const char *libc = strstr(text, "-with-glibc");
    if (af_starts_with(text, "Windows") && !isalnum((unsigned char)text[7])) {
        af_pasted_take(reader, AF_PASTED_SYSTEM, "windows", 7);
        return true;
    }
    if (af_starts_with(text, "macOS-") || af_starts_with(text, "Darwin-")) {
        af_pasted_take(reader, AF_PASTED_SYSTEM, "macos", 5);
        take_last_arch(reader, text);
        return true;
    }
    if (!af_starts_with(text, "Linux-"))
        return false;
    const char *kernel = text + strlen("Linux-");
    size_t len = strcspn(kernel, " ");
    const char *arch = take_last_arch(reader, kernel);
    if (arch != NULL && arch > kernel)
        len = (size_t)(arch - 1 - kernel);
    take_kernel(reader, kernel, len);
    if (libc != NULL)
        af_pasted_take_glibc(reader, libc + strlen("-with-glibc"));
    return true;
}

/* "Linux host 5.15.0-97-generic #107-Ubuntu SMP ... x86_64 x86_64 x86_64 GNU/Linux" */
static bool take_uname(struct af_pasted_reader *reader, const char *line)
{
    bool mac = af_starts_with(line, "Darwin ");
    const char *host = strchr(line, ' ');
    const char *release = host == NULL ? NULL : strchr(host + 1, ' ');
    if ((!mac && !af_starts_with(line, "Linux ")) || release == NULL ||
        !isdigit((unsigned char)release[1]) || strchr(release + 1, '.') == NULL)
        return false;
    release++;
    if (take_last_arch(reader, release) == NULL)
        return false;
    if (mac)
        af_pasted_take(reader, AF_PASTED_SYSTEM, "macos", 5);
    else
        take_kernel(reader, release, strcspn(release, " "));
    return true;
}

/* "Python 3.11.7", "Python 3.12.3 | packaged by conda-forge | (main, ...) [GCC 12.3.0]" */
static bool take_python(struct af_pasted_reader *reader, const char *line)
{
    static const char *const starts[] = {"Python ", "Using Python ", "Using CPython "};
    const char *in_pip = af_starts_with(line, "pip ") ? strstr(line, "(python ") : NULL;
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (!af_starts_with(line, starts[i]))
            continue;
        const char *version = line + strlen(starts[i]);
        const char *rest = version + af_pasted_version_len(version);
        bool whole = *rest == '\0' || af_starts_with(rest, " (") ||
                     af_starts_with(rest, " |") || af_starts_with(rest, " :: ") ||
                     strstr(rest, "free-threading") != NULL || (i > 0 && *rest == ' ');
        if (rest == version || strchr(version, '.') == NULL || !whole)
            return false;
        bool free_threaded = strstr(rest, "free-threading build") != NULL;
        char text[40];
        snprintf(text, sizeof text, "%.*s%s", (int)(rest - version < 30 ? rest - version : 30),
                 version, free_threaded ? "t" : "");
        af_pasted_take(reader, AF_PASTED_PYTHON, text, strlen(text));
        if (af_ends_with(rest, " on linux"))
            af_pasted_take(reader, AF_PASTED_SYSTEM, "linux", 5);
        else if (af_ends_with(rest, " on win32"))
            af_pasted_take(reader, AF_PASTED_SYSTEM, "windows", 7);
        return true;
    }
    return in_pip != NULL && take_dotted(reader, AF_PASTED_PYTHON, in_pip + strlen("(python "));
}

/* "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "x86_64-conda-linux-gnu-c++ (...) 12.3.0" */
static bool take_gcc(struct af_pasted_reader *reader, const char *line)
{
    size_t len = strcspn(line, " ");
    const char *close = strrchr(line, ')');
    char command[40];
    snprintf(command, sizeof command, "%.*s", (int)(len < 39 ? len : 39), line);
    if (line[len] != ' ' || line[len + 1] != '(')
        return false;
    if (strcmp(command, "ldd") == 0) {
        const char *last = strrchr(line, ' ');
        af_pasted_take_glibc(reader, last + 1);
        return true;
    }
    if (!af_ends_with(command, "gcc") && !af_ends_with(command, "g++") &&
        !af_ends_with(command, "cc") && !af_ends_with(command, "c++"))
        return false;
    for (const char *at = close; at != NULL; at = NULL) {
        if (at[1] == ' ' && take_dotted(reader, AF_PASTED_GCC, at + 2))
            return true;
    }
    /* "gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-18)" */
    const char *first = strstr(line, ") ");
    return first != NULL && take_dotted(reader, AF_PASTED_GCC, first + 2);
}

static bool take_versions(struct af_pasted_reader *reader, const char *line)
{
    static const struct {
        const char *label;
        enum af_pasted_fact fact;
    } rows[] = {{"Cuda compilation tools, release ", AF_PASTED_TOOLKIT},
                {"clang version ", AF_PASTED_CLANG}};
    const char *libc = strstr(line, "GNU C Library");
    const char *stable = libc == NULL ? NULL : strstr(libc, "version ");
    if (stable != NULL) {
        af_pasted_take_glibc(reader, stable + strlen("version "));
        return true;
    }
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const char *at = strstr(line, rows[i].label);
        if (at == NULL || at > line + 16)
            continue;
        const char *full = strstr(at, ", V");
        return take_dotted(reader, rows[i].fact,
                           full != NULL ? full + 3 : at + strlen(rows[i].label));
    }
    return false;
}

/* "musl libc (x86_64)", then "Version 1.2.4" */
static bool take_musl(struct af_pasted_reader *reader, const char *line)
{
    char text[40];
    if (af_starts_with(line, "musl libc (")) {
        reader->musl = true;
        af_pasted_take_arch(reader, line + strlen("musl libc ("));
        return true;
    }
    if (!reader->musl || !af_starts_with(line, "Version "))
        return false;
    reader->musl = false;
    snprintf(text, sizeof text, "musl %.16s", line + strlen("Version "));
    af_pasted_take(reader, AF_PASTED_LIBC, text, strlen(text));
    return true;
}

/* The unit that the options of a `free` command select; 0: none. */
static int64_t unit_of_free(const char *options)
{
    size_t len = strspn(options, " -abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < len; i++) {
        if (options[i] == 'g')
            return (int64_t)KIB * KIB * KIB;
        if (options[i] == 'm')
            return (int64_t)KIB * KIB;
        if (options[i] == 'b')
            return 1;
    }
    return KIB;
}

/* Bytes of "62Gi", "65842160"; -1 if the unit is not known. */
static int64_t free_bytes(const struct af_pasted_reader *reader, const char *word)
{
    static const char units[] = "BKMGT";
    char *end;
    double number = strtod(word, &end);
    const char *unit = *end == '\0' || *end == ' ' ? NULL : strchr(units, *end);
    int64_t factor = unit == NULL ? reader->free_unit : 1;
    for (ptrdiff_t i = 0; unit != NULL && i < unit - units; i++)
        factor *= KIB;
    if (end == word || factor == 0 || !(number >= 0) || number * (double)factor > 1e17)
        return -1;
    return (int64_t)(number * (double)factor);
}

static void take_bytes(struct af_pasted_reader *reader, enum af_pasted_fact fact, int64_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    if (bytes >= 0)
        af_pasted_take(reader, fact, text, strlen(text));
}

/* The command `free` with its options, and its lines "Mem:" and "Swap:". */
static bool take_free(struct af_pasted_reader *reader, const char *line)
{
    char words[7][24] = {{0}};
    const char *command = strstr(line, "free ");
    bool swap = af_starts_with(line, "Swap: ");
    if (af_equal(line, "free") || af_ends_with(line, "$ free") || af_ends_with(line, "# free"))
        reader->free_unit = KIB;
    else if (command != NULL && command[5] == '-' && (command == line || command[-1] == ' '))
        reader->free_unit = unit_of_free(command + 5);
    if (!af_starts_with(line, "Mem: ") && !swap)
        return false;
    size_t count = 0;
    for (const char *at = strchr(line, ' '); *at != '\0' && count < AF_COUNT(words);) {
        at += strspn(at, " ");
        size_t len = strcspn(at, " ");
        snprintf(words[count++], sizeof words[0], "%.*s", (int)(len < 23 ? len : 23), at);
        at += len;
    }
    if (swap) {
        take_bytes(reader, AF_PASTED_SWAP_FREE, free_bytes(reader, words[2]));
    } else {
        take_bytes(reader, AF_PASTED_MEMORY, free_bytes(reader, words[0]));
        take_bytes(reader, AF_PASTED_MEMORY_AVAILABLE, free_bytes(reader, words[5]));
    }
    return true;
}

/* PRETTY_NAME="Ubuntu 22.04.4 LTS"; CUDA_VISIBLE_DEVICES=0,1; Windows' greeting */
static bool take_assignment(struct af_pasted_reader *reader, const char *line)
{
    static const char visible[] = "CUDA_VISIBLE_DEVICES=";
    static const char pretty[] = "PRETTY_NAME=";
    line += af_starts_with(line, "export ") ? strlen("export ") : 0;
    if (af_starts_with(line, "Microsoft Windows [")) {
        af_pasted_take(reader, AF_PASTED_SYSTEM, "windows", 7);
        return true;
    }
    if (af_starts_with(line, pretty)) {
        line += strlen(pretty);
        line += *line == '"';
        af_pasted_take(reader, AF_PASTED_OS, line, strcspn(line, "\""));
        return true;
    }
    if (!af_starts_with(line, visible) || strchr(line, ' ') != NULL)
        return false;
    line += strlen(visible);
    af_pasted_take(reader, AF_PASTED_VISIBLE, line, strlen(line));
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
    bool none = fact == AF_PASTED_TORCH_CUDA && strcmp(value, "None") == 0;
    if ((len == 0 || value[len] != '\0') && !none)
        return false;
    if (fact == AF_PASTED_FACT_COUNT)
        return af_pasted_take_package(reader, (struct af_span){"flash-attn", 10},
                                      (struct af_span){value, len});
    af_pasted_take(reader, fact, none ? "none" : value, none ? 4 : len);
    return true;
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
    for (const char *at = line; (at = strpbrk(at, "tfsp")) != NULL; at++) {
        for (size_t i = 0; i < AF_COUNT(expressions); i++) {
            if (!af_starts_with(at, expressions[i].text))
                continue;
            any = true;
            if (reader->asked_count < AF_PASTED_ASKED_MAX)
                reader->asked[reader->asked_count++] = (unsigned char)i;
        }
    }
    return any;
}

enum af_pasted_kind af_pasted_tool_line(struct af_pasted_reader *reader, const char *line)
{
    if (take_answer(reader, line))
        return AF_PASTED_TOOL;
    if (!note_question(reader, line))
        reader->asked_count = 0;
    bool taken = take_versions(reader, line) || take_python(reader, line) ||
                 take_gcc(reader, line) || take_musl(reader, line) ||
                 take_uname(reader, line) || take_free(reader, line) ||
                 take_assignment(reader, line);
    return taken ? AF_PASTED_TOOL : AF_PASTED_NONE;
}
