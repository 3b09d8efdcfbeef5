/*
 * http_answer.h: the parts of HTTP that need no connection: parsing the head of a response, and
 * the failure that a status stands for. Private to kit/system and to code that reads ranges
 * (proof/remote.c).
 */
#ifndef AF_KIT_SYSTEM_HTTP_ANSWER_H
#define AF_KIT_SYSTEM_HTTP_ANSWER_H

#include "kit/system/http.h"

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

#endif
