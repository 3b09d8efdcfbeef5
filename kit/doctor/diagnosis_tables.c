/*
 * diagnosis_tables.c: decompresses and reads the embedded tables.
 */
#include "kit/doctor/diagnosis_tables.h"

#include "kit/formats/embedded.h"

enum anyflash_status af_diagnosis_tables_load(struct af_arena *arena,
                                              struct af_diagnosis_tables *out,
                                              struct anyflash_error *err)
{
    struct af_span causes;
    struct af_span signatures;
    enum anyflash_status status = af_embedded_open(&af_embedded_causes, arena, &causes, err);
    if (status == ANYFLASH_OK)
        status = af_cause_table_read(causes, "causes.jsonl", arena, &out->causes, err);
    if (status == ANYFLASH_OK)
        status = af_embedded_open(&af_embedded_signatures, arena, &signatures, err);
    if (status == ANYFLASH_OK)
        status = af_signature_table_read(signatures, "signatures.jsonl", &out->causes, arena,
                                         &out->signatures, err);
    return status;
}
