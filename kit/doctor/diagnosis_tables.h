/*
 * diagnosis_tables.h: the embedded causes and signatures.
 */
#ifndef AF_KIT_DOCTOR_DIAGNOSIS_TABLES_H
#define AF_KIT_DOCTOR_DIAGNOSIS_TABLES_H

#include "kit/doctor/log/signature.h"

struct af_diagnosis_tables {
    struct af_cause_table causes;
    struct af_signature_table signatures;
};

/*
 * Reads data/causes.jsonl and data/signatures.jsonl as they were when the program
 * was built. Fails with NO_MEMORY, or INTERNAL when the data is invalid.
 */
enum anyflash_status af_diagnosis_tables_load(struct af_arena *arena,
                                              struct af_diagnosis_tables *out,
                                              struct anyflash_error *err);

#endif
