/*
 * pack_signatures.c: checks the rows of data/causes.jsonl, which are constants by now, and
 * data/signatures.jsonl, and writes the latter as a constant, so that the program has no row to
 * read and no pattern to compile.
 *
 *   pack_signatures data/signatures.jsonl [OUT.c]
 *
 * Prints the first problem, with FILE:LINE if a row has it, and exits 1.
 */
#include "kit/doctor/rows/signature_rows.h"
#include "kit/system/file.h"

#include <inttypes.h>
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

/* ---- the constant ---- */

static void write_bytes(FILE *out, const char *text, size_t len)
{
    putc('"', out);
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\' || byte < ' ' || byte >= 0x7F || byte == '?')
            fprintf(out, "\\%03o", byte);
        else
            putc(byte, out);
    }
    putc('"', out);
}

static void write_text(FILE *out, const char *text)
{
    if (text == NULL)
        fputs("NULL", out);
    else
        write_bytes(out, text, strlen(text));
    fputs(", ", out);
}

static void write_span(FILE *out, struct af_span span)
{
    fputs("{", out);
    write_bytes(out, span.len == 0 ? "" : span.data, span.len);
    fprintf(out, ", %zu}, ", span.len);
}

static void write_pattern(FILE *out, const struct af_pattern *pattern)
{
    fputs("{", out);
    write_text(out, pattern->source);
    fputs("(const struct af_pattern_part[]){", out);
    for (size_t i = 0; i < pattern->part_count; i++) {
        fprintf(out, "{%d, ", (int)pattern->parts[i].kind);
        write_span(out, pattern->parts[i].text);
        fputs("}, ", out);
    }
    fprintf(out, "}, %zu, ", pattern->part_count);
    write_span(out, pattern->literal);
    fprintf(out, "%d, %d},\n", pattern->at_start, pattern->at_end);
}

static void write_neighbours(FILE *out, const struct af_signature_neighbour *rows, size_t count)
{
    if (count == 0) {
        fputs("NULL, 0, ", out);
        return;
    }
    fputs("(const struct af_signature_neighbour[]){", out);
    for (size_t i = 0; i < count; i++)
        if (rows[i].signature == SIZE_MAX)
            fprintf(out, "{SIZE_MAX, %zu}, ", rows[i].pattern);
        else
            fprintf(out, "{%zu, 0}, ", rows[i].signature);
    fprintf(out, "}, %zu, ", count);
}

static void write_surroundings(FILE *out, const struct af_surroundings *around)
{
    fputs("{", out);
    write_neighbours(out, around->near, around->near_count);
    write_neighbours(out, around->not_near, around->not_near_count);
    fputs("}, ", out);
}

static void write_side(FILE *out, const struct af_condition_side *side)
{
    fprintf(out, "{%d, ", (int)side->kind);
    write_text(out, side->text);
    fputs("}, ", out);
}

static void write_conditions(FILE *out, const struct af_conditions *conditions)
{
    if (conditions->count == 0) {
        fputs("{NULL, 0}, ", out);
        return;
    }
    fputs("{(const struct af_condition[]){", out);
    for (size_t i = 0; i < conditions->count; i++) {
        const struct af_condition *row = &conditions->rows[i];
        fputs("{", out);
        write_text(out, row->source);
        write_side(out, &row->left);
        fprintf(out, "%d, ", (int)row->op);
        write_side(out, &row->right);
        fputs("}, ", out);
    }
    fprintf(out, "}, %zu}, ", conditions->count);
}

static void write_cause(FILE *out, const struct af_signature_cause *cause)
{
    fprintf(out, "{%zu, %d, %d, ", cause->index, (int)cause->kind, cause->score);
    write_surroundings(out, &cause->around);
    write_conditions(out, &cause->only_if);
    write_conditions(out, &cause->proves);
    write_text(out, cause->proof);
    write_text(out, cause->detail);
    fputs("}, ", out);
}

static void write_row(FILE *out, const struct af_signature *row)
{
    fputs("{", out);
    write_text(out, row->id);
    write_text(out, row->why);
    fprintf(out, "%d, %d, %zu, %zu, ", (int)row->kind, (int)row->phase, row->pattern_first,
            row->pattern_count);
    fputs(row->says_count == 0 ? "NULL" : "(const struct af_sentence_rule[]){", out);
    for (size_t i = 0; i < row->says_count; i++)
        fprintf(out, "{UINT64_C(%" PRIu64 "), UINT64_C(%" PRIu64 ")}, ", row->says[i].needed,
                row->says[i].excluded);
    fprintf(out, "%s, %zu, ", row->says_count == 0 ? "" : "}", row->says_count);
    write_surroundings(out, &row->around);
    fputs(row->cause_count == 0 ? "NULL" : "(const struct af_signature_cause[]){", out);
    for (size_t i = 0; i < row->cause_count; i++)
        write_cause(out, &row->causes[i]);
    fprintf(out, "%s, %zu},\n", row->cause_count == 0 ? "" : "}", row->cause_count);
}

static int write_table(const struct af_signature_table *table, const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        fprintf(stderr, "pack_signatures: cannot write '%s'\n", path);
        return 1;
    }
    fputs("/* Written by tools/pack_signatures.c. */\n"
          "#include \"kit/doctor/log/signature.h\"\n\n"
          "static const struct af_pattern patterns[] = {\n",
          out);
    for (size_t i = 0; i < table->pattern_count; i++)
        write_pattern(out, &table->patterns[i]);
    fputs("};\n\nstatic const struct af_signature rows[] = {\n", out);
    for (size_t i = 0; i < table->count; i++)
        write_row(out, &table->rows[i]);
    fprintf(out,
            "};\n\nconst struct af_signature_table af_signatures = {\n"
            "    &af_causes, rows, %zu, patterns, %zu};\n",
            table->count, table->pattern_count);
    return fclose(out) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    struct af_signature_table signatures;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: pack_signatures SIGNATURES.jsonl [OUT.c]\n");
        return 2;
    }
    af_json_start();
    af_arena_init(&arena);
    enum anyflash_status status = check_causes(&err);
    if (status == ANYFLASH_OK)
        status = af_file_read(&arena, argv[1], TABLE_BYTES_MAX, &bytes, &err);
    if (status == ANYFLASH_OK)
        status =
            af_jsonl_read_signatures(bytes, argv[1], &af_causes, &arena, &signatures, &err);
    if (status == ANYFLASH_OK)
        status = check_subject(&signatures, argv[1], &err);
    int code = 1;
    if (status != ANYFLASH_OK)
        fprintf(stderr, "%s\n", err.message);
    else
        code = argc == 3 ? write_table(&signatures, argv[2]) : 0;
    af_arena_release(&arena);
    return code;
}
