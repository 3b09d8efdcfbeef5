/*
 * torch.c: the torch of the environment, from its files. version.py is parsed, never run. ABI,
 * SONAMEs and the CUDA runtime are read from the libraries themselves, because version texts
 * and file names are sometimes wrong. Reads also for which GPUs torch was compiled.
 */
#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <ctype.h>
#include <string.h>

#define VERSION_PY_BYTES_MAX (64u * 1024u)
#define TARGETS_MAX 64u
#define TARGETS_BYTES_MAX 512u

static void set_cudart(const struct af_probe *probe, const struct af_dynamic *elf,
                       const char *path, const char *name)
{
    struct af_torch *torch = &probe->machine->torch;
    const char *real = af_file_real_path(probe->arena, path);
    const char *origin = af_path_folder(probe->arena, real == NULL ? path : real);
    af_fact_text(probe->arena, &torch->cudart_soname, name, path);
    const char *found = af_probe_library_find(probe, elf, origin, name);
    if (found != NULL)
        af_fact_text(probe->arena, &torch->cudart_path, found, "search order of ld.so");
    else
        af_fact_absent(probe->arena, &torch->cudart_path,
                       "run path, LD_LIBRARY_PATH, ld.so.cache, nvidia/*/lib");
}

/* Fills cudart_soname and cudart_path. */
static void probe_cudart(const struct af_probe *probe, const char *folder)
{
    struct af_torch *torch = &probe->machine->torch;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    const char *name = NULL;
    if (torch->cuda.state == AF_FACT_ABSENT) {
        af_fact_absent(probe->arena, &torch->cudart_soname, torch->cuda.source);
        af_fact_absent(probe->arena, &torch->cudart_path, torch->cuda.source);
        return;
    }
    const char *path = af_probe_torch_library(probe, folder, "libc10_cuda.so");
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &torch->cudart_soname, "%s", err.message);
        af_fact_unknown(probe->arena, &torch->cudart_path, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < elf.dynamic.needed_count; i++) {
        if (af_starts_with(elf.dynamic.needed[i], "libcudart.so") && name == NULL)
            name = elf.dynamic.needed[i];
    }
    if (name != NULL) {
        set_cudart(probe, &elf.dynamic, path, name);
    } else {
        af_fact_absent(probe->arena, &torch->cudart_soname, path);
        af_fact_absent(probe->arena, &torch->cudart_path, path);
    }
    af_probe_elf_close(&elf);
}

/*
 * Fills missing_libraries; after probe_cudart(). libtorch_global_deps.so only names what must
 * be loaded before torch's other libraries; torch loads it first.
 */
static void probe_missing(const struct af_probe *probe, const char *folder)
{
    struct af_fact *fact = &probe->machine->torch.missing_libraries;
    struct af_probe_missing missing = {0};
    const char *path = af_probe_torch_library(probe, folder, "libtorch_global_deps.so");
    if (!af_probe_library_check(probe, path, &missing))
        af_fact_unknown(probe->arena, fact, "'%s' cannot be read as an ELF file", path);
    else
        af_fact_list(probe->arena, fact, missing.names, missing.count, path);
}

/* Length of "sm_90a" or "compute_120" at `at`, 0 if there is none. */
static size_t target_len(const char *at, const char *end)
{
    static const char *const starts[] = {"sm_", "compute_"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t len = strlen(starts[i]);
        if ((size_t)(end - at) <= len || memcmp(at, starts[i], len) != 0)
            continue;
        size_t digits = 0;
        while (at + len < end && isdigit((unsigned char)at[len]) && digits < 4) {
            len++;
            digits++;
        }
        if (at + len < end && (at[len] == 'a' || at[len] == 'f'))
            len++;
        return digits >= 2 ? len : 0;
    }
    return 0;
}

/* Length of a list "sm_80 sm_90 compute_90" that ends in NUL; 0 if there is none. */
static size_t targets_len(const char *at, const char *end, size_t *count_out)
{
    const char *from = at;
    *count_out = 0;
    while ((size_t)(at - from) < TARGETS_BYTES_MAX && *count_out < TARGETS_MAX) {
        size_t len = target_len(at, end);
        if (len == 0 || at + len >= end)
            return 0;
        ++*count_out;
        at += len;
        if (*at == '\0')
            return (size_t)(at - from);
        if (*at++ != ' ')
            return 0;
    }
    return 0;
}

/*
 * Finds the list of torch.cuda.get_arch_list(), which is one text in .rodata. The compiler may
 * put it directly behind other bytes, so only its end is certain; of several lists the longest
 * is used.
 */
static bool find_targets(struct af_span bytes, struct af_span *found_out)
{
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.len;
    size_t best = 0;
    while (bytes.len > 0 && (at = memmem(at, (size_t)(end - at), "sm_", 3)) != NULL) {
        size_t count;
        size_t len = targets_len(at, end, &count);
        if (count > best && len > 0) {
            best = count;
            *found_out = (struct af_span){at, len};
        }
        at += len > 0 ? len : 3;
    }
    return best > 0;
}

