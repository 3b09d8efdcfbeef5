/*
 * base.h: basics for every module: status and error, spans, checked sizes.
 *
 * Nothing here allocates or prints. A function fails with
 *     return af_fail(err, ANYFLASH_E_DATA, "'%s' is cut short", name);
 */
#ifndef AF_ENGINE_BASE_BASE_H
#define AF_ENGINE_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "anyflash/anyflash.h"

#define AF_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__GNUC__)
#define AF_PRINTF(text_at, first_at) __attribute__((format(printf, text_at, first_at)))
#define AF_NORETURN __attribute__((noreturn))
#else
#define AF_PRINTF(text_at, first_at)
#define AF_NORETURN
#endif

/* Borrowed bytes: not NUL-terminated, not owned. data may be NULL if len is 0. */
struct af_span {
    const char *data;
    size_t len;
};

/* A three-valued truth value. */
enum af_answer { AF_NO = 0, AF_YES = 1, AF_UNKNOWN = 2 };

/* "no", "yes" or "unknown". */
const char *af_answer_text(enum af_answer answer);

/*
 * Fills *err, unless NULL, with `status` and the formatted sentence (cut at
 * the buffer's end) and returns `status`. Text from outside must already be
 * quoted by af_text_quote().
 */
enum anyflash_status af_fail(struct anyflash_error *err, enum anyflash_status status,
                             const char *format, ...) AF_PRINTF(3, 4);

/* As af_fail() with ANYFLASH_E_NO_MEMORY and a standard sentence. */
enum anyflash_status af_fail_memory(struct anyflash_error *err);

/* *sum_out = a + b, or false and *sum_out untouched when it overflows. */
bool af_size_add(size_t a, size_t b, size_t *sum_out);

/* *product_out = a * b, or false and *product_out untouched when it overflows. */
bool af_size_mul(size_t a, size_t b, size_t *product_out);

#endif
