/*
 * url.c: URLs as text.
 */
#include "kit/base/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kit/base/text.h"

bool af_url_is_secure(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0;
}

/* The part after "http://" or "https://", or NULL. */
static const char *host_of(const char *url)
{
    if (af_url_is_secure(url))
        return url + 8;
    return strncasecmp(url, "http://", 7) == 0 ? url + 7 : NULL;
}

bool af_url_is_http(const char *text)
{
    const char *host = host_of(text);
    return host != NULL && strcspn(host, "/?#") > 0;
}

/* The part after "scheme://" of any scheme (RFC 3986, 3.1), or NULL. */
static const char *authority_of(const char *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789+-.";
    size_t len = strspn(url, letters);
    return len > 0 && af_starts_with(url + len, "://") ? url + len + 3 : NULL;
}

char *af_url_show(char *buffer, size_t size_bytes, const char *url)
{
    char plain[AF_URL_BYTES_MAX];
    const char *host = authority_of(url);
    if (host == NULL)
        return af_text_quote(buffer, size_bytes, url, strcspn(url, "?#"));
    size_t host_len = strcspn(host, "/?#");
    size_t user_len = 0; /* user and password end at the last '@' */
    for (size_t i = 0; i < host_len; i++)
        if (host[i] == '@')
            user_len = i + 1;
    size_t scheme_len = (size_t)(host - url);
    size_t rest_len = strcspn(host + user_len, "?#");
    if (scheme_len > sizeof plain)
        return af_text_quote(buffer, size_bytes, "", 0);
    size_t capacity = sizeof plain - scheme_len;
    rest_len = rest_len < capacity ? rest_len : capacity;
    memcpy(plain, url, scheme_len);
    memcpy(plain + scheme_len, host + user_len, rest_len);
    return af_text_quote(buffer, size_bytes, plain, scheme_len + rest_len);
}

enum anyflash_status af_url_check(const char *url, bool allow_http, struct anyflash_error *err)
{
    char shown[AF_URL_SHOWN_BYTES];
    af_url_show(shown, sizeof shown, url);
    if (!af_url_is_http(url))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'%s' is not an http or https URL", shown);
    if (strlen(url) >= AF_URL_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "the URL '%s' is too long", shown);
    for (const char *at = url; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~')
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "the URL '%s' has characters that must be percent-encoded (%%XX)",
                           shown);
    if (!allow_http && !af_url_is_secure(url))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' uses http without encryption; use an https URL", shown);
    return ANYFLASH_OK;
}

/* The bytes of `url` that come before the target of a redirect. */
static size_t base_len(const char *url, const char *place)
{
    const char *authority = authority_of(url);
    const char *path = authority + strcspn(authority, "/?#");
    if (place[strcspn(place, ":/?#")] == ':') /* "https://host/path" */
        return 0;
    if (af_starts_with(place, "//")) /* "//host/path" */
        return (size_t)(authority - url) - strlen("//");
    if (place[0] == '/') /* "/path" */
        return (size_t)(path - url);
    size_t len = (size_t)(path - url); /* "file", beside the requested one */
    for (const char *at = path; strcspn(at, "?#") > 0; at++)
        len = *at == '/' ? (size_t)(at - url) + 1 : len;
    return len;
}

void af_url_join(char *buffer, size_t size_bytes, const char *url, const char *place)
{
    size_t base = place[0] != '\0' ? base_len(url, place) : 0;
    bool no_path = base > 0 && url[base - 1] != '/' && place[0] != '/';
    size_t len =
        (size_t)snprintf(buffer, size_bytes, "%.*s%s", (int)base, url, no_path ? "/" : "");
    for (; *place != '\0' && len < size_bytes; place++) {
        bool plain = *place > ' ' && *place <= '~';
        len += (size_t)snprintf(buffer + len, size_bytes - len, plain ? "%c" : "%%%02X",
                                (unsigned char)*place);
    }
    buffer[len < size_bytes ? len : 0] = '\0';
}

