/*
 * offer.h: what `anyflash build` would make here, how long it would take, with how much memory
 * and disk, and the command to type: for the part that a model needs, and for all of it. Pure:
 * estimates from the machine's facts, by measured times (bench/results/pack.md).
 */
#ifndef AF_KIT_COMPILE_OFFER_OFFER_H
#define AF_KIT_COMPILE_OFFER_OFFER_H

#include "kit/compile/offer/kernel_selection.h"
#include "kit/fit/rung.h"

/* A build as numbers. */
struct af_offer_build_needs {
    int kernel_count; /* approximately, as what follows */
    double cpu_seconds;
    double wall_seconds;     /* 0: unknown, or not enough memory for one compiler */
    uint64_t peak_bytes;     /* of the largest compiler */
    uint64_t memory_bytes;   /* of all compilers that run at once */
    uint64_t disk_bytes;     /* while the build runs */
    uint64_t download_bytes; /* sources; NVRTC, if torch brings none */
    uint64_t wheel_bytes;
};

/*
 * For `cores` (0: unknown) and `memory_bytes` (0: unknown), as if the cache were
 * empty.
 */
struct af_offer_build_needs af_offer_build_needs_of(const struct af_selection *selection,
                                                    int64_t cores, uint64_t memory_bytes);

/* The selection if no model is named: head size 128, bf16, all features, backward. */
void af_selection_usual(struct af_selection *selection);

struct af_offer_build_offer {
    const char *name;        /* "slim" or "full" */
    const char *holds;       /* of af_selection_text() */
    const char *const *argv; /* the command */
    size_t argc;
    struct af_offer_build_needs needs;
};
#define AF_OFFER_BUILD_OFFERS 2

/*
 * The offers of a build rung: `selection`, which the rung's build_words select, then
 * everything. Texts in the arena.
 */
void af_offer_build_offers(const struct af_rung *rung, const struct af_machine *machine,
                           const struct af_selection *selection, struct af_arena *arena,
                           struct af_offer_build_offer offers_out[AF_OFFER_BUILD_OFFERS]);

/* The command of the rung's slim build, or of the full one. */
const char *const *af_offer_build_command(const struct af_rung *rung,
                                          const struct af_machine *machine, bool full,
                                          struct af_arena *arena, size_t *argc_out);

/* The offer's command as a line for a POSIX shell. */
const char *af_offer_build_line(const struct af_offer_build_offer *offer,
                                struct af_arena *arena);

/*
 * "about 4 min", "about 5.1 hours"; if memory is too small, the time with one core.
 * In the arena, as for the next one.
 */
const char *af_offer_build_time_text(struct af_arena *arena,
                                     const struct af_offer_build_needs *needs);

/* "needs 13.5 GiB of memory (up to 6.2 GiB per compiler process), ..." */
const char *af_offer_build_needs_text(struct af_arena *arena,
                                      const struct af_offer_build_needs *needs);

#endif
