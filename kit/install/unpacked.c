/*
 * unpacked.c: compares the files of a tree with a list of keys. A key is the place of a file in
 * the layout of an environment: "site:torch/__init__.py" below any folder of packages,
 * "bin:torchrun", "include:a.h" (the folders above headers differ between installers), and
 * "root:share/man/x.1" for every other file. Then proves (proof/prover.h) the extensions.
 */
#include "kit/install/unpacked.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_archive.h"
#include "kit/proof/prover.h"
#include "kit/system/file.h"

#define ENTRY_POINTS_BYTES_MAX (1u << 20)
#define FOLDER_NAMES_MAX 200000u

/* The key of a member: those of NAME.data/KIND/ go to the folder of their kind (PEP 427). */
static const char *member_key(struct af_arena *arena, const char *name)
{
    static const struct {
        const char *folder;
        const char *key;
    } kinds[] = {{"purelib/", "site"},
                 {"platlib/", "site"},
                 {"scripts/", "bin"},
                 {"headers/", "include"},
                 {"data/", "root"}};
    size_t top = strcspn(name, "/");
    const char *below = name + top + (name[top] == '/');
    bool is_data = top >= 5 && memcmp(name + top - 5, ".data", 5) == 0;
    for (size_t i = 0; is_data && i < AF_COUNT(kinds); i++)
        if (af_starts_with(below, kinds[i].folder))
            return af_arena_format(arena, "%s:%s", kinds[i].key,
                                   below + strlen(kinds[i].folder));
    return af_arena_format(arena, "site:%s", name);
}

/* The names in [console_scripts] and [gui_scripts], for which installers write scripts. */
static bool allow_scripts(struct af_file_names *allowed, struct af_span text,
                          struct af_arena *arena)
{
    struct af_span line;
    bool is_scripts = false;
    bool good = true;
    while (good && af_text_line(&text, &line)) {
        line = af_text_trim(line);
        const char *equals = line.len == 0 ? NULL : memchr(line.data, '=', line.len);
        if (line.len > 0 && line.data[0] == '[')
            is_scripts = af_text_span_equal(line, "[console_scripts]") ||
                         af_text_span_equal(line, "[gui_scripts]");
        if (!is_scripts || equals == NULL)
            continue;
        struct af_span name =
            af_text_trim((struct af_span){line.data, (size_t)(equals - line.data)});
        good = af_file_names_add(allowed,
                                 af_arena_format(arena, "bin:%.*s", (int)name.len, name.data));
    }
    return good;
}

/* Files in the dist-info folder that installers write (PEP 376, PEP 610, uv). */
static bool allow_records(struct af_file_names *allowed, const char *info,
                          struct af_arena *arena)
{
    static const char *const names[] = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json",
                                        "uv_cache.json"};
    bool good = true;
    for (size_t i = 0; good && i < AF_COUNT(names); i++)
        good = af_file_names_add(allowed, af_arena_format(arena, "site:%s%s", info, names[i]));
    return good;
}

