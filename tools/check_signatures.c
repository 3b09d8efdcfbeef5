/*
 * check_signatures.c: checks data/causes.jsonl and data/signatures.jsonl with the
 * code that reads them in the program; the build runs it before it embeds them.
 *
 *   check_signatures data/causes.jsonl data/signatures.jsonl
 *
 * Prints the first problem as FILE:LINE and exits 1.
 */
#include "kit/doctor/log/signature.h"
#include "kit/system/file.h"

#include <stdio.h>

#define TABLE_BYTES_MAX (8u * 1024u * 1024u)

int main(int argc, char **argv)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    struct af_cause_table causes;
    struct af_signature_table signatures;
    if (argc != 3) {
        fprintf(stderr, "usage: check_signatures CAUSES.jsonl SIGNATURES.jsonl\n");
        return 2;
    }
    af_json_start();
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, argv[1], TABLE_BYTES_MAX, &bytes, &err);
    if (status == ANYFLASH_OK)
        status = af_cause_table_read(bytes, argv[1], &arena, &causes, &err);
    if (status == ANYFLASH_OK)
        status = af_file_read(&arena, argv[2], TABLE_BYTES_MAX, &bytes, &err);
    if (status == ANYFLASH_OK)
        status = af_signature_table_read(bytes, argv[2], &causes, &arena, &signatures, &err);
    if (status != ANYFLASH_OK)
        fprintf(stderr, "%s\n", err.message);
    af_arena_release(&arena);
    return status == ANYFLASH_OK ? 0 : 1;
}
