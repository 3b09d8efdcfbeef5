/*
 * proof_torch.c: what an extension and torch must agree on apart from symbol names. First what
 * it needs from torch, and which torch it was built for: the evidence in the bytes is texts of
 * pybind11, functions that the headers of Python and torch call, how references to tensors are
 * counted, and which torch functions are needed; the stated version only narrows what they
 * leave open. Then the checks: the ABI of std::string, the CUDA runtime, the memory layout of
 * torch's objects. A file that does not use torch passes them.
 */
#include "kit/proof/proof_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/binary.h"
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

/* What in the bytes of an extension tells for which torch it was built. */
enum evidence {
    HOLDS_BOTH, /* one pybind11 text has both parts */
    NEEDS_BOTH, /* it needs both names, and binds tensors to Python */
    NEEDS_ALONE /* it needs the first name, but not the second */
};

/*
 * Each row was checked on builds against 16 torch releases (2.3.1 to 2.15.0, g++ 12, the flags
 * of torch's CUDAExtension); read 2026-11-20. Built for torch 2.`from` to 2.`to`; LAST: no
 * limit.
 */
static const struct date {
    enum evidence evidence;
    const char *one;
    const char *other;
    int from;
    int to;
} dates[] = {
    {HOLDS_BOTH, "_internals_v4_", "cxxabi1011", 0, 6},
    {HOLDS_BOTH, "_internals_v4_", "cxxabi1016", 6, 7}, /* 2.6: builds with the new C++ ABI */
    {HOLDS_BOTH, "_internals_v4_", "cxxabi1018", 8, 8},
    {HOLDS_BOTH, "_internals_v11_", "", 9, 13},
    {HOLDS_BOTH, "_internals_v12_", "", 14, LAST},
    {NEEDS_BOTH, "PyModule_Create2", "PyModule_Create2", 0, 8},
    {NEEDS_BOTH, "PyModuleDef_Init", "PyModuleDef_Init", 9, LAST},
    {NEEDS_BOTH, "PyDict_Copy", "PyTuple_GetItem", 0, 12},
    {NEEDS_BOTH, "PySequence_Tuple", "PyUnicode_Compare", 13, LAST},
    /*
     * One inline function of the headers makes both calls, so an extension that has one of them
     * also has the other, whatever the compiler does. Read in the headers of all 16 releases;
     * confirmed on 90 files. c10/core/TensorImpl.h data_impl(): since 2.6 the storage is asked
     * whether it may be read.
     */
    {NEEDS_ALONE, "_ZNK3c1010TensorImpl27throw_data_ptr_access_errorEv",
     "_ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv", 0, 5},
    /* ATen/core/TensorBase.h contiguous(): a symbolic shape is queried otherwise since 2.9 */
    {NEEDS_ALONE, "_ZNK2at10TensorBase21__dispatch_contiguousEN3c1012MemoryFormatE",
     "_ZNK3c107SymBool14guard_or_falseEPKcl", 0, 8},
    /* c10/core/StorageImpl.h mutable_data(): another function copies shared pages */
    {NEEDS_ALONE, "_ZN3c1021throwNullDataPtrErrorEv",
     "_ZN3c104impl3cow23materialize_cow_storageERNS_11StorageImplE", 13, LAST},
};

/* Rows about Python apply only to extensions that use libtorch_python. */
static bool has_evidence(const struct af_binary *binary,
                         const struct af_proof_symbol_needs *wants, const struct date *date)
{
    if (date->evidence == NEEDS_ALONE)
        return af_binary_wants(binary, date->one) && !af_binary_wants(binary, date->other);
    if (!wants->torch_python)
        return false;
    return date->evidence == HOLDS_BOTH
               ? holds_text(binary, date->one, date->other)
               : af_binary_wants(binary, date->one) && af_binary_wants(binary, date->other);
}

