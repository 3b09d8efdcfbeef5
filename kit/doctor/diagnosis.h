/*
 * diagnosis.h: finds the causes of a failure, best first, from what a log shows
 * and what is known about the machine.
 *
 * Every signature that occurs, with each of its causes whose conditions are not
 * false, is a hypothesis. Its score is that of the row; facts that prove it add 40.
 * What happened first counts more: the first fault of the log gets 20 more, or 40
 * if its message is a proof, so a later one wins only with a much higher score.
 * Symptoms (what follows a failure) count only when there is no fault. The same
 * cause from several signatures is one cause with all their evidence. A cause that
 * is proved stands before all that are only possible, whatever their scores: a
 * certain failure is a better place to start than a guess about an earlier one.
 * A symptom's cause that belongs to phases after the last one that failed is not named. A
 * message about another package (log_owner.h) has only the causes that any package can have,
 * and their titles name that package. If no cause remains, a message that is known to be
 * harmless is the answer, or the package that is said to have failed.
 */
#ifndef AF_KIT_DOCTOR_DIAGNOSIS_H
#define AF_KIT_DOCTOR_DIAGNOSIS_H

#include "kit/base/json.h"
#include "kit/doctor/log/log_evidence.h"

#define AF_DIAGNOSIS_CAUSES_MAX 16u
#define AF_DIAGNOSIS_EVIDENCE_MAX 6u
#define AF_DIAGNOSIS_QUESTIONS_MAX 4u

enum af_diagnosis_confidence {
    /* Facts of the log or the machine rule out every other cause, or nothing else
       prints the message. Several causes of one log can be proved. */
    AF_DIAGNOSIS_PROVED,
    /* Clearly ahead of the other causes, but not proved. `questions` names a fact that would
       prove it, if there is one. Only the first cause of a diagnosis can be likely. */
    AF_DIAGNOSIS_LIKELY,
    AF_DIAGNOSIS_POSSIBLE /* another cause is as good, or a deciding fact is unknown */
};

/* A line of the log, or a fact; texts are scrubbed. */
struct af_diagnosis_evidence {
    const char *file; /* of a line; NULL: a fact */
    uint64_t line;
    const char *text;   /* the line, or the fact's value */
    const char *fact;   /* its name */
    const char *source; /* where the fact was read */
};

/* A cause, with captures and facts in place of the names in braces. */
struct af_diagnosed {
    const struct af_cause *cause;
    enum af_diagnosis_confidence confidence;
    bool is_named; /* a message names it, or facts prove it */
    int score;
    const char *package; /* the other package that is concerned; NULL: flash-attn */
    const char *title;
    const char *detail; /* what the missing symbol says about the extension; or NULL */
    const char *doubt; /* why it is only a guess; NULL: a message names it, or facts prove it */
    const char *why;   /* NULL of another package */
    const char *next;  /* a command; NULL of another package */
    const char *fix;
    const char *avoid; /* or NULL */
    struct af_diagnosis_evidence evidence[AF_DIAGNOSIS_EVIDENCE_MAX];
    size_t evidence_count;
};

/* An unknown fact that would settle which of the causes it is. */
struct af_diagnosis_question {
    const char *fact;
    const char *command; /* shows the fact; or NULL */
    const char *cause;   /* id of the cause that it would prove or refute */
};

struct af_diagnosis {
    struct af_diagnosed causes[AF_DIAGNOSIS_CAUSES_MAX];
    size_t count;
    struct af_diagnosis_question questions[AF_DIAGNOSIS_QUESTIONS_MAX];
    size_t question_count;
    struct {
        const char *why; /* why nothing failed; NULL: there is a cause, or nothing was seen */
        struct af_diagnosis_evidence seen; /* the harmless message */
    } harmless;
    bool has_failure; /* the log says that something failed, whatever it was */
    struct {
        const char *package; /* without a cause: the other package that failed; or NULL */
        uint64_t line;
    } other;
};

const char *af_diagnosis_confidence_text(enum af_diagnosis_confidence confidence);

/*
 * Ranks the causes. `machine` has the facts, those of the log among them
 * (af_log_evidence_apply); `catalog` may be NULL. Everything is in the arena.
 * Fails with INTERNAL when the embedded table of symbols is
 * invalid.
 */
enum anyflash_status af_diagnosis_make(const struct af_log_evidence *evidence,
                                       const struct af_machine *machine,
                                       const struct af_catalog *catalog, struct af_arena *arena,
                                       struct af_diagnosis *out, struct anyflash_error *err);

/* Whether the best cause can only occur with an installed flash-attn: it is of import or
   run. */
bool af_diagnosis_shows_installed(const struct af_diagnosis *diagnosis);

/*
 * The diagnosis as JSON, schema anyflash-diagnosis/1; a new object.
 * `facts` says whose facts were used.
 */
json_t *af_diagnosis_json(const struct af_diagnosis *diagnosis,
                          const struct af_log_evidence *evidence, const char *facts);

/* The page of a cause as a new object. */
json_t *af_diagnosis_cause_json(const struct af_cause *cause);

#endif
