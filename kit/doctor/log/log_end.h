/*
 * log_end.h: how a log ends: with which line, whether before its error, and which error a
 * program printed last, whatever it is about.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOG_END_H
#define AF_KIT_DOCTOR_LOG_LOG_END_H

#include "kit/doctor/log/log_lines.h"

#define AF_LOG_END_BYTES 240u

/* Zero it to start. Texts are cut, not scrubbed. */
struct af_log_end {
    uint64_t line; /* the last one that is not empty; 0: none */
    char text[AF_LOG_END_BYTES];
    uint64_t error_line; /* the last exception, else the last "error: ..."; 0: none */
    char error[AF_LOG_END_BYTES];
    bool is_exception;
    bool is_below_frame; /* the last line follows a frame of a call stack */
};

/* Takes the next line, which is not joined; `number` counts through all files. */
void af_log_end_note(struct af_log_end *end, const struct af_log_line *line, uint64_t number);

/* Whether the log ends before its error: within a call stack, or within a build. */
bool af_log_end_is_cut(const struct af_log_end *end);

#endif
