/*
 * http.c: requests by the program curl, one process for each hop: redirects are followed here,
 * so that every address on the way is checked. Addresses are handled in base/url.c; the head of
 * a response and its status are read in http_answer.c.
 *
 * curl reads its settings (http_settings.c) from its standard input, so that the list of
 * processes shows no addresses. Source: curl(1).
 */
#include "kit/system/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/process.h"

#define BODY_KEPT_BYTES 2048u         /* kept from the body of an error response */
#define BODY_SKIPPED_BYTES (1u << 20) /* read of such a body before curl is stopped */
#define HEAD_BYTES_MAX (256u << 10)
#define READ_BYTES (64u << 10)
#define WORDS_BYTES 256
#define END_MS 2000 /* for curl to end after its output has */
#define CURL_MISSING 127

static const char no_host[] = "the host name could not be resolved (is there a network?)";
static const char no_trust[] = "its certificate cannot be trusted";
static const char cut[] = "the connection was cut";

/* Exit codes of curl, and what they mean to the user; `may_pass`: a later try may succeed. */
static const struct failure {
    int exit_code;
    bool may_pass;
    enum anyflash_status status;
    const char *what;
} failures[] = {
    {2, false, ANYFLASH_E_IO, "curl 7.54 or newer is needed"}, /* an option is not known */
    {5, false, ANYFLASH_E_IO, no_host},                        /* the proxy's */
    {6, false, ANYFLASH_E_IO, no_host},
    {7, false, ANYFLASH_E_IO, "no connection"},
    {18, true, ANYFLASH_E_IO, cut},
    {28, true, ANYFLASH_E_TIMEOUT, "no answer in time"},
    {35, false, ANYFLASH_E_IO, "no secure connection"},
    {51, false, ANYFLASH_E_IO, no_trust}, /* another host's, before curl 7.62 */
    {52, true, ANYFLASH_E_IO, cut},       /* before the first byte */
    {55, true, ANYFLASH_E_IO, cut},       /* sending */
    {56, true, ANYFLASH_E_IO, cut},       /* receiving */
    {60, false, ANYFLASH_E_IO, no_trust},
    {77, false, ANYFLASH_E_IO, no_trust}, /* the trusted certificates cannot be read */
    {92, true, ANYFLASH_E_IO, cut},       /* a stream of HTTP/2 */
};

/* One hop. `status` is the first failure while its output was read; its message is in `err`. */
struct exchange {
    const struct af_http *http;
    const struct af_http_request *request;
    struct af_http_answer *answer;
    const char *url;
    const char *shown;
    char line[AF_URL_BYTES_MAX + 32]; /* of the head; a longer line is ignored */
    size_t line_len;
    uint64_t head_bytes;
    uint64_t body_bytes;
    bool head_ended;
    char target[AF_URL_BYTES_MAX]; /* of a redirect; "": none */
    char kept[BODY_KEPT_BYTES];
    size_t kept_len;
    enum anyflash_status status;
    struct anyflash_error *err;
};

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
    if (answer->status == 206 &&
        (request->first == 0 || answer->range_first != request->first ||
         answer->range_last < answer->range_first))
        return af_fail(exchange->err, ANYFLASH_E_DATA,
                       "'%s': the server did not send the part of the file that was requested",
                       exchange->shown);
    return ANYFLASH_OK;
}

/* A complete line of the head, without its end. */
static enum anyflash_status take_line(struct exchange *exchange, char *line, size_t len)
{
    static const char location[] = "location:";
    struct af_http_answer *answer = exchange->answer;
    line[len] = '\0';
    af_http_answer_line(answer, line, len);
    if (strncasecmp(line, location, strlen(location)) == 0) {
        const char *place = line + strlen(location);
        af_url_join(exchange->target, sizeof exchange->target, exchange->url,
                    place + strspn(place, " \t"));
    }
    /* After "100 Continue" or "103 Early Hints" another head follows. */
    exchange->head_ended = len == 0 && answer->status >= 200;
    if (!exchange->head_ended || !is_success(answer->status))
        return ANYFLASH_OK;
    enum anyflash_status status = check_head(exchange);
    if (status == ANYFLASH_OK && exchange->request->head != NULL)
        status = exchange->request->head(exchange->request->context, answer, exchange->err);
    return status;
}

