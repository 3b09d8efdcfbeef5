/*
 * curl_program.c: the functions of curl.h done by the program curl, for programs that cannot
 * load a library because they are linked statically. Options are kept until easy_perform(),
 * which starts the program and reads head and body from its output. The options reach it as a
 * configuration file, so that the list of processes shows no addresses. Options that are the
 * program's defaults (TLS checks, no redirects, keep-alive) are ignored. Source: curl(1); its
 * exit codes are libcurl's.
 */
#include "kit/system/curl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/system/process.h"

#define PROGRAM_MISSING 127
#define POLL_MS 200
#define END_MS 2000 /* for the program to end after its output has */
#define LINE_BYTES (128u << 10)
#define READ_BYTES (64u << 10)

struct af_curl_list {
    struct af_curl_list *next;
    char text[];
};

/* The options that are set, and the answer of the last request. */
struct request {
    long connect_ms, low_bytes, low_s, protocols, quiet;
    const char *user_agent, *cafile, *capath;
    char url[AF_URL_BYTES_MAX], range[64];
    const struct af_curl_list *headers;
    char *problem;
    af_curl_callback *take_head, *take_body;
    af_curl_progress *stop_asked;
    void *head_context, *body_context, *progress_context;
    long status;
    bool has_target;
    char target[2 * AF_URL_BYTES_MAX]; /* of a redirect */
};

/* The part of the output that is being read. */
struct reader {
    struct request *request;
    char *line; /* a line of the head; LINE_BYTES */
    size_t line_len;
    bool head_ended;
};

static void copy_value(char *to, size_t size_bytes, const char *value)
{
    snprintf(to, size_bytes, "%s", value != NULL ? value : "");
}

static int set_option(void *handle, unsigned option, ...)
{
    struct request *request = handle;
    va_list more;
    va_start(more, option);
    if (option == AF_CURL_CONNECTTIMEOUT_MS)
        request->connect_ms = va_arg(more, long);
    else if (option == AF_CURL_LOW_SPEED_LIMIT)
        request->low_bytes = va_arg(more, long);
    else if (option == AF_CURL_LOW_SPEED_TIME)
        request->low_s = va_arg(more, long);
    else if (option == AF_CURL_PROTOCOLS)
        request->protocols = va_arg(more, long);
    else if (option == AF_CURL_NOPROGRESS)
        request->quiet = va_arg(more, long);
    else if (option == AF_CURL_URL)
        copy_value(request->url, sizeof request->url, va_arg(more, const char *));
    else if (option == AF_CURL_RANGE)
        copy_value(request->range, sizeof request->range, va_arg(more, const char *));
    else if (option == AF_CURL_USERAGENT)
        request->user_agent = va_arg(more, const char *);
    else if (option == AF_CURL_CAINFO)
        request->cafile = va_arg(more, const char *);
    else if (option == AF_CURL_CAPATH)
        request->capath = va_arg(more, const char *);
    else if (option == AF_CURL_HTTPHEADER)
        request->headers = va_arg(more, const struct af_curl_list *);
    else if (option == AF_CURL_ERRORBUFFER)
        request->problem = va_arg(more, char *);
    else if (option == AF_CURL_HEADERFUNCTION)
        request->take_head = va_arg(more, af_curl_callback *);
    else if (option == AF_CURL_WRITEFUNCTION)
        request->take_body = va_arg(more, af_curl_callback *);
    else if (option == AF_CURL_XFERINFOFUNCTION)
        request->stop_asked = va_arg(more, af_curl_progress *);
    else if (option == AF_CURL_HEADERDATA)
        request->head_context = va_arg(more, void *);
    else if (option == AF_CURL_WRITEDATA)
        request->body_context = va_arg(more, void *);
    else if (option == AF_CURL_XFERINFODATA)
        request->progress_context = va_arg(more, void *);
    va_end(more);
    return AF_CURL_OK;
}

static int get_info(void *handle, unsigned info, ...)
{
    const struct request *request = handle;
    va_list more;
    va_start(more, info);
    if (info == AF_CURL_INFO_RESPONSE_CODE)
        *va_arg(more, long *) = request->status;
    else if (info == AF_CURL_INFO_REDIRECT_URL)
        *va_arg(more, const char **) = request->has_target ? request->target : NULL;
    va_end(more);
    return AF_CURL_OK;
}

