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

/* What a reason is about. The first groups are those of the rules, in the order of checking. */
enum af_reason_group {
    AF_REASON_GROUP_FILE,
    AF_REASON_GROUP_PLATFORM,
    AF_REASON_GROUP_PYTHON,
    AF_REASON_GROUP_TORCH,
    AF_REASON_GROUP_CUDA,
    AF_REASON_GROUP_ABI,
    AF_REASON_GROUP_SYSTEM,
    AF_REASON_GROUP_GPU,
    AF_REASON_GROUP_DRIVER,
    AF_REASON_GROUP_PEERS,      /* other installed packages */
    AF_REASON_GROUP_REMARK,     /* on a wheel; rejects none */
    AF_REASON_GROUP_OPTION,     /* why an option is not possible, besides those above */
    AF_REASON_GROUP_ENVIRONMENT /* findings of the doctor */
};

/* The groups whose reasons can reject a wheel. */
#define AF_REASON_REJECTING_GROUPS AF_REASON_GROUP_REMARK

/* How bad a finding of the doctor is; worst first. */
enum af_severity {
    AF_SEVERITY_NONE, /* used in verdicts only */
    AF_SEVERITY_BROKEN,
    AF_SEVERITY_RISK,
    AF_SEVERITY_NOTE
};

/* Reasons of wheels are bits of one number. */
#define AF_REASON_BITS 64
#define AF_REASON_BIT(id) (UINT64_C(1) << (id))

#define AF_REASON(id, text_id, group, effect, ...) AF_REASON_##id,
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

/* A row of reasons.inc; texts are static. Some functions below know what a row leaves out. */
struct af_reason_row {
    const char *text_id;
    enum af_reason_group group;
    enum af_reason_effect effect;
    const char *message;
    const char *hint;      /* NULL: nothing to do */
    const char *page_hint; /* what the web page shows instead, if `hint` names options */
    enum af_severity severity;
    const char *finding; /* of the doctor; NULL: `message` and `hint` are used */
    const char *finding_hint;
    bool settled_by_bytes;    /* the bytes of a wheel can prove that it is not true */
    enum af_reason_id if_all; /* 0: the reason itself */
    const char *missing_fact; /* the key fact: "platform", "Python version", ...; or NULL */
    bool comes_first;         /* before anything is installed */
    bool asks_to_replace;
};

extern const struct af_reason_row af_reasons[AF_REASON_COUNT];

/* What to do about it; NULL: nothing. */
const char *af_reason_advice(const struct af_reason *reason);

/* The reason to report if this one leaves no wheel at all: often `id` itself. */
enum af_reason_id af_reason_if_all(enum af_reason_id id);

/* Whether the answer is open only because the user has not stated a fact of the machine. */
bool af_reason_lacks_fact(enum af_reason_id id);

/* The row as a finding of the doctor. */
const char *af_reason_finding(enum af_reason_id id);
const char *af_reason_finding_hint(enum af_reason_id id); /* NULL: nothing to do */
bool af_reason_asks_to_replace(enum af_reason_id id);     /* the installed flash-attn */

/* "broken", "risk" or "note". */
const char *af_severity_text(enum af_severity severity);

/* Looks up a reason by its text id; false if there is no such reason. */
bool af_reason_parse(const char *text_id, enum af_reason_id *id_out);

#endif
