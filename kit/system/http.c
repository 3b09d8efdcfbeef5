/*
 * http.c: requests with libcurl, one hop at a time: redirects are followed here, so that every
 * address on the way is checked. Addresses are handled in base/url.c, responses in
 * http_answer.c.
 */
#include "kit/system/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/system/curl.h"
#include "kit/system/http_answer.h"

#define BODY_KEPT_BYTES 2048u         /* kept from the body of an error response */
#define BODY_SKIPPED_BYTES (1u << 20) /* read of such a body before the connection is closed */
#define HEAD_BYTES_MAX (256u << 10)
#define SPEED_MIN_BYTES 64L /* per second; slower counts as stalled */

struct af_http {
    struct af_http_options options;
    struct af_curl curl;
    void *handle;
    char user_agent[64];
    char problem[AF_CURL_ERROR_BYTES]; /* libcurl's error message */
};

/* One hop. `status` is the first failure of our callbacks, whose message is in `err`. */
struct exchange {
    const struct af_http_request *request;
    struct af_http_answer *answer;
    const char *shown;
    uint64_t head_bytes;
    uint64_t body_bytes;
    bool head_ended;
    char kept[BODY_KEPT_BYTES];
    size_t kept_len;
    enum anyflash_status status;
    struct anyflash_error *err;
};

const char *af_http_hint(void)
{
    return "install libcurl (Debian, Ubuntu: apt-get install libcurl4; Fedora: dnf install "
           "libcurl), or download the file by other means and give its path instead of the URL";
}

static void set_number(struct af_http *http, enum af_curl_option option, long number)
{
    http->curl.easy_setopt(http->handle, option, number);
}

static void set_text(struct af_http *http, enum af_curl_option option, const void *pointer)
{
    http->curl.easy_setopt(http->handle, option, pointer);
}

/*
 * Sets a file or folder of certificates from the environment variable that other tools also
 * use.
 */
static void set_certificates(struct af_http *http, const char *variable,
                             enum af_curl_option option)
{
    const char *path = getenv(variable);
    if (path != NULL && path[0] != '\0')
        set_text(http, option, path);
}

