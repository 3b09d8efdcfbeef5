/*
 * pasted_value.c: the facts that pasted text can state: the form of their values, such as a
 * version or an amount of memory, and which one is kept if lines differ.
 */
#include "kit/formats/tags.h"
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 400u
#define NOTES_BYTES_MAX 2000u
#define VALUE_BYTES TEXT_BYTES_MAX

/* Writes the value at the start of `at` to `value`; its length in `at`, or 0. */
typedef size_t form(const char *at, char value[VALUE_BYTES]);

static size_t copy(char value[VALUE_BYTES], const char *at, size_t len)
{
    snprintf(value, VALUE_BYTES, "%.*s", (int)(len < VALUE_BYTES ? len : VALUE_BYTES - 1), at);
    return len;
}

size_t af_pasted_version_len(const char *text)
{
    size_t len =
        strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz.+-_!ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return isdigit((unsigned char)*text) ? len : 0;
}

static size_t read_version(const char *at, char value[VALUE_BYTES])
{
    return copy(value, at, af_pasted_version_len(at));
}

static size_t read_dotted(const char *at, char value[VALUE_BYTES])
{
    size_t len = isdigit((unsigned char)*at) ? strspn(at, "0123456789.") : 0;
    while (len > 0 && at[len - 1] == '.')
        len--;
    return copy(value, at, len);
}

/* "12.1", "cuda12.1", "cu121" */
static size_t read_cuda(const char *at, char value[VALUE_BYTES])
{
    const char *digits = at + (af_starts_with(at, "cuda") ? 4
                               : af_starts_with(at, "cu") ? 2
                                                          : 0);
    size_t len = read_dotted(digits, value);
    if (len == 3 && digits[1] != '.')
        snprintf(value, VALUE_BYTES, "%.2s.%c", digits, digits[2]);
    return strchr(value, '.') == NULL ? 0 : len;
}

/* "3.11.7 (main, Dec 4 2023) [GCC 12.3.0] (64-bit runtime)"; on Windows with processor */
static size_t read_python(const char *at, char value[VALUE_BYTES])
{
    const char *kind = strstr(at, "free-threading build") != NULL ? "t"
                       : strstr(at, "PyPy") != NULL               ? " pypy"
                                                                  : "";
    size_t len = af_pasted_version_len(at);
    snprintf(value, VALUE_BYTES, "%.*s%s", (int)(len < 40 ? len : 40), at, kind);
    return len;
}

/* The path of a Python. */
static size_t read_executable(const char *at, char value[VALUE_BYTES])
{
    size_t len = strcspn(at, "\"'");
    size_t name = len;
    while (name > 0 && at[name - 1] != '/' && at[name - 1] != '\\')
        name--;
    bool is_path = *at == '/' || (isalpha((unsigned char)*at) && at[1] == ':');
    return is_path && af_starts_with(at + name, "python") ? copy(value, at, len) : 0;
}

/* The first two numbers of HIP's version are those of ROCm's. */
static size_t read_hip_runtime(const char *at, char value[VALUE_BYTES])
{
    size_t major = strspn(at, "0123456789");
    size_t minor = at[major] == '.' ? strspn(at + major + 1, "0123456789") : 0;
    return minor == 0 ? 0 : copy(value, at, major + 1 + minor);
}

/* "(Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "(GCC) 8.5.0 20210514 (Red Hat 8.5.0-18)" */
static size_t read_gcc(const char *at, char value[VALUE_BYTES])
{
    const char *close = *at == '(' ? strstr(at, ") ") : NULL;
    return read_dotted(close != NULL ? close + 2 : at, value);
}

/*
 * "glibc-2.35", "2.35". Before 3.8, Python reported the newest glibc symbol version that its
 * executable needs, such as 2.9, instead of the installed version. Versions that old are
 * ignored: no system in use has them.
 */