static af_proof_torch_set date_by_rows(const struct af_binary *binary,
                                       const struct af_proof_symbol_needs *wants)
{
    af_proof_torch_set set = all_minors();
    for (size_t i = 0; i < AF_COUNT(dates); i++)
        if (has_evidence(binary, wants, &dates[i]))
            set &= between(dates[i].from, dates[i].to);
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

void af_built_for_make(const struct af_binary *binary,
                       const struct af_proof_symbol_needs *wants, af_proof_torch_set fitting,
                       const char *stated, struct af_arena *arena, struct af_built_for *out)
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
    if (out->source[0] == '\0')
        out->source = "nothing in the file narrows this down";
}

/*
 * Generations of af_tables.torch whose objects have the same layout though they differ
 * otherwise: in 2.9 only torch::Library changed, which TORCH_LIBRARY uses (tested with an
 * extension that reads every member).
 */
static const struct {
    int before;
    int after;
} registration_only[] = {{3, 4}};

static bool has_torch(const struct af_proof_draft *draft)
{
    return draft->question->scope != NULL && draft->question->scope->torch.version != NULL;
}

void af_prove_cxx_abi(struct af_proof_draft *draft)
{
    static const char *const names[] = {"old (before C++11)", "new (C++11)"};
    const struct af_proof_symbol_needs *wants = &draft->wants;
    enum af_answer here =
        has_torch(draft) ? draft->question->scope->torch.cxx11abi : AF_UNKNOWN;
    if (wants->cxx11abi == AF_UNKNOWN)
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_YES, "passes no std::string to torch");
    else if (here == AF_UNKNOWN)
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_UNKNOWN,
                     "built with the %s; torch's is not known", names[wants->cxx11abi]);
    else if (here == wants->cxx11abi)
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_YES, "both %s", names[here]);
    else
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_NO, "built with the %s; torch has the %s",
                     names[wants->cxx11abi], names[here]);
}

/* "12" of "libcudart.so.12"; NULL for any other library. */
static const char *cudart_major(const char *name)
{
    static const char start[] = "libcudart.so.";
    return name != NULL && af_starts_with(name, start) ? name + strlen(start) : NULL;
}

/* The CUDA runtime that the extension needs, itself or through a library that it loads. */
static const char *wanted_cudart(const struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const struct af_load *load = draft->question->load;
    for (size_t i = 0; i < binary->needed.count; i++) {
        if (cudart_major(binary->needed.items[i]) != NULL)
            return binary->needed.items[i];
    }
    for (size_t i = 0; load != NULL && i < load->count; i++) {
        if (load->order[i]->is_new && cudart_major(load->order[i]->name) != NULL)
            return load->order[i]->name;
    }
    return NULL;
}

void af_prove_cuda_runtime(struct af_proof_draft *draft)
{
    const char *wanted = wanted_cudart(draft);
    if (wanted == NULL) {
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_YES,
                     draft->question->binary->has_gpu_code
                         ? "the CUDA runtime is linked into it"
                         : "does not use the CUDA runtime");
        return;
    }
    if (!has_torch(draft)) {
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_UNKNOWN, "needs %s; torch's is not known",
                     wanted);
        return;
    }
    const char *here = draft->question->scope->torch.cudart;
    if (here == NULL)
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME,
                     draft->question->scope->torch.has_cuda ? AF_UNKNOWN : AF_NO,
                     draft->question->scope->torch.has_cuda
                         ? "needs %s; torch's is not known"
                         : "needs %s; this torch has no CUDA",
                     wanted);
    else if (strcmp(cudart_major(wanted), cudart_major(here)) == 0)
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_YES, "both use %s", here);
    else
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_NO,
                     "needs %s; torch uses %s, and a process can use only one CUDA runtime",
                     wanted, here);
}

/* How the object layouts of two generations relate. */
enum relation { SAME, ONLY_REGISTRATION, DIFFERENT, NOT_TRIED };

static enum relation relate(int built, int here)
{
    if (built < 0 || here < 0)
        return NOT_TRIED;
    if (built == here)
        return SAME;
    for (size_t i = 0; i < AF_COUNT(registration_only); i++) {
        if ((built == registration_only[i].before && here == registration_only[i].after) ||
            (built == registration_only[i].after && here == registration_only[i].before))
            return ONLY_REGISTRATION;
    }
    return DIFFERENT;
}