/* A piece of a line of the head, which may end with a newline. */
static enum anyflash_status take_head(struct exchange *exchange, const char *bytes, size_t len)
{
    size_t capacity = sizeof exchange->line - exchange->line_len;
    size_t kept = len < capacity ? len : capacity;
    exchange->head_bytes += len;
    if (exchange->head_bytes > HEAD_BYTES_MAX)
        return af_fail(exchange->err, ANYFLASH_E_LIMIT,
                       "'%s': the response headers are too long", exchange->shown);
    memcpy(exchange->line + exchange->line_len, bytes, kept);
    exchange->line_len += kept;
    if (bytes[len - 1] != '\n')
        return ANYFLASH_OK;
    size_t line_len = exchange->line_len;
    exchange->line_len = 0;
    if (exchange->line[line_len - 1] != '\n')
        return ANYFLASH_OK; /* too long */
    line_len -= line_len > 1 && exchange->line[line_len - 2] == '\r' ? 2 : 1;
    return take_line(exchange, exchange->line, line_len);
}

/* Keeps the first bytes of an error response's body: they may say why. */
static void keep(struct exchange *exchange, const char *bytes, size_t len)
{
    size_t capacity = sizeof exchange->kept - exchange->kept_len;
    size_t kept = len < capacity ? len : capacity;
    memcpy(exchange->kept + exchange->kept_len, bytes, kept);
    exchange->kept_len += kept;
}

static enum anyflash_status take_body(struct exchange *exchange, const char *bytes, size_t len)
{
    const struct af_http_request *request = exchange->request;
    exchange->body_bytes += len;
    if (!is_success(exchange->answer->status)) {
        keep(exchange, bytes, len);
        return ANYFLASH_OK;
    }
    if (exchange->body_bytes > request->max_bytes)
        return af_fail(exchange->err, ANYFLASH_E_LIMIT, "'%s' has more than %llu bytes",
                       exchange->shown, (unsigned long long)request->max_bytes);
    return request->body(request->context, bytes, len, exchange->err);
}

/* A piece of curl's output: the head, line by line, then the body. */
static enum anyflash_status take_output(struct exchange *exchange, const char *bytes,
                                        size_t len)
{
    enum anyflash_status status = ANYFLASH_OK;
    while (status == ANYFLASH_OK && len > 0 && !exchange->head_ended) {
        const char *newline = memchr(bytes, '\n', len);
        size_t taken = newline != NULL ? (size_t)(newline - bytes) + 1 : len;
        status = take_head(exchange, bytes, taken);
        bytes += taken;
        len -= taken;
    }
    return status == ANYFLASH_OK && len > 0 ? take_body(exchange, bytes, len) : status;
}

/* Reads curl's output; false if it must be stopped before its output has ended. */
static bool read_output(struct exchange *exchange, int fd)
{
    char bytes[READ_BYTES];
    while (is_success(exchange->answer->status) || exchange->body_bytes <= BODY_SKIPPED_BYTES) {
        int64_t got = af_child_read(fd, INT64_MAX, bytes, sizeof bytes);
        if (got == 0)
            return true;
        exchange->status = got > 0 ? take_output(exchange, bytes, (size_t)got)
                                   : af_fail(exchange->err, ANYFLASH_E_IO, "'%s': interrupted",
                                             exchange->shown);
        if (exchange->status != ANYFLASH_OK)
            return false;
    }
    return false;
}

