/*
 * binary.c: reads the facts of an extension from its bytes. Symbols, versions
 * and needed libraries come from the tables of the dynamic loader; only pybind11
 * and torch strings, and GPU code, are located by section. An assertion of a
 * torch header leaves the header's path and line: "... INTERNAL ASSERT FAILED at
 * \".../torch/include/c10/core/TensorImpl.h\":1332, please ...".
 */
#include "kit/formats/binary.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/elf.h"

#define TEXT_BYTES_MAX 65535u
#define ASSERTIONS_MAX 128u
#define PATH_BYTES_MAX 512
#define LINE_DIGITS_MAX 6

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* Start of the line number before `end`; `end` if there is none. */
static const char *line_start(const char *start, const char *end)
{
    const char *at = end;
    while (at > start && end - at < LINE_DIGITS_MAX && is_digit(at[-1]))
        at--;
    return at;
}

/* Start of the path that ends at `end`, after its quote; NULL if there is no path. */
static const char *path_start(const char *start, const char *end)
{
    const char *at = end;
    while (at > start && end - at < PATH_BYTES_MAX && at[-1] != '"') {
        at--;
        if (*at <= ' ' || *at > '~')
            return NULL;
    }
    return at > start && at[-1] == '"' ? at : NULL;
}

/* The part of a torch header's path after its last "/include/"; empty for other files. */
static struct af_span header_name(const char *path, const char *end)
{
    static const char torch[] = "/torch/include/";
    static const char include[] = "/include/";
    const char *at = memmem(path, (size_t)(end - path), torch, sizeof torch - 1);
    const char *name = NULL;
    while (at != NULL && (at = memmem(at, (size_t)(end - at), include, sizeof include - 1))) {
        at += sizeof include - 1;
        name = at--;
    }
    return name == NULL ? (struct af_span){NULL, 0}
                        : (struct af_span){name, (size_t)(end - name)};
}

/* "HEADER:LINE" of the string that contains `at`; NULL if it is not a torch assertion. */
static const char *text_before(struct af_arena *arena, const char *start, const char *at)
{
    const char *line = line_start(start, at);
    if (line == at || line - start < 2 || line[-1] != ':' || line[-2] != '"')
        return NULL;
    const char *path_end = line - 2;
    const char *path = path_start(start, path_end);
    if (path == NULL)
        return NULL;
    struct af_span header = header_name(path, path_end);
    if (header.len == 0)
        return NULL;
    return af_arena_format(arena, "%.*s:%.*s", (int)header.len, header.data, (int)(at - line),
                           line);
}

static struct af_texts assertion_texts(struct af_arena *arena, struct af_span bytes)
{
    static const char ending[] = ", please report a bug to PyTorch";
    const char **items = af_arena_array(arena, ASSERTIONS_MAX, sizeof *items);
    const char *end = bytes.data + bytes.len;
    const char *at = bytes.data;
    size_t count = 0;
    while (count < ASSERTIONS_MAX &&
           (at = memmem(at, (size_t)(end - at), ending, sizeof ending - 1)) != NULL) {
        const char *text = text_before(arena, bytes.data, at);
        if (text != NULL && !af_is_one_of(text, items, count))
            items[count++] = text;
        at += sizeof ending - 1;
    }
    return (struct af_texts){items, count};
}

#define INTERNALS_MAX 16u
#define INTERNALS_BYTES_MAX 200u

/* A printable copy for everything except symbol names. NULL for NULL. */
static const char *printable(struct af_arena *arena, const char *text)
{
    if (text == NULL)
        return NULL;
    size_t len = 0;
    while (text[len] > ' ' && text[len] < 0x7f && len < TEXT_BYTES_MAX)
        len++;
    if (text[len] == '\0')
        return af_arena_text_n(arena, text, len);
    return af_text_scrub(arena, text, TEXT_BYTES_MAX);
}

static void read_names(struct af_arena *arena, const struct af_dynamic *dynamic,
                       struct af_binary *binary)
{
    const char **needed = af_arena_array(arena, dynamic->needed_count + 1, sizeof *needed);
    binary->soname = printable(arena, dynamic->soname);
    binary->rpath = printable(arena, dynamic->rpath);
    binary->runpath = printable(arena, dynamic->runpath);
    for (size_t i = 0; i < dynamic->needed_count; i++)
        needed[i] = printable(arena, dynamic->needed[i]);
    binary->needed = (struct af_texts){needed, dynamic->needed_count};
}

/* Whether the loader will look up the symbol in other files. */
static bool is_wanted(const struct af_dynamic *dynamic, const unsigned char *marks,
                      size_t index, struct af_symbol *symbol)
{
    return marks[index] != 0 && af_dynamic_symbol(dynamic, index, symbol) &&
           symbol->is_undefined && symbol->name[0] != '\0';
}

static void read_undefined(struct af_arena *arena, struct af_dynamic *dynamic,
                           struct af_binary *binary)
{
    struct af_symbol symbol;
    size_t count = 0;
    const unsigned char *marks = af_dynamic_relocated(dynamic, arena);
    for (size_t i = 0; i < dynamic->symbol_count; i++)
        count += is_wanted(dynamic, marks, i, &symbol);
    struct af_undefined *undefined = af_arena_array(arena, count + 1, sizeof *undefined);
    count = 0;
    for (size_t i = 0; i < dynamic->symbol_count; i++) {
        if (is_wanted(dynamic, marks, i, &symbol))
            undefined[count++] = (struct af_undefined){
                .name = printable(arena, symbol.name),
                .version = printable(arena, symbol.version.name),
                .library = printable(arena, symbol.version.library),
                .weak = symbol.is_weak,
            };
    }
    binary->undefined = undefined;
    binary->undefined_count = count;
}

