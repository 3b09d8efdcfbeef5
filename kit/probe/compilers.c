/*
 * compilers.c: the probe of host compilers. No compiler is run: the family is in the real
 * file's name, the version in the name of its library folder (lib/gcc/TRIPLE/12,
 * lib/clang/14.0.6). If that has only the major version, the full version is a text in the
 * program itself.
 */
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds a version such as "12.2.0" between NULs in a binary, with the major version `major`. */
static const char *version_in_binary(struct af_probe *probe, const char *path, long major)
{
    struct af_mapping file;
    char start[16];
    const char *version = NULL;
    if (af_file_map(path, &file, NULL) != ANYFLASH_OK)
        return NULL;
    int start_len = snprintf(start, sizeof start, "%c%ld.", 0, major);
    const char *at = (const char *)file.data;
    const char *end = at + file.len;
    while (version == NULL && start_len > 0 &&
           (at = memmem(at, (size_t)(end - at), start, (size_t)start_len)) != NULL) {
        at++;
        size_t len = 0;
        while (at + len < end && len < 16 &&
               (isdigit((unsigned char)at[len]) || at[len] == '.'))
            len++;
        if (at + len < end && at[len] == '\0' && memchr(at + start_len, '.', len) != NULL)
            version = af_arena_text_n(probe->arena, at, len);
    }
    af_file_unmap(&file);
    return version;
}

/* The entry of `folder` with the major version `major` (0: the highest), or NULL. */
static const char *version_folder(struct af_probe *probe, const char *folder, long major)
{
    const char *const *names;
    const char *best = NULL;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        long number = strtol(names[i], NULL, 10);
        if (isdigit((unsigned char)names[i][0]) && (major == 0 || number == major) &&
            (best == NULL || number >= strtol(best, NULL, 10)))
            best = names[i];
    }
    return best;
}

/* Searches lib/gcc/TRIPLE below the prefix of the program. */
static const char *gcc_folder_version(struct af_probe *probe, const char *prefix, long major)
{
    const char *gcc = af_path_join(probe->arena, prefix, "lib/gcc");
    const char *const *triples;
    const char *best = NULL;
    size_t count = af_probe_list(probe, gcc, &triples);
    for (size_t i = 0; i < count; i++) {
        const char *found =
            version_folder(probe, af_path_join(probe->arena, gcc, triples[i]), major);
        if (found != NULL && (best == NULL || strtol(found, NULL, 10) > strtol(best, NULL, 10)))
            best = found;
    }
    return best;
}

/* The number at the end of a name such as "g++-12", or 0. */
static long major_of_name(const char *name)
{
    const char *dash = strrchr(name, '-');
    return dash != NULL && isdigit((unsigned char)dash[1]) ? strtol(dash + 1, NULL, 10) : 0;
}

static void set_version(struct af_probe *probe, struct af_compiler *compiler, const char *real,
                        bool clang)
{
    const char *prefix = af_path_folder(probe->arena, af_path_folder(probe->arena, real));
    long major = major_of_name(af_path_name(real));
    const char *version =
        clang ? version_folder(probe, af_path_join(probe->arena, prefix, "lib/clang"), major)
              : gcc_folder_version(probe, prefix, major);
    if (version == NULL && major > 0)
        version = af_arena_format(probe->arena, "%ld", major);
    if (version == NULL) {
        af_fact_unknown(probe->arena, &compiler->version, "no library folder under '%s'",
                        prefix);
        return;
    }
    const char *full = strchr(version, '.') != NULL
                           ? NULL
                           : version_in_binary(probe, real, strtol(version, NULL, 10));
    af_fact_text(probe->arena, &compiler->version, full == NULL ? version : full, real);
}

static void add(struct af_probe *probe, const char *command, const char *path)
{
    const char *real = path == NULL ? NULL : af_file_real_path(probe->arena, path);
    struct af_compiler *compiler =
        real == NULL ? NULL
                     : af_machine_row_add(probe->machine,
                                          offsetof(struct af_machine, compilers), "not read");
    if (compiler == NULL)
        return;
    const char *name = af_path_name(real);
    bool clang = strstr(name, "clang") != NULL;
    bool gcc = strstr(name, "gcc") != NULL || strstr(name, "g++") != NULL ||
               af_ends_with(name, "c++") || af_ends_with(name, "-cc");
    af_fact_text(probe->arena, &compiler->command, command, path);
    af_fact_text(probe->arena, &compiler->path, path, "PATH");
    if (!clang && !gcc) {
        af_fact_unknown(probe->arena, &compiler->family, "'%s' may be a wrapper", real);
        return;
    }
    af_fact_text(probe->arena, &compiler->family, clang ? "clang" : "gcc", real);
    set_version(probe, compiler, real, clang);
}

/* Adds the compiler of $CXX, which may be a path, a name, or a name with options. */
static void add_variable(struct af_probe *probe, const char *variable, const char *command)
{
    const char *value = af_probe_variable(probe, variable);
    if (value == NULL)
        return;
    const char *name = af_arena_text_n(probe->arena, value, strcspn(value, " "));
    if (name != NULL)
        add(probe, command,
            strchr(name, '/') != NULL ? af_probe_path(probe, name)
                                      : af_probe_on_path(probe, name));
}

void af_probe_compilers(struct af_probe *probe)
{
    static const char *const commands[] = {"c++", "g++", "gcc", "clang++"};
    probe->machine->compilers.state = AF_FACT_KNOWN;
    probe->machine->compilers.source = "CXX, CC, PATH";
    add_variable(probe, "CXX", "$CXX");
    add_variable(probe, "CC", "$CC");
    for (size_t i = 0; i < AF_COUNT(commands); i++)
        add(probe, commands[i], af_probe_on_path(probe, commands[i]));
}