/* In the child: becomes curl, whose standard input and error are a socket. */
static int become_curl(int out_fd, void *context)
{
    const int *end = context;
    const char *const argv[] = {"curl", "-q", "--config", "-", NULL};
    dup2(*end, STDIN_FILENO);
    dup2(out_fd, STDOUT_FILENO);
    dup2(*end, STDERR_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    return CURL_MISSING;
}

static enum anyflash_status start(const struct exchange *exchange, struct af_child *child_out,
                                  int *socket_out)
{
    int ends[2];
    struct af_text settings = {0};
    enum anyflash_status status = ANYFLASH_OK;
    af_http_add_settings(&settings, exchange->http, exchange->request, exchange->url);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        status = af_fail(exchange->err, ANYFLASH_E_IO, "cannot create a socket: %s",
                         strerror(errno));
    if (status == ANYFLASH_OK) {
        status = af_child_start_fork(become_curl, &ends[1], child_out, exchange->err);
        close(ends[1]);
        /* This fails if there is no curl; its exit code says so. */
        send(ends[0], af_text_get(&settings), settings.len, MSG_NOSIGNAL);
        shutdown(ends[0], SHUT_WR);
        *socket_out = ends[0];
        if (status != ANYFLASH_OK)
            close(ends[0]);
    }
    af_text_release(&settings);
    return status;
}

/* Reads the first line that curl wrote about its failure, without "curl: (7) ". */
static void read_words(int fd, char words[WORDS_BYTES])
{
    int prefix_len = 0;
    size_t len = 0;
    ssize_t got;
    while (len < WORDS_BYTES - 1 &&
           (got = recv(fd, words + len, WORDS_BYTES - 1 - len, MSG_DONTWAIT)) > 0)
        len += (size_t)got;
    words[len] = '\0';
    words[strcspn(words, "\n")] = '\0';
    sscanf(words, "curl: (%*d) %n", &prefix_len);
    memmove(words, words + prefix_len, strlen(words + prefix_len) + 1);
}

static enum anyflash_status fail_transfer(const struct exchange *exchange, int exit_code,
                                          const char *words)
{
    char shown[WORDS_BYTES];
    struct failure failure = {
        .exit_code = exit_code, .status = ANYFLASH_E_IO, .what = "the transfer failed"};
    for (size_t i = 0; i < AF_COUNT(failures); i++)
        if (failures[i].exit_code == exit_code)
            failure = failures[i];
    if (exit_code == CURL_MISSING)
        return af_fail(exchange->err, ANYFLASH_E_IO,
                       "downloads need the program curl, which cannot be started: install the "
                       "package 'curl'");
    exchange->answer->may_pass = failure.may_pass;
    return af_fail(exchange->err, failure.status, "'%s': %s: %s", exchange->shown, failure.what,
                   af_text_quote(shown, sizeof shown, words, strlen(words)));
}

/* Sends one request; a redirect is returned as the answer. */
static enum anyflash_status run_hop(struct exchange *exchange)
{
    const struct af_http_answer *answer = exchange->answer;
    struct af_child child;
    struct af_arena arena;
    struct af_span rest;
    struct anyflash_error why = {0};
    char words[WORDS_BYTES];
    int fd;
    int exit_code = 0;
    enum anyflash_status status = start(exchange, &child, &fd);
    if (status != ANYFLASH_OK)
        return status;
    af_arena_init(&arena);
    int limit_ms = read_output(exchange, child.out_fd) ? END_MS : 0;
    status = af_child_collect(&child, limit_ms, &arena, &rest, &exit_code, &why);
    af_arena_release(&arena);
    read_words(fd, words);
    close(fd);
    if (exchange->status != ANYFLASH_OK)
        return exchange->status;
    /* An error response counts even if its body was not read completely. */
    if (answer->status > 0 && !is_success(answer->status))
        return ANYFLASH_OK;
    if (status != ANYFLASH_OK)
        return af_fail(exchange->err, status, "'%s': the transfer failed: %s", exchange->shown,
                       why.message);
    return exit_code == 0 ? ANYFLASH_OK : fail_transfer(exchange, exit_code, words);
}

/*
 * Writes the target of the redirect to answer->url; it must not be less safe than the current
 * address.
 */
static enum anyflash_status follow(const struct exchange *exchange)
{
    struct af_http_answer *answer = exchange->answer;
    char shown[AF_URL_SHOWN_BYTES];
    struct anyflash_error *err = exchange->err;
    const char *next = exchange->target;
    if (!af_url_is_http(next))
        return af_fail(err, ANYFLASH_E_IO, "'%s' redirects without a target URL (HTTP %d)",
                       exchange->shown, answer->status);
    if (af_url_is_secure(answer->url) && !af_url_is_secure(next))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' redirects from https to plain http ('%s'), which is not followed",
                       exchange->shown, af_url_show(shown, sizeof shown, next));
    enum anyflash_status status = af_url_check(next, exchange->http->allow_http, err);
    if (status == ANYFLASH_OK)
        snprintf(answer->url, sizeof answer->url, "%s", next);
    return status;
}

