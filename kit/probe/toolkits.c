/*
 * toolkits.c: the probes of CUDA toolkits and of host compilers. No compiler is run.
 *
 * Toolkits: first the places that torch's extension builder searches, in its order
 * (cpp_extension._find_cuda_home), then all others that exist. Versions and limits are read
 * from headers. Runs after torch and python.
 *
 * Compilers: the family is in the real file's name, the version in the name of its library
 * folder (lib/gcc/TRIPLE/12, lib/clang/14.0.6). If that has only the major version, the full
 * version is a text in the program itself.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define HEADER_BYTES (128u * 1024u) /* the texts that we search for are in the first 16 KiB */
#define SMALL_FILE_BYTES 65536u

static struct af_toolkit *add_row(struct af_probe *probe, const char *root,
                                  const char *found_by)
{
    struct af_toolkit *toolkit = af_machine_row_add(
        probe->machine, offsetof(struct af_machine, toolkits), "none of its files says so");
    if (toolkit == NULL)
        return NULL;
    af_fact_text(probe->arena, &toolkit->root, root, found_by);
    af_fact_text(probe->arena, &toolkit->found_by, found_by, root);
    return toolkit;
}

/* Reads "cuda": {"version": "12.8.1"} from version.json. */
static bool version_from_json(struct af_probe *probe, struct af_fact *fact, const char *path)
{
    json_t *json;
    if (!af_file_is_regular(path) ||
        af_file_read_json(path, SMALL_FILE_BYTES, &json, NULL) != ANYFLASH_OK)
        return false;
    const char *version =
        json_string_value(json_object_get(json_object_get(json, "cuda"), "version"));
    if (version != NULL)
        af_fact_text(probe->arena, fact, version, path);
    json_decref(json);
    return version != NULL;
}

/* The number that follows `mark` in the start of a file, or -1. */
static long number_after(const char *path, const char *mark)
{
    struct af_arena arena;
    struct af_span bytes;
    long number = -1;
    af_arena_init(&arena);
    if (path != NULL &&
        af_file_read_start(&arena, path, HEADER_BYTES, &bytes, NULL) == ANYFLASH_OK) {
        const char *found = memmem(bytes.data, bytes.len, mark, strlen(mark));
        if (found != NULL)
            number = strtol(found + strlen(mark), NULL, 10);
    }
    af_arena_release(&arena);
    return number;
}

/* The path of a header of the toolkit; conda keeps headers in targets/. NULL: not found. */
static const char *header(struct af_probe *probe, const char *root, const char *name)
{
    static const char *const folders[] = {"include", "targets/x86_64-linux/include",
                                          "targets/sbsa-linux/include",
                                          "targets/aarch64-linux/include"};
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        const char *path = af_arena_format(probe->arena, "%s/%s/%s", root, folders[i], name);
        if (af_file_is_regular(path))
            return path;
    }
    return NULL;
}

/* CUDA_VERSION 12080 is 12.8; an old version.txt has "CUDA Version 10.2.89". */
static void read_version(struct af_probe *probe, struct af_toolkit *toolkit, const char *root)
{
    if (version_from_json(probe, &toolkit->version,
                          af_path_join(probe->arena, root, "version.json")))
        return;
    const char *path = header(probe, root, "cuda.h");
    long number = number_after(path, "#define CUDA_VERSION ");
    if (number >= 1000 && number < 1000000) {
        af_fact_text(
            probe->arena, &toolkit->version,
            af_arena_format(probe->arena, "%ld.%ld", number / 1000, number % 1000 / 10), path);
        return;
    }
    struct af_span bytes;
    path = af_path_join(probe->arena, root, "version.txt");
    if (af_file_read_start(probe->arena, path, 200, &bytes, NULL) != ANYFLASH_OK)
        return;
    const char *found = strstr(bytes.data, "CUDA Version ");
    if (found != NULL) {
        found += strlen("CUDA Version ");
        af_fact_text(probe->arena, &toolkit->version,
                     af_arena_text_n(probe->arena, found, strspn(found, "0123456789.")), path);
    }
}

/* Reads the #error limits of crt/host_config.h: "__GNUC__ > 14", "__clang_major__ >= 20". */
static void read_limits(struct af_probe *probe, struct af_toolkit *toolkit, const char *root)
{
    const char *path = header(probe, root, "crt/host_config.h");
    long gcc = number_after(path, "__GNUC__ > ");
    long clang = number_after(path, "__clang_major__ >= ");
    if (gcc > 0 && gcc < 1000)
        af_fact_int(probe->arena, &toolkit->gcc_max, gcc, path);
    if (clang > 1 && clang < 1000)
        af_fact_int(probe->arena, &toolkit->clang_max, clang - 1, path);
}

static bool same_file(struct af_probe *probe, const char *a, const char *b)
{
    const char *real_a = a == NULL ? NULL : af_file_real_path(probe->arena, a);
    const char *real_b = b == NULL ? NULL : af_file_real_path(probe->arena, b);
    return af_equal(real_a, real_b);
}

static void fill(struct af_probe *probe, struct af_toolkit *toolkit, const char *root)
{
    const char *nvcc = af_path_join(probe->arena, root, "bin/nvcc");
    const char *first = af_probe_on_path(probe, "nvcc");
    bool there = af_file_is_executable(nvcc);
    if (there)
        af_fact_text(probe->arena, &toolkit->nvcc, nvcc, nvcc);
    else
        af_fact_absent(probe->arena, &toolkit->nvcc, nvcc);
    af_fact_bool(probe->arena, &toolkit->first_on_path, there && same_file(probe, nvcc, first),
                 "PATH");
    bool std = header(probe, root, "cuda/std/utility") != NULL ||
               header(probe, root, "cccl/cuda/std/utility") != NULL; /* CUDA 13 */
    af_fact_bool(probe->arena, &toolkit->headers,
                 std && header(probe, root, "cuda_runtime.h") != NULL, root);
    read_version(probe, toolkit, root);
    read_limits(probe, toolkit, root);
}

