/*
 * state_facts.h: the rows of the state file that only save time: facts of libraries
 * by the hash of their bytes, and places where such bytes were seen. Facts that were
 * not used for long are deleted when space is needed. Private to proof/wheel_facts.c
 * and proof/inspect_target.c.
 *
 * Nothing here fails: what cannot be read counts as absent, what cannot be written
 * is lost. A NULL state is empty.
 */
#ifndef AF_KIT_SYSTEM_STATE_FACTS_H
#define AF_KIT_SYSTEM_STATE_FACTS_H

#include "kit/system/state.h"

#define AF_STATE_JSON_BYTES_MAX (4u * 1024u * 1024u)

/* A transaction around several af_state_*_put(); without one they keep nothing. */
bool af_state_facts_begin(struct af_state *state);
void af_state_facts_commit(struct af_state *state);

/*
 * The JSON kept for bytes with this hash (64 hexadecimal digits), of a file
 * called `name`, written under the same `schema` number: change the number
 * whenever the meaning of the JSON changes, and what was kept is passed over.
 */
bool af_state_facts_get(struct af_state *state, const char *sha256, const char *name,
                        int schema, struct af_arena *arena, struct af_span *json_out);
void af_state_facts_put(struct af_state *state, const char *sha256, const char *name,
                        int schema, struct af_span json);

/* Bytes that were seen: `member` of a wheel, "" for the file itself, and their hash. */
struct af_state_seen {
    const char *member;
    const char *sha256;
};

/*
 * What was seen at `place` (a path or an address) while it had that identity; NULL:
 * whenever it was last inspected. *whole_count_out is the number of libraries in it.
 * False: nothing is known.
 */
bool af_state_place_get(struct af_state *state, const char *place, const char *identity,
                        struct af_arena *arena, struct af_state_seen **rows_out,
                        size_t *count_out, size_t *whole_count_out);

/* The places that are addresses, those that were seen last first. */
void af_state_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out);

/* Adds one row; rows of the place with another identity are deleted. */
void af_state_place_put(struct af_state *state, const char *place, const char *identity,
                        const struct af_state_seen *seen, size_t whole_count);

#endif