static bool is_success(int status)
{
    return status == 200 || status == 206;
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Checks the head before the body is read. */
static enum anyflash_status check_head(const struct exchange *exchange)
{
    const struct af_http_request *request = exchange->request;
    const struct af_http_answer *answer = exchange->answer;
    if (answer->length_bytes > 0 && (uint64_t)answer->length_bytes > request->max_bytes)
        return af_fail(exchange->err, ANYFLASH_E_LIMIT,
                       "'%s' has %lld bytes; at most %llu are accepted", exchange->shown,
                       (long long)answer->length_bytes, (unsigned long long)request->max_bytes);
    if (answer->status == 206 && (request->first < 0 || answer->range_first != request->first ||
                                  answer->range_last < answer->range_first ||
                                  (request->last >= 0 && answer->range_last > request->last)))
        return af_fail(exchange->err, ANYFLASH_E_DATA,
                       "'%s': the server did not send the part of the file that was requested",
                       exchange->shown);
    return ANYFLASH_OK;
}

static size_t take_head(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    struct af_http_answer *answer = exchange->answer;
    size_t len = size * count;
    exchange->head_bytes += len;
    if (exchange->head_bytes > HEAD_BYTES_MAX) {
        exchange->status = af_fail(exchange->err, ANYFLASH_E_LIMIT,
                                   "'%s': the response headers are too long", exchange->shown);
        return 0;
    }
    af_http_answer_line(answer, bytes, len);
    bool ended = len <= 2 && bytes[0] != ' ' && (bytes[0] == '\r' || bytes[0] == '\n');
    if (!ended || exchange->head_ended || !is_success(answer->status))
        return len;
    exchange->head_ended = true;
    exchange->status = check_head(exchange);
    if (exchange->status == ANYFLASH_OK && exchange->request->head != NULL)
        exchange->status =
            exchange->request->head(exchange->request->context, answer, exchange->err);
    return exchange->status == ANYFLASH_OK ? len : 0;
}

/* Keeps the first bytes of an error response's body: they may say why. */
static size_t keep(struct exchange *exchange, const char *bytes, size_t len)
{
    size_t capacity = sizeof exchange->kept - exchange->kept_len;
    size_t kept = len < capacity ? len : capacity;
    memcpy(exchange->kept + exchange->kept_len, bytes, kept);
    exchange->kept_len += kept;
    return exchange->body_bytes > BODY_SKIPPED_BYTES ? 0 : len;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct af_http_request *request = exchange->request;
    size_t len = size * count;
    exchange->body_bytes += len;
    if (!exchange->head_ended)
        return keep(exchange, bytes, len);
    if (exchange->body_bytes > request->max_bytes)
        exchange->status =
            af_fail(exchange->err, ANYFLASH_E_LIMIT, "'%s' has more than %llu bytes",
                    exchange->shown, (unsigned long long)request->max_bytes);
    else
        exchange->status = request->body(request->context, bytes, len, exchange->err);
    return exchange->status == ANYFLASH_OK ? len : 0;
}

static int ask_interrupted(void *context, int64_t total, int64_t done, int64_t sent_total,
                           int64_t sent)
{
    const struct af_http *http = context;
    (void)total;
    (void)done;
    (void)sent_total;
    (void)sent;
    return http->options.interrupted();
}

/* Translates libcurl's error code to a status and a message. */
static enum anyflash_status fail_transfer(struct af_http *http, struct exchange *exchange,
                                          int code)
{
    char words[AF_CURL_ERROR_BYTES];
    const char *said =
        http->problem[0] != '\0' ? http->problem : http->curl.easy_strerror(code);
    const char *what = "the transfer failed";
    enum anyflash_status status = ANYFLASH_E_IO;
    bool may_pass = false;
    switch (code) {
    case AF_CURL_NO_MEMORY:
        return af_fail_memory(exchange->err);
    case AF_CURL_NO_HOST:
    case AF_CURL_NO_PROXY_HOST:
        what = "the host name could not be resolved (is there a network?)";
        break;
    case AF_CURL_NO_CONNECTION:
        what = "no connection";
        break;
    case AF_CURL_CERTIFICATE:
    case AF_CURL_CERTIFICATES:
        what = "its certificate cannot be trusted";
        break;
    case AF_CURL_NO_TLS:
        what = "no secure connection";
        break;
    case AF_CURL_INTERRUPTED:
        return af_fail(exchange->err, status, "'%s': interrupted", exchange->shown);
    case AF_CURL_TIMEOUT:
        what = "no answer in time";
        status = ANYFLASH_E_TIMEOUT;
        may_pass = true;
        break;
    case AF_CURL_CUT:
    case AF_CURL_NOTHING:
    case AF_CURL_SEND:
    case AF_CURL_RECEIVE:
    case AF_CURL_HTTP2_STREAM:
        what = "the connection was cut";
        may_pass = true;
        break;
    default:
        break;
    }
    exchange->answer->may_pass = may_pass;
    return af_fail(exchange->err, status, "'%s': %s: %s", exchange->shown, what,
                   af_text_quote(words, sizeof words, said, strlen(said)));
}

static struct af_curl_list *make_headers(struct af_http *http,
                                         const struct af_http_request *request)
{
    char line[AF_HTTP_HEADER_BYTES + 32];
    struct af_curl_list *list = NULL;
    if (request->accept != NULL) {
        snprintf(line, sizeof line, "Accept: %s", request->accept);
        list = http->curl.slist_append(list, line);
    }
    if (request->if_range != NULL && request->first >= 0) {
        snprintf(line, sizeof line, "If-Range: %s", request->if_range);
        struct af_curl_list *longer = http->curl.slist_append(list, line);
        list = longer != NULL ? longer : list;
    }
    return list;
}

static void set_range(struct af_http *http, const struct af_http_request *request)
{
    char range[64];
    if (request->last >= 0)
        snprintf(range, sizeof range, "%lld-%lld", (long long)request->first,
                 (long long)request->last);
    else
        snprintf(range, sizeof range, "%lld-", (long long)request->first);
    set_text(http, AF_CURL_RANGE, request->first >= 0 ? range : NULL);
}

/* Sends one request to `url`; a redirect is returned as the answer. */
static enum anyflash_status run_hop(struct af_http *http, struct exchange *exchange,
                                    const char *url)
{
    struct af_curl_list *headers = make_headers(http, exchange->request);
    http->problem[0] = '\0';
    set_text(http, AF_CURL_URL, url);
    set_text(http, AF_CURL_HTTPHEADER, headers);
    set_text(http, AF_CURL_HEADERDATA, exchange);
    set_text(http, AF_CURL_WRITEDATA, exchange);
    set_range(http, exchange->request);
    int code = http->curl.easy_perform(http->handle);
    set_text(http, AF_CURL_HTTPHEADER, NULL);
    http->curl.slist_free_all(headers);
    if (exchange->status != ANYFLASH_OK)
        return exchange->status;
    int status = exchange->answer->status;
    /* An error response counts even if its body was not read completely. */
    bool answered = status > 0 && !is_success(status);
    return code == AF_CURL_OK || answered ? ANYFLASH_OK : fail_transfer(http, exchange, code);
}

/*
 * Writes the target of the redirect to answer->url; it must not be less safe than the current
 * address.
 */
static enum anyflash_status follow(struct af_http *http, struct exchange *exchange,
                                   struct anyflash_error *err)
{
    struct af_http_answer *answer = exchange->answer;
    char shown[AF_URL_SHOWN_BYTES];
    const char *next = NULL;
    http->curl.easy_getinfo(http->handle, AF_CURL_INFO_REDIRECT_URL, &next);
    if (next == NULL || !af_url_is_http(next))
        return af_fail(err, ANYFLASH_E_IO, "'%s' redirects without a target URL (HTTP %d)",
                       exchange->shown, answer->status);
    if (af_url_is_secure(answer->url) && !af_url_is_secure(next))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' redirects from https to plain http ('%s'), which is not followed",
                       exchange->shown, af_url_show(shown, sizeof shown, next));
    enum anyflash_status status = af_url_check(next, http->options.allow_http, err);
    if (status == ANYFLASH_OK)
        snprintf(answer->url, sizeof answer->url, "%s", next);
    return status;
}

