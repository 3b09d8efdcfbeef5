/*
 * symbol_scope_load.c: what dlopen() of one extension would bring into the process,
 * and in which order its symbols would be looked up: the global libraries
 * first, then its own DT_NEEDED closure, breadth first.
 */
#include <string.h>

#include "kit/proof/loader.h"

static enum af_answer nobody_knows(const struct af_library *library, const char *name,
                                   const char *version)
{
    (void)library;
    (void)name;
    (void)version;
    return AF_UNKNOWN;
}

static enum af_answer nobody_knows_version(const struct af_library *library,
                                           const char *version)
{
    (void)library;
    (void)version;
    return AF_UNKNOWN;
}

/* A library of which only the name is known. */
static const struct af_library_kind name_kind = {nobody_knows, nobody_knows_version};

/* On the heap: lists are long. */
struct work {
    struct af_unresolved unresolved[AF_UNRESOLVED_MAX];
    struct af_module_list list;
    struct af_missing_list missing;
    const struct af_library *order[AF_SCOPE_LIBRARIES_MAX];
    size_t count;
};

/* The extension as a module that asks for libraries; it is not in the list itself. */
static void make_root(const struct af_binary *binary, const char *folder,
                      struct af_module *root)
{
    *root = (struct af_module){
        .library = {.name = binary->name, .is_new = true, .kind = &name_kind},
        .origin = folder,
        .rpath = binary->rpath,
        .runpath = binary->runpath,
        .needed = binary->needed.items,
        .needed_count = binary->needed.count,
    };
    root->library.source = root;
}

/* In a scope without files: what is there by name, else a name only. */
static void name_needs(struct af_arena *arena, const struct af_scope *scope,
                       struct af_module *root)
{
    struct af_library *library = &root->library;
    library->needs = af_arena_array(arena, root->needed_count + 1, sizeof *library->needs);
    for (size_t i = 0; library->needs != NULL && i < root->needed_count; i++) {
        struct af_library *found = NULL;
        for (size_t n = 0; n < scope->count && found == NULL; n++) {
            if (strcmp(scope->libraries[n]->name, root->needed[i]) == 0)
                found = scope->libraries[n];
        }
        if (found == NULL)
            found = af_arena_alloc(arena, sizeof *found);
        if (found == NULL)
            return;
        if (found->kind == NULL)
            *found = (struct af_library){.name = root->needed[i],
                                         .asked_by = library,
                                         .is_new = true,
                                         .kind = &name_kind};
        library->needs[library->need_count++] = found;
    }
}

static void add_order(struct work *work, const struct af_library *library)
{
    for (size_t i = 0; i < work->count; i++) {
        if (work->order[i] == library)
            return;
    }
    if (work->count < AF_COUNT(work->order))
        work->order[work->count++] = library;
}

/* Global libraries, then the closure of the extension breadth first. */
static void make_order(const struct af_scope *scope, const struct af_library *root,
                       struct work *work)
{
    struct af_module_list *queue = &work->list;
    for (size_t i = 0; i < scope->global_count; i++)
        add_order(work, scope->libraries[i]);
    queue->count = 0;
    for (size_t i = 0; i < root->need_count && queue->count < AF_COUNT(queue->items); i++)
        queue->items[queue->count++] = root->needs[i];
    for (size_t i = 0; i < queue->count; i++) {
        const struct af_library *at = queue->items[i];
        add_order(work, at);
        for (size_t n = 0; n < at->need_count; n++) {
            bool known = false;
            for (size_t q = 0; q < queue->count && !known; q++)
                known = queue->items[q] == at->needs[n];
            if (!known && queue->count < AF_COUNT(queue->items))
                queue->items[queue->count++] = at->needs[n];
        }
    }
}

/* Walks from the extension over the process's libraries and those it brings. */
static void load_files(struct af_scope *scope, struct af_arena *arena, struct af_module *root,
                       struct work *work)
{
    struct af_module_list *list = &work->list;
    memcpy(list->items, scope->libraries, scope->count * sizeof *list->items);
    list->count = scope->count;
    if (list->count == AF_COUNT(list->items))
        return;
    /* The root stands at the end while it is walked; what it brings follows it. */
    list->items[list->count++] = &root->library;
    scope->loader->use_siblings = scope->takes_siblings;
    scope->loader->sibling = NULL;
    af_loader_walk(scope->loader, arena, list, scope->count, &work->missing);
    for (size_t i = scope->count; i < list->count; i++)
        list->items[i]->is_new = true;
}

/* Adds what one library that is new wants in vain: the loader looks it up at once, too. */
static void find_unresolved(const struct af_load *load, const struct af_library *library,
                            struct af_arena *arena, struct work *work, size_t *count)
{
    const struct af_module *module = library->source;
    struct af_dynamic file = *module->file; /* ours: its symbols are counted anew */
    const unsigned char *marks = af_dynamic_relocated(&file, arena);
    struct af_symbol symbol;
    for (size_t i = 0; marks != NULL && i < file.symbol_count; i++) {
        if (*count < AF_UNRESOLVED_MAX && marks[i] != 0 &&
            af_dynamic_symbol(&file, i, &symbol) && symbol.is_undefined && !symbol.is_weak &&
            af_load_defines(load, symbol.name, symbol.version.name) == AF_NO)
            work->unresolved[(*count)++] = (struct af_unresolved){symbol.name, library->name};
    }
}

static void find_all_unresolved(struct af_arena *arena, struct work *work, struct af_load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        const struct af_library *library = load->order[i];
        if (library->is_new && library->path != NULL && library->source != NULL)
            find_unresolved(load, library, arena, work, &load->unresolved_count);
    }
    load->unresolved = work->unresolved;
}

enum anyflash_status af_scope_load(struct af_scope *scope, const struct af_binary *binary,
                                   const char *folder, struct af_arena *arena,
                                   struct af_load *out, struct anyflash_error *err)
{
    struct af_module *root = af_arena_alloc(arena, sizeof *root);
    struct work *work = af_arena_alloc(arena, sizeof *work);
    if (arena->failed)
        return af_fail_memory(err);
    make_root(binary, folder, root);
    if (scope->loader != NULL)
        load_files(scope, arena, root, work);
    else
        name_needs(arena, scope, root);
    make_order(scope, &root->library, work);
    if (arena->failed || scope->arena.failed)
        return af_fail_memory(err);
    *out = (struct af_load){.order = work->order,
                            .count = work->count,
                            .missing = work->missing.items,
                            .missing_count = work->missing.count,
                            .sibling = scope->loader == NULL ? NULL : scope->loader->sibling};
    if (work->missing.count == 0)
        find_all_unresolved(arena, work, out);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
