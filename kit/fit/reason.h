/*
 * reason.h: the closed list of reasons for verdicts and of findings of the
 * doctor. The rows are in reasons.inc. A text id never changes.
 */
#ifndef AF_KIT_FIT_REASON_H
#define AF_KIT_FIT_REASON_H

#include "engine/base/base.h"

/* How a reason affects its verdict. */
enum af_reason_effect {
    AF_REASON_BLOCKS, /* the answer is no */
    AF_REASON_OPEN,   /* the answer is unknown until a fact is known */
    AF_REASON_NOTE    /* the answer stays the same; for the reader to know */
};

/* How bad a finding of the doctor is; worst first. */
enum af_severity {
    AF_SEVERITY_NONE, /* used in verdicts only */
    AF_SEVERITY_BROKEN,
    AF_SEVERITY_RISK,
    AF_SEVERITY_NOTE
};

#define AF_REASON(id, text_id, effect, ...) AF_REASON_##id,
enum af_reason_id {
#include "kit/fit/reasons.inc"
    AF_REASON_COUNT
};
#undef AF_REASON

struct af_machine;

struct af_reason {
    enum af_reason_id id;
    const char *detail; /* "torch 2.8, but torch 2.9.1 is installed"; or NULL */
    /* the one of several machines that gives the reason; NULL: there is only one, or all do */
    const struct af_machine *machine;
    const char *hint; /* what to do here; NULL: the row's hint */
};

/* What to do about it; NULL: nothing. */
const char *af_reason_advice(const struct af_reason *reason);

/* Static texts of a row. */
const char *af_reason_text_id(enum af_reason_id id);
enum af_reason_effect af_reason_effect(enum af_reason_id id);
const char *af_reason_message(enum af_reason_id id);
const char *af_reason_hint(enum af_reason_id id); /* NULL: nothing to do */

/* What the web page shows instead of a hint that names options; NULL: the hint itself. */
const char *af_reason_page_hint(enum af_reason_id id);

/* The row as a finding of the doctor. */
enum af_severity af_reason_severity(enum af_reason_id id);
const char *af_reason_finding(enum af_reason_id id);
const char *af_reason_finding_hint(enum af_reason_id id); /* NULL: nothing to do */

/* "broken", "risk" or "note". */
const char *af_severity_text(enum af_severity severity);

/* Looks up a reason by its text id; false if there is no such reason. */
bool af_reason_parse(const char *text_id, enum af_reason_id *id_out);

#endif