static bool is_known(struct af_probe *probe, const char *root)
{
    const struct af_toolkit_rows *toolkits = &probe->machine->toolkits;
    for (size_t i = 0; i < toolkits->count; i++) {
        const char *known = af_fact_text_or(&toolkits->rows[i].root, NULL);
        if (af_equal(known, root) || (af_file_exists(root) && same_file(probe, known, root)))
            return true;
    }
    return false;
}

/* A toolkit `named` by a variable counts even if it is missing: torch would use it. */
static void add(struct af_probe *probe, const char *root, const char *found_by, bool named)
{
    root = af_probe_path(probe, root);
    if (root == NULL || (!named && !af_file_is_folder(root)) || is_known(probe, root))
        return;
    struct af_toolkit *toolkit = add_row(probe, root, found_by);
    if (toolkit != NULL)
        fill(probe, toolkit, root);
}

/* Adds folders such as "cuda-12.8" in `folder`, and those of pip's nvidia packages. */
static void add_matching(struct af_probe *probe, const char *folder, const char *start,
                         const char *found_by)
{
    const char *const *names;
    folder = af_probe_path(probe, folder);
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = count; i > 0; i--) { /* newest name first */
        const char *root = af_path_join(probe->arena, folder, names[i - 1]);
        if (af_starts_with(names[i - 1], start))
            add(probe, root, found_by, false);
    }
}

/* Adds the tree that CUDA 13's pip packages share, which includes nvcc: nvidia/cu13. */
static void add_environment(struct af_probe *probe)
{
    const struct af_python *python = &probe->machine->python;
    const struct af_fact *sites = &python->site_packages;
    const char *prefix = af_fact_text_or(&python->prefix, NULL);
    for (size_t i = 0; sites->state == AF_FACT_KNOWN && i < sites->value.list.count; i++) {
        const char *nvidia = af_path_join(probe->arena, sites->value.list.items[i], "nvidia");
        add_matching(probe, nvidia, "cu1", "environment");
    }
    const char *nvcc = prefix == NULL ? NULL : af_path_join(probe->arena, prefix, "bin/nvcc");
    if (nvcc != NULL && af_file_is_executable(nvcc))
        add(probe, prefix, "conda", false);
}

/* Marks the toolkit that torch would use: the first found. A CPU build of torch uses none. */
static void mark_taken(struct af_probe *probe)
{
    const struct af_toolkit_rows *toolkits = &probe->machine->toolkits;
    const struct af_torch *torch = &probe->machine->torch;
    bool cuda_torch =
        torch->version.state != AF_FACT_KNOWN || torch->cuda.state != AF_FACT_ABSENT;
    for (size_t i = 0; i < toolkits->count; i++) {
        struct af_toolkit *toolkit = &toolkits->rows[i];
        const char *found_by = af_fact_text_or(&toolkit->found_by, "");
        bool searched = strcmp(found_by, "environment") != 0 && strcmp(found_by, "conda") != 0;
        bool plain = strcmp(found_by, "/usr/local") != 0 ||
                     af_ends_with(af_fact_text_or(&toolkit->root, ""), "/cuda");
        af_fact_bool(probe->arena, &toolkit->torch_takes_it,
                     i == 0 && cuda_torch && searched && plain,
                     "order of torch.utils.cpp_extension");
    }
}

void af_probe_toolkits(struct af_probe *probe)
{
    const char *home = af_probe_variable(probe, "CUDA_HOME");
    const char *path = af_probe_variable(probe, "CUDA_PATH");
    const char *nvcc = af_probe_on_path(probe, "nvcc");
    probe->machine->toolkits.state = AF_FACT_KNOWN;
    probe->machine->toolkits.source = "CUDA_HOME, CUDA_PATH, PATH, /usr/local, environment";
    if (home != NULL)
        add(probe, home, "CUDA_HOME", true);
    if (path != NULL)
        add(probe, path, "CUDA_PATH", true);
    if (nvcc != NULL)
        add(probe, af_path_folder(probe->arena, af_path_folder(probe->arena, nvcc)), "PATH",
            false);
    add(probe, "/usr/local/cuda", "/usr/local", false);
    add_environment(probe);
    add_matching(probe, "/usr/local", "cuda-", "/usr/local");
    add(probe, "/opt/cuda", "/opt", false);
    mark_taken(probe);
}

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

static void set_compiler_version(struct af_probe *probe, struct af_compiler *compiler,
                                 const char *real, bool clang)
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

static void add_compiler(struct af_probe *probe, const char *command, const char *path)
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
    set_compiler_version(probe, compiler, real, clang);
}

/* Adds the compiler of $CXX, which may be a path, a name, or a name with options. */
static void add_variable(struct af_probe *probe, const char *variable, const char *command)
{
    const char *value = af_probe_variable(probe, variable);
    if (value == NULL)
        return;
    const char *name = af_arena_text_n(probe->arena, value, strcspn(value, " "));
    add_compiler(probe, command,
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
        add_compiler(probe, commands[i], af_probe_on_path(probe, commands[i]));
}
