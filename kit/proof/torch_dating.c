/*
 * torch_dating.c: for which torch an extension was built. The evidence in the bytes is texts of
 * pybind11, functions that the headers of Python and torch call, how references to tensors are
 * counted, and which torch functions are needed; the stated version only narrows what they
 * leave open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/proof/proof_torch.h"

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
