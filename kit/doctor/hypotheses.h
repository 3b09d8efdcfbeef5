/*
 * hypotheses.h: the causes that single hits suggest, on the way to a diagnosis. Private to this
 * room.
 */
#ifndef AF_KIT_DOCTOR_HYPOTHESES_H
#define AF_KIT_DOCTOR_HYPOTHESES_H

#include "kit/doctor/diagnosis.h"

#define AF_DIAGNOSIS_HYPOTHESES_MAX 256u

/* One cause that one signature suggests. */
struct af_diagnosis_hypothesis {
    const struct af_signature *signature;
    const struct af_signature_cause *row;
    const struct af_log_hit *hit;
    int score;
    const char *other; /* the package that the message is about; NULL: flash-attn or unknown */
    bool is_proved;
    bool by_message;     /* is_proved, by the row's `proof` and not by facts */
    bool is_open;        /* a condition on it is unknown */
    const char *missing; /* unknown fact of a condition; or NULL */
};

struct af_diagnosis_ranking {
    const struct af_log_evidence *evidence;
    struct af_lookup lookup;
    struct af_arena *arena;
    struct af_diagnosis_hypothesis *hypotheses;
    size_t count;
    unsigned reached;         /* bit N: phase N began, as far as the log shows; 0: unknown */
    bool is_about_flash_attn; /* the log names it */
    const char *who;          /* what {who} stands for */
    struct af_diagnosis *out;
};

/* Makes later lookups use the symbol on the line of this hit. */
void af_diagnosis_look_from(struct af_diagnosis_ranking *ranking, const struct af_log_hit *hit);

/*
 * "this extension was built for torch 2.1 to 2.2 ...", from the symbol on the line of the
 * current hit; NULL if it is not torch's.
 */
const char *af_diagnosis_describe_extension(struct af_diagnosis_ranking *ranking);

/*
 * Copies a text of the table with each name in braces replaced by its fact; an unknown
 * {torch.version} becomes TORCH_VERSION. NULL for NULL.
 */
const char *af_diagnosis_fill(struct af_diagnosis_ranking *ranking,
                              const struct af_log_hit *hit, const char *source);

/* The line of the hit, scrubbed. */
struct af_diagnosis_evidence af_diagnosis_line(struct af_diagnosis_ranking *ranking,
                                               const struct af_log_hit *hit);

/* Adds the hypothesis's line and the facts of its conditions, each once. */
void af_diagnosis_add_evidence(struct af_diagnosis_ranking *ranking, struct af_diagnosed *found,
                               const struct af_diagnosis_hypothesis *from);

/* The cause that a row suggests. */
const struct af_cause *af_diagnosis_cause_of(const struct af_diagnosis_ranking *ranking,
                                             const struct af_signature_cause *row);

/* The first hit of the signature that has the surroundings it needs, or NULL. */
const struct af_log_hit *af_diagnosis_first_hit(const struct af_log_evidence *evidence,
                                                size_t index);

/* Finds the phases that failed, and the hypotheses, the strongest first. */
void af_diagnosis_suppose(struct af_diagnosis_ranking *ranking);

#endif
