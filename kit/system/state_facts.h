/*
 * state_facts.h: the rows of the state file that only save time: facts of libraries by the hash
 * of their bytes, and places where such bytes were seen. Facts that have not been used for a
 * long time are deleted when space is needed. Private to proof/wheel_facts.c and
 * proof/inspect_target.c.
 *
 * These functions do not report failures: data that cannot be read counts as absent, data that
 * cannot be written is not stored. A NULL state is empty.
 */
#ifndef AF_KIT_SYSTEM_STATE_FACTS_H
#define AF_KIT_SYSTEM_STATE_FACTS_H

#include "kit/system/state.h"

#define AF_STATE_JSON_BYTES_MAX (4u * 1024u * 1024u)

/* Begins a transaction; af_state_*_put() store nothing outside of one. */
bool af_state_facts_begin(struct af_state *state);
void af_state_facts_commit(struct af_state *state);

/*
 * The JSON stored for bytes with this hash (64 hexadecimal digits) of a file called `name`,
 * under the same `schema` number. Change the number whenever the meaning of the JSON changes;
 * JSON with another number is ignored.
 */
bool af_state_facts_get(struct af_state *state, const char *sha256, const char *name,
                        int schema, struct af_arena *arena, struct af_span *json_out);
void af_state_facts_put(struct af_state *state, const char *sha256, const char *name,
                        int schema, struct af_span json);

/* Bytes that were seen: their hash, and the `member` of a wheel, or "" for the file itself. */
struct af_state_seen {
    const char *member;
    const char *sha256;
};

/*
 * What was seen at `place` (a path or an address) while it had that identity; NULL: at the last
 * inspection, whatever its identity. *whole_count_out is the number of libraries in it. False
 * when nothing is known.
 */
bool af_state_place_get(struct af_state *state, const char *place, const char *identity,
                        struct af_arena *arena, struct af_state_seen **rows_out,
                        size_t *count_out, size_t *whole_count_out);

/* The places that are addresses, most recently seen first. */
void af_state_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out);

/* Adds one row; rows of the place with another identity are deleted. */
void af_state_place_put(struct af_state *state, const char *place, const char *identity,
                        const struct af_state_seen *seen, size_t whole_count);

#endif
