/*
 * recorded_libraries.c: torch's libraries from the table: their names, what they need, and
 * which symbols they define; then the interpreter and the system libraries of a recorded
 * machine.
 */
#include "kit/proof/recorded_libraries.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/view.h"
#include "kit/formats/symbol_name.h"

/* A loaded library from the table. `module` is the first member: the loader casts to it. */
struct stocked {
    struct af_module module;
    const struct af_catalog_torch_symbols *symbols;
    const struct af_proof_torch_table_library *library;
};

/* ---- answers ---- */

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

/* ---- the list of libraries ---- */

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

/*
 * A library of a machine known by its record. `module` is the first member: the loader casts to
 * it.
 */
struct named {
    struct af_module module;
    const struct af_machine *machine;
    bool is_system;  /* part of glibc or GCC */
    bool is_foreign; /* it defines no symbol of torch; for example a CUDA library */
};

/*
 * The lowest GLIBCXX_ version of the GCC release that introduced a CXXABI_ version. Source: the
 * libstdc++ manual, "ABI Policy and Guidelines" (GCC 4.8 to 15).
 */
static const struct {
    const char *cxxabi;
    const char *glibcxx;
} cxxabi_of[] = {{"1.3.7", "3.4.18"},  {"1.3.8", "3.4.20"},  {"1.3.9", "3.4.21"},
                 {"1.3.10", "3.4.22"}, {"1.3.11", "3.4.23"}, {"1.3.12", "3.4.26"},
                 {"1.3.13", "3.4.29"}, {"1.3.14", "3.4.31"}, {"1.3.15", "3.4.33"},
                 {"1.3.16", "3.4.34"}};

static enum af_answer is_reached(const struct af_fact *fact, const char *number)
{
    struct af_dotted needed;
    struct af_dotted there;
    if (fact->state != AF_FACT_KNOWN || !af_dotted_parse(number, &needed) ||
        !af_dotted_parse(fact->value.text, &there))
        return AF_UNKNOWN;
    return af_dotted_compare(&needed, &there) <= 0 ? AF_YES : AF_NO;
}

/* The GLIBCXX_ number that corresponds to a CXXABI_ number; NULL: newer than the table. */
static const char *glibcxx_for(const char *cxxabi)
{
    struct af_dotted needed;
    struct af_dotted row;
    if (!af_dotted_parse(cxxabi, &needed))
        return NULL;
    for (size_t i = 0; i < AF_COUNT(cxxabi_of); i++) {
        if (af_dotted_parse(cxxabi_of[i].cxxabi, &row) && af_dotted_compare(&needed, &row) <= 0)
            return cxxabi_of[i].glibcxx;
    }
    return NULL;
}

enum af_answer af_system_has_version(const struct af_machine *machine, const char *version)
{
    const struct af_fact *glibcxx = &machine->platform.glibcxx;
    if (af_starts_with(version, "GLIBC_"))
        return is_reached(&machine->platform.libc_version, version + strlen("GLIBC_"));
    if (af_starts_with(version, "GLIBCXX_"))
        return is_reached(glibcxx, version + strlen("GLIBCXX_"));
    if (af_starts_with(version, "CXXABI_")) {
        const char *number = glibcxx_for(version + strlen("CXXABI_"));
        return number == NULL ? AF_UNKNOWN : is_reached(glibcxx, number);
    }
    /* libgcc has defined these versions since before the first torch. */
    if (af_starts_with(version, "GCC_3.") || af_starts_with(version, "GCC_4."))
        return AF_YES;
    return AF_UNKNOWN;
}

static const struct named *named_of(const struct af_library *library)
{
    return library->source;
}

static enum af_answer named_has_version(const struct af_library *library, const char *version)
{
    const struct named *self = named_of(library);
    return self->is_system ? af_system_has_version(self->machine, version) : AF_UNKNOWN;
}

/*
 * Whether glibc or libstdc++ could define the name although it is needed without a version: the
 * extension was linked without that library (fbgemm needs shm_open in this way). The prefixes
 * are those of torch's C functions, CUDA and Python.
 */
static bool may_be_system(const char *name)
{
    static const char *const others[] = {"aoti_torch_", "cu", "nccl", "nv", "Py", "_Py", "THP"};
    static const char *const standard[] = {"_ZS", "_ZNS", "_ZNKS"};
    return af_starts_with_any(name, standard, AF_COUNT(standard)) ||
           !(af_starts_with(name, "_Z") || af_starts_with_any(name, others, AF_COUNT(others)));
}

static enum af_answer named_defines(const struct af_library *library, const char *name,
                                    const char *version)
{
    const struct named *self = named_of(library);
    if ((self->is_system || self->is_foreign) && af_symbol_is_torch(name))
        return AF_NO;
    if (!self->is_system)
        return AF_UNKNOWN;
    if (version == NULL)
        return may_be_system(name) ? AF_UNKNOWN : AF_NO;
    return af_system_has_version(self->machine, version);
}

static enum af_answer program_defines(const struct af_library *library, const char *name,
                                      const char *version)
{
    (void)library;
    bool is_python = af_starts_with(name, "Py") || af_starts_with(name, "_Py");
    return is_python && version == NULL ? AF_YES : AF_NO;
}

static enum af_answer program_has_version(const struct af_library *library, const char *version)
{
    (void)library;
    (void)version;
    return AF_NO;
}

static const struct af_library_kind named_kind = {named_defines, named_has_version};
static const struct af_library_kind program_kind = {program_defines, program_has_version};

static struct af_module *make(struct af_arena *arena, const struct af_machine *machine,
                              const char *name, const struct af_library_kind *kind)
{
    struct named *self = af_arena_alloc(arena, sizeof *self);
    self->module.library =
        (struct af_library){.name = af_arena_text(arena, name), .kind = kind, .source = self};
    self->machine = machine;
    return &self->module;
}

struct af_module *af_system_program(struct af_arena *arena, const struct af_machine *machine)
{
    return make(arena, machine, "python", &program_kind);
}

struct af_module *af_foreign_library(struct af_arena *arena, const char *name)
{
    struct af_module *module = make(arena, NULL, name, &named_kind);
    ((struct named *)module->library.source)->is_foreign = true;
    return module;
}

struct af_module *af_system_library(struct af_arena *arena, const struct af_machine *machine,
                                    const char *name)
{
    static const char *const versioned[] = {"libc.so.",       "libm.so.",      "libdl.so.",
                                            "libpthread.so.", "librt.so.",     "libutil.so.",
                                            "ld-linux",       "libstdc++.so.", "libgcc_s.so."};
    static const char *const foreign[] = {"libgomp.so.", "libquadmath.so.", "libz.so.",
                                          "libcu",       "libnv",           "libnccl.so."};
    struct af_module *module = make(arena, machine, name, &named_kind);
    struct named *self = module->library.source;
    self->is_system = af_starts_with_any(name, versioned, AF_COUNT(versioned));
    self->is_foreign = af_starts_with_any(name, foreign, AF_COUNT(foreign));
    return module;
}
