/*
 * loader.c: finds libraries in the order of ld.so(8): libraries that are already loaded,
 * DT_RPATH of the library and of those that loaded it, LD_LIBRARY_PATH, DT_RUNPATH of the
 * library alone, ld.so.cache, default folders. For torch's own libraries, the folders from
 * which torch preloads are searched last.
 *
 * Source of the form of ld.so.cache: glibc, sysdeps/generic/dl-cache.h (struct cache_file_new),
 * preceded by the old format if an old ldconfig wrote the file. Numbers have the byte order of
 * the machine that wrote the cache, which is this one.
 */
#include "kit/proof/loader.h"

#include <string.h>
#include <sys/stat.h>

#include "engine/base/base.h"
#include "kit/base/text.h"
#include "kit/formats/elf.h"
#include "kit/proof/recorded_libraries.h"
#include "kit/proof/torch_table_library.h"

#define ENTRIES_MAX 200000u
#define OLD_HEADER_BYTES 16u
#define OLD_ENTRY_BYTES 12u
#define HEADER_BYTES 48u
#define ENTRY_BYTES 24u
#define KIND_LIBC6 3u
#define KIND_MASK 0xffu
#define ARCH_MASK 0xff00u

static uint32_t u32_at(struct af_span span, size_t offset)
{
    uint32_t number = 0;
    if (offset <= span.len && span.len - offset >= sizeof number)
        memcpy(&number, span.data + offset, sizeof number);
    return number;
}

/* FLAG_X8664_LIB64 and so on; 0 for machines without a flag. */
static uint32_t arch_flag(unsigned machine)
{
    static const struct {
        unsigned machine;
        uint32_t flag;
    } flags[] = {{AF_ELF_X86_64, 0x0300},
                 {AF_ELF_S390, 0x0400},
                 {AF_ELF_PPC64, 0x0500},
                 {AF_ELF_AARCH64, 0x0a00},
                 {AF_ELF_RISCV, 0x1000}};
    for (size_t i = 0; i < AF_COUNT(flags); i++) {
        if (flags[i].machine == machine)
            return flags[i].flag;
    }
    return 0;
}

/* The part in the new format: the whole file, or what follows the old format. */
static struct af_span new_part(struct af_span cache)
{
    static const char old_magic[] = "ld.so-1.7.0";
    size_t at = 0;
    if (cache.len >= OLD_HEADER_BYTES &&
        memcmp(cache.data, old_magic, sizeof old_magic - 1) == 0) {
        size_t bytes = (size_t)u32_at(cache, 12) * OLD_ENTRY_BYTES;
        at = (OLD_HEADER_BYTES + bytes + 7) / 8 * 8;
    }
    if (at > cache.len)
        at = cache.len;
    return (struct af_span){cache.data + at, cache.len - at};
}

/* A text that ends within the span, or NULL. */
static const char *text_at(struct af_span span, size_t offset)
{
    if (offset >= span.len || memchr(span.data + offset, '\0', span.len - offset) == NULL)
        return NULL;
    return span.data + offset;
}

/*
 * The path that `cache` has for the library `name` and ELF machine `machine`
 * (enum af_elf_machine). Baseline builds come before those for newer processors.
 * NULL when there is none or the cache is damaged.
 */
static const char *find_in_cache(struct af_span cache, unsigned machine, const char *name)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    struct af_span part = new_part(cache);
    const char *found = NULL;
    if (part.len < HEADER_BYTES || memcmp(part.data, magic, sizeof magic - 1) != 0)
        return NULL;
    size_t count = u32_at(part, sizeof magic - 1);
    size_t capacity = (part.len - HEADER_BYTES) / ENTRY_BYTES;
    count = count < capacity ? count : capacity;
    for (size_t i = 0; i < count && i < ENTRIES_MAX; i++) {
        size_t at = HEADER_BYTES + i * ENTRY_BYTES;
        uint32_t flags = u32_at(part, at);
        bool plain = u32_at(part, at + 16) == 0 && u32_at(part, at + 20) == 0;
        if ((flags & KIND_MASK) != KIND_LIBC6 || (flags & ARCH_MASK) != arch_flag(machine) ||
            (found != NULL && !plain))
            continue;
        const char *key = text_at(part, u32_at(part, at + 4));
        if (key == NULL || strcmp(key, name) != 0)
            continue;
        found = text_at(part, u32_at(part, at + 8));
        if (plain)
            return found;
    }
    return found;
}

