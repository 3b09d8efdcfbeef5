/*
 * torch_table_library.c: torch's libraries from the table: their names, what they need, and
 * which symbols they define.
 */
#include "kit/proof/torch_table_library.h"

#include <string.h>

#include "kit/base/text.h"

/* A loaded library from the table. `module` is the first member: the loader casts to it. */
struct stocked {
    struct af_module module;
    const struct af_catalog_torch_symbols *symbols;
    const struct af_proof_torch_table_library *library;
};

static const struct stocked *stocked_of(const struct af_library *library)
{
    return library->source;
}

static enum af_answer stock_has_version(const struct af_library *library, const char *version)
{
    const struct af_proof_torch_table_library *shelf = stocked_of(library)->library;
    const struct af_catalog_torch_library *row = &shelf->build->libraries[shelf->place];
    return row->versions.count == 0 ||
                   af_is_one_of(version, row->versions.items, row->versions.count)
               ? AF_YES
               : AF_NO;
}

/* Whether a function exists for CUDA only: a build without CUDA does not have it. */
static bool is_about_cuda(const char *name)
{
    static const char *const words[] = {"cuda", "CUDA", "nccl", "NCCL", "cudnn", "Kineto"};
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        if (strstr(name, words[i]) != NULL)
            return true;
    }
    return false;
}

static enum af_answer stock_defines(const struct af_library *library, const char *name,
                                    const char *version)
{
    const struct stocked *self = stocked_of(library);
    const struct af_proof_torch_table_library *shelf = self->library;
    uint64_t there = af_catalog_torch_symbols_in(self->symbols, shelf->build, name);
    if ((there >> shelf->place & 1) == 0 ||
        (version != NULL && stock_has_version(library, version) == AF_NO))
        return AF_NO;
    return shelf->is_cpu && is_about_cuda(name) ? AF_UNKNOWN : AF_YES;
}

static const struct af_library_kind stock_kind = {stock_defines, stock_has_version};

/* The length of a SONAME without its version: "libcudart.so" of "libcudart.so.12". */
static size_t stem_len(const char *name)
{
    const char *suffix = strstr(name, ".so");
    return suffix == NULL ? strlen(name) : (size_t)(suffix - name) + strlen(".so");
}

/* The library of the build with that name, whatever its version; NULL: none. */
static const struct af_catalog_torch_library *find_stem(
    const struct af_catalog_symbol_build *build, const char *name)
{
    size_t len = stem_len(name);
    for (size_t i = 0; build != NULL && i < build->libraries_count; i++) {
        const struct af_catalog_torch_library *library = &build->libraries[i];
        if (stem_len(library->name) == len && strncmp(library->name, name, len) == 0)
            return library;
    }
    return NULL;
}

/*
 * The name under which torch needs the library `name`; NULL: a build without CUDA does not need
 * it.
 */
static const char *asked_as(const struct af_catalog_torch_choice *choice, const char *name)
{
    const struct af_catalog_torch_library *own = find_stem(choice->build, name);
    bool is_cuda = own != NULL && af_catalog_torch_library_is_cuda(own);
    if (!is_cuda || choice->cuda == choice->build)
        return name;
    if (choice->cuda == NULL)
        return NULL;
    const struct af_catalog_torch_library *other =
        af_catalog_torch_library_is_own(own) ? NULL : find_stem(choice->cuda, name);
    return other == NULL ? name : other->name;
}

static void put(const struct af_catalog_torch_choice *choice,
                const struct af_catalog_symbol_build *build, size_t place,
                struct af_arena *arena, struct af_proof_torch_table_library *out)
{
    const struct af_catalog_torch_library *row = &build->libraries[place];
    const char **needed = af_arena_array(arena, row->needed.count + 1, sizeof *needed);
    size_t count = 0;
    for (size_t i = 0; i < row->needed.count; i++) {
        needed[count] = asked_as(choice, row->needed.items[i]);
        count += needed[count] != NULL;
    }
    *out = (struct af_proof_torch_table_library){
        .name = row->name,
        .file = row->file,
        .build = build,
        .place = place,
        .needed = needed,
        .needed_count = count,
        .is_cpu = choice->cuda == NULL && strcmp(build->variant, "cpu") != 0,
    };
}

void af_proof_torch_stock_fill(const struct af_catalog_torch_symbols *symbols,
                               const struct af_catalog_torch_choice *choice,
                               struct af_arena *arena,
                               struct af_proof_torch_table_libraries *out)
{
    const struct af_catalog_symbol_build *build = choice->build;
    const struct af_catalog_symbol_build *cuda = choice->cuda;
    size_t capacity = build->libraries_count + (cuda == NULL ? 0 : cuda->libraries_count);
    struct af_proof_torch_table_library *libraries =
        af_arena_array(arena, capacity + 1, sizeof *libraries);
    size_t count = 0;
    for (size_t i = 0; i < build->libraries_count; i++) {
        const struct af_catalog_torch_library *row = &build->libraries[i];
        if (af_catalog_torch_library_is_own(row)
                ? cuda != NULL || !af_catalog_torch_library_is_cuda(row)
                : cuda == build)
            put(choice, build, i, arena, &libraries[count++]);
    }
    for (size_t i = 0; cuda != NULL && cuda != build && i < cuda->libraries_count; i++) {
        if (!af_catalog_torch_library_is_own(&cuda->libraries[i]))
            put(choice, cuda, i, arena, &libraries[count++]);
    }
    *out = (struct af_proof_torch_table_libraries){symbols, libraries, count};
}

struct af_module *af_proof_torch_table_library_new(
    const struct af_proof_torch_table_libraries *stock, struct af_arena *arena,
    const char *name)
{
    for (size_t i = 0; i < stock->count; i++) {
        const struct af_proof_torch_table_library *library = &stock->libraries[i];
        if (strcmp(library->name, name) != 0 && strcmp(library->file, name) != 0)
            continue;
        struct stocked *self = af_arena_alloc(arena, sizeof *self);
        *self = (struct stocked){
            .module = {.library = {.name = library->name,
                                   .path = library->file,
                                   .kind = &stock_kind,
                                   .source = self},
                       .needed = library->needed,
                       .needed_count = library->needed_count},
            .symbols = stock->symbols,
            .library = library,
        };
        return &self->module;
    }
    return NULL;
}