static void set_targets(const struct af_probe *probe, struct af_span list, const char *path)
{
    const char *items[TARGETS_MAX];
    size_t count = 0;
    size_t at = 0;
    while (at < list.len && count < TARGETS_MAX) {
        const char *space = memchr(list.data + at, ' ', list.len - at);
        size_t end = space == NULL ? list.len : (size_t)(space - list.data);
        items[count++] = af_arena_text_n(probe->arena, list.data + at, end - at);
        at = end + 1;
    }
    af_fact_list(probe->arena, &probe->machine->torch.gpu_targets, items, count, path);
}

/* Fills gpu_targets. */
static void probe_targets(const struct af_probe *probe, const char *folder)
{
    struct af_torch *torch = &probe->machine->torch;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    struct af_span bytes;
    struct af_span list;
    if (torch->cuda.state == AF_FACT_ABSENT) {
        af_fact_absent(probe->arena, &torch->gpu_targets, torch->cuda.source);
        return;
    }
    const char *path = af_probe_torch_library(probe, folder, "libtorch_python.so");
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &torch->gpu_targets, "%s", err.message);
        return;
    }
    if (af_elf_section_bytes(&elf.dynamic.elf, ".rodata", &bytes) && find_targets(bytes, &list))
        set_targets(probe, list, path);
    else
        af_fact_unknown(probe->arena, &torch->gpu_targets, "'%s' holds no list of targets",
                        path);
    af_probe_elf_close(&elf);
}

/* c10::detail::torchCheckFail(char const*, char const*, unsigned, std::string const&) */
static const char symbol_new_abi[] = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__"
                                     "cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
static const char symbol_old_abi[] = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs";

/*
 * The first torch in the package folders, NULL when there is none. A folder with neither of
 * torch's two main files is left over from an uninstall.
 */
static const char *find_torch(const struct af_probe *probe)
{
    const struct af_fact *sites = &probe->machine->python.site_packages;
    for (size_t i = 0; i < sites->value.list.count; i++) {
        const char *path = af_path_join(probe->arena, sites->value.list.items[i], "torch");
        const char *first = af_path_join(probe->arena, path, "version.py");
        const char *second = af_path_join(probe->arena, path, "__init__.py");
        if (!af_file_is_absent(first) || !af_file_is_absent(second))
            return path;
    }
    return NULL;
}

/* Finds a line "key = value" or "key: type = value" of Python; returns the text after '='. */
static bool find_assignment(struct af_span text, const char *key, struct af_span *value_out)
{
    struct af_span line;
    size_t key_len = strlen(key);
    while (af_text_line(&text, &line)) {
        if (line.len <= key_len || memcmp(line.data, key, key_len) != 0)
            continue;
        const char *equals = memchr(line.data, '=', line.len);
        char after = line.data[key_len];
        if (equals == NULL || (after != ' ' && after != ':' && after != '='))
            continue;
        struct af_span rest = {equals + 1, line.len - (size_t)(equals + 1 - line.data)};
        *value_out = af_text_trim(rest);
        return true;
    }
    return false;
}

/* Sets `fact` from a quoted text or None; any other value makes it unknown. */
static void set_from_assignment(const struct af_probe *probe, struct af_span text,
                                const char *key, const char *path, struct af_fact *fact)
{
    struct af_span value;
    bool found = find_assignment(text, key, &value);
    if (found && af_text_span_equal(value, "None")) {
        af_fact_absent(probe->arena, fact, path);
        return;
    }
    bool quoted = found && value.len >= 2 && (value.data[0] == '\'' || value.data[0] == '"') &&
                  value.data[value.len - 1] == value.data[0];
    if (!quoted)
        af_fact_unknown(probe->arena, fact, "'%s' %s '%s'", path,
                        found ? "has an unexpected value of" : "does not say", key);
    else
        af_fact_text(probe->arena, fact,
                     af_arena_text_n(probe->arena, value.data + 1, value.len - 2), path);
}

static void read_version_py(const struct af_probe *probe, const char *folder)
{
    struct af_torch *torch = &probe->machine->torch;
    struct anyflash_error err = {0};
    struct af_span text;
    const struct {
        const char *key;
        struct af_fact *fact;
    } wanted[] = {{"__version__", &torch->version},
                  {"cuda", &torch->cuda},
                  {"hip", &torch->hip},
                  {"git_version", &torch->git}};
    const char *path = af_path_join(probe->arena, folder, "version.py");
    if (af_file_read(probe->arena, path, VERSION_PY_BYTES_MAX, &text, &err) == ANYFLASH_OK &&
        memchr(text.data, '\0', text.len) != NULL)
        af_fail(&err, ANYFLASH_E_DATA, "'%s' is not a text file", path);
    for (size_t i = 0; i < AF_COUNT(wanted); i++) {
        if (err.status != ANYFLASH_OK)
            af_fact_unknown(probe->arena, wanted[i].fact, "%s", err.message);
        else
            set_from_assignment(probe, text, wanted[i].key, path, wanted[i].fact);
    }
    /* Older torch does not define hip, and in CPU builds not cuda. */
    if (torch->version.state == AF_FACT_KNOWN && torch->hip.state == AF_FACT_UNKNOWN &&
        !find_assignment(text, "hip", &text))
        af_fact_absent(probe->arena, &torch->hip, path);
    struct af_version version;
    const char *said = af_fact_text_or(&torch->version, NULL);
    if (said != NULL && !af_version_parse(said, strlen(said), &version))
        af_fact_unknown(probe->arena, &torch->version,
                        "'%s' has a __version__ that cannot be parsed", path);
}