static const char *const default_folders[] = {"/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu",
                                              "/lib/aarch64-linux-gnu",
                                              "/usr/lib/aarch64-linux-gnu",
                                              "/lib64",
                                              "/usr/lib64",
                                              "/lib",
                                              "/usr/lib"};

static struct af_module *module_of(const struct af_library *library)
{
    return library->source;
}

static enum af_answer file_defines(const struct af_library *library, const char *name,
                                   const char *version)
{
    struct af_symbol symbol;
    return af_dynamic_find(module_of(library)->file, name, version, &symbol) ? AF_YES : AF_NO;
}

static enum af_answer file_has_version(const struct af_library *library, const char *version)
{
    return af_dynamic_has_version(module_of(library)->file, version) ? AF_YES : AF_NO;
}

static const struct af_library_kind file_kind = {file_defines, file_has_version};

/* Reads the mapped bytes; a file that the loader would skip stays unusable. */
static void read_mapped(struct af_loader *loader, struct af_mapped *mapped)
{
    struct af_span bytes = {(const char *)mapped->mapping.data, mapped->mapping.len};
    const struct af_dynamic *dynamic = &mapped->dynamic;
    if (af_dynamic_read(loader->arena, bytes, mapped->path, &mapped->dynamic, NULL) !=
        ANYFLASH_OK)
        return;
    bool is_first = loader->machine == 0;
    if (is_first) {
        loader->machine = dynamic->elf.machine;
        loader->is_64 = dynamic->elf.is_64;
    }
    mapped->is_usable =
        dynamic->elf.machine == loader->machine && dynamic->elf.is_64 == loader->is_64;
}

static struct af_mapped *open_mapped(struct af_loader *loader, const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))
        return NULL;
    for (size_t i = 0; i < loader->mapped_count; i++) {
        struct af_mapped *known = loader->mapped[i];
        if (known->inode == facts.st_ino && known->device == facts.st_dev)
            return known->is_usable ? known : NULL;
    }
    if (loader->mapped_count == AF_COUNT(loader->mapped))
        return NULL;
    struct af_mapped *mapped = af_arena_alloc(loader->arena, sizeof *mapped);
    *mapped = (struct af_mapped){.path = af_arena_text(loader->arena, path),
                                 .device = facts.st_dev,
                                 .inode = facts.st_ino};
    if (af_file_map(path, &mapped->mapping, NULL) != ANYFLASH_OK)
        return NULL;
    loader->mapped[loader->mapped_count++] = mapped;
    read_mapped(loader, mapped);
    return mapped->is_usable ? mapped : NULL;
}

struct af_library *af_loader_put(struct af_module *module, const struct af_library *asked_by,
                                 struct af_module_list *list)
{
    if (module == NULL || list->count == AF_COUNT(list->items))
        return NULL;
    module->library.asked_by = asked_by;
    list->items[list->count++] = &module->library;
    return &module->library;
}

/* Adds a module for the mapped file at the end of the list. */
static struct af_library *add_mapped(struct af_arena *arena, const struct af_mapped *mapped,
                                     const struct af_library *asked_by,
                                     struct af_module_list *list)
{
    const struct af_dynamic *file = &mapped->dynamic;
    struct af_module *module = af_arena_alloc(arena, sizeof *module);
    *module = (struct af_module){
        .library = {.name = file->soname != NULL ? file->soname : af_path_name(mapped->path),
                    .path = mapped->path,
                    .kind = &file_kind,
                    .source = module},
        .file = file,
        .origin = af_path_folder(arena, mapped->path),
        .rpath = file->rpath,
        .runpath = file->runpath,
        .needed = file->needed,
        .needed_count = file->needed_count,
    };
    return af_loader_put(module, asked_by, list);
}

