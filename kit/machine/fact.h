/*
 * fact.h: one fact about a machine: a value with its source, or unknown with
 * the reason.
 *
 * Invariants. UNKNOWN: no value; `source` says why, never NULL after
 * af_fact_*(). ABSENT: known not to be there (no torch installed, no memory
 * limit); `source` says where that was seen. KNOWN: the value of `type`, and
 * `source` names the file or the call it was read from. Texts belong to the
 * arena that was passed, and are UTF-8 or were scrubbed.
 */
#ifndef AF_KIT_MACHINE_FACT_H
#define AF_KIT_MACHINE_FACT_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

enum af_fact_state { AF_FACT_UNKNOWN = 0, AF_FACT_ABSENT, AF_FACT_KNOWN };
enum af_fact_type { AF_FACT_TEXT, AF_FACT_INT, AF_FACT_BOOL, AF_FACT_LIST };

struct af_fact {
    enum af_fact_state state;
    union {
        const char *text;
        int64_t number;
        bool truth;
        struct {
            const char *const *items;
            size_t count;
        } list;
    } value;
    const char *source;
};

/*
 * Setters. Texts are copied into the arena and scrubbed for printing; a text
 * or list of NULL sets nothing. `source` is a path or a call and is copied.
 * When the arena has failed the fact stays as it was: look at arena->failed
 * once, at the end.
 */
void af_fact_text(struct af_arena *arena, struct af_fact *fact, const char *text,
                  const char *source);
void af_fact_int(struct af_arena *arena, struct af_fact *fact, int64_t number,
                 const char *source);
void af_fact_bool(struct af_arena *arena, struct af_fact *fact, bool truth, const char *source);
void af_fact_list(struct af_arena *arena, struct af_fact *fact, const char *const *items,
                  size_t count, const char *source);
void af_fact_absent(struct af_arena *arena, struct af_fact *fact, const char *source);
void af_fact_unknown(struct af_arena *arena, struct af_fact *fact, const char *format, ...)
    AF_PRINTF(3, 4);

/* Getters for code that only cares about known values. */
const char *af_fact_text_or(const struct af_fact *fact, const char *fallback);
int64_t af_fact_int_or(const struct af_fact *fact, int64_t fallback);

/* YES or NO for a known truth, NO when absent, else UNKNOWN. */
enum af_answer af_fact_truth(const struct af_fact *fact);

bool af_fact_is(const struct af_fact *fact, const char *text);

#endif
