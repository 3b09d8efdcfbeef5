/*
 * log_lines.h: turns the bytes of a log, in pieces of any size, into cleaned
 * lines.
 *
 * A cleaned line is what the program that printed it meant to say: without
 * colours and other terminal escapes, without the prefixes of other programs
 * (timestamps, BuildKit's "#12 34.5 ", compose's "name | ", "[rank0]:",
 * "##[error]", quotation marks "> " of a forum), without the frames that uv, pip
 * and rich draw, with runs of blanks as one blank and typographic quotes as
 * plain ones. NUL bytes are dropped, so UTF-16 with ASCII letters can be read,
 * too. Other bytes stay as they are: scrub text before printing it.
 *
 * A '\r' ends a line but not its number: each state of a progress bar is a line
 * of its own. A line longer than LINE_BYTES is cut into overlapping pieces. Lines
 * that were wrapped at a terminal's width are delivered once more, joined.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOG_LINES_H
#define AF_KIT_DOCTOR_LOG_LOG_LINES_H

#include "engine/base/base.h"

#define AF_LOG_LINE_BYTES 4000u

struct af_log_line {
    const char *text;
    const char *folded; /* the same bytes through af_pattern_fold */
    size_t len;
    uint64_t number; /* from 1; of a joined line: that of its first part */
    bool begins;     /* false: continues a line that was cut */
    size_t joint;    /* of a joined line: where the second part begins; else 0 */
};

/* Called for each line that is not empty; the texts are valid during the call. */
typedef void af_log_line_function(void *context, const struct af_log_line *line);

/* Called before that for each raw line, even an empty one; of a long line it gets the
   start. */
typedef void af_log_raw_function(void *context, struct af_span raw, uint64_t number);

/* The state between two pieces; start with {.take = ..., .context = ...}. */
struct af_log_lines {
    af_log_line_function *take;
    af_log_raw_function *take_raw; /* NULL: not wanted */
    void *context;
    uint64_t number;   /* lines that have ended */
    size_t raw_len;    /* bytes of the current line that wait for its end */
    bool has_return;   /* a carriage return came last */
    bool is_continued; /* the beginning of the current line was delivered */
    size_t before_len; /* of the line before, for joining; 0: none */
    uint64_t before_number;
    size_t before_width; /* of its last physical line, with the indentation */
    bool before_marked;  /* it begins a message of uv or pip, which wrap theirs */
    char raw[AF_LOG_LINE_BYTES];
    char before[AF_LOG_LINE_BYTES];
    char text[2 * AF_LOG_LINE_BYTES + 2];
    char folded[2 * AF_LOG_LINE_BYTES + 2];
};

/* Takes the next bytes. */
void af_log_lines_feed(struct af_log_lines *lines, const char *bytes, size_t len);

/* Ends the last line, also one without a newline. The next bytes are another file's. */
void af_log_lines_end(struct af_log_lines *lines);

#endif
