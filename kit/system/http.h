/*
 * http.h: one bounded GET request, made by the program curl, version 7.54 or newer.
 *
 * Only https is allowed, unless `allow_http` is set; certificates are always checked. At most
 * AF_HTTP_REDIRECTS_MAX redirects are followed, never from https to http. curl handles proxies
 * (https_proxy, no_proxy, ...); ~/.curlrc and ~/.netrc are not read. Trusted certificates are
 * those of SSL_CERT_FILE and SSL_CERT_DIR, else the system's. Transfers slower than the limits
 * fail, and a request ends when the user interrupts (progress.h). Addresses in messages are
 * scrubbed and shown without user, password and query.
 */
#ifndef AF_KIT_SYSTEM_HTTP_H
#define AF_KIT_SYSTEM_HTTP_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"
#include "kit/base/url.h"

#define AF_HTTP_REDIRECTS_MAX 5
#define AF_HTTP_STALL_S 60

/* What requests may do. */
struct af_http {
    bool allow_http; /* also allow plain http, for example for the user's own server */
    bool offline;    /* every request fails with UNSUPPORTED and a message that says why */
    int stall_s;     /* a request without a byte for this long fails; 0: AF_HTTP_STALL_S */
};

#define AF_HTTP_HEADER_BYTES 256

/*
 * The head of the response. Missing texts are "" and missing numbers -1; `status` is 0 when
 * there was no response.
 */
struct af_http_answer {
    int status;           /* 200, 206, ... of the last response after redirects */
    int64_t length_bytes; /* Content-Length of this response's body */
    int64_t range_first;  /* from Content-Range of a 206 */
    int64_t range_last;
    int64_t range_total;             /* size of the whole file, from a 206 or 416 */
    int64_t retry_after_s;           /* from Retry-After, or until a rate limit ends */
    bool rate_limited;               /* a 403 or 429 that mentions a rate limit */
    bool may_pass;                   /* a temporary failure: connection lost, too slow, 5xx */
    char etag[AF_HTTP_HEADER_BYTES]; /* as sent, including quotes and W/ */
    char last_modified[AF_HTTP_HEADER_BYTES];
    char url[AF_URL_BYTES_MAX]; /* after redirects */
};

/*
 * The request. `head`, unless NULL, is called once with the head of the final response, before
 * its body; `body` is called with each piece of the body. If either of them fails, the request
 * ends with that failure.
 */
struct af_http_request {
    const char *url;
    int64_t first; /* first byte to request; 0: the whole file */
    /* a strong ETag or a date; if it does not match, the server sends the whole file */
    const char *if_range;
    const char *accept; /* NULL: any type */
    uint64_t max_bytes; /* a longer body fails with LIMIT */
    enum anyflash_status (*head)(void *context, const struct af_http_answer *answer,
                                 struct anyflash_error *err);
    enum anyflash_status (*body)(void *context, const void *bytes, size_t len,
                                 struct anyflash_error *err);
    void *context;
};

/*
 * Runs the request. Statuses 200 and 206 are OK. For any other status the body is discarded and
 * the call fails: NOT_FOUND (404, 410), UNSUPPORTED (416), IO (others; the message has the
 * number and its meaning, and *answer_out is filled). Without a response it fails with IO (name
 * not found, refused, connection lost, certificate, interrupted, no curl), TIMEOUT or LIMIT.
 * `answer_out` may be NULL.
 */
enum anyflash_status af_http_get(const struct af_http *http,
                                 const struct af_http_request *request,
                                 struct af_http_answer *answer_out, struct anyflash_error *err);

/* Reads a whole body of at most `max_bytes` into the arena, followed by a NUL. */
enum anyflash_status af_http_get_bytes(const struct af_http *http, const char *url,
                                       const char *accept, size_t max_bytes,
                                       struct af_arena *arena, struct af_span *bytes_out,
                                       struct af_http_answer *answer_out,
                                       struct anyflash_error *err);

/*
 * The parts of HTTP that need no connection (http_answer.c). Private to kit/system and its fuzz
 * target.
 */

/* Resets the answer: all fields are unknown. */
void af_http_answer_init(struct af_http_answer *answer);

/* Adds one line of a response's head; a status line resets the answer. */
void af_http_answer_line(struct af_http_answer *answer, const char *line, size_t len);

/*
 * Fails according to the status, which must be neither 200 nor 206. `body` is the start of the
 * body, which may mention a rate limit. Sets rate_limited and may_pass.
 */
enum anyflash_status af_http_answer_fail(struct af_http_answer *answer, const char *shown_url,
                                         struct af_span body, struct anyflash_error *err);

/*
 * Waits before retry `attempt` (1, 2, ...) of a temporary failure: 0.2 s, then longer, at most
 * 5 s.
 */
void af_http_wait(int attempt);

/* Whether `etag` may be used in If-Range: not empty and not weak (RFC 9110, 13.1.5). */
bool af_http_etag_is_strong(const char *etag);

/* Adds the lines of curl's configuration for a request at `url` (http_settings.c). */
void af_http_add_settings(struct af_text *text, const struct af_http *http,
                          const struct af_http_request *request, const char *url);

#endif
