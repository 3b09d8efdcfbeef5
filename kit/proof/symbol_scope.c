/*
 * symbol_scope.c: lists the libraries of a Python process after `import torch`. loader.c walks
 * DT_NEEDED; scope_load.c says what an extension adds to them.
 */
#include "kit/proof/symbol_scope.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/proof/loader.h"
#include "kit/proof/recorded_libraries.h"
#include "kit/proof/torch_table_library.h"

#define LD_CACHE_BYTES_MAX (8u * 1024u * 1024u)
#define NVIDIA_FOLDERS_MAX 200u

/*
 * Finds the lib folders of the nvidia packages: torch preloads libraries from them that ld.so
 * does not find.
 */
static void find_fallbacks(const struct af_machine *machine, struct af_loader *loader)
{
    const struct af_fact *sites = &machine->python.site_packages;
    size_t capacity = 0;
    for (size_t s = 0; sites->state == AF_FACT_KNOWN && s < sites->value.list.count; s++) {
        const char **names = NULL;
        size_t count = 0;
        const char *nvidia = af_path_join(loader->arena, sites->value.list.items[s], "nvidia");
        if (af_folder_list(loader->arena, nvidia, NVIDIA_FOLDERS_MAX, &names, &count, NULL,
                           NULL) != ANYFLASH_OK)
            continue;
        if (loader->fallbacks == NULL) {
            capacity = count;
            loader->fallbacks = af_arena_array(loader->arena, capacity + 1, sizeof(char *));
        }
        for (size_t i = 0; i < count; i++) {
            if (loader->fallback_count < capacity)
                loader->fallbacks[loader->fallback_count++] =
                    af_arena_format(loader->arena, "%s/%s/lib", nvidia, names[i]);
        }
    }
}

static void fill_loader(const struct af_machine *machine, struct af_scope *scope,
                        struct af_loader *loader)
{
    *loader =
        (struct af_loader){.arena = &scope->arena, .library_path = getenv("LD_LIBRARY_PATH")};
    if (af_file_read(&scope->arena, "/etc/ld.so.cache", LD_CACHE_BYTES_MAX, &loader->cache,
                     NULL) != ANYFLASH_OK)
        loader->cache = (struct af_span){NULL, 0};
    find_fallbacks(machine, loader);
}

/* The path of `name` in torch/lib, or where distributions install it. */
static const char *torch_library(const struct af_machine *machine, struct af_arena *arena,
                                 const char *name)
{
    const char *folder = af_fact_text_or(&machine->torch.path, NULL);
    const char *c10 = machine->torch.c10_soname.source;
    const char *path =
        folder == NULL ? NULL : af_arena_format(arena, "%s/lib/%s", folder, name);
    if (path == NULL || af_file_is_regular(path))
        return path;
    const char *beside = c10 == NULL ? NULL : af_path_folder(arena, c10);
    return beside == NULL ? path : af_path_join(arena, beside, name);
}

/* Working memory of a walk; on the heap because the lists are long. */
struct work {
    struct af_module_list list;
    struct af_missing_list missing;
};

static void note_problem(struct af_scope *scope, const char *what, const char *path)
{
    if (scope->problem == NULL)
        scope->problem = af_arena_format(&scope->arena, "%s '%s' cannot be read", what,
                                         path == NULL ? "?" : path);
}

/* Adds the file and all that it needs at the end of the list. */
static void add_closure(struct af_scope *scope, struct work *work, const char *what,
                        const char *path)
{
    size_t first = work->list.count;
    if (path == NULL ||
        af_loader_add(scope->loader, &scope->arena, path, NULL, &work->list) == NULL) {
        note_problem(scope, what, path);
        return;
    }
    af_loader_walk(scope->loader, &scope->arena, &work->list, first, &work->missing);
}

static bool is_there(const struct work *work, const char *name)
{
    for (size_t i = 0; i < work->list.count; i++) {
        if (strcmp(work->list.items[i]->name, name) == 0)
            return true;
    }
    return false;
}

/* As add_closure() for a module without a file. */
static void add_stand_in(struct af_scope *scope, struct work *work, const char *what,
                         struct af_module *module)
{
    size_t first = work->list.count;
    if (af_loader_put(module, NULL, &work->list) == NULL) {
        note_problem(scope, what, NULL);
        return;
    }
    af_loader_walk(scope->loader, &scope->arena, &work->list, first, &work->missing);
}

static void add_program(const struct af_machine *machine, struct af_scope *scope,
                        struct work *work)
{
    if (scope->loader->record == NULL)
        add_closure(scope, work, "the interpreter",
                    af_fact_text_or(&machine->python.base_executable, NULL));
    else
        add_stand_in(scope, work, "the interpreter", af_system_program(&scope->arena, machine));
}

static void add_torch(const struct af_machine *machine, struct af_scope *scope,
                      struct work *work, const char *name)
{
    const struct af_proof_torch_table_libraries *stock = scope->loader->stock;
    if (stock == NULL)
        add_closure(scope, work, "torch's", torch_library(machine, &scope->arena, name));
    else
        add_stand_in(scope, work, "torch's",
                     af_proof_torch_table_library_new(stock, &scope->arena, name));
}

/*
 * Loads the program, then what torch makes global, then what libtorch_python needs: the order
 * in a process.
 */
