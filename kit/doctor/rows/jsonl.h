/*
 * jsonl.h: reads a table with one JSON object a line, for data that people edit:
 * every failure names FILE:LINE and the key.
 */
#ifndef AF_KIT_DOCTOR_ROWS_JSONL_H
#define AF_KIT_DOCTOR_ROWS_JSONL_H

#include "kit/base/json.h"

struct af_jsonl {
    struct af_span rest;
    const char *name; /* of the file */
    size_t line;      /* of the current row */
    struct af_arena *arena;
    struct anyflash_error *err;
    enum anyflash_status status; /* of the first failure; OK: none so far */
    json_t *row;                 /* borrowed until the next call */
};

/* Reads the next row; empty lines are skipped. False at the end, and after a failure. */
bool af_jsonl_next(struct af_jsonl *rows);

/* Fails with DATA, "FILE:LINE: ...", unless something failed before; returns the status. */
enum anyflash_status af_jsonl_fail(struct af_jsonl *rows, const char *format, ...)
    AF_PRINTF(2, 3);

/* Puts FILE:LINE before a message of another module that failed. */
void af_jsonl_fail_with(struct af_jsonl *rows, enum anyflash_status status,
                        const struct anyflash_error *why);

/* Refuses members of `object` that are not among the words of `keys` ("id any phase"). */
void af_jsonl_check_keys(struct af_jsonl *rows, json_t *object, const char *keys);

/* A text that is not empty, in the arena; NULL when it is missing, which fails if `must`. */
const char *af_jsonl_text(struct af_jsonl *rows, json_t *object, const char *key, bool must);

/* A list of texts, in the arena; *count_out is 0 when it is missing, a failure if `must`. */
const char **af_jsonl_texts(struct af_jsonl *rows, json_t *object, const char *key, bool must,
                            size_t *count_out);

/* Lines in `bytes`, at least as many as rows. */
size_t af_jsonl_line_count(struct af_span bytes);

#endif
