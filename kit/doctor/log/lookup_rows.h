/*
 * lookup_rows.h: the tables of derived facts, and how their functions make
 * values. Private to fact_lookup.c and fact_log.c.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOOKUP_ROWS_H
#define AF_KIT_DOCTOR_LOG_LOOKUP_ROWS_H

#include "kit/doctor/log/fact_lookup.h"

typedef struct af_lookup_value value;

struct af_lookup_row {
    const char *name;
    value (*find)(const struct af_lookup *lookup); /* NULL: af_lookup_published() */
    const char *command;                           /* shows the fact; or NULL */
    unsigned published;                            /* what a wheel must agree with */
    const char *whole; /* the fact is the first `numbers` numbers of this one; or NULL */
    int numbers;
};

extern const struct af_lookup_row af_lookup_log_rows[];
extern const size_t af_lookup_log_row_count;

extern const value af_lookup_unknown;

/* Whether flash-attn's authors published a wheel that agrees with the machine (fact_log.c). */
value af_lookup_published(const struct af_lookup *lookup, unsigned what);

/* The text of a fact of the record that may be used; NULL if it is not known. */
const char *af_lookup_text(const struct af_lookup *lookup, const struct af_fact *fact);

/* A known value; unknown if the text is NULL. */
value af_lookup_known(const char *text, const char *source);

/* The first `count` numbers of a dotted version. */
value af_lookup_numbers(value whole, int count, struct af_arena *arena);

#endif