struct af_library *af_loader_add(struct af_loader *loader, struct af_arena *arena,
                                 const char *path, const struct af_library *asked_by,
                                 struct af_module_list *list)
{
    const struct af_mapped *mapped = open_mapped(loader, path);
    return mapped == NULL ? NULL : add_mapped(arena, mapped, asked_by, list);
}

/* Replaces the token `from` within `folder` by `to`. */
static const char *replace(struct af_arena *arena, const char *folder, const char *from,
                           const char *to)
{
    const char *at = strstr(folder, from);
    if (at == NULL || to == NULL)
        return folder;
    return af_arena_format(arena, "%.*s%s%s", (int)(at - folder), folder, to,
                           at + strlen(from));
}

/* Next folder of a list separated by ':' or ';', with tokens replaced; NULL at the end. */
static const char *next_folder(struct af_arena *arena, const char **rest, const char *origin)
{
    const char *at = *rest;
    while (at != NULL && (*at == ':' || *at == ';'))
        at++;
    if (at == NULL || *at == '\0')
        return NULL;
    size_t len = strcspn(at, ":;");
    *rest = at + len;
    const char *folder = af_arena_text_n(arena, at, len);
    folder = replace(arena, folder, "${ORIGIN}", origin);
    return replace(arena, folder, "$ORIGIN", origin);
}

static struct af_mapped *open_in(struct af_loader *loader, const char *folder, const char *name)
{
    return open_mapped(loader, af_path_join(loader->arena, folder, name));
}

