/*
 * built_for.c: collects what an extension needs from torch, and finds out which torch it was
 * built for. The evidence in the bytes is: texts of pybind11, functions that the headers of
 * Python and torch call, how references to tensors are counted, and which torch functions are
 * needed. The rows are in proof_dates.inc. The stated version only narrows what the bytes
 * leave open.
 */
#include "kit/proof/built_for.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/symbol_name.h"
#include "kit/formats/version.h"

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
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (af_starts_with(name, starts[i]))
            return true;
    }
    return false;
}

/* An operator that returns a new tensor: at::_ops::empty_like::call. */
static bool makes_tensor(const char *name)
{
    static const char *const makers[] = {"empty", "zeros", "ones", "full"};
    static const char start[] = "_ZN2at4_ops";
    if (!af_starts_with(name, start))
        return false;
    name += strlen(start);
    name += strspn(name, "0123456789");
    for (size_t i = 0; i < AF_COUNT(makers); i++) {
        if (af_starts_with(name, makers[i]))
            return true;
    }
    return false;
}

static void read_torch_name(const char *name, struct af_proof_symbol_needs *wants)
{
    wants->torch = true;
    wants->objects = wants->objects || !is_plain_function(name);
    wants->tensors = wants->tensors || strstr(name, "2at6Tensor") != NULL ||
                     strstr(name, "2at10TensorBase") != NULL ||
                     strstr(name, "TensorImpl") != NULL;
    wants->registers = wants->registers || af_starts_with(name, "_ZN5torch7Library") ||
                       af_starts_with(name, "_ZNO5torch7Library") ||
                       af_starts_with(name, "_ZNR5torch7Library") ||
                       af_starts_with(name, "_ZN3c1017RegisterOperators");
    wants->tensor_counts =
        wants->tensor_counts || strstr(name, "cref_pyobjectEv") != NULL; /* incref, decref */
    wants->owns_tensors = wants->owns_tensors || makes_tensor(name);
    if (wants->cxx11abi == AF_UNKNOWN) {
        wants->cxx11abi = af_symbol_cxx11abi(name);
        wants->abi_name = wants->cxx11abi == AF_UNKNOWN ? NULL : name;
    }
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
        uint64_t with = wanted->weak || !af_symbol_is_torch(wanted->name)
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

#define LAST 1000

/* Since torch 2.10 the count of Python references is part of the tensor's own count. */
#define TENSOR_COUNTS_SINCE 10

static af_proof_torch_set all_minors(void)
{
    size_t count = af_tables.torch_count;
    return count >= AF_PROOF_TORCH_SET_MAX ? ~(af_proof_torch_set)0
                                           : ((af_proof_torch_set)1 << count) - 1;
}

/* Releases 2.from to 2.to. */
static af_proof_torch_set between(int from, int to)
{
    af_proof_torch_set set = 0;
    for (size_t i = 0; i < af_tables.torch_count && i < AF_PROOF_TORCH_SET_MAX; i++) {
        const struct af_catalog_torch_release *row = &af_tables.torch[i];
        if (row->torch_major == 2 && row->torch_minor >= from && row->torch_minor <= to)
            set |= (af_proof_torch_set)1 << i;
    }
    return set;
}

static bool holds_text(const struct af_binary *binary, const char *one, const char *other)
{
    for (size_t i = 0; i < binary->pybind_internals.count; i++) {
        const char *text = binary->pybind_internals.items[i];
        if (strstr(text, one) != NULL && strstr(text, other) != NULL)
            return true;
    }
    return false;
}

static bool wants_both(const struct af_binary *binary, const char *one, const char *other)
{
    return af_binary_wants(binary, one) && af_binary_wants(binary, other);
}

/* Whether the extension needs the function `name` but not `without`. */
static bool wants_alone(const struct af_binary *binary, const char *name, const char *without)
{
    return af_binary_wants(binary, name) && !af_binary_wants(binary, without);
}

/*
 * The minors that the rows of proof_dates.inc allow; rows about Python apply only to extensions
 * that use libtorch_python.
 */
static af_proof_torch_set date_by_rows(const struct af_binary *binary,
                                       const struct af_proof_symbol_needs *wants)
{
    af_proof_torch_set set = all_minors();
#define AF_DATE_TEXT(one, other, from, to)                                                     \
    if (wants->torch_python && holds_text(binary, one, other))                                 \
        set &= between(from, to);
#define AF_DATE_WANTS(one, other, from, to)                                                    \
    if (wants->torch_python && wants_both(binary, one, other))                                 \
        set &= between(from, to);
#define AF_DATE_ALONE(name, without, from, to)                                                 \
    if (wants_alone(binary, name, without))                                                    \
        set &= between(from, to);
#include "kit/proof/proof_dates.inc"
#undef AF_DATE_TEXT
#undef AF_DATE_WANTS
#undef AF_DATE_ALONE
    return set;
}

/* data/torch_assertions.tsv: header, line, and a set in hexadecimal: bit N is torch 2.N. */
extern const char af_torch_assertions[];

/*
 * The releases that have an assertion at a place such as "c10/core/TensorImpl.h:1332"; all
 * releases when the place is not in the table.
 */
static af_proof_torch_set date_by_assertion(const char *text)
{
    char row[256];
    const char *colon = strrchr(text, ':');
    int64_t line = 0;
    af_proof_torch_set set = 0;
    if (colon == NULL || !af_parse_i64(colon + 1, 1, INT32_MAX, &line))
        return all_minors();
    int len = snprintf(row, sizeof row, "\n%.*s\t%d\t", (int)(colon - text), text, (int)line);
    const char *found = (size_t)len < sizeof row ? strstr(af_torch_assertions, row) : NULL;
    unsigned long minors = found == NULL ? 0 : strtoul(found + len, NULL, 16);
    for (int minor = 0; minor < 32; minor++) {
        if ((minors >> minor & 1) != 0)
            set |= between(minor, minor);
    }
    return set != 0 ? set : all_minors();
}

static af_proof_torch_set date_by_assertions(const struct af_binary *binary)
{
    af_proof_torch_set set = all_minors();
    for (size_t i = 0; i < binary->assertions.count; i++)
        set &= date_by_assertion(binary->assertions.items[i]);
    return set;
}

/* The minor of "2.8" or "2.8.0" as a set; empty if the tables do not have it. */
static af_proof_torch_set stated_minor(const char *stated)
{
    struct af_version version;
    if (stated == NULL || !af_version_parse(stated, strlen(stated), &version) ||
        version.release_count < 2 || version.release[0] != 2 || version.release[1] >= LAST)
        return 0;
    return between((int)version.release[1], (int)version.release[1]);
}

/* Narrows *set to its intersection with `by`, unless that would be empty. */
static bool narrow(af_proof_torch_set *set, af_proof_torch_set by)
{
    if ((*set & by) == 0)
        return false;
    bool narrowed = (*set & by) != *set;
    *set &= by;
    return narrowed;
}

enum anyflash_status af_built_for_make(const struct af_binary *binary,
                                       const struct af_proof_symbol_needs *wants,
                                       af_proof_torch_set fitting, const char *stated,
                                       struct af_arena *arena, struct af_built_for *out,
                                       struct anyflash_error *err)
{
    af_proof_torch_set set = all_minors();
    af_proof_torch_set named = stated_minor(stated);
    bool by_symbols = narrow(&set, fitting);
    bool by_rows = narrow(&set, date_by_rows(binary, wants));
    bool by_assertions = narrow(&set, date_by_assertions(binary));
    bool by_counts = (wants->tensor_counts || wants->owns_tensors) &&
                     narrow(&set, wants->tensor_counts ? between(TENSOR_COUNTS_SINCE, LAST)
                                                       : between(0, TENSOR_COUNTS_SINCE - 1));
    bool is_wrong = named != 0 && (set & named) == 0;
    bool by_name = named != 0 && narrow(&set, named);
    const char *bytes =
        by_symbols || by_rows || by_assertions || by_counts ? "its own bytes" : "";
    *out = (struct af_built_for){
        .minors = set,
        .name_is_wrong = is_wrong,
        .source =
            af_arena_format(arena, "%s%s%s", bytes, bytes[0] != '\0' && by_name ? " and " : "",
                            by_name ? "its name" : ""),
    };
    if (out->source != NULL && out->source[0] == '\0')
        out->source = "nothing in the file narrows this down";
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
