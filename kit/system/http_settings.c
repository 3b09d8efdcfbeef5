/*
 * http_settings.c: what curl is told about a request: the lines of its configuration.
 *
 * They leave alone what is curl's default: certificates are checked, redirects are not
 * followed, .netrc is not read. Source: curl(1).
 */
#include "kit/system/http.h"

#include <stdio.h>
#include <stdlib.h>

#include "kit/base/text.h"

#define CONNECT_S 15
#define SPEED_MIN_BYTES 64 /* per second; slower counts as stalled */

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

static void add_range(struct af_text *text, const struct af_http_request *request)
{
    char line[AF_HTTP_HEADER_BYTES + 32];
    if (request->first == 0)
        return;
    af_text_format(text, "range = %lld-\n", (long long)request->first);
    if (request->if_range != NULL) {
        snprintf(line, sizeof line, "If-Range: %s", request->if_range);
        add_setting(text, "header", line);
    }
}

void af_http_add_settings(struct af_text *text, const struct af_http *http,
                          const struct af_http_request *request, const char *url)
{
    char line[AF_HTTP_HEADER_BYTES + 32];
    af_text_add(text, "silent\nshow-error\ninclude\nno-buffer\nsuppress-connect-headers\n"
                      "globoff\n");
    af_text_format(text, "connect-timeout = %d\nspeed-limit = %d\nspeed-time = %d\n", CONNECT_S,
                   SPEED_MIN_BYTES, http->stall_s > 0 ? http->stall_s : AF_HTTP_STALL_S);
    add_setting(text, "proto", http->allow_http ? "=http,https" : "=https");
    add_setting(text, "cacert", getenv("SSL_CERT_FILE"));
    add_setting(text, "capath", getenv("SSL_CERT_DIR"));
    snprintf(line, sizeof line, "anyflash/%s", anyflash_version_text());
    add_setting(text, "user-agent", line);
    if (request->accept != NULL) {
        snprintf(line, sizeof line, "Accept: %s", request->accept);
        add_setting(text, "header", line);
    }
    add_range(text, request);
    add_setting(text, "url", url);
}
