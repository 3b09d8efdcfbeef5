/*
 * torch_needs.c: what an extension needs from torch, by the names of its undefined symbols, and
 * which builds of torch define all of them.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/symbol_name.h"
#include "kit/formats/version.h"
#include "kit/proof/proof_torch.h"

/* pybind11's caster for tensors: it holds a reference to the tensor of a call from Python. */
static const char tensor_caster[] = "_ZN8pybind116detail11type_casterIN2at6TensorE";

/* Names of torch whose use does not depend on the layout of any object. */
static bool is_plain_function(const char *name)
{
    static const char *const starts[] = {"_ZN3c106detail14torchCheckFail",
                                         "_ZN3c106detail23torchInternalAssertFail",
                                         "_ZN3c104cuda",
                                         "_ZN3c104warn",
                                         "_ZN3c107Warning",
                                         "_ZN3c105Error",
                                         "_ZTIN3c10",
                                         "_ZTVN3c105Error"};
    return af_starts_with_any(name, starts, AF_COUNT(starts));
}

/* An operator that returns a new tensor: at::_ops::empty_like::call. */
static bool makes_tensor(const char *name)
{
    static const char *const makers[] = {"empty", "zeros", "ones", "full"};
    static const char start[] = "_ZN2at4_ops";
    if (!af_starts_with(name, start))
        return false;
    name += strlen(start);
    return af_starts_with_any(name + strspn(name, "0123456789"), makers, AF_COUNT(makers));
}

static void read_torch_name(const char *name, struct af_proof_symbol_needs *wants)
{
    static const char *const registering[] = {"_ZN5torch7Library", "_ZNO5torch7Library",
                                              "_ZNR5torch7Library",
                                              "_ZN3c1017RegisterOperators"};
    wants->torch = true;
    wants->objects = wants->objects || !is_plain_function(name);
    wants->tensors = wants->tensors || strstr(name, "2at6Tensor") != NULL ||
                     strstr(name, "2at10TensorBase") != NULL ||
                     strstr(name, "TensorImpl") != NULL;
    wants->registers =
        wants->registers || af_starts_with_any(name, registering, AF_COUNT(registering));
    wants->tensor_counts =
        wants->tensor_counts || strstr(name, "cref_pyobjectEv") != NULL; /* incref, decref */
    wants->owns_tensors = wants->owns_tensors || makes_tensor(name);
    if (wants->cxx11abi == AF_UNKNOWN)
        wants->cxx11abi = af_symbol_cxx11abi(name);
}

/* Symbols of libtorch_python: its C names, and pybind11 casters that it instantiates. */
static bool is_torch_python(const char *name)
{
    return af_starts_with(name, "THP") ||
           af_starts_with(name, "_ZN8pybind116detail11type_caster");
}

void af_proof_symbol_needs_read(const struct af_binary *binary,
                                struct af_proof_symbol_needs *out)
{
    *out = (struct af_proof_symbol_needs){.cxx11abi = AF_UNKNOWN};
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const char *name = binary->undefined[i].name;
        if (af_symbol_is_torch(name))
            read_torch_name(name, out);
        else if (is_torch_python(name))
            out->torch = out->objects = out->tensors = out->torch_python = true;
        else if (af_starts_with(name, "aoti_torch_"))
            out->stable_torch = true;
        out->owns_tensors = out->owns_tensors || af_starts_with(name, tensor_caster);
    }
}

/*
 * The row of the tables that has the build's major and minor version; torch_count when
 * none has.
 */
static size_t row_of(const struct af_catalog_symbol_build *build)
{
    struct af_version version;
    if (!af_version_parse(build->version, strlen(build->version), &version))
        return af_tables.torch_count;
    for (size_t i = 0; i < af_tables.torch_count; i++) {
        if (af_tables.torch[i].torch_major == version.release[0] &&
            af_tables.torch[i].torch_minor == version.release[1])
            return i;
    }
    return af_tables.torch_count;
}

/*
 * Whether the build may define the name. A CPU build stands for all builds of its release on
 * its platform: what only a CUDA library defines may be in another of them.
 */
static bool may_define(const struct af_catalog_torch_symbols *symbols,
                       const struct af_catalog_symbol_build *build, const char *name)
{
    if (af_catalog_torch_symbols_in(symbols, build, name) != 0)
        return true;
    if (strcmp(build->variant, "cpu") != 0)
        return false;
    for (size_t i = 0; i < symbols->build_count; i++) {
        const struct af_catalog_symbol_build *other = &symbols->builds[i];
        uint64_t found = strcmp(other->version, build->version) == 0
                             ? af_catalog_torch_symbols_in(symbols, other, name)
                             : 0;
        for (size_t n = 0; found != 0 && n < other->libraries_count; n++) {
            if ((found >> n & 1) != 0 && af_catalog_torch_library_is_cuda(&other->libraries[n]))
                return true;
        }
    }
    return false;
}

/* The builds for one platform; bit i of a set stands for build i. */
struct platform_builds {
    const struct af_catalog_symbol_build *builds[AF_PROOF_TORCH_SET_MAX];
    size_t count;
};

/* Those for the extension's processor; for x86_64 if the table has no others. */
static void select_builds(const struct af_catalog_torch_symbols *symbols, const char *machine,
                          struct platform_builds *out)
{
    char platform[64];
    snprintf(platform, sizeof platform, "linux_%s", machine == NULL ? "x86_64" : machine);
    bool is_covered = af_catalog_torch_symbols_cover(symbols, platform);
    out->count = 0;
    for (size_t i = 0; i < symbols->build_count && out->count < AF_COUNT(out->builds); i++) {
        const struct af_catalog_symbol_build *build = &symbols->builds[i];
        if (af_equal(build->platform, is_covered ? platform : "linux_x86_64"))
            out->builds[out->count++] = build;
    }
}

/* The builds that may define the name; 0 when none does, so the name is not torch's. */
static uint64_t builds_with(const struct af_catalog_torch_symbols *symbols,
                            const struct platform_builds *builds, const char *name)
{
    uint64_t set = 0;
    for (size_t i = 0; i < builds->count; i++)
        set |= (uint64_t)may_define(symbols, builds->builds[i], name) << i;
    return set;
}

/* Whether it may be torch's: of its namespaces, or one of its stable C functions. */
static bool may_be_torch(const char *name)
{
    return af_symbol_is_torch(name) || af_starts_with(name, "aoti_torch_") ||
           af_starts_with(name, "torch_");
}

uint64_t af_proof_torch_fitting(const struct af_catalog_torch_symbols *symbols,
                                const struct af_binary *binary)
{
    struct platform_builds builds;
    uint64_t fitting_builds = ~(uint64_t)0;
    uint64_t known = 0;
    uint64_t fitting = 0;
    select_builds(symbols, binary->machine, &builds);
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const struct af_undefined *wanted = &binary->undefined[i];
        uint64_t with = wanted->weak || !may_be_torch(wanted->name)
                            ? 0
                            : builds_with(symbols, &builds, wanted->name);
        fitting_builds &= with == 0 ? ~(uint64_t)0 : with;
    }
    for (size_t i = 0; i < builds.count; i++) {
        size_t row = row_of(builds.builds[i]);
        if (row >= AF_PROOF_TORCH_SET_MAX)
            continue;
        known |= (uint64_t)1 << row;
        fitting |= (fitting_builds >> i & 1) << row;
    }
    return fitting | ~known;
}
