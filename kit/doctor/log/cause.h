/*
 * cause.h: the closed list of what can be wrong when flash-attn does not install,
 * load or run, with what to tell a user: data/causes.jsonl.
 */
#ifndef AF_KIT_DOCTOR_LOG_CAUSE_H
#define AF_KIT_DOCTOR_LOG_CAUSE_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

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

/* One cause. The texts may hold {placeholders}: a capture or a fact (diagnosis.h). */
struct af_cause {
    const char *id;
    unsigned phases;   /* bit N: phase N */
    const char *title; /* the answer in one sentence: lower case, no full stop */
    const char *why;   /* what happened, in two or three sentences */
    const char *next;  /* one command */
    const char *fix;   /* what to do, also without anyflash */
    const char *avoid; /* popular advice that makes things worse, and why; or NULL */
};

struct af_cause_table {
    const struct af_cause *rows;
    size_t count;
};

/*
 * Reads the rows of a causes.jsonl. Texts are in the arena. Fails with DATA,
 * naming `name` and the line, for an unknown or missing key, a wrong type, an
 * unknown phase or a repeated id; or with NO_MEMORY.
 */
enum anyflash_status af_cause_table_read(struct af_span bytes, const char *name,
                                         struct af_arena *arena, struct af_cause_table *out,
                                         struct anyflash_error *err);

/* The cause with that id, or NULL. */
const struct af_cause *af_cause_find(const struct af_cause_table *table, const char *id);

#endif
