/*
 * plan_answer.h: the answer to a request: the decision, its steps, what a build
 * would need, and the commands that prove a wheel; and all of it as JSON. Pure:
 * the program and the WebAssembly module print the same bytes.
 */
#ifndef AF_KIT_ANSWER_PLAN_ANSWER_H
#define AF_KIT_ANSWER_PLAN_ANSWER_H

#include "kit/answer/plan.h"
#include "kit/answer/plan_request.h"
#include "kit/base/json.h"
#include "kit/compile/offer/offer.h"

/*
 * The best option in one word, for overviews of many answers: the recommended rung,
 * with official and community wheels told apart, and a wheel that may load before any
 * rung below the wheels.
 */
enum af_plan_way {
    AF_PLAN_WAY_OFFICIAL,
    AF_PLAN_WAY_COMMUNITY,
    AF_PLAN_WAY_PROVE,
    AF_PLAN_WAY_KERNELS,
    AF_PLAN_WAY_CHANGE,
    AF_PLAN_WAY_BUILD,
    AF_PLAN_WAY_NOTHING,
    AF_PLAN_WAY_UNDECIDED, /* a fact is missing that decides */
    AF_PLAN_WAY_COUNT
};

/* One of several machines that share an answer. */
struct af_plan_share {
    const struct af_machine *machine;
    const char *headline; /* what is best for this machine alone, in one sentence */
    enum af_plan_way way; /* the same in one word */
    bool decides;         /* alone, it has nothing better than what is best for all */
    struct af_plan plan;  /* the steps of the answer for all, on this machine */
    bool has_plan;        /* false: no rung is possible */
    size_t steps_of;      /* index of the first machine that has the same steps */
};

/* What the user does now. */
enum af_plan_next_kind {
    AF_PLAN_NEXT_NOTHING,
    AF_PLAN_NEXT_ENVIRONMENT, /* fix the environment */
    AF_PLAN_NEXT_FACT,        /* state the fact that is missing */
    AF_PLAN_NEXT_REASONS,     /* no option is possible: read what each one lacks */
    AF_PLAN_NEXT_STEPS,       /* run the steps */
    AF_PLAN_NEXT_INSTALL,     /* run `command`, which does the steps */
    AF_PLAN_NEXT_UPDATE       /* get a newer list of wheels; the steps are the last resort */
};

struct af_plan_next {
    enum af_plan_next_kind kind;
    const char *text;    /* what to do, in words; NULL: the steps or the reasons say it */
    const char *command; /* of INSTALL and UPDATE, for a POSIX shell */
    const char *undo;    /* of INSTALL: the command that takes it back */
};

/* Empty when zero-initialised. */
struct af_plan_answer {
    struct af_arena arena; /* for the texts below, unless they say otherwise */
    const struct af_plan_request *request;
    struct af_decision decision;
    bool has_decision;
    struct af_plan plan; /* for the recommended rung, on the first machine */
    bool has_plan;       /* false: no rung is possible */
    struct af_plan_next next;
    const char *headline; /* one sentence: "A wheel fits: flash_attn 2.8.3 (official)" */
    struct af_offer_build_offer offers[AF_OFFER_BUILD_OFFERS];
    size_t offer_count;         /* 0: a build is not possible */
    struct af_plan_proof proof; /* for the best wheel that may load */
    bool has_proof;
    const char
        *faster; /* "flash_attn_3": a package made for these GPUs that has a wheel; or NULL */
    struct af_plan_share *shares; /* of several machines, in their order */
    size_t share_count;           /* 0: there is only one machine */
};

/*
 * Decides, and derives the rest from the decision. `request`, its catalog and
 * its machines must outlive the answer. Fails with ARGUMENT (no machine, or an
 * invalid compute capability); then there is nothing to release.
 */
enum anyflash_status af_plan_answer_make(const struct af_plan_request *request,
                                         struct af_plan_answer *answer,
                                         struct anyflash_error *err);
void af_plan_answer_release(struct af_plan_answer *answer);

/* The recommended rung, or NULL if none is possible. */
const struct af_rung *af_plan_answer_rung(const struct af_plan_answer *answer);

/*
 * "anyflash COMMAND WORDS OPTIONS" for a POSIX shell. Both lists end with NULL, and may be
 * NULL. Returns arena text.
 */
const char *af_plan_command_line(const char *command, const char *const *words,
                                 const char *const *options, struct af_arena *arena);

enum af_plan_way af_plan_answer_way(const struct af_plan_answer *answer);

/* By way: "official", as in JSON; "official wheel"; one word, or NULL: the wheel's version. */
struct af_plan_way_row {
    const char *name;
    const char *title;
    const char *label;
};
extern const struct af_plan_way_row af_plan_ways[AF_PLAN_WAY_COUNT];

/* "anyflash-plan/1", a new object. */
json_t *af_plan_answer_json(struct af_plan_answer *answer);

/* Its "steps", a new array. */
json_t *af_plan_steps_json(const struct af_plan *plan, struct af_arena *arena);

/*
 * Private to this room: fills the answer's shares, what it means for each of several machines
 * (plan_shares.c); there are none for one machine. What was made is released with the answer,
 * also after a failure.
 */
enum anyflash_status af_plan_answer_share(struct af_plan_answer *answer,
                                          struct anyflash_error *err);

#endif