static size_t read_glibc(const char *at, char value[VALUE_BYTES])
{
    int major;
    int minor;
    size_t start = af_starts_with(at, "glibc") ? strlen("glibc") : 0;
    start += at[start] == '-';
    size_t len = read_dotted(at + start, value);
    if (!af_platform_libc_parse(value, &major, &minor) || major != 2 || minor < 17)
        return 0;
    snprintf(value, VALUE_BYTES, "glibc %d.%d", major, minor);
    return start + len;
}

/* "Ubuntu 22.04.4 LTS (x86_64)"; a name without a known system is a Linux distribution's */
static size_t read_os(const char *at, char value[VALUE_BYTES])
{
    size_t len = strcspn(at, "\"");
    if (!isalpha((unsigned char)*at) ||
        af_given_is_word(at, len, "Could not collect|N/A|posix"))
        return 0;
    if (af_equal(at, "nt")) /* Python's os.name */
        return copy(value, "Windows", strlen("Windows"));
    const char *arch;
    const char *open = strrchr(at, '(');
    if (open != NULL && af_platform_arch_at(open + 1, &arch) > 0)
        len = (size_t)(open - at);
    return copy(value, at, len);
}

/* A text without blanks. */
static size_t read_word(const char *at, char value[VALUE_BYTES])
{
    return strchr(at, ' ') != NULL ? 0 : copy(value, at, strcspn(at, "\"'"));
}

static size_t read_arch(const char *at, char value[VALUE_BYTES])
{
    const char *arch = "";
    size_t len = af_platform_arch_at(at, &arch);
    copy(value, arch, strlen(arch));
    return len;
}

static size_t read_count(const char *at, char value[VALUE_BYTES])
{
    size_t len = strspn(at, "0123456789");
    return at[len] != '\0' ? 0 : copy(value, at, len);
}

/* "65842160 kB" of /proc/meminfo, "125.72 GB" of accelerate, "62Gi" of free */
static size_t read_memory(const char *at, char value[VALUE_BYTES])
{
    static const char units[] = "BKMGT";
    char *end;
    double number = strtod(at, &end);
    end += strspn(end, " ");
    const char *unit = *end == '\0' ? NULL : strchr(units, toupper((unsigned char)*end));
    for (ptrdiff_t i = 0; unit != NULL && i < unit - units; i++)
        number *= 1024;
    if (unit == NULL || !isdigit((unsigned char)*at) || !(number >= 0 && number < 1e17))
        return 0;
    snprintf(value, VALUE_BYTES, "%lld", (long long)number);
    return strlen(at);
}

static const struct {
    const char *name; /* in notes; NULL: lines that differ are none of the user's business */
    form *read;
    const char *none; /* words for "there is none" */
} facts[AF_PASTED_FACT_COUNT] = {
    [AF_PASTED_OS] = {NULL, read_os, ""},
    [AF_PASTED_TRACE] = {"the system", NULL, ""},
    [AF_PASTED_SYSTEM_WORD] = {"the system", NULL, ""},
    [AF_PASTED_ARCH] = {NULL, read_arch, ""},
    [AF_PASTED_LIBC] = {NULL, read_glibc, ""},
    [AF_PASTED_PYTHON] = {"Python", read_python, ""},
    [AF_PASTED_EXECUTABLE] = {NULL, read_executable, ""},
    [AF_PASTED_TORCH] = {"torch", read_version, ""},
    [AF_PASTED_TORCH_CUDA] = {"CUDA of torch", read_cuda, "None|No CUDA"},
    [AF_PASTED_TORCH_HIP] = {NULL, read_version, "N/A"},
    [AF_PASTED_DRIVER] = {"driver", read_dotted, "None|No CUDA"},
    [AF_PASTED_CUDA_API] = {NULL, read_dotted, ""},
    [AF_PASTED_ROCM] = {NULL, read_version, ""},
    [AF_PASTED_ROCM_OF_HIP] = {NULL, read_hip_runtime, ""},
    [AF_PASTED_VISIBLE] = {NULL, read_word, ""},
    [AF_PASTED_TOOLKIT] = {"CUDA toolkit", read_version, "None|No CUDA"},
    [AF_PASTED_GCC] = {NULL, read_gcc, ""},
    [AF_PASTED_CLANG] = {NULL, read_dotted, ""},
    [AF_PASTED_CORES] = {NULL, read_count, ""},
    [AF_PASTED_MEMORY] = {NULL, read_memory, ""},
    [AF_PASTED_MEMORY_AVAILABLE] = {NULL, read_memory, ""},
};

