/*
 * interpreter.c: finds an interpreter's binary and its standard library, and reads the ABI from
 * them; interpreter_version.c reads the version. Nothing is run.
 *
 * ABI facts come from build-details.json (PEP 739, since 3.14), else from the _sysconfigdata
 * module, which is a plain dict with one entry per line.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/tags.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define SYSCONFIG_BYTES_MAX (1u * 1024u * 1024u)
#define DETAILS_BYTES_MAX (256u * 1024u)

/* Parses "python3.13t", also with a debug "d", into its minor version and flags. */
static bool parse_library_name(const char *name, int *minor_out, char flags[AF_ABI_FLAGS_BYTES])
{
    static const char start[] = "python3.";
    const char *at = name + sizeof start - 1;
    int minor = 0;
    size_t flag_count = 0;
    if (!af_starts_with(name, start) || *at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9' && minor < 1000; at++)
        minor = minor * 10 + (*at - '0');
    for (; (*at == 't' || *at == 'd') && flag_count < 2; at++)
        flags[flag_count++] = *at;
    flags[flag_count] = '\0';
    *minor_out = minor;
    return *at == '\0' && minor < 1000;
}

static bool has_stdlib(const struct af_probe *probe, const char *prefix, const char *folder,
                       const char *name)
{
    const char *path = af_arena_format(probe->arena, "%s/%s/%s/os.py", prefix, folder, name);
    return af_file_is_regular(path);
}

static bool take_stdlib(const struct af_probe *probe, const char *name,
                        struct af_probe_interpreter_files *files)
{
    static const char *const folders[] = {"lib64", "lib"};
    char flags[AF_ABI_FLAGS_BYTES];
    int minor;
    if (!parse_library_name(name, &minor, flags))
        return false;
    /* The folder of a debug build is named without the d. */
    const char *folder =
        af_arena_format(probe->arena, "python3.%d%s", minor, flags[0] == 't' ? "t" : "");
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        if (!has_stdlib(probe, files->base_prefix, folders[i], folder))
            continue;
        files->platform_folder = folders[i];
        files->library_name = folder;
        files->minor = minor;
        snprintf(files->flags, sizeof files->flags, "%s", flags);
        files->stdlib =
            af_arena_format(probe->arena, "%s/%s/%s", files->base_prefix, folders[i], folder);
        return true;
    }
    return false;
}

/*
 * The python3.X folder under prefix/lib or lib64 if there is exactly one, else NULL; it must
 * have os.py if the caller says so.
 */
static const char *only_library(const struct af_probe *probe, const char *prefix, bool stdlib)
{
    static const char *const folders[] = {"lib", "lib64"};
    const char *found = NULL;
    for (size_t f = 0; f < AF_COUNT(folders); f++) {
        const char *const *names;
        const char *path = af_path_join(probe->arena, prefix, folders[f]);
        size_t count = af_probe_list(probe, path, &names);
        for (size_t i = 0; i < count; i++) {
            char flags[AF_ABI_FLAGS_BYTES];
            int minor;
            if (!parse_library_name(names[i], &minor, flags) ||
                (stdlib && !has_stdlib(probe, prefix, folders[f], names[i])))
                continue;
            if (found != NULL && strcmp(found, names[i]) != 0)
                return NULL;
            found = names[i];
        }
    }
    return found;
}

/* "python3.12" from the libpython3.12.so that the binary needs, or NULL. */
static const char *library_by_needs(const struct af_probe *probe, const struct af_dynamic *elf)
{
    static const char start[] = "libpython3.";
    for (size_t i = 0; i < elf->needed_count; i++) {
        const char *name = elf->needed[i];
        const char *end = strstr(name, ".so");
        if (af_starts_with(name, start) && end != NULL)
            return af_arena_text_n(probe->arena, name + 3, (size_t)(end - name) - 3);
    }
    return NULL;
}

static bool find_stdlib(const struct af_probe *probe, const struct af_dynamic *elf,
                        struct af_probe_interpreter_files *files)
{
    const char *names[3];
    names[0] = af_path_name(files->base_executable);
    names[1] = library_by_needs(probe, elf);
    names[2] = NULL;
    /* A program with any other name must at least need libpython. */
    if (af_starts_with(names[0], "python") || names[1] != NULL)
        names[2] = only_library(probe, files->base_prefix, true);
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (names[i] != NULL && take_stdlib(probe, names[i], files))
            return true;
    }
    return false;
}

/* The value of a line "'KEY': 'value'," of a _sysconfigdata module, or NULL. */
static const char *sysconfig_value(const struct af_probe *probe, struct af_span text,
                                   const char *key)
{
    const char *start = af_arena_format(probe->arena, "'%s': '", key);
    struct af_span line;
    while (af_text_line(&text, &line)) {
        line = af_text_trim(line);
        if (line.len > 0 && line.data[0] == '{')
            line = af_text_trim((struct af_span){line.data + 1, line.len - 1});
        size_t len = strlen(start);
        if (line.len <= len || memcmp(line.data, start, len) != 0)
            continue;
        const char *value = line.data + len;
        const char *quote = memchr(value, '\'', line.len - len);
        return quote == NULL ? NULL
                             : af_arena_text_n(probe->arena, value, (size_t)(quote - value));
    }
    return NULL;
}