static void read_version_needs(struct af_arena *arena, const struct af_dynamic *dynamic,
                               struct af_binary *binary)
{
    struct af_version_need *needs =
        af_arena_array(arena, dynamic->version_count + 1, sizeof *needs);
    for (size_t i = 0; i < dynamic->version_count; i++) {
        const struct af_symbol_version *version = &dynamic->versions[i];
        if (version->name != NULL && version->library != NULL)
            needs[binary->version_need_count++] = (struct af_version_need){
                printable(arena, version->library), printable(arena, version->name)};
    }
    binary->version_needs = needs;
}

/* Finds the name after PyInit_: the one that matches the file name, else the first. */
static void read_init(struct af_arena *arena, const struct af_dynamic *dynamic,
                      struct af_binary *binary)
{
    static const char start[] = "PyInit_";
    struct af_symbol symbol;
    const char *found = NULL;
    for (size_t i = 0; i < dynamic->symbol_count; i++) {
        if (!af_dynamic_symbol(dynamic, i, &symbol) || !symbol.is_defined ||
            !af_starts_with(symbol.name, start))
            continue;
        const char *name = symbol.name + strlen(start);
        bool is_own = af_starts_with(binary->name, name) && binary->name[strlen(name)] == '.';
        if (found == NULL || is_own)
            found = name;
        if (is_own)
            break;
    }
    binary->init_name = printable(arena, found);
}

/* Collects the distinct strings "__pybind11_internals_v..." of the read-only data. */
static void read_internals(struct af_arena *arena, struct af_span bytes,
                           struct af_binary *binary)
{
    static const char start[] = "__pybind11_internals_v";
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.len;
    const char **items = af_arena_array(arena, INTERNALS_MAX, sizeof *items);
    size_t count = 0;
    while (count < INTERNALS_MAX &&
           (at = memmem(at, (size_t)(end - at), start, sizeof start - 1)) != NULL) {
        size_t capacity = (size_t)(end - at);
        size_t len =
            strnlen(at, capacity < INTERNALS_BYTES_MAX ? capacity : INTERNALS_BYTES_MAX);
        char *text = af_arena_text_n(arena, at, len);
        if (!af_is_one_of(text, items, count))
            items[count++] = af_text_scrub(arena, text, INTERNALS_BYTES_MAX);
        at += len;
    }
    binary->pybind_internals = (struct af_texts){items, count};
}

/*
 * Length of a string like "3.11" that begins at `at` and ends in a NUL; 0:
 * another string.
 */
static size_t python_version_len(const char *at, const char *end)
{
    size_t len = 2;
    if (end - at < 5 || at[0] != '3' || at[1] != '.')
        return 0;
    while (at + len < end && len < 4 && at[len] >= '0' && at[len] <= '9')
        len++;
    return len > 2 && at + len < end && at[len] == '\0' ? len : 0;
}

/*
 * pybind11 modules compare their Python version with the one that imports them.
 * The string occurs once; if several strings could be it, the version is
 * unknown.
 */
static void read_pybind_python(struct af_arena *arena, struct af_span bytes,
                               struct af_binary *binary)
{
    static const char message[] = "module was compiled for Python %s";
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.len;
    const char *found = python_version_len(at, end) > 0 ? at : NULL;
    if (memmem(at, bytes.len, message, sizeof message - 1) == NULL)
        return;
    while ((at = memmem(at, (size_t)(end - at), "\0003.", 3)) != NULL) {
        size_t len = python_version_len(++at, end);
        if (len == 0)
            continue;
        if (found != NULL && strcmp(found, at) != 0)
            return;
        found = at;
    }
    binary->pybind_python = printable(arena, found);
}

/*
 * Reads facts that only sections contain; without section headers they stay
 * unknown and empty.
 */
static void read_sections(struct af_arena *arena, const struct af_elf *elf,
                          struct af_binary *binary)
{
    static const char *const gpu_sections[] = {".nv_fatbin", "__nv_relfatbin", ".hip_fatbin"};
    struct af_span section;
    if (af_elf_section_bytes(elf, ".rodata", &section)) {
        read_internals(arena, section, binary);
        read_pybind_python(arena, section, binary);
        binary->assertions = assertion_texts(arena, section);
    }
    for (size_t i = 0; i < AF_COUNT(gpu_sections) && !binary->has_gpu_code; i++)
        binary->has_gpu_code = af_elf_section_bytes(elf, gpu_sections[i], &section);
}

/* Reads facts from the loader's tables. */
static void read_tables(struct af_arena *arena, struct af_dynamic *dynamic,
                        struct af_binary *binary)
{
    binary->machine = af_elf_machine_name(&dynamic->elf);
    read_names(arena, dynamic, binary);
    read_undefined(arena, dynamic, binary);
    read_version_needs(arena, dynamic, binary);
    read_init(arena, dynamic, binary);
}

enum anyflash_status af_binary_read(struct af_arena *arena, struct af_span bytes,
                                    const char *name, struct af_binary *out,
                                    struct anyflash_error *err)
{
    struct af_dynamic dynamic;
    enum anyflash_status status = af_dynamic_read(arena, bytes, name, &dynamic, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_binary binary = {.name = printable(arena, af_path_name(name))};
    read_tables(arena, &dynamic, &binary);
    read_sections(arena, &dynamic.elf, &binary);
    *out = binary;
    return ANYFLASH_OK;
}

bool af_binary_wants(const struct af_binary *binary, const char *name)
{
    for (size_t i = 0; i < binary->undefined_count; i++) {
        if (strcmp(binary->undefined[i].name, name) == 0)
            return true;
    }
    return false;
}