static enum anyflash_status allow_archive(struct af_file_names *allowed,
                                          const struct af_wheel_archive *archive,
                                          struct af_arena *arena, struct anyflash_error *err)
{
    struct af_span text = {0};
    bool good = af_file_names_add(allowed, "root:.lock"); /* uv locks the folder of --prefix */
    for (size_t i = 0; good && i < archive->zip.member_count; i++)
        good = af_file_names_add(allowed, member_key(arena, archive->zip.members[i].name));
    if (good && archive->info != NULL)
        good = allow_records(allowed, af_arena_text(arena, archive->info), arena);
    if (!good)
        return af_fail_memory(err);
    if (af_wheel_archive_info(archive, "entry_points.txt") == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_wheel_archive_read_info(
        archive, "entry_points.txt", arena, ENTRY_POINTS_BYTES_MAX, &text, err);
    if (status == ANYFLASH_OK && !allow_scripts(allowed, text, arena))
        status = af_fail_memory(err);
    return status;
}

enum anyflash_status af_unpacked_allow(struct af_file_names *allowed, const char *path,
                                       struct af_arena *arena, struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_wheel_archive_open(af_mapping_bytes(&mapping), path, &archive, err);
    if (status == ANYFLASH_OK)
        status = allow_archive(allowed, &archive, arena, err);
    af_wheel_archive_close(&archive);
    af_file_unmap(&mapping);
    return status;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_allowed(const struct af_file_names *allowed, const char *kind, const char *path,
                       struct af_arena *arena)
{
    const char *key = af_arena_format(arena, "%s:%s", kind, path);
    return key != NULL && bsearch(&key, allowed->items, allowed->count, sizeof *allowed->items,
                                  compare) != NULL;
}

/* Whether one of the folders that headers may be in makes `path` that of an allowed header. */
static bool is_header(const struct af_file_names *allowed, const char *path,
                      struct af_arena *arena)
{
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/'))
        if (is_allowed(allowed, "include", at + 1, arena))
            return true;
    return false;
}

/* Whether the file at `path` may be in the tree. Debian's pip writes below "local/". */
static bool is_known(const struct af_file_names *allowed, const char *path,
                     struct af_arena *arena)
{
    static const char packages[] = "-packages/"; /* site-packages, dist-packages */
    if (is_allowed(allowed, "root", path, arena))
        return true;
    if (af_starts_with(path, "local/"))
        path += strlen("local/");
    const char *site = af_starts_with(path, "lib") ? strstr(path, packages) : NULL;
    if (site != NULL)
        return is_allowed(allowed, "site", site + strlen(packages), arena);
    if (af_starts_with(path, "bin/"))
        return is_allowed(allowed, "bin", path + strlen("bin/"), arena);
    return (af_starts_with(path, "include/") && is_header(allowed, path, arena)) ||
           is_allowed(allowed, "root", path, arena);
}

/* Folders that are still to be visited, relative to the tree: a stack instead of recursion. */
struct visit {
    struct af_file_names folders;
    const struct af_file_names *allowed;
    const char *tree;
    struct af_arena *arena;
};

static enum anyflash_status visit_one(struct visit *visit, const char *path,
                                      struct anyflash_error *err)
{
    char shown[300];
    const char *full = af_path_join(visit->arena, visit->tree, path);
    if (full == NULL)
        return af_fail_memory(err);
    if (af_file_is_folder(full) && !af_file_is_link(full))
        return af_file_names_add(&visit->folders, path) ? ANYFLASH_OK : af_fail_memory(err);
    if (is_known(visit->allowed, path, visit->arena))
        return ANYFLASH_OK;
    return visit->arena->failed
               ? af_fail_memory(err)
               : af_fail(err, ANYFLASH_E_DATA,
                         "the installer unpacked '%s', which is not in the wheel's file list",
                         af_text_quote(shown, sizeof shown, path, strlen(path)));
}

static enum anyflash_status visit_folder(struct visit *visit, const char *folder,
                                         struct anyflash_error *err)
{
    const char **names;
    size_t count;
    bool is_cut = false;
    const char *full = af_path_join(visit->arena, visit->tree, folder);
    if (full == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_folder_list(visit->arena, full, FOLDER_NAMES_MAX, &names, &count, &is_cut, err);
    if (status == ANYFLASH_OK && is_cut)
        status = af_fail(err, ANYFLASH_E_LIMIT, "the wheel has too many files");
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *path = folder[0] == '\0' ? af_arena_text(visit->arena, names[i])
                                             : af_path_join(visit->arena, folder, names[i]);
        status = path == NULL ? af_fail_memory(err) : visit_one(visit, path, err);
    }
    return status;
}

enum anyflash_status af_unpacked_check(struct af_file_names *allowed, const char *tree,
                                       struct af_arena *arena, struct anyflash_error *err)
{
    struct visit visit = {.allowed = allowed, .tree = tree, .arena = arena};
    qsort(allowed->items, allowed->count, sizeof *allowed->items, compare);
    enum anyflash_status status = visit_folder(&visit, "", err);
    while (status == ANYFLASH_OK && visit.folders.count > 0)
        status = visit_folder(&visit, visit.folders.items[--visit.folders.count], err);
    af_mem_free(visit.folders.items);
    return status;
}

struct proving {
    struct af_run *run;
    const char *fresh;
    const char *stated_torch;
    struct af_prover prover;
    struct af_install_proved *proved;
    size_t bad_count;
    size_t torch_count; /* extensions that use torch */
    size_t torch_bad_count;
    const char *first_bad; /* reason of the first extension that does not load */
};

static const struct af_proof_check *first_unknown(const struct af_proof *proof)
{
    for (size_t i = 0; i < proof->check_count; i++)
        if (proof->checks[i].answer == AF_UNKNOWN)
            return &proof->checks[i];
    return NULL;
}

static void take_bad(struct proving *proving, const char *path, const char *why)
{
    const char *sentence =
        af_arena_format(proving->run->arena, "'%s' would not load: %s", path, why);
    proving->bad_count++;
    if (proving->first_bad == NULL)
        proving->first_bad = sentence;
    af_progress_message(&proving->run->progress, "%s", sentence == NULL ? why : sentence);
}

/*
 * Reports the proof; for libraries that a wheel ships for its own use only failures are
 * reported.
 */
static void tell(struct proving *proving, const char *path, bool is_bundled,
                 const struct af_proof *proof)
{
    const struct af_proof_check *unknown = first_unknown(proof);
    const struct af_progress *progress = &proving->run->progress;
    if (proof->answer == AF_NO)
        take_bad(proving, path, af_proof_objection(proof));
    else if (is_bundled)
        return;
    else if (proof->loads == AF_YES)
        af_progress_message(progress, "checked: '%s' loads here%s%s", path,
                            proof->built_for == NULL ? "" : "; built for ",
                            proof->built_for == NULL ? "" : proof->built_for);
    else
        af_progress_message(progress, "not proved: '%s': %s: %s", path,
                            unknown == NULL ? "unknown" : af_proof_check_title(unknown->id),
                            unknown == NULL ? "not known" : unknown->evidence);
}

/* Whether it is a library of operators, which packages load through torch. */
static bool uses_torch(const struct af_binary *binary)
{
    for (size_t i = 0; i < binary->needed.count; i++)
        if (af_starts_with(binary->needed.items[i], "libtorch") ||
            af_starts_with(binary->needed.items[i], "libc10"))
            return true;
    return false;
}

static void add_loadable(struct proving *proving, const char *word)
{
    struct af_install_proved *proved = proving->proved;
    for (size_t i = 0; i < proved->loadable_count; i++)
        if (af_equal(proved->loadable[i], word))
            return;
    if (word != NULL && proved->loadable_count < AF_LOADABLE_MAX)
        proved->loadable[proved->loadable_count++] = word;
}

/* Adds "package:a" and "module:a.b.c" for "a/b/c.so"; a library is added by its file. */
static void take_loadable(struct proving *proving, const char *path,
                          const struct af_binary *binary)
{
    struct af_arena *arena = proving->run->arena;
    size_t top = strcspn(path, "/");
    const char *name = af_path_name(path);
    const char *init =
        af_arena_format(arena, "%s/%.*s/__init__.py", proving->fresh, (int)top, path);
    if (init != NULL && path[top] == '/' && !af_file_is_absent(init))
        add_loadable(proving, af_arena_format(arena, "package:%.*s", (int)top, path));
    if (binary->init_name == NULL) {
        if (uses_torch(binary))
            add_loadable(proving,
                         af_arena_format(arena, "library:%s/%s", proving->run->site, path));
        return;
    }
    char *word =
        af_arena_format(arena, "module:%.*s%s", (int)(name - path), path, binary->init_name);
    for (char *at = word; at != NULL && *at != '\0'; at++)
        *at = *at == '/' ? '.' : *at;
    add_loadable(proving, word);
}

static enum anyflash_status prove_one(struct proving *proving, struct af_inspect_target *target,
                                      size_t index, struct anyflash_error *err)
{
    const struct af_inspect_extension *extension = &target->extensions[index];
    const char *path = extension->path;
    struct af_proof proof;
    enum anyflash_status status =
        af_prover_prove(&proving->prover, target, index, proving->stated_torch, &proof, err);
    if (status != ANYFLASH_OK)
        return status;
    if (extension->problem != NULL) {
        take_bad(proving, path, extension->problem);
        return ANYFLASH_OK;
    }
    tell(proving, path, extension->is_bundled, &proof);
    if (uses_torch(&extension->facts.binary)) {
        proving->torch_count++;
        proving->torch_bad_count += proof.answer == AF_NO;
    }
    if (proof.loads == AF_YES && !extension->is_bundled)
        take_loadable(proving, path, &extension->facts.binary);
    return ANYFLASH_OK;
}

static enum anyflash_status prove_all(struct proving *proving, struct af_inspect_target *target,
                                      struct anyflash_error *err)
{
    const struct af_machine *machine = proving->run->machine;
    const struct af_prover_options options = {
        .machine = machine,
        .is_here = true,
        .in_packages = true,
        .reads_kernels = machine->gpus.count > 0,
    };
    enum anyflash_status status =
        af_prover_open(&options, proving->run->arena, &proving->prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < target->count; i++)
        status = prove_one(proving, target, i, err);
    af_prover_release(&proving->prover);
    return status;
}

enum anyflash_status af_install_prove(struct af_run *run, const char *fresh, bool strict,
                                      const char *stated_torch,
                                      struct af_install_proved *proved,
                                      struct anyflash_error *err)
{
    struct proving proving = {
        .run = run, .fresh = fresh, .stated_torch = stated_torch, .proved = proved};
    struct af_inspect_target target;
    *proved = (struct af_install_proved){.refusal = NULL};
    enum anyflash_status status = af_inspect_target_open(fresh, run->arena, &target, err);
    if (status != ANYFLASH_OK)
        return status;
    if (target.count > 0)
        status = prove_all(&proving, &target, err);
    af_inspect_target_close(&target);
    if (status == ANYFLASH_OK && run->arena->failed)
        status = af_fail_memory(err);
    if (status == ANYFLASH_OK &&
        (strict
             ? proving.bad_count > 0
             : (target.count > 0 && proving.bad_count == target.count) ||
                   (proving.torch_count > 0 && proving.torch_bad_count == proving.torch_count)))
        proved->refusal = proving.first_bad;
    return status;
}
