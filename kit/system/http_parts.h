/*
 * http_parts.h: what the files of http share. Own to http*.c.
 */
#ifndef AF_KIT_SYSTEM_HTTP_PARTS_H
#define AF_KIT_SYSTEM_HTTP_PARTS_H

#include "kit/system/http.h"

/* An answer of which nothing is known. */
void af_http_answer_init(struct af_http_answer *answer);

/* Takes one line of a head, as libcurl gives it; a status line begins anew. */
void af_http_answer_line(struct af_http_answer *answer, const char *line, size_t len);

/*
 * The failure that a status other than 200 and 206 is. `body` is the first of
 * the body, which may speak of a rate limit. Sets rate_limited and may_pass.
 */
enum anyflash_status af_http_answer_fail(struct af_http_answer *answer, const char *shown_url,
                                         struct af_span body, struct anyflash_error *err);

/* Waits before try `attempt` (1, 2, ...) of what may pass: 0.2 s, then longer, 5 s at most. */
void af_http_wait(int attempt);

/* Whether `etag` may stand in If-Range: not empty and not weak (RFC 9110, 13.1.5). */
bool af_http_etag_is_strong(const char *etag);

#endif