static void load_process(const struct af_machine *machine, struct af_scope *scope,
                         struct work *work)
{
    struct af_loader *loader = scope->loader;
    add_program(machine, scope, work);
    if (loader->stock != NULL || machine->torch.version.state == AF_FACT_KNOWN) {
        loader->use_fallbacks = loader->stock == NULL;
        loader->use_stock = loader->stock != NULL;
        add_torch(machine, scope, work, "libtorch_global_deps.so");
        scope->global_count = work->list.count;
        if (!is_there(work, "libtorch_python.so"))
            add_torch(machine, scope, work, "libtorch_python.so");
        loader->use_fallbacks = false;
        loader->use_stock = false;
    } else {
        scope->global_count = work->list.count;
    }
}

/* Copies the lists into arrays of the exact size. */
static void publish(struct af_scope *scope, const struct work *work)
{
    scope->libraries =
        af_arena_array(&scope->arena, work->list.count + 1, sizeof *scope->libraries);
    scope->missing =
        af_arena_array(&scope->arena, work->missing.count + 1, sizeof *scope->missing);
    memcpy(scope->libraries, work->list.items, work->list.count * sizeof *scope->libraries);
    memcpy(scope->missing, work->missing.items, work->missing.count * sizeof *scope->missing);
    scope->count = work->list.count;
    scope->missing_count = work->missing.count;
}

const struct af_library *af_scope_library(const struct af_scope *scope, const char *name)
{
    for (size_t i = 0; i < scope->count; i++) {
        if (strcmp(scope->libraries[i]->name, name) == 0)
            return scope->libraries[i];
    }
    return NULL;
}

/*
 * Reads the std::string ABI from the error function that every user of torch calls: libc10
 * defines it with one of two mangled names.
 */
static enum af_answer read_cxx11abi(const struct af_scope *scope)
{
    const struct af_library *c10 = af_scope_library(scope, "libc10.so");
    if (c10 == NULL)
        return AF_UNKNOWN;
    if (c10->kind->defines(c10,
                           "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_"
                           "stringIcSt11char_traitsIcESaIcEEE",
                           NULL) == AF_YES)
        return AF_YES;
    return c10->kind->defines(c10, "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", NULL) == AF_YES
               ? AF_NO
               : AF_UNKNOWN;
}

static void read_torch(struct af_scope *scope, const char *version)
{
    struct af_scope_torch *torch = &scope->torch;
    struct af_version parsed;
    *torch =
        (struct af_scope_torch){.major_number = -1, .minor_number = -1, .cxx11abi = AF_UNKNOWN};
    if (version == NULL)
        return;
    torch->version = af_arena_text(&scope->arena, version);
    if (af_version_parse(version, strlen(version), &parsed) && parsed.release_count >= 2) {
        torch->major_number = (int)parsed.release[0];
        torch->minor_number = (int)parsed.release[1];
    }
    torch->cxx11abi = read_cxx11abi(scope);
    const struct af_library *cuda = af_scope_library(scope, "libc10_cuda.so");
    torch->has_cuda = cuda != NULL;
    for (size_t i = 0; cuda != NULL && i < cuda->need_count; i++) {
        if (af_starts_with(cuda->needs[i]->name, "libcudart.so"))
            torch->cudart = cuda->needs[i]->name;
    }
    for (size_t i = 0; cuda != NULL && torch->cudart == NULL && i < scope->missing_count; i++) {
        if (af_starts_with(scope->missing[i].name, "libcudart.so"))
            torch->cudart = scope->missing[i].name;
    }
}

/* Makes an empty scope with its loader, and the working memory of the walk. */
static struct work *begin(const struct af_machine *machine, struct af_scope *scope)
{
    *scope = (struct af_scope){.global_count = 0};
    af_arena_init(&scope->arena);
    struct work *work = af_arena_alloc(&scope->arena, sizeof *work);
    scope->loader = af_arena_alloc(&scope->arena, sizeof *scope->loader);
    fill_loader(machine, scope, scope->loader);
    return work;
}

static void finish(const struct af_machine *machine, struct af_scope *scope, struct work *work,
                   const char *version)
{
    load_process(machine, scope, work);
    publish(scope, work);
    read_torch(scope, version);
}

void af_scope_installed(const struct af_machine *machine, struct af_scope *out)
{
    struct work *work = begin(machine, out);
    finish(machine, out, work, af_fact_text_or(&machine->torch.version, NULL));
}

void af_scope_of_torch(const struct af_catalog_torch_symbols *symbols,
                       const struct af_catalog_torch_choice *choice,
                       const struct af_machine *machine, bool is_here, struct af_scope *out)
{
    struct work *work = begin(machine, out);
    struct af_proof_torch_table_libraries *stock = af_arena_alloc(&out->arena, sizeof *stock);
    af_proof_torch_stock_fill(symbols, choice, &out->arena, stock);
    out->loader->stock = stock;
    out->loader->record = is_here ? NULL : machine;
    out->loader->fallback_count = 0;
    finish(machine, out, work, choice->version);
}

void af_scope_release(struct af_scope *scope)
{
    if (scope->loader != NULL)
        af_loader_release(scope->loader);
    af_arena_release(&scope->arena);
    *scope = (struct af_scope){.global_count = 0};
}