void af_pasted_note(struct af_pasted_reader *reader, const char *format, ...)
{
    char sentence[TEXT_BYTES_MAX * 3];
    va_list args;
    if (reader->notes.len > NOTES_BYTES_MAX)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (reader->notes.len > 0)
        af_text_add(&reader->notes, "\n");
    af_text_add(&reader->notes, sentence);
}

/* Whether `full` only adds to `start`: 2.4.0+cu121 to 2.4.0. */
static bool continues(const char *full, const char *start)
{
    size_t len = strlen(start);
    bool is_cut = len > 3 && af_ends_with(start, "...");
    len -= is_cut ? 3 : 0;
    while (is_cut && len > 0 && start[len - 1] == ' ')
        len--;
    if (strncmp(full, start, len) != 0)
        return false;
    return is_cut ||
           !(isdigit((unsigned char)full[len]) && isdigit((unsigned char)start[len - 1]));
}

void af_pasted_keep(struct af_pasted_reader *reader, struct af_pasted_value *value,
                    const char *what, const char *text, size_t len)
{
    struct af_arena *arena = &reader->machine.arena;
    char shown[TEXT_BYTES_MAX];
    if (len == 0)
        return;
    af_text_quote(shown, sizeof shown, text, len);
    const char *old = value->text;
    bool fuller = old != NULL && strcmp(old, shown) != 0 && continues(shown, old);
    bool differs = old != NULL && !fuller && !continues(old, shown);
    bool replace = old == NULL || value->origin.kind < reader->kind ||
                   (fuller && value->origin.kind == reader->kind);
    if (what != NULL && differs)
        af_pasted_note(reader, "%s is %s on %s but %s on line %zu; the %s one is used", what,
                       old, value->source, shown, reader->number, replace ? "second" : "first");
    if (!replace)
        return;
    const char *copied = af_arena_text(arena, shown);
    const char *source = af_arena_format(arena, "line %zu of %s", reader->number, reader->name);
    *value = (struct af_pasted_value){
        copied, source, {.kind = reader->kind, .line = reader->number}};
}

void af_pasted_take(struct af_pasted_reader *reader, enum af_pasted_fact fact, const char *text,
                    size_t len)
{
    af_pasted_keep(reader, &reader->values[fact], facts[fact].name, text, len);
}

bool af_pasted_read_arch(struct af_pasted_reader *reader, const char *text, const char **at_out)
{
    *at_out = NULL;
    for (const char *at = text; *at != '\0'; at++) {
        const char *arch;
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && af_platform_arch_at(at, &arch) > 0)
            *at_out = at;
    }
    return *at_out != NULL && af_pasted_read_fact(reader, AF_PASTED_ARCH, *at_out);
}

bool af_pasted_read_fact(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                         const char *at)
{
    char value[VALUE_BYTES];
    const char *unused;
    bool of_torch = fact == AF_PASTED_TORCH_CUDA || fact == AF_PASTED_TORCH_HIP;
    at += *at == '\'' || *at == '"';
    bool none = af_given_is_word(at, strlen(at), facts[fact].none);
    if (none && of_torch && reader->values[AF_PASTED_TORCH].text == NULL)
        return true; /* importing torch failed */
    if (none)
        snprintf(value, sizeof value, "none");
    else if (facts[fact].read(at, value) == 0)
        return false;
    if (fact == AF_PASTED_PYTHON || fact == AF_PASTED_OS)
        af_pasted_read_arch(reader, at, &unused); /* in parentheses */
    fact = fact == AF_PASTED_ROCM_OF_HIP ? AF_PASTED_ROCM : fact;
    af_pasted_take(reader, fact, value, strlen(value));
    return true;
}