/*
 * Whether the two generations register operators differently. Then registration aborts the
 * process.
 */
static bool registers_otherwise(int built, int here)
{
    bool otherwise = false;
    for (size_t i = 0; i < AF_COUNT(registration_only); i++)
        otherwise = otherwise || (built <= registration_only[i].before) !=
                                     (here <= registration_only[i].before);
    return otherwise;
}

/* How many of the minors that the extension may be built for agree with the installed torch. */
struct tally {
    size_t good;
    size_t bad;
    size_t untried;
    size_t aborting; /* part of `bad`: registering operators aborts the process */
};

static void count_minor(const struct af_proof_draft *draft, size_t row, struct tally *tally)
{
    const struct af_scope_torch *torch = &draft->question->scope->torch;
    const struct af_catalog_torch_release *built = &af_tables.torch[row];
    const struct af_catalog_torch_release *here =
        af_tables_torch(torch->major_number, torch->minor_number);
    if (built == here) {
        tally->good++;
        return;
    }
    switch (relate(built->layout, here == NULL ? -1 : here->layout)) {
    case SAME:
        tally->good++;
        break;
    case ONLY_REGISTRATION:
        tally->good += !draft->wants.registers;
        tally->bad += draft->wants.registers;
        tally->aborting += draft->wants.registers;
        break;
    case DIFFERENT:
        tally->bad++;
        tally->aborting +=
            draft->wants.registers && registers_otherwise(built->layout, here->layout);
        break;
    case NOT_TRIED:
        tally->untried++;
        break;
    }
}

/*
 * Whether reference counts differ: this torch counts references in the new way (2.10 and
 * later), but the extension releases references to tensors in the old way. This rule needs no
 * table.
 */
static bool counts_differ(const struct af_proof_draft *draft)
{
    const struct af_library *c10 = af_scope_library(draft->question->scope, "libc10.so");
    return c10 != NULL && draft->wants.owns_tensors && !draft->wants.tensor_counts &&
           c10->kind->defines(c10, "_ZNK3c1010TensorImpl15incref_pyobjectEv", NULL) == AF_YES;
}

/* Whether registering its operators succeeds; UNKNOWN for minors that were not tested. */
static enum af_answer check_registration(const struct af_proof_draft *draft,
                                         const struct tally *tally)
{
    if (!draft->wants.registers || (tally->aborting == 0 && tally->untried == 0))
        return AF_YES;
    return tally->good == 0 && tally->untried == 0 && tally->aborting == tally->bad
               ? AF_NO
               : AF_UNKNOWN;
}

void af_prove_layout(struct af_proof_draft *draft)
{
    struct tally tally = {0, 0, 0, 0};
    if (draft->question->is_torch) {
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "part of this torch itself");
        return;
    }
    if (!draft->wants.objects) {
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "%s",
                     draft->wants.stable_torch ? "uses torch's stable C functions only"
                                               : "uses no C++ objects of torch");
        return;
    }
    if (!has_torch(draft)) {
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_UNKNOWN, "the version of torch is not known");
        return;
    }
    for (size_t i = 0; i < af_tables.torch_count && i < AF_PROOF_TORCH_SET_MAX; i++) {
        if ((draft->built_for.minors >> i & 1) != 0)
            count_minor(draft, i, &tally);
    }
    const char *here = draft->question->scope->torch.version;
    draft->registers = check_registration(draft, &tally);
    if (counts_differ(draft) || (tally.good == 0 && tally.untried == 0))
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_NO,
                     draft->registers == AF_NO
                         ? "built for a torch that registers operators differently from %s: "
                           "importing it aborts the process"
                         : "built for a torch whose objects differ from those of %s: in use "
                           "it would crash or compute wrong numbers",
                     here);
    else if (tally.bad == 0 && tally.untried == 0)
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "objects are laid out as in torch %s",
                     here);
    else
        af_proof_set(
            draft, AF_CHECK_LAYOUT, AF_UNKNOWN,
            "it is not known exactly which torch it was built for: it may not match torch %s",
            here);
}