const char *af_url_without_secrets(struct af_arena *arena, const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *host = scheme == NULL ? url : scheme + 3;
    size_t host_len = strcspn(host, "/?#");
    for (size_t i = host_len; scheme != NULL && i > 0; i--) {
        if (host[i - 1] == '@') {
            host += i;
            break;
        }
    }
    int scheme_len = scheme == NULL ? 0 : (int)(scheme + 3 - url);
    int path_len = (int)strcspn(host, "?");
    const char *fragment = strchr(host + path_len, '#');
    return af_arena_format(arena, "%.*s%.*s%s", scheme_len, url, path_len, host,
                           fragment == NULL ? "" : fragment);
}

const char *af_url_encode_plus(struct af_arena *arena, const char *url)
{
    char *made = url == NULL ? NULL : af_arena_alloc(arena, 3 * strlen(url) + 1);
    char *to = made;
    for (const char *at = url; made != NULL && *at != '\0'; at++) {
        if (*at == '+') {
            memcpy(to, "%2B", 3);
            to += 3;
        } else {
            *to++ = *at;
        }
    }
    return made;
}

const char *af_url_encode_path(struct af_arena *arena, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~/";
    struct af_text url = {0};
    for (const char *at = path; *at != '\0'; at++) {
        if (strchr(plain, *at) != NULL)
            af_text_add_n(&url, at, 1);
        else
            af_text_format(&url, "%%%02X", (unsigned)(unsigned char)*at);
    }
    return af_text_take(&url, arena);
}

static int hex_value(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = digit == '\0' ? NULL : strchr(digits, digit | 0x20);
    return found == NULL ? -1 : (int)(found - digits);
}

int af_url_escape_at(const char *at, size_t len)
{
    int high = len >= 3 && at[0] == '%' ? hex_value(at[1]) : -1;
    int low = high < 0 ? -1 : hex_value(at[2]);
    return low < 0 ? -1 : 16 * high + low;
}

static bool is_end(char c)
{
    return c == '\0' || c == '#';
}

bool af_url_equal(const char *a, const char *b)
{
    while (!is_end(*a) && !is_end(*b)) {
        bool plus_a = *a == '+' || af_url_escape_at(a, strnlen(a, 3)) == '+';
        bool plus_b = *b == '+' || af_url_escape_at(b, strnlen(b, 3)) == '+';
        if (plus_a != plus_b || (!plus_a && *a != *b))
            return false;
        a += *a == '%' && plus_a ? 3 : 1;
        b += *b == '%' && plus_b ? 3 : 1;
    }
    return is_end(*a) && is_end(*b);
}

const char *af_url_with_sha256(struct af_arena *arena, const char *url, const char *sha256)
{
    return sha256 == NULL ? url : af_arena_format(arena, "%s#sha256=%s", url, sha256);
}

/* Decodes the next byte of a file name and moves *at past it. */
static char next_of_name(const char **at)
{
    int byte = af_url_escape_at(*at, strnlen(*at, 3));
    bool is_escaped = byte > ' ' && byte <= '~' && byte != '/';
    char letter = is_escaped ? (char)byte : **at;
    *at += is_escaped ? 3 : 1;
    return letter;
}

const char *af_url_file_name(struct af_arena *arena, const char *url)
{
    const char *path = af_arena_text_n(arena, url, strcspn(url, "?#"));
    char *name = path == NULL ? NULL : af_arena_text(arena, af_path_name(path));
    char *to = name;
    for (const char *at = name; at != NULL && *at != '\0';)
        *to++ = next_of_name(&at);
    if (to != NULL)
        *to = '\0';
    return name;
}

bool af_url_names_file(const char *url, const char *name)
{
    size_t len = strcspn(url, "?#");
    const char *slash = memrchr(url, '/', len);
    const char *at = slash == NULL ? url : slash + 1;
    while (at < url + len && *name != '\0')
        if (next_of_name(&at) != *name++)
            return false;
    return at == url + len && *name == '\0';
}

const char *af_url_file_path(struct af_arena *arena, const char *url)
{
    static const char scheme[] = "file://";
    char *path =
        af_starts_with(url, scheme) ? af_arena_text(arena, url + strlen(scheme)) : NULL;
    char *to = path;
    for (const char *at = path; at != NULL && *at != '\0';) {
        int byte = af_url_escape_at(at, strnlen(at, 3));
        *to++ = byte > 0 ? (char)byte : *at;
        at += byte > 0 ? 3 : 1;
    }
    if (to != NULL)
        *to = '\0';
    return path;
}
