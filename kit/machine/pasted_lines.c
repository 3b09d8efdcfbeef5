/*
 * pasted_lines.c: what programs print of themselves and of the system: nvcc, gcc, ldd, python,
 * pip, nvidia-smi, uname, free and os-release, also Python when asked for a version. Rows name
 * the facts; a value of another form than its fact has is ignored.
 */
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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
bool af_pasted_take_system(struct af_pasted_reader *reader, const char *text)
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
           af_pasted_take_system(reader, line) || take_free(reader, line);
}
