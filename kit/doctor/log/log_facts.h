/*
 * log_facts.h: what lines of logs say about the machine that wrote them: the
 * table of log_facts.inc. Private to this room.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOG_FACTS_H
#define AF_KIT_DOCTOR_LOG_LOG_FACTS_H

#include <stddef.h>

struct af_log_fact_row {
    int strength;
    const char *key;     /* of --given */
    const char *fact;    /* the fact that it sets */
    const char *value;   /* with '%' for the captured text */
    const char *pattern; /* pattern.h */
    size_t slot;         /* the same for rows with the same key */
};

size_t af_log_fact_row_count(void);
const struct af_log_fact_row *af_log_fact_row(size_t index);

/* The slot of the key; below AF_LOG_FACTS_MAX. */
size_t af_log_fact_slot(const char *key);

#endif
