/*
 * recorded_libraries.c: the interpreter and the system libraries of a recorded machine, and
 * which symbol versions they define.
 */
#include "kit/proof/recorded_libraries.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/view.h"
#include "kit/formats/symbol_name.h"

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
