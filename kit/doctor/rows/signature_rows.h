/*
 * signature_rows.h: reads data/signatures.jsonl. The program has the rows as a constant; this
 * is for the tool that makes it, and for tests.
 */
#ifndef AF_KIT_DOCTOR_ROWS_SIGNATURE_ROWS_H
#define AF_KIT_DOCTOR_ROWS_SIGNATURE_ROWS_H

#include "kit/doctor/log/signature.h"

/*
 * Reads the rows of a signatures.jsonl; everything is in the arena and refers to
 * `causes`. Fails with DATA, naming `name` and the line, for an unknown or
 * missing key, a malformed pattern or condition, a capture that no pattern of
 * the row has, an unknown fact, cause or "@id", or a repeated id; or with
 * NO_MEMORY.
 */
enum anyflash_status af_jsonl_read_signatures(struct af_span bytes, const char *name,
                                              const struct af_cause_table *causes,
                                              struct af_arena *arena,
                                              struct af_signature_table *out,
                                              struct anyflash_error *err);

#endif
