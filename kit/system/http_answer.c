/*
 * http_answer.c: what a response says without its body: the head, and what its status means.
 * Sources: RFC 9110 for the head of a response and its status; the rate limit headers are those
 * of GitHub's API.
 */
#include "kit/system/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "kit/base/text.h"

void af_http_answer_init(struct af_http_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->length_bytes = -1;
    answer->range_first = -1;
    answer->range_last = -1;
    answer->range_total = -1;
    answer->retry_after_s = -1;
}

static void copy_text(char *to, size_t size_bytes, struct af_span value)
{
    if (value.len >= size_bytes)
        value.len = 0; /* too long to compare: treated as missing */
    memcpy(to, value.data, value.len);
    to[value.len] = '\0';
}

/* Parses the decimal number at *at, and moves *at past it; -1 if there is none. */
static int64_t take_number(const char **at)
{
    int64_t number = -1;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (number > INT64_MAX / 10 - 1)
            return -1;
        number = (number < 0 ? 0 : number) * 10 + (**at - '0');
    }
    return number;
}

static int64_t whole_number(const char *text)
{
    int64_t number = take_number(&text);
    return *text == '\0' ? number : -1;
}

/* "bytes 0-99/1234", "bytes 0-99/" and a star, "bytes *" and "/1234" */
static void read_range(struct af_http_answer *answer, const char *text)
{
    if (strncasecmp(text, "bytes", 5) != 0)
        return;
    text += 5;
    while (*text == ' ')
        text++;
    if (*text == '*') {
        text++;
    } else {
        answer->range_first = take_number(&text);
        if (*text == '-')
            text++;
        answer->range_last = take_number(&text);
    }
    if (*text == '/')
        answer->range_total = whole_number(text + 1);
}

static void read_status(struct af_http_answer *answer, const char *line)
{
    const char *space = strchr(line, ' ');
    char url[AF_URL_BYTES_MAX];
    memcpy(url, answer->url, sizeof url);
    af_http_answer_init(answer);
    memcpy(answer->url, url, sizeof url);
    answer->status = space != NULL ? (int)strtol(space, NULL, 10) : 0;
}

static bool named(struct af_span name, const char *text)
{
    return name.len == strlen(text) && strncasecmp(name.data, text, name.len) == 0;
}

static void read_header(struct af_http_answer *answer, struct af_span name, struct af_span span)
{
    char value[AF_HTTP_HEADER_BYTES];
    copy_text(value, sizeof value, span);
    if (named(name, "content-length"))
        answer->length_bytes = whole_number(value);
    else if (named(name, "content-range"))
        read_range(answer, value);
    else if (named(name, "etag"))
        copy_text(answer->etag, sizeof answer->etag, span);
    else if (named(name, "last-modified"))
        copy_text(answer->last_modified, sizeof answer->last_modified, span);
    else if (named(name, "retry-after"))
        answer->retry_after_s = whole_number(value);
    else if (named(name, "x-ratelimit-remaining"))
        answer->rate_limited = whole_number(value) == 0;
    else if (named(name, "x-ratelimit-reset") && whole_number(value) > (int64_t)time(NULL) &&
             answer->retry_after_s < 0)
        answer->retry_after_s = whole_number(value) - (int64_t)time(NULL);
}

void af_http_answer_line(struct af_http_answer *answer, const char *line, size_t len)
{
    char text[AF_URL_BYTES_MAX];
    if (len >= sizeof text)
        return;
    memcpy(text, line, len);
    text[len] = '\0';
    if (af_starts_with(text, "HTTP/")) {
        read_status(answer, text);
        return;
    }
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return;
    struct af_span name = {text, (size_t)(colon - text)};
    struct af_span value = {colon + 1, strlen(colon + 1)};
    read_header(answer, name, af_text_trim(value));
}

static bool speaks_of_limit(struct af_span body)
{
    static const char *const words[] = {"rate limit", "Rate limit", "abuse detection"};
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (body.len > 0 && memmem(body.data, body.len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

static const char *meaning(int status)
{
    switch (status) {
    case 400:
        return "the server did not understand the request";
    case 401:
        return "the server asks for a user name and a password";
    case 403:
        return "access is refused";
    case 407:
        return "the proxy asks for a user name and a password";
    case 404:
        return "there is no such file";
    case 408:
        return "the server waited too long";
    case 410:
        return "the file was removed";
    case 416:
        return "the file has no such part";
    case 451:
        return "it is unavailable for legal reasons";
    case 502:
    case 503:
    case 504:
        return "the server is not available now";
    default:
        return status >= 500 ? "the server failed" : "the response is not a file";
    }
}

static enum anyflash_status fail_limited(const struct af_http_answer *answer,
                                         const char *shown_url, struct anyflash_error *err)
{
    char when[64] = "";
    if (answer->retry_after_s >= 0)
        snprintf(when, sizeof when, "; try again in %lld minutes",
                 (long long)((answer->retry_after_s + 59) / 60));
    return af_fail(err, ANYFLASH_E_IO,
                   "'%s': too many requests, the server is rate-limiting (HTTP %d)%s",
                   shown_url, answer->status, when);
}

enum anyflash_status af_http_answer_fail(struct af_http_answer *answer, const char *shown_url,
                                         struct af_span body, struct anyflash_error *err)
{
    int status = answer->status;
    enum anyflash_status kind = status == 404 || status == 410 ? ANYFLASH_E_NOT_FOUND
                                : status == 416                ? ANYFLASH_E_UNSUPPORTED
                                                               : ANYFLASH_E_IO;
    answer->rate_limited =
        status == 429 || (status == 403 && (answer->rate_limited || speaks_of_limit(body)));
    answer->may_pass = status >= 500 || status == 408;
    if (answer->rate_limited)
        return fail_limited(answer, shown_url, err);
    return af_fail(err, kind, "'%s': %s (HTTP %d)", shown_url, meaning(status), status);
}

void af_http_wait(int attempt)
{
    int64_t wait_ms = 200;
    for (int i = 1; i < attempt && wait_ms < 5000; i++)
        wait_ms *= 2;
    wait_ms = wait_ms < 5000 ? wait_ms : 5000;
    struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000),
                            .tv_nsec = (long)(wait_ms % 1000) * 1000000L};
    nanosleep(&wait, NULL);
}

bool af_http_etag_is_strong(const char *etag)
{
    return etag[0] == '"';
}