/* Whether conda's record says that pytorch is from a channel other than torch's own. */
static bool built_by_conda(const struct af_probe *probe)
{
    const char *const *names;
    const char *prefix = af_fact_text_or(&probe->machine->python.prefix, NULL);
    size_t count =
        af_probe_list(probe, af_path_join(probe->arena, prefix, "conda-meta"), &names);
    for (size_t i = 0; i < count; i++) {
        if (af_starts_with(names[i], "libtorch-") && af_ends_with(names[i], ".json"))
            return true;
    }
    return false;
}

/* Whether the local version has a part such as "nv25.09". */
static bool has_nv_part(const char *local)
{
    for (const char *at = strstr(local, "nv"); at != NULL; at = strstr(at + 1, "nv")) {
        bool starts = at == local || at[-1] == '.';
        if (starts && isdigit((unsigned char)at[2]))
            return true;
    }
    return false;
}

static bool is_public_local(const char *local)
{
    return local[0] == '\0' || af_starts_with(local, "cpu") || af_starts_with(local, "rocm") ||
           af_starts_with(local, "xpu") ||
           (af_starts_with(local, "cu") && isdigit((unsigned char)local[2]));
}

/* Who built torch, decided by its version, its SONAME and conda's records. */
static const char *build_of(const struct af_probe *probe, const struct af_version *version)
{
    const struct af_fact *soname = &probe->machine->torch.c10_soname;
    if (has_nv_part(version->local))
        return "vendor";
    if (soname->state == AF_FACT_KNOWN && !af_fact_is(soname, "libc10.so"))
        return "distribution";
    if (af_starts_with(version->local, "git") ||
        (!is_public_local(version->local) && af_version_is_prerelease(version)))
        return "source";
    if (af_version_is_prerelease(version))
        return "prerelease";
    if (!is_public_local(version->local) || built_by_conda(probe))
        return "distribution";
    return "release";
}

static void set_build(const struct af_probe *probe)
{
    struct af_torch *torch = &probe->machine->torch;
    struct af_version version;
    const char *text = af_fact_text_or(&torch->version, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &version))
        af_fact_unknown(probe->arena, &torch->build, "%s", torch->version.source);
    else
        af_fact_text(probe->arena, &torch->build, build_of(probe, &version),
                     torch->version.source);
}

static void read_c10(const struct af_probe *probe, const char *folder)
{
    struct af_torch *torch = &probe->machine->torch;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    struct af_symbol symbol;
    const char *path = af_probe_torch_library(probe, folder, "libc10.so");
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &torch->cxx11abi, "%s", err.message);
        af_fact_unknown(probe->arena, &torch->c10_soname, "%s", err.message);
        return;
    }
    af_fact_unknown(probe->arena, &torch->c10_soname, "'%s' has no SONAME", path);
    af_fact_text(probe->arena, &torch->c10_soname, elf.dynamic.soname, path);
    bool is_new = af_dynamic_find(&elf.dynamic, symbol_new_abi, NULL, &symbol);
    bool is_old = af_dynamic_find(&elf.dynamic, symbol_old_abi, NULL, &symbol);
    af_probe_elf_close(&elf);
    if (is_new == is_old)
        af_fact_unknown(probe->arena, &torch->cxx11abi,
                        "'%s' does not define torchCheckFail with either string type", path);
    else
        af_fact_bool(probe->arena, &torch->cxx11abi, is_new, path);
}

void af_probe_torch(struct af_probe *probe)
{
    struct af_torch *torch = &probe->machine->torch;
    const struct af_fact *sites = &probe->machine->python.site_packages;
    if (sites->state != AF_FACT_KNOWN) {
        af_machine_set_all(probe->arena, (struct af_fact *)torch, sizeof *torch, sites->state,
                           sites->source);
        return;
    }
    const char *folder = find_torch(probe);
    if (folder == NULL) {
        af_machine_set_all(probe->arena, (struct af_fact *)torch, sizeof *torch, AF_FACT_ABSENT,
                           "no torch in this Python's site-packages");
        return;
    }
    af_fact_text(probe->arena, &torch->path, folder, "python.site_packages");
    read_version_py(probe, folder);
    read_c10(probe, folder);
    probe_cudart(probe, folder);
    probe_missing(probe, folder);
    probe_targets(probe, folder);
    set_build(probe);
}
