/*
 * torch_fitting.c: which releases of torch export all that an extension wants of
 * torch: only for one of them can it have been built.
 */
#include "kit/proof/torch_fitting.h"

#include <string.h>

#include "kit/formats/version.h"
#include "kit/proof/symbol_needs.h"

/* The row of the tables that the build is a patch release of; the count: none. */
static size_t row_of(const struct af_tables *tables,
                     const struct af_catalog_symbol_build *build)
{
    struct af_version version;
    if (!af_version_parse(build->version, strlen(build->version), &version))
        return tables->torch_count;
    for (size_t i = 0; i < tables->torch_count; i++) {
        if (tables->torch[i].major_number == version.release[0] &&
            tables->torch[i].minor_number == version.release[1])
            return i;
    }
    return tables->torch_count;
}

/* Builds by number, bit i build i; more than the set holds are not asked. */
static size_t build_count(const struct af_catalog_torch_symbols *symbols)
{
    return symbols->build_count < AF_PROOF_TORCH_SET_MAX ? symbols->build_count
                                                         : AF_PROOF_TORCH_SET_MAX;
}

/* The builds that define the name; 0: none does, so it is not torch's. */
static uint64_t builds_with(const struct af_catalog_torch_symbols *symbols, const char *name)
{
    uint64_t set = 0;
    for (size_t i = 0; i < build_count(symbols); i++)
        set |= (uint64_t)(af_catalog_torch_symbols_in(symbols, &symbols->builds[i], name) != 0)
               << i;
    return set;
}

uint64_t af_proof_torch_fitting(const struct af_catalog_torch_symbols *symbols,
                                const struct af_tables *tables, const struct af_binary *binary)
{
    uint64_t builds = ~(uint64_t)0;
    uint64_t known = 0;
    uint64_t fitting = 0;
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const struct af_undefined *wanted = &binary->undefined[i];
        uint64_t with = wanted->weak || !af_proof_name_is_torch(wanted->name)
                            ? 0
                            : builds_with(symbols, wanted->name);
        builds &= with == 0 ? ~(uint64_t)0 : with;
    }
    for (size_t i = 0; i < build_count(symbols); i++) {
        size_t row = row_of(tables, &symbols->builds[i]);
        if (row >= AF_PROOF_TORCH_SET_MAX || strcmp(symbols->builds[i].variant, "cpu") == 0)
            continue;
        known |= (uint64_t)1 << row;
        fitting |= (builds >> i & 1) << row;
    }
    return fitting | ~known;
}