/*
 * Finds _sysconfigdata_<flags>_linux_<machine>.py of the standard library. A debug build may be
 * called python3.12 like any other, and before 3.8 the m flag is in no name: then the flags are
 * taken from the name of this file, if there is only one.
 */
static void find_sysconfig(const struct af_probe *probe,
                           struct af_probe_interpreter_files *files)
{
    static const char start[] = "_sysconfigdata_";
    const char *const *names;
    const char *other = NULL;
    size_t other_count = 0;
    size_t flags_len = strlen(files->flags);
    size_t count = af_probe_list(probe, files->stdlib, &names);
    for (size_t i = 0; i < count; i++) {
        const char *flags = names[i] + sizeof start - 1;
        size_t len = af_starts_with(names[i], start) ? strspn(flags, "tdm") : 0;
        if (!af_starts_with(names[i], start) || !af_starts_with(flags + len, "_linux_") ||
            !af_ends_with(names[i], ".py") || len >= AF_ABI_FLAGS_BYTES)
            continue;
        if (len == flags_len && memcmp(flags, files->flags, len) == 0) {
            files->sysconfig = af_path_join(probe->arena, files->stdlib, names[i]);
            return;
        }
        other = names[i];
        other_count++;
    }
    if (other_count != 1)
        return;
    files->sysconfig = af_path_join(probe->arena, files->stdlib, other);
    const char *flags = other + sizeof start - 1;
    snprintf(files->flags, sizeof files->flags, "%.*s", (int)strspn(flags, "tdm"), flags);
}

static void abi_by_sysconfig(const struct af_probe *probe,
                             const struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    struct anyflash_error err = {0};
    struct af_span text;
    const char *path = files->sysconfig;
    if (path == NULL)
        af_fail(&err, ANYFLASH_E_NOT_FOUND,
                "cannot read Python's build settings: no _sysconfigdata_%s_linux_* in '%s'",
                files->flags, files->stdlib);
    if (path == NULL ||
        af_file_read(probe->arena, path, SYSCONFIG_BYTES_MAX, &text, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &python->soabi, "%s", err.message);
        af_fact_unknown(probe->arena, &python->ext_suffix, "%s", err.message);
        return;
    }
    const char *soabi = sysconfig_value(probe, text, "SOABI");
    const char *suffix = sysconfig_value(probe, text, "EXT_SUFFIX");
    af_fact_unknown(probe->arena, &python->soabi, "'%s' does not say SOABI", path);
    af_fact_unknown(probe->arena, &python->ext_suffix, "'%s' does not say EXT_SUFFIX", path);
    af_fact_text(probe->arena, &python->soabi, soabi, path);
    af_fact_text(probe->arena, &python->ext_suffix, suffix, path);
}

/* Reads build-details.json; false when it does not exist or is not complete enough. */
static bool abi_by_details(const struct af_probe *probe,
                           const struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    json_t *document;
    const char *path = af_path_join(probe->arena, files->stdlib, "build-details.json");
    if (!af_file_is_regular(path) ||
        af_file_read_json(path, DETAILS_BYTES_MAX, &document, NULL) != ANYFLASH_OK)
        return false;
    const json_t *abi = json_object_get(document, "abi");
    const char *suffix = json_string_value(json_object_get(abi, "extension_suffix"));
    bool usable =
        suffix != NULL && suffix[0] == '.' && af_ends_with(suffix, ".so") && strlen(suffix) > 4;
    if (usable) {
        af_fact_text(probe->arena, &python->ext_suffix, suffix, path);
        af_fact_text(probe->arena, &python->soabi,
                     af_arena_text_n(probe->arena, suffix + 1, strlen(suffix) - 4), path);
    }
    json_decref(document);
    return usable;
}

static const char *machine_of(const struct af_probe *probe, const char *program,
                              struct anyflash_error *err)
{
    struct af_probe_elf elf;
    if (af_probe_elf_open(probe, program, &elf, err) != ANYFLASH_OK)
        return NULL;
    const char *name = af_elf_machine_name(&elf.dynamic.elf);
    af_probe_elf_close(&elf);
    if (name == NULL)
        af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' was built for another architecture",
                program);
    return name;
}

/* Fills python.platform_tags for the real binary `program`. */
static void probe_platform_tags(const struct af_probe *probe, const char *program)
{
    struct af_fact *fact = &probe->machine->python.platform_tags;
    struct anyflash_error err = {0};
    struct af_libc libc;
    int major;
    int minor;
    const char *arch = machine_of(probe, program, &err);
    if (arch == NULL) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        return;
    }
    af_libc_of_program(probe, program, &libc);
    if (!af_platform_libc_parse(libc.version, &major, &minor)) {
        af_fact_unknown(probe->arena, fact, "%s",
                        libc.problem == NULL ? "the C library's version cannot be parsed"
                                             : libc.problem);
        return;
    }
    size_t count;
    const char *const *tags =
        af_platform_tags_linux(probe->arena, arch, libc.kind, libc.version, &count);
    if (tags != NULL)
        af_fact_list(probe->arena, fact, tags, count, libc.source);
}