/* Finds a usable file `name` in one of the folders. */
static struct af_mapped *find_in_list(struct af_loader *loader, const char *folders,
                                      const char *origin, const char *name)
{
    const char *folder;
    while ((folder = next_folder(loader->arena, &folders, origin)) != NULL) {
        struct af_mapped *found = open_in(loader, folder, name);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/*
 * Searches DT_RPATH of the module and of all modules that loaded it; ignored if the module has
 * DT_RUNPATH.
 */
static struct af_mapped *find_by_rpath(struct af_loader *loader, const struct af_module *module,
                                       const char *name)
{
    if (module->runpath != NULL)
        return NULL;
    const struct af_library *at = &module->library;
    for (size_t depth = 0; at != NULL && depth < AF_SCOPE_LIBRARIES_MAX; depth++) {
        const struct af_module *asking = module_of(at);
        struct af_mapped *found =
            asking->runpath != NULL ? NULL
                                    : find_in_list(loader, asking->rpath, asking->origin, name);
        if (found != NULL)
            return found;
        at = at->asked_by;
    }
    return NULL;
}

static struct af_mapped *find_in_folders(struct af_loader *loader, const char *const *folders,
                                         size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        struct af_mapped *found = open_in(loader, folders[i], name);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/*
 * Searches beside the extension, for a library that the extension's package loads first: ld.so
 * then uses the loaded one if its SONAME is the name asked for.
 */
static struct af_mapped *find_sibling(struct af_loader *loader, const struct af_module *module,
                                      const char *name)
{
    if (!loader->use_siblings || module->file != NULL)
        return NULL;
    struct af_mapped *found = open_in(loader, module->origin, name);
    if (found == NULL || found->dynamic.soname == NULL ||
        strcmp(found->dynamic.soname, name) != 0)
        return NULL;
    loader->sibling = name;
    return found;
}

/* Searches the system's default folders; a machine that is known only by its record has no
   files. */
static struct af_mapped *find_in_system(struct af_loader *loader, const char *name)
{
    const char *cached = find_in_cache(loader->cache, loader->machine, name);
    struct af_mapped *found = cached == NULL ? NULL : open_mapped(loader, cached);
    if (found == NULL)
        found = find_in_folders(loader, default_folders, AF_COUNT(default_folders), name);
    if (found == NULL && loader->use_fallbacks)
        found = find_in_folders(loader, loader->fallbacks, loader->fallback_count, name);
    return found;
}

static struct af_mapped *find_file(struct af_loader *loader, const struct af_module *module,
                                   const char *name)
{
    if (strchr(name, '/') != NULL)
        return open_mapped(loader, replace(loader->arena, name, "$ORIGIN", module->origin));
    struct af_mapped *found = find_by_rpath(loader, module, name);
    if (found == NULL && loader->record == NULL)
        found = find_in_list(loader, loader->library_path, NULL, name);
    if (found == NULL)
        found = find_in_list(loader, module->runpath, module->origin, name);
    if (found == NULL && loader->record == NULL)
        found = find_in_system(loader, name);
    if (found == NULL)
        found = find_sibling(loader, module, name);
    return found;
}

bool af_library_is_called(const struct af_library *library, const char *name)
{
    return strcmp(library->name, name) == 0 ||
           (library->path != NULL && strcmp(af_path_name(library->path), name) == 0);
}

static bool is_same_file(const struct af_library *library, const struct af_mapped *mapped)
{
    return library->kind == &file_kind && module_of(library)->file == &mapped->dynamic;
}

/*
 * Whether the module's run path contains the folders of torch's wheel or of the CUDA wheels
 * beside it, where the table's libraries would be installed.
 */
static bool looks_into_stock(const struct af_loader *loader, const struct af_module *module)
{
    static const char *const folders[] = {"torch/lib", "nvidia/"};
    const char *paths = module->runpath != NULL ? module->runpath : module->rpath;
    bool looks = loader->use_stock;
    for (size_t i = 0; !looks && paths != NULL && i < AF_COUNT(folders); i++)
        looks = strstr(paths, folders[i]) != NULL;
    return looks;
}

static struct af_module *take_stocked(const struct af_loader *loader, struct af_arena *arena,
                                      const struct af_module *module, const char *name)
{
    if (loader->stock == NULL || !looks_into_stock(loader, module))
        return NULL;
    return af_proof_torch_table_library_new(loader->stock, arena, name);
}

/*
 * The library called `name` that `module` needs: one that is already loaded, or a new one that
 * is found and added.
 */
static struct af_library *need(struct af_loader *loader, struct af_arena *arena,
                               struct af_module_list *list, const struct af_module *module,
                               const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (af_library_is_called(list->items[i], name))
            return list->items[i];
    }
    struct af_module *stocked = take_stocked(loader, arena, module, name);
    if (stocked != NULL)
        return af_loader_put(stocked, &module->library, list);
    const struct af_mapped *mapped = find_file(loader, module, name);
    for (size_t i = 0; mapped != NULL && i < list->count; i++) {
        if (is_same_file(list->items[i], mapped))
            return list->items[i];
    }
    if (mapped == NULL && loader->record == NULL && loader->use_stock)
        return af_loader_put(af_foreign_library(arena, name), &module->library, list);
    if (mapped == NULL && loader->record != NULL)
        return af_loader_put(af_system_library(arena, loader->record, name), &module->library,
                             list);
    return mapped == NULL ? NULL : add_mapped(arena, mapped, &module->library, list);
}

static void add_missing(struct af_missing_list *missing, const char *name,
                        const struct af_library *asked_by)
{
    if (missing->count < AF_COUNT(missing->items))
        missing->items[missing->count++] = (struct af_missing_library){name, asked_by->name};
}

void af_loader_walk(struct af_loader *loader, struct af_arena *arena,
                    struct af_module_list *list, size_t first, struct af_missing_list *missing)
{
    for (size_t i = first; i < list->count; i++) {
        struct af_library *library = list->items[i];
        const struct af_module *module = module_of(library);
        library->needs =
            af_arena_array(arena, module->needed_count + 1, sizeof *library->needs);
        for (size_t n = 0; n < module->needed_count; n++) {
            struct af_library *found = need(loader, arena, list, module, module->needed[n]);
            if (found != NULL)
                library->needs[library->need_count++] = found;
            else
                add_missing(missing, module->needed[n], library);
        }
    }
}

void af_loader_release(struct af_loader *loader)
{
    for (size_t i = 0; i < loader->mapped_count; i++)
        af_file_unmap(&loader->mapped[i]->mapping);
    loader->mapped_count = 0;
}
