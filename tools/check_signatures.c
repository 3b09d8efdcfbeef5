/*
 * check_signatures.c: checks the rows of data/causes.jsonl, which are constants by now, and
 * data/signatures.jsonl with the code that reads it in the program; the build runs it before
 * it embeds the signatures.
 *
 *   check_signatures data/signatures.jsonl
 *
 * Prints the first problem, with FILE:LINE if a row has it, and exits 1.
 */
#include "kit/doctor/log/signature.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <string.h>

#define TABLE_BYTES_MAX (8u * 1024u * 1024u)

/* The diagnosis looks for this row by its id: see AF_SIGNATURE_SUBJECT. */
static enum anyflash_status check_subject(const struct af_signature_table *table,
                                          const char *name, struct anyflash_error *err)
{
    const struct af_signature *subject = af_signature_find(table, AF_SIGNATURE_SUBJECT);
    if (subject != NULL && subject->kind == AF_SIGNATURE_CONTEXT)
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_DATA,
                   subject == NULL
                       ? "%s: the row '%s' is missing; without it every log counts as one "
                         "about flash-attn"
                       : "%s: the row '%s' must be of the kind 'context'",
                   name, AF_SIGNATURE_SUBJECT);
}

static enum anyflash_status check_causes(struct anyflash_error *err)
{
    for (size_t i = 0; i < af_causes.rows_count; i++) {
        const struct af_cause *cause = &af_causes.rows[i];
        if (af_cause_find(&af_causes, cause->id) != cause)
            return af_fail(err, ANYFLASH_E_DATA, "causes.jsonl: the id '%s' occurs twice",
                           cause->id);
        if (af_ends_with(cause->title, ".") || strchr(cause->title, '\n') != NULL)
            return af_fail(err, ANYFLASH_E_DATA,
                           "causes.jsonl: the title of '%s' must be one line without a full "
                           "stop",
                           cause->id);
    }
    return ANYFLASH_OK;
}

int main(int argc, char **argv)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    struct af_signature_table signatures;
    if (argc != 2) {
        fprintf(stderr, "usage: check_signatures SIGNATURES.jsonl\n");
        return 2;
    }
    af_json_start();
    af_arena_init(&arena);
    enum anyflash_status status = check_causes(&err);
    if (status == ANYFLASH_OK)
        status = af_file_read(&arena, argv[1], TABLE_BYTES_MAX, &bytes, &err);
    if (status == ANYFLASH_OK)
        status = af_signature_table_read(bytes, argv[1], &af_causes, &arena, &signatures, &err);
    if (status == ANYFLASH_OK)
        status = check_subject(&signatures, argv[1], &err);
    if (status != ANYFLASH_OK)
        fprintf(stderr, "%s\n", err.message);
    af_arena_release(&arena);
    return status == ANYFLASH_OK ? 0 : 1;
}
