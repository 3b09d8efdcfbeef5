/*
 * offer.h: what `anyflash build` would make here, for which time, memory
 * and disk, and the line to type: the part that a model needs, and all of it.
 * Pure: estimates from the machine's facts, by slim.h's measured model.
 */
#ifndef AF_KIT_BUILD_OFFER_OFFER_H
#define AF_KIT_BUILD_OFFER_OFFER_H

#include "kit/build/offer/slim.h"
#include "kit/fit/fit.h"

/* A build as numbers. */
struct af_offer_build_needs {
    size_t file_count;
    double cpu_seconds;
    double wall_seconds;     /* 0: unknown, or no memory for one compiler */
    uint64_t peak_bytes;     /* of the largest compiler */
    uint64_t memory_bytes;   /* of all at once, with the build itself */
    uint64_t disk_bytes;     /* while it is built */
    uint64_t download_bytes; /* sources, tools, the index's compiler */
    uint64_t wheel_bytes;    /* about */
};

/*
 * For `cores` (0: unknown) and `memory_bytes` (0: unknown). What is kept from
 * an earlier build is not counted off.
 */
struct af_offer_build_needs af_offer_build_needs_of(const struct af_slim *slim, int64_t cores,
                                                    uint64_t memory_bytes,
                                                    bool toolkit_from_index);

/* Where no model was named: head size 128 in bf16, all features, forward and backward. */
void af_slim_usual(struct af_slim *slim);

struct af_offer_build_offer {
    const char *name;        /* "slim" or "full" */
    const char *holds;       /* of af_slim_text() */
    const char *const *argv; /* what to type */
    size_t argc;
    struct af_offer_build_needs needs;
};
#define AF_OFFER_BUILD_OFFERS 2

/*
 * The offers of a build rung: `slim`, which the rung's build_words say, for its
 * targets; then everything. Texts in the arena, whose failure is the caller's to
 * look at.
 */
void af_offer_build_offers(const struct af_rung *rung, const struct af_machine *machine,
                           const struct af_slim *slim, struct af_arena *arena,
                           struct af_offer_build_offer offers_out[AF_OFFER_BUILD_OFFERS]);

/* The command of the rung's slim build, or of the full one; NULL when memory fails. */
const char *const *af_offer_build_command(const struct af_rung *rung,
                                          const struct af_machine *machine, bool full,
                                          struct af_arena *arena, size_t *argc_out);

/* argv of the offer as a line for a POSIX shell; NULL when memory fails. */
const char *af_offer_build_line(const struct af_offer_build_offer *offer,
                                struct af_arena *arena);

#endif
