/*
 * base.c: status texts, error filling and checked arithmetic.
 */
#include "engine/base/base.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *anyflash_version_text(void)
{
    return VERSION_TEXT(ANYFLASH_VERSION_MAJOR, ANYFLASH_VERSION_MINOR, ANYFLASH_VERSION_PATCH);
}

const char *anyflash_status_text(enum anyflash_status status)
{
    switch (status) {
    case ANYFLASH_OK:
        return "ok";
    case ANYFLASH_E_ARGUMENT:
        return "bad argument";
    case ANYFLASH_E_NO_MEMORY:
        return "out of memory";
    case ANYFLASH_E_IO:
        return "input or output failed";
    case ANYFLASH_E_DATA:
        return "malformed data";
    case ANYFLASH_E_LIMIT:
        return "limit exceeded";
    case ANYFLASH_E_TIMEOUT:
        return "timed out";
    case ANYFLASH_E_NOT_FOUND:
        return "not found";
    case ANYFLASH_E_UNSUPPORTED:
        return "unsupported";
    case ANYFLASH_E_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}

const char *af_answer_text(enum af_answer answer)
{
    static const char *const texts[] = {"no", "yes", "unknown"};
    return texts[answer];
}

enum anyflash_status af_fail(struct anyflash_error *err, enum anyflash_status status,
                             const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

enum anyflash_status af_fail_memory(struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_NO_MEMORY, "out of memory");
}

bool af_size_add(size_t a, size_t b, size_t *sum_out)
{
    if (a > SIZE_MAX - b)
        return false;
    *sum_out = a + b;
    return true;
}

bool af_size_mul(size_t a, size_t b, size_t *product_out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *product_out = a * b;
    return true;
}