static enum anyflash_status run_request(const struct af_http *http,
                                        const struct af_http_request *request,
                                        struct af_http_answer *answer,
                                        struct anyflash_error *err)
{
    char shown[AF_URL_SHOWN_BYTES], url[AF_URL_BYTES_MAX];
    snprintf(answer->url, sizeof answer->url, "%s", request->url);
    for (int hop = 0; hop <= AF_HTTP_REDIRECTS_MAX; hop++) {
        struct exchange exchange = {.http = http,
                                    .request = request,
                                    .answer = answer,
                                    .url = url,
                                    .shown = shown,
                                    .err = err};
        memcpy(url, answer->url, sizeof url);
        af_url_show(shown, sizeof shown, url);
        enum anyflash_status status = run_hop(&exchange);
        if (status != ANYFLASH_OK || is_success(answer->status))
            return status;
        if (!is_redirect(answer->status))
            return af_http_answer_fail(answer, shown,
                                       (struct af_span){exchange.kept, exchange.kept_len}, err);
        status = follow(&exchange);
        if (status != ANYFLASH_OK)
            return status;
    }
    return af_fail(err, ANYFLASH_E_IO, "'%s': more than %d redirects", shown,
                   AF_HTTP_REDIRECTS_MAX);
}

enum anyflash_status af_http_get(const struct af_http *http,
                                 const struct af_http_request *request,
                                 struct af_http_answer *answer_out, struct anyflash_error *err)
{
    struct af_http_answer answer;
    char shown[AF_URL_SHOWN_BYTES];
    af_http_answer_init(&answer);
    enum anyflash_status status = af_url_check(request->url, http->allow_http, err);
    if (status == ANYFLASH_OK && http->offline)
        status =
            af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' was not downloaded because of --offline",
                    af_url_show(shown, sizeof shown, request->url));
    if (status == ANYFLASH_OK)
        status = run_request(http, request, &answer, err);
    if (answer_out != NULL)
        *answer_out = answer;
    return status;
}

static enum anyflash_status collect(void *context, const void *bytes, size_t len,
                                    struct anyflash_error *err)
{
    (void)err;
    af_text_add_n(context, bytes, len);
    return ANYFLASH_OK;
}

enum anyflash_status af_http_get_bytes(const struct af_http *http, const char *url,
                                       const char *accept, size_t max_bytes,
                                       struct af_arena *arena, struct af_span *bytes_out,
                                       struct af_http_answer *answer_out,
                                       struct anyflash_error *err)
{
    struct af_text text = {0};
    struct af_http_request request = {.url = url,
                                      .accept = accept,
                                      .max_bytes = max_bytes,
                                      .body = collect,
                                      .context = &text};
    enum anyflash_status status = af_http_get(http, &request, answer_out, err);
    if (status == ANYFLASH_OK)
        *bytes_out =
            (struct af_span){af_arena_text_n(arena, af_text_get(&text), text.len), text.len};
    af_text_release(&text);
    return status;
}
