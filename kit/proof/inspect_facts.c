/*
 * inspect_facts.c: what the state knows of a subject's libraries, and what it
 * shall know next time.
 */
#include <string.h>

#include "kit/proof/inspect_wheel.h"
#include "kit/system/file.h"
#include "kit/system/hash_file.h"
#include "kit/system/state_facts.h"

/* Larger files are known by their identity alone: reading them takes less than hashing. */
#define HASH_BYTES_MAX (8 << 20)

void af_inspect_target_load_places(struct af_inspect_target *target, struct af_arena *arena)
{
    struct af_state_seen *rows;
    size_t count;
    size_t whole;
    size_t at = 0; /* rows are in the order of the wheel, mostly */
    const struct af_place *place = &target->place;
    if (place->identity == NULL ||
        !af_state_place_get(target->state, place->name, place->identity, arena, &rows, &count,
                            &whole))
        return;
    for (size_t i = 0; i < count; i++) {
        for (size_t tries = 0; tries < target->count; tries++, at++) {
            struct af_inspect_extension *one = &target->extensions[at % target->count];
            if (strcmp(one->member->name, rows[i].member) == 0) {
                one->sha256 = rows[i].sha256;
                break;
            }
        }
    }
}

/* Of a file on its own: the hash of its bytes or what stands for it. */
static void identify(struct af_inspect_target *target, struct af_inspect_extension *one,
                     struct af_arena *arena)
{
    struct af_state_seen *rows;
    size_t count;
    size_t whole;
    char hex[AF_SHA256_HEX_BYTES];
    one->place = af_place_of_file(arena, one->file);
    if (one->place.identity == NULL)
        return;
    if (af_state_place_get(target->state, one->place.name, one->place.identity, arena, &rows,
                           &count, &whole))
        one->sha256 = rows[0].sha256;
    else if (one->place.size_bytes > HASH_BYTES_MAX)
        one->sha256 = af_place_hash(arena, &one->place, "");
    else if (af_file_sha256(one->file, hex, NULL, NULL) == ANYFLASH_OK)
        one->sha256 = af_arena_text(arena, hex);
}

bool af_inspect_target_load_facts(struct af_inspect_target *target,
                                  struct af_inspect_extension *one, struct af_arena *arena)
{
    if (one->was_asked || target->state == NULL)
        return one->has_facts;
    one->was_asked = true;
    if (one->member == NULL && one->sha256 == NULL)
        identify(target, one, arena);
    const char *name = af_path_name(one->member != NULL ? one->member->name : one->file);
    one->has_facts = af_facts_get(target->state, one->sha256, name, arena, &one->facts);
    return one->has_facts;
}

/* Facts that another reading would give again. */
static bool is_worth_keeping(const struct af_inspect_extension *one)
{
    const struct af_facts *facts = &one->facts;
    bool lacks_code =
        facts->binary.is_complete && facts->binary.has_gpu_code && facts->gpu_code == NULL;
    return one->is_new_to_state && one->has_facts && one->problem == NULL && !lacks_code;
}

static void keep_one(struct af_inspect_target *target, struct af_inspect_extension *one,
                     struct af_arena *arena)
{
    const struct af_place *place = one->member != NULL ? &target->place : &one->place;
    struct af_state_seen seen = {one->member != NULL ? one->member->name : "", one->sha256};
    bool is_somewhere = place->identity != NULL;
    if (is_somewhere && one->member == NULL && !af_place_holds(arena, place))
        return;
    if (seen.sha256 == NULL && is_somewhere)
        seen.sha256 = af_place_hash(arena, place, seen.member);
    if (seen.sha256 == NULL)
        return;
    af_facts_put(target->state, seen.sha256, &one->facts);
    if (is_somewhere)
        af_state_place_put(target->state, place->name, place->identity, &seen,
                           one->member != NULL ? target->count : 1);
    one->is_new_to_state = false;
}

void af_inspect_target_store_facts(struct af_inspect_target *target, struct af_arena *arena)
{
    bool is_begun = false;
    if (target->state == NULL ||
        (target->wheel != NULL && !af_place_holds(arena, &target->place)))
        return;
    for (size_t i = 0; i < target->count; i++) {
        struct af_inspect_extension *one = &target->extensions[i];
        if (!is_worth_keeping(one))
            continue;
        if (!is_begun && !af_state_facts_begin(target->state))
            return;
        is_begun = true;
        keep_one(target, one, arena);
    }
    if (is_begun)
        af_state_facts_commit(target->state);
}