static void set_all_unknown(const struct af_probe *probe, const char *problem)
{
    struct af_python *python = &probe->machine->python;
    struct af_fact *const facts[] = {&python->version,       &python->abi_flags,
                                     &python->soabi,         &python->ext_suffix,
                                     &python->platform_tags, &python->base_executable,
                                     &python->implementation};
    for (size_t i = 0; i < AF_COUNT(facts); i++) {
        if (facts[i]->state != AF_FACT_KNOWN)
            af_fact_unknown(probe->arena, facts[i], "%s", problem);
    }
}

/* Recognises PyPy and GraalPy by their names and by pyvenv.cfg; any other is CPython. */
static const char *implementation_of(const struct af_environment *environment,
                                     const char *base_executable)
{
    struct af_span value = {"", 0};
    const char *name = af_path_name(base_executable);
    af_formats_key_value(environment->cfg, "implementation", &value);
    if (af_starts_with(name, "pypy") || af_text_span_equal(value, "PyPy"))
        return "pypy";
    if (af_starts_with(name, "graalpy") || af_text_span_equal(value, "GraalVM") ||
        af_text_span_equal(value, "GraalPy"))
        return "graalpy";
    return "cpython";
}

/* Says where a broken chain of links ends. */
static const char *explain_missing(const struct af_probe *probe, const char *executable)
{
    const char *target =
        executable == NULL ? NULL : af_file_link_text(probe->arena, executable);
    if (executable == NULL)
        return "no interpreter";
    if (target != NULL)
        return af_arena_format(probe->arena, "'%s' is a broken link to '%s'", executable,
                               target);
    return af_arena_format(probe->arena, "'%s' is missing or cannot be reached", executable);
}

/* Reads all facts from the binary and its standard library. */
static void read_binary(const struct af_probe *probe, const struct af_dynamic *elf,
                        struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    char version[AF_PROBE_VERSION_BYTES] = "";
    if (!find_stdlib(probe, elf, files)) {
        files->problem = af_arena_format(probe->arena, "no standard library of '%s' under '%s'",
                                         files->base_executable, files->base_prefix);
        set_all_unknown(probe, files->problem);
        return;
    }
    find_sysconfig(probe, files); /* also sets the flags */
    const char *source = af_probe_interpreter_version(probe, elf, files, version);
    if (source == NULL)
        af_fact_unknown(probe->arena, &python->version, "'%s' does not contain its version",
                        files->base_executable);
    else
        af_fact_text(probe->arena, &python->version, version, source);
    af_fact_text(probe->arena, &python->abi_flags, files->flags,
                 files->sysconfig == NULL ? files->base_executable : files->sysconfig);
    if (!abi_by_details(probe, files))
        abi_by_sysconfig(probe, files);
    probe_platform_tags(probe, files->base_executable);
}

/* Follows the links; returns a problem when they are broken or the target is not CPython. */
static const char *read_interpreter(const struct af_probe *probe,
                                    const struct af_environment *environment,
                                    struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    const char *base = environment->executable == NULL
                           ? NULL
                           : af_file_real_path(probe->arena, environment->executable);
    if (base == NULL)
        return explain_missing(probe, environment->executable);
    af_fact_text(probe->arena, &python->base_executable, base, environment->executable);
    const char *implementation = implementation_of(environment, base);
    af_fact_text(probe->arena, &python->implementation, implementation, base);
    if (strcmp(implementation, "cpython") != 0)
        return af_arena_format(probe->arena, "'%s' is %s, not CPython", base, implementation);
    if (af_probe_elf_open(probe, base, &elf, &err) != ANYFLASH_OK)
        return af_arena_text(probe->arena, err.message);
    files->base_executable = base;
    files->base_prefix = af_path_folder(probe->arena, af_path_folder(probe->arena, base));
    read_binary(probe, &elf.dynamic, files);
    af_probe_elf_close(&elf);
    return NULL;
}

void af_probe_interpreter_probe(const struct af_probe *probe,
                                const struct af_environment *environment,
                                struct af_probe_interpreter_files *files_out)
{
    struct af_probe_interpreter_files files = {.minor = -1, .platform_folder = "lib"};
    const char *problem = read_interpreter(probe, environment, &files);
    if (problem != NULL) {
        files.problem = problem;
        set_all_unknown(probe, problem);
    }
    /* Even if its interpreter is missing, a venv has its package folder. */
    if (files.library_name == NULL && environment->is_venv)
        files.library_name = only_library(probe, environment->prefix, false);
    *files_out = files;
}