/* ---- the configuration file ---- */

static void add_setting(struct af_text *text, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    af_text_format(text, "%s = \"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n')
            af_text_add(text, "\\n");
        else
            af_text_format(text, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    }
    af_text_add(text, "\"\n");
}

static void add_settings(struct af_text *text, const struct request *request)
{
    af_text_add(text, "silent\ninclude\nno-buffer\nsuppress-connect-headers\ngloboff\n");
    add_setting(text, "proto", request->protocols == 2 ? "=https" : "=http,https");
    add_setting(text, "url", request->url);
    add_setting(text, "range", request->range);
    add_setting(text, "user-agent", request->user_agent);
    add_setting(text, "cacert", request->cafile);
    add_setting(text, "capath", request->capath);
    for (const struct af_curl_list *at = request->headers; at != NULL; at = at->next)
        add_setting(text, "header", at->text);
    af_text_format(text, "connect-timeout = %.3f\nspeed-limit = %ld\nspeed-time = %ld\n",
                   (double)request->connect_ms / 1000, request->low_bytes, request->low_s);
}

/* ---- the answer ---- */

/* Keeps the target of a redirect as an absolute URL. */
static void take_target(struct request *request, const char *place)
{
    const char *host = strstr(request->url, "://");
    host = host != NULL ? host + strlen("://") : request->url;
    size_t kept = 0;                          /* of the request's URL */
    if (place[strcspn(place, ":/?#")] == ':') /* "https://host/path" */
        kept = 0;
    else if (place[0] == '/' && place[1] == '/') /* "//host/path" */
        kept = (size_t)(host - request->url) - strlen("//");
    else if (place[0] == '/') /* "/path" */
        kept = (size_t)(host - request->url) + strcspn(host, "/?#");
    else /* "file", beside the requested one */
        for (size_t i = (size_t)(host - request->url);
             request->url[i] != '\0' && strchr("?#", request->url[i]) == NULL; i++)
            kept = request->url[i] == '/' ? i + 1 : kept;
    int len = snprintf(request->target, sizeof request->target, "%.*s%s", (int)kept,
                       request->url, place);
    request->has_target = len > 0 && (size_t)len < sizeof request->target;
}

/* A complete line of the head, which ends with a newline. False: the callback stops. */
static bool take_line(struct reader *reader)
{
    struct request *request = reader->request;
    char *line = reader->line;
    size_t len = reader->line_len;
    reader->line_len = 0;
    if (request->take_head(line, 1, len, request->head_context) != len)
        return false;
    line[len - 1] = '\0';
    line[strcspn(line, "\r")] = '\0';
    if (af_starts_with(line, "HTTP/")) {
        const char *space = strchr(line, ' ');
        request->status = space != NULL ? strtol(space, NULL, 10) : 0;
    } else if (strncasecmp(line, "location:", strlen("location:")) == 0) {
        line += strlen("location:");
        take_target(request, line + strspn(line, " \t"));
    }
    /* After "100 Continue" or "103 Early Hints" another head follows. */
    reader->head_ended = line[0] == '\0' && request->status >= 200;
    return true;
}

/* A piece of the program's output; 0 or a code of curl.h. */
static int take_output(struct reader *reader, char *bytes, size_t len)
{
    const struct request *request = reader->request;
    while (len > 0 && !reader->head_ended) {
        const char *newline = memchr(bytes, '\n', len);
        size_t taken = newline != NULL ? (size_t)(newline - bytes) + 1 : len;
        if (taken > LINE_BYTES - reader->line_len)
            return AF_CURL_RECEIVE;
        memcpy(reader->line + reader->line_len, bytes, taken);
        reader->line_len += taken;
        if (newline != NULL && !take_line(reader))
            return AF_CURL_STOPPED;
        bytes += taken;
        len -= taken;
    }
    bool stops = len > 0 && request->take_body(bytes, 1, len, request->body_context) != len;
    return stops ? AF_CURL_STOPPED : AF_CURL_OK;
}

static bool is_interrupted(const struct request *request)
{
    return !request->quiet && request->stop_asked(request->progress_context, 0, 0, 0, 0) != 0;
}

/* Reads the output to its end. */
static int read_output(int fd, struct reader *reader)
{
    char bytes[READ_BYTES];
    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        if (is_interrupted(reader->request))
            return AF_CURL_INTERRUPTED;
        int ready = poll(&waiting, 1, POLL_MS);
        if (ready == 0 || (ready < 0 && errno == EINTR))
            continue;
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return AF_CURL_OK;
        int code = take_output(reader, bytes, (size_t)got);
        if (code != AF_CURL_OK)
            return code;
    }
}

