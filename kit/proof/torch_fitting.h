/*
 * torch_fitting.h: which releases of torch export all that an extension wants.
 */
#ifndef AF_KIT_PROOF_TORCH_FITTING_H
#define AF_KIT_PROOF_TORCH_FITTING_H

#include "kit/catalog/tables.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/formats/binary.h"

/*
 * Rows of tables->torch, bit i for row i, that export every function and object
 * of torch's namespaces that the extension wants; also the rows whose symbols
 * are not in the table. A name that no release exports comes from elsewhere and
 * does not count. For af_proof_question.fitting_torch.
 */
uint64_t af_proof_torch_fitting(const struct af_catalog_torch_symbols *symbols,
                                const struct af_tables *tables, const struct af_binary *binary);

#endif
