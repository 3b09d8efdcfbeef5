/*
 * diagnosis_tables.c: decompresses and reads the embedded signatures.
 */
#include "kit/doctor/diagnosis_tables.h"

#include "kit/formats/embedded.h"

enum anyflash_status af_diagnosis_signatures_load(struct af_arena *arena,
                                                  struct af_signature_table *out,
                                                  struct anyflash_error *err)
{
    struct af_span bytes;
    enum anyflash_status status = af_embedded_open(&af_embedded_signatures, arena, &bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_signature_table_read(bytes, "signatures.jsonl", &af_causes, arena, out, err);
}
