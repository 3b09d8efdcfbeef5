/*
 * condition.h: conditions on facts, in the rows of data/signatures.jsonl.
 *
 *   LEFT OP RIGHT, separated by blanks
 *   LEFT   the name of a fact (fact_lookup.h), or {capture}; {capture.class} and
 *          {capture.detail} are what data/log_parts.tsv says of its text
 *   OP     < <= > >=   versions compare as PEP 440 says, without their local part
 *          = !=        the same for two versions, else text in either case
 *          ~           RIGHT is a glob with * and ? over the whole text
 *          is          RIGHT is known, unknown, absent, true or false
 *   RIGHT  a literal, {capture}, or @FACT
 */
#ifndef AF_KIT_DOCTOR_LOG_CONDITION_H
#define AF_KIT_DOCTOR_LOG_CONDITION_H

#include "kit/doctor/log/fact_lookup.h"
#include "kit/doctor/log/pattern.h"

enum af_condition_op {
    AF_CONDITION_LESS,
    AF_CONDITION_LESS_EQUAL,
    AF_CONDITION_MORE,
    AF_CONDITION_MORE_EQUAL,
    AF_CONDITION_EQUAL,
    AF_CONDITION_NOT_EQUAL,
    AF_CONDITION_LIKE,
    AF_CONDITION_IS
};

/* One side: a literal, a fact or a capture. */
struct af_condition_side {
    enum { AF_CONDITION_LITERAL, AF_CONDITION_FACT, AF_CONDITION_CAPTURE } kind;
    const char *text; /* the literal, or the name */
};

struct af_condition {
    const char *source; /* as written */
    struct af_condition_side left;
    enum af_condition_op op;
    struct af_condition_side right;
};

/*
 * The text of the capture `name`, or for "name.class" and "name.detail" what
 * data/log_parts.tsv says of that text; NULL if there is none.
 */
const char *af_capture_text(const struct af_capture *captures, size_t count, const char *name,
                            struct af_arena *arena);

/* The class of the first capture of a kind of data/log_parts.tsv (names in capitals); "" if
   none is; NULL if no row describes the text of one, so that it is no part of flash-attn. */
const char *af_capture_class(const struct af_capture *captures, size_t count);

/* Parses it in the arena. Fails with DATA; the message quotes it. */
enum anyflash_status af_condition_parse(const char *source, struct af_arena *arena,
                                        struct af_condition *out, struct anyflash_error *err);

/* Whether it holds. UNKNOWN when a side is unknown; then *missing_out is the fact's name. */
enum af_answer af_condition_holds(const struct af_condition *condition,
                                  const struct af_lookup *lookup,
                                  const struct af_capture *captures, size_t capture_count,
                                  const char **missing_out);

#endif
