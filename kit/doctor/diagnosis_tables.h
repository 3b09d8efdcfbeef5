/*
 * diagnosis_tables.h: the embedded signatures.
 */
#ifndef AF_KIT_DOCTOR_DIAGNOSIS_TABLES_H
#define AF_KIT_DOCTOR_DIAGNOSIS_TABLES_H

#include "kit/doctor/log/signature.h"

/*
 * Reads data/signatures.jsonl as it was when the program was built. Fails with NO_MEMORY, or
 * INTERNAL when the data is invalid.
 */
enum anyflash_status af_diagnosis_signatures_load(struct af_arena *arena,
                                                  struct af_signature_table *out,
                                                  struct anyflash_error *err);

#endif
