/*
 * http_url.c: which addresses are asked at all, and how people see them.
 */
#include "kit/system/http_parts.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"

bool af_http_is_secure(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0;
}

/* The part behind "http://" or "https://", or NULL. */
static const char *host_of(const char *url)
{
    if (af_http_is_secure(url))
        return url + 8;
    return strncasecmp(url, "http://", 7) == 0 ? url + 7 : NULL;
}

bool af_http_is_url(const char *text)
{
    const char *host = host_of(text);
    return host != NULL && strcspn(host, "/?#") > 0;
}

char *af_http_show(char *buffer, size_t size_bytes, const char *url)
{
    char plain[AF_HTTP_URL_BYTES_MAX];
    const char *host = host_of(url);
    if (host == NULL)
        return af_text_quote(buffer, size_bytes, url, strcspn(url, "?#"));
    size_t host_len = strcspn(host, "/?#");
    size_t user_len = 0; /* user and password end at the last '@' */
    for (size_t i = 0; i < host_len; i++)
        if (host[i] == '@')
            user_len = i + 1;
    size_t scheme_len = (size_t)(host - url);
    size_t rest_len = strcspn(host + user_len, "?#");
    size_t capacity = sizeof plain - scheme_len;
    rest_len = rest_len < capacity ? rest_len : capacity;
    memcpy(plain, url, scheme_len);
    memcpy(plain + scheme_len, host + user_len, rest_len);
    return af_text_quote(buffer, size_bytes, plain, scheme_len + rest_len);
}

enum anyflash_status af_http_check_url(const char *url, bool allow_http,
                                       struct anyflash_error *err)
{
    char shown[AF_HTTP_SHOWN_BYTES];
    af_http_show(shown, sizeof shown, url);
    if (!af_http_is_url(url))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'%s' is no http address", shown);
    if (strlen(url) >= AF_HTTP_URL_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "the address '%s' is too long", shown);
    for (const char *at = url; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~')
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "the address '%s' has characters that must be written as %%XX",
                           shown);
    if (!allow_http && !af_http_is_secure(url))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' is plain http, which anybody on the way can change; only https "
                       "is used",
                       shown);
    return ANYFLASH_OK;
}
