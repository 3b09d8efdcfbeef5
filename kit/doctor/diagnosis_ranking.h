/*
 * diagnosis_ranking.h: the state of a ranking. Private to diagnosis.c and
 * diagnosis_text.c.
 */
#ifndef AF_KIT_DOCTOR_DIAGNOSIS_RANKING_H
#define AF_KIT_DOCTOR_DIAGNOSIS_RANKING_H

#include "kit/doctor/diagnosis.h"

/* One cause that one signature suggests. */
struct af_diagnosis_hypothesis {
    const struct af_signature *signature;
    const struct af_signature_cause *row;
    const struct af_log_hit *hit;
    int score;
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
    unsigned reached;   /* bit N: phase N began, as far as the log shows; 0: unknown */
    unsigned of_others; /* the same for a package that is not flash-attn */
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
 * Copies a text of the table with its placeholders filled in; an unknown {torch.version}
 * becomes TORCH_VERSION. NULL for NULL.
 */
const char *af_diagnosis_fill(struct af_diagnosis_ranking *ranking,
                              const struct af_log_hit *hit, const char *source);

/* The line of the hit, scrubbed. */
struct af_diagnosis_evidence af_diagnosis_line(struct af_diagnosis_ranking *ranking,
                                               const struct af_log_hit *hit);

/* Adds the hypothesis's line and the facts of its conditions, each once. */
void af_diagnosis_add_evidence(struct af_diagnosis_ranking *ranking, struct af_diagnosed *found,
                               const struct af_diagnosis_hypothesis *from);

#endif
