/*
 * fuzz_http_answer.c: any lines as the header of an HTTP response, and any text
 * as a URL to show; the results must be printable.
 */
#include "kit/system/download.h"
#include "kit/system/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(const char *shown)
{
    for (const unsigned char *at = (const unsigned char *)shown; *at != '\0'; at++)
        if (*at < ' ' || *at == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_http_answer answer;
    struct anyflash_error err = {0};
    char shown[AF_URL_SHOWN_BYTES];
    struct af_span rest = {(const char *)data, size};
    af_http_answer_init(&answer);
    while (rest.len > 0) {
        const char *end = memchr(rest.data, '\n', rest.len);
        size_t len = end != NULL ? (size_t)(end - rest.data) + 1 : rest.len;
        af_http_answer_line(&answer, rest.data, len);
        rest.data += len;
        rest.len -= len;
    }
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_shown(af_url_show(shown, sizeof shown, text));
    if (af_url_check(text, true, &err) != ANYFLASH_OK)
        check_shown(err.message);
    struct af_span bytes = {(const char *)data, size};
    af_download_not_a_wheel(bytes);
    af_http_answer_fail(&answer, shown, bytes, &err);
    check_shown(err.message);
    free(text);
    return 0;
}
