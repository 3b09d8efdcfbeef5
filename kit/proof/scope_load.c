/*
 * scope_load.c: what dlopen() of one extension adds to the libraries of a process, and in which
 * order its symbols are looked up: the global libraries first, then its own DT_NEEDED closure,
 * breadth first. loader.c walks DT_NEEDED.
 */
#include <string.h>

#include "kit/proof/loader.h"
#include "kit/proof/symbol_scope.h"

enum af_answer af_load_defines(const struct af_load *load, const char *name,
                               const char *version)
{
    enum af_answer answer = AF_NO;
    for (size_t i = 0; i < load->count; i++) {
        const struct af_library *library = load->order[i];
        enum af_answer one = library->kind->defines(library, name, version);
        if (one == AF_YES)
            return AF_YES;
        if (one == AF_UNKNOWN)
            answer = AF_UNKNOWN;
    }
    return answer;
}

enum af_answer af_load_has_version(const struct af_load *load, const char *library,
                                   const char *version)
{
    for (size_t i = 0; i < load->count; i++) {
        const struct af_library *one = load->order[i];
        if (af_library_is_called(one, library))
            return one->kind->has_version(one, version);
    }
    return AF_NO;
}

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

/* On the heap because the lists are long. */
struct load_work {
    struct af_unresolved unresolved[AF_UNRESOLVED_MAX];
    struct af_module_list list;
    struct af_missing_list missing;
    const struct af_library *order[AF_SCOPE_LIBRARIES_MAX];
    size_t count;
};

/* Makes a module of the extension, as the root of the walk; it is not in the list. */
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

static void add_order(struct load_work *work, const struct af_library *library)
{
    for (size_t i = 0; i < work->count; i++) {
        if (work->order[i] == library)
            return;
    }
    if (work->count < AF_COUNT(work->order))
        work->order[work->count++] = library;
}

/* Lookup order: global libraries, then the closure of the extension breadth first. */
static void make_order(const struct af_scope *scope, const struct af_library *root,
                       struct load_work *work)
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

/* Walks from the extension over the libraries of the process and those that it loads. */
static void load_files(struct af_scope *scope, struct af_arena *arena, struct af_module *root,
                       struct load_work *work)
{
    struct af_module_list *list = &work->list;
    memcpy(list->items, scope->libraries, scope->count * sizeof *list->items);
    list->count = scope->count;
    if (list->count == AF_COUNT(list->items))
        return;
    /* The root is at the end of the list during the walk; libraries that it loads follow it. */
    list->items[list->count++] = &root->library;
    scope->loader->use_siblings = scope->takes_siblings;
    scope->loader->sibling = NULL;
    af_loader_walk(scope->loader, arena, list, scope->count, &work->missing);
    for (size_t i = scope->count; i < list->count; i++)
        list->items[i]->is_new = true;
}

/*
 * Adds the symbols that a new library needs and that nothing defines: the loader resolves these
 * immediately, too.
 */
static void find_unresolved(const struct af_load *load, const struct af_module *module,
                            struct af_arena *arena, struct load_work *work, size_t *count)
{
    /* our own copy: its symbols are counted from zero */
    struct af_dynamic file = *module->file;
    const unsigned char *marks = af_dynamic_relocated(&file, arena);
    struct af_symbol symbol;
    for (size_t i = 0; i < file.symbol_count; i++) {
        if (*count < AF_UNRESOLVED_MAX && marks[i] != 0 &&
            af_dynamic_symbol(&file, i, &symbol) && symbol.is_undefined && !symbol.is_weak &&
            af_load_defines(load, symbol.name, symbol.version.name) == AF_NO)
            work->unresolved[(*count)++] =
                (struct af_unresolved){symbol.name, module->library.name};
    }
}

static void find_all_unresolved(struct af_arena *arena, struct load_work *work,
                                struct af_load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        const struct af_library *library = load->order[i];
        const struct af_module *module = library->source;
        if (library->is_new && module->file != NULL)
            find_unresolved(load, module, arena, work, &load->unresolved_count);
    }
    load->unresolved = work->unresolved;
}

void af_scope_load(struct af_scope *scope, const struct af_binary *binary, const char *folder,
                   struct af_arena *arena, struct af_load *out)
{
    struct af_module *root = af_arena_alloc(arena, sizeof *root);
    struct load_work *work = af_arena_alloc(arena, sizeof *work);
    make_root(binary, folder, root);
    load_files(scope, arena, root, work);
    make_order(scope, &root->library, work);
    *out = (struct af_load){.order = work->order,
                            .count = work->count,
                            .missing = work->missing.items,
                            .missing_count = work->missing.count,
                            .sibling = scope->loader->sibling};
    if (work->missing.count == 0)
        find_all_unresolved(arena, work, out);
}
