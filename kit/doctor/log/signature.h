/*
 * signature.h: what can be wrong when flash-attn does not install, load or run, a
 * closed list with what to tell a user (data/causes.jsonl), and the messages of
 * installers, compilers, loaders and libraries that show it (data/signatures.jsonl).
 */
#ifndef AF_KIT_DOCTOR_LOG_SIGNATURE_H
#define AF_KIT_DOCTOR_LOG_SIGNATURE_H

#include "kit/doctor/log/condition.h"
#include "kit/doctor/log/pattern.h"
#include "kit/doctor/log/sentence.h"

/* The phases, in the order in which they happen. */
enum af_cause_phase {
    AF_CAUSE_RESOLVE,
    AF_CAUSE_BUILD_DEPS,
    AF_CAUSE_BUILD,
    AF_CAUSE_INSTALL,
    AF_CAUSE_IMPORT,
    AF_CAUSE_RUN
};
#define AF_CAUSE_PHASES "resolve build-deps build install import run"

/* One cause. Names in braces, such as {torch.version}, stand for captures and facts, which
   the diagnosis fills in (diagnosis.h). */
struct af_cause {
    const char *id;
    unsigned phases;   /* bit N: phase N */
    const char *title; /* the answer in one sentence: lower case, no full stop */
    const char *why;   /* what happened, in two or three sentences */
    const char *next;  /* one command */
    const char *fix;   /* what to do, also without anyflash */
    const char *avoid; /* popular advice that makes things worse, and why; or NULL */
    const char
        *unless;      /* conditions (condition.h) with " | " between: with one of them it is not
                           the cause, whatever the message says; NULL: there are none */
    const char *test; /* a command that fails as well if it is the cause; or NULL */
    const char *of_others; /* the title where another package has it, {who}; NULL: none has */
    const char *fix_of_others; /* what to do then */
};

struct af_cause_table {
    const struct af_cause *rows;
    size_t rows_count;
};

/* The rows of data/causes.jsonl, which tools/pack_data.c writes as a constant. */
extern const struct af_cause_table af_causes;

/* The cause with that id, or NULL. */
const struct af_cause *af_cause_find(const struct af_cause_table *table, const char *id);

/* Lines before and after a message in which `near` and `not_near` look. */
#define AF_SIGNATURE_NEAR_LINES 200u

enum af_signature_kind {
    AF_SIGNATURE_FAULT,   /* the line itself is the failure */
    AF_SIGNATURE_SYMPTOM, /* it follows a failure: used if there is no fault */
    AF_SIGNATURE_CONTEXT, /* never a cause; only for `near` and `not_near` */
    AF_SIGNATURE_FAILED,  /* never a cause; says that its phase failed */
    AF_SIGNATURE_HARMLESS /* nothing failed, as `why` says, unless a cause of it applies */
};

struct af_conditions {
    const struct af_condition *rows;
    size_t count;
};

/* One entry of near or not_near. */
struct af_signature_neighbour {
    size_t signature; /* of "@id"; SIZE_MAX: a pattern */
    size_t pattern;   /* index into the table's patterns */
};

/* What must occur near a message, and what must not. */
struct af_surroundings {
    const struct af_signature_neighbour *near;
    size_t near_count;
    const struct af_signature_neighbour *not_near;
    size_t not_near_count;
};

/* A cause that the message may have. */
struct af_signature_cause {
    size_t index;                /* of the table's causes */
    enum af_signature_kind kind; /* that of the row, unless the cause has its own */
    int score;                   /* 1 to 100 */
    struct af_surroundings around;
    struct af_conditions only_if; /* if one is false, it is not this cause */
    struct af_conditions proves;  /* if there are any and all are true, it is */
    const char *proof;            /* why nothing else prints this message; or NULL */
    const char *detail;           /* what the parts of the message say; or NULL */
};

struct af_signature {
    const char *id;
    const char *why; /* of HARMLESS, else NULL */
    enum af_signature_kind kind;
    enum af_cause_phase phase;
    size_t pattern_first; /* its patterns in the table's */
    size_t pattern_count;
    const struct af_sentence_rule *says; /* one of them holds for a person's sentence */
    size_t says_count;
    struct af_surroundings around;
    const struct af_signature_cause *causes; /* best first */
    size_t cause_count;
};

/*
 * The id of the row whose patterns show that a log is about flash-attn at all. Without
 * a match of it, no cause is more than possible. The build checks that the table has
 * the row (tools/pack_signatures.c).
 */
#define AF_SIGNATURE_SUBJECT "names-flash-attn"

/* The id of the row whose occurrence means that the author says flash-attn works. */
#define AF_SIGNATURE_WORKS "flash-works"

/* The id of the row that captures whom lines are about (log_owner.h). */
#define AF_SIGNATURE_OWNER "owner-of-message"

/* The id of the row that captures the mangled name that the loader did not find. */
#define AF_SIGNATURE_SYMBOL "undefined-symbol"

struct af_signature_table {
    const struct af_cause_table *causes;
    const struct af_signature *rows;
    size_t count;
    const struct af_pattern *patterns; /* of all rows, with those of near and not_near */
    size_t pattern_count;
};

/* data/signatures.jsonl, as tools/pack_signatures.c writes it when the program is built. */
extern const struct af_signature_table af_signatures;

/* The row with that id; NULL: there is none. */
const struct af_signature *af_signature_find(const struct af_signature_table *table,
                                             const char *id);

#endif