static enum anyflash_status run_request(struct af_http *http,
                                        const struct af_http_request *request,
                                        struct af_http_answer *answer,
                                        struct anyflash_error *err)
{
    char shown[AF_URL_SHOWN_BYTES], url[AF_URL_BYTES_MAX];
    snprintf(answer->url, sizeof answer->url, "%s", request->url);
    for (int hop = 0; hop <= AF_HTTP_REDIRECTS_MAX; hop++) {
        struct exchange exchange = {
            .request = request, .answer = answer, .shown = shown, .err = err};
        memcpy(url, answer->url, sizeof url);
        af_url_show(shown, sizeof shown, url);
        enum anyflash_status status = run_hop(http, &exchange, url);
        if (status != ANYFLASH_OK || is_success(answer->status))
            return status;
        if (!is_redirect(answer->status))
            return af_http_answer_fail(answer, shown,
                                       (struct af_span){exchange.kept, exchange.kept_len}, err);
        status = follow(http, &exchange, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return af_fail(err, ANYFLASH_E_IO, "'%s': more than %d redirects", shown,
                   AF_HTTP_REDIRECTS_MAX);
}

enum anyflash_status af_http_get(struct af_http *http, const struct af_http_request *request,
                                 struct af_http_answer *answer_out, struct anyflash_error *err)
{
    struct af_http_answer answer;
    char shown[AF_URL_SHOWN_BYTES];
    af_http_answer_init(&answer);
    enum anyflash_status status = af_url_check(request->url, http->options.allow_http, err);
    if (status == ANYFLASH_OK && http->options.offline)
        status =
            af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' was not downloaded because of --offline",
                    af_url_show(shown, sizeof shown, request->url));
    if (status == ANYFLASH_OK)
        status = run_request(http, request, &answer, err);
    if (answer_out != NULL)
        *answer_out = answer;
    return status;
}

/* Sets the options that are the same for all requests. */
static void set_options(struct af_http *http)
{
    const struct af_http_options *options = &http->options;
    long connect_ms = options->connect_ms > 0 ? options->connect_ms : AF_HTTP_CONNECT_MS;
    long stall_s = options->stall_s > 0 ? options->stall_s : AF_HTTP_STALL_S;
    af_curl_callback *head = take_head;
    af_curl_callback *body = take_body;
    af_curl_progress *progress = ask_interrupted;
    snprintf(http->user_agent, sizeof http->user_agent, "anyflash/%s", anyflash_version_text());
    set_text(http, AF_CURL_USERAGENT, http->user_agent);
    set_text(http, AF_CURL_ERRORBUFFER, http->problem);
    set_number(http, AF_CURL_NOSIGNAL, 1);
    set_number(http, AF_CURL_FOLLOWLOCATION, 0);
    set_number(http, AF_CURL_SUPPRESS_CONNECT_HEADERS, 1);
    set_number(http, AF_CURL_TCP_KEEPALIVE, 1);
    set_number(http, AF_CURL_PROTOCOLS, options->allow_http ? 3 : 2);
    set_number(http, AF_CURL_CONNECTTIMEOUT_MS, connect_ms);
    set_number(http, AF_CURL_LOW_SPEED_LIMIT, SPEED_MIN_BYTES);
    set_number(http, AF_CURL_LOW_SPEED_TIME, stall_s);
    set_number(http, AF_CURL_SSL_VERIFYPEER, 1);
    set_number(http, AF_CURL_SSL_VERIFYHOST, 2);
    set_certificates(http, "SSL_CERT_FILE", AF_CURL_CAINFO);
    set_certificates(http, "SSL_CERT_DIR", AF_CURL_CAPATH);
    set_number(http, AF_CURL_NOPROGRESS, options->interrupted == NULL);
    set_text(http, AF_CURL_XFERINFODATA, http);
    http->curl.easy_setopt(http->handle, AF_CURL_XFERINFOFUNCTION, progress);
    http->curl.easy_setopt(http->handle, AF_CURL_HEADERFUNCTION, head);
    http->curl.easy_setopt(http->handle, AF_CURL_WRITEFUNCTION, body);
}

void af_http_close(struct af_http *http)
{
    if (http != NULL && http->handle != NULL)
        http->curl.easy_cleanup(http->handle);
    af_mem_free(http);
}

enum anyflash_status af_http_open(const struct af_http_options *options,
                                  struct af_http **http_out, struct anyflash_error *err)
{
    struct af_http *http = af_mem_alloc(sizeof *http);
    if (http == NULL)
        return af_fail_memory(err);
    memset(http, 0, sizeof *http);
    http->options = *options;
    if (!options->offline) {
        enum anyflash_status status = af_curl_open(&http->curl, err);
        if (status == ANYFLASH_OK && (http->handle = http->curl.easy_init()) == NULL)
            status = af_fail_memory(err);
        if (status != ANYFLASH_OK) {
            af_http_close(http);
            return status;
        }
        set_options(http);
    }
    *http_out = http;
    return ANYFLASH_OK;
}

/* ---- a whole body ---- */

static enum anyflash_status collect(void *context, const void *bytes, size_t len,
                                    struct anyflash_error *err)
{
    struct af_text *text = context;
    af_text_add_n(text, bytes, len);
    return text->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

enum anyflash_status af_http_get_bytes(struct af_http *http, const char *url,
                                       const char *accept, size_t max_bytes,
                                       struct af_arena *arena, struct af_span *bytes_out,
                                       struct af_http_answer *answer_out,
                                       struct anyflash_error *err)
{
    struct af_text text = {0};
    struct af_http_request request = {.url = url,
                                      .first = -1,
                                      .last = -1,
                                      .accept = accept,
                                      .max_bytes = max_bytes,
                                      .body = collect,
                                      .context = &text};
    enum anyflash_status status = af_http_get(http, &request, answer_out, err);
    if (status == ANYFLASH_OK) {
        const char *bytes = af_arena_text_n(arena, af_text_get(&text), text.len);
        if (bytes == NULL)
            status = af_fail_memory(err);
        else
            *bytes_out = (struct af_span){bytes, text.len};
    }
    af_text_release(&text);
    return status;
}