/* Starts the program with the settings in a pipe, which has room for all of them. */
static enum anyflash_status start(const struct af_text *settings, struct af_child *child)
{
    char path[32];
    int ends[2];
    const char *argv[] = {"curl", "-q", "--config", path, NULL};
    if (pipe(ends) != 0)
        return ANYFLASH_E_IO;
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    ssize_t written = write(ends[1], af_text_get(settings), settings->len);
    close(ends[1]);
    enum anyflash_status status = ANYFLASH_E_IO;
    if (written == (ssize_t)settings->len)
        status = af_child_start_program(argv, NULL, child, NULL);
    close(ends[0]);
    return status;
}

static int perform(void *handle)
{
    struct request *request = handle;
    struct reader reader = {.request = request, .line = af_mem_alloc(LINE_BYTES)};
    struct af_text settings = {0};
    struct af_child child = {0};
    struct af_arena arena = {0};
    struct af_span rest;
    int exit_code = AF_CURL_NO_MEMORY;
    request->status = 0;
    request->has_target = false;
    add_settings(&settings, request);
    if (reader.line != NULL && !settings.failed) {
        exit_code = AF_CURL_RECEIVE;
        if (start(&settings, &child) == ANYFLASH_OK) {
            int code = read_output(child.out_fd, &reader);
            int limit_ms = code == AF_CURL_OK ? END_MS : 0;
            af_child_collect(&child, limit_ms, &arena, &rest, &exit_code, NULL);
            exit_code = code != AF_CURL_OK ? code : exit_code;
        }
        if (request->problem != NULL)
            snprintf(request->problem, AF_CURL_ERROR_BYTES, "exit code %d of curl", exit_code);
    }
    af_arena_release(&arena);
    af_text_release(&settings);
    af_mem_free(reader.line);
    return exit_code;
}

/* ---- the table ---- */

static void *new_request(void)
{
    struct request *request = af_mem_alloc(sizeof *request);
    if (request != NULL)
        memset(request, 0, sizeof *request);
    return request;
}

static const char *describe(int code)
{
    (void)code; /* perform() writes a text about it for each failure */
    return "curl failed";
}

static struct af_curl_list *append(struct af_curl_list *list, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    struct af_curl_list *first = af_mem_alloc(sizeof *first + size_bytes);
    if (first == NULL)
        return NULL;
    first->next = list;
    memcpy(first->text, text, size_bytes);
    return first;
}

static void free_list(struct af_curl_list *list)
{
    while (list != NULL) {
        struct af_curl_list *next = list->next;
        af_mem_free(list);
        list = next;
    }
}

bool af_curl_program_open(struct af_curl *curl_out)
{
    static const char *const argv[] = {"curl", "-q", "--version", NULL};
    struct af_child child = {0};
    struct af_arena arena = {0};
    struct af_span output;
    int exit_code = PROGRAM_MISSING;
    if (af_child_start_program(argv, NULL, &child, NULL) == ANYFLASH_OK)
        af_child_collect(&child, END_MS, &arena, &output, &exit_code, NULL);
    af_arena_release(&arena);
    *curl_out = (struct af_curl){.easy_init = new_request,
                                 .easy_setopt = set_option,
                                 .easy_perform = perform,
                                 .easy_getinfo = get_info,
                                 .easy_cleanup = af_mem_free,
                                 .easy_strerror = describe,
                                 .slist_append = append,
                                 .slist_free_all = free_list};
    return exit_code == 0;
}
