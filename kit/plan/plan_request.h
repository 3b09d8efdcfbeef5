/*
 * plan_request.h: what is asked of the deciding commands, as data.
 *
 * What a person types or a caller of the WebAssembly module sends are texts:
 * struct af_plan_words. af_plan_request_read() checks them once and makes a
 * struct af_plan_request, which everything below takes.
 */
#ifndef AF_KIT_PLAN_PLAN_REQUEST_H
#define AF_KIT_PLAN_PLAN_REQUEST_H

#include "kit/build/offer/slim.h"
#include "kit/fit/fit.h"

/*
 * What a source build shall hold, as texts; NULL or false: not said. `model` are
 * the bytes of the config.json named `model_path`, which the caller has read.
 */
struct af_plan_build_words {
    const char *model_path; /* --for */
    struct af_span model;
    const char *head_dims; /* --head-dim */
    const char *dtypes;    /* --dtype */
    const char *features;  /* --features */
    bool inference;        /* --inference */
    bool full;             /* --full */
};

/* What a build holds where nothing is said. */
enum af_plan_unsaid {
    AF_PLAN_UNSAID_USUAL,  /* af_slim_usual() */
    AF_PLAN_UNSAID_FULL,   /* everything */
    AF_PLAN_UNSAID_REFUSED /* fails with ARGUMENT: it has to be said */
};

/* Remarks and hints of reading: static or arena text, or NULL. */
struct af_plan_read_notes {
    const char *remark; /* about what was assumed */
    const char *hint;   /* for the error that was returned */
};

/*
 * The selection, without GPU targets. Fails with ARGUMENT (a text that cannot be
 * read, or two that exclude each other), and as af_slim_read_model() does.
 */
enum anyflash_status af_plan_read_selection(const struct af_plan_build_words *words,
                                            enum af_plan_unsaid unsaid, struct af_slim *slim,
                                            struct af_plan_read_notes *notes,
                                            struct anyflash_error *err);

/* The options of the deciding commands, as texts; NULL or false: not said. */
struct af_plan_words {
    const char *package;              /* --package: "flash_attn", "Flash-Attn" */
    const char *version;              /* --version: "2.8.3" */
    const char *arch;                 /* --arch: "9.0", "90", "sm_90" */
    const char *prefer;               /* --prefer: the name of a rung */
    bool official_only;               /* --official */
    struct af_plan_build_words build; /* nothing said: af_slim_usual() */
};

/* A question: which machines, which wheels, which options. */
struct af_plan_request {
    const struct af_catalog *catalog;
    const struct af_machine *const *machines; /* the plan has to serve all of them */
    size_t machine_count;
    struct af_fit_options fit; /* with what is proved: fit.known */
    struct af_slim slim;       /* what a build would hold, without GPU targets */
};

/*
 * Sets request->fit and request->slim from `words`; texts go into `arena` or stay
 * those of `words`. Fails with ARGUMENT, saying what the option takes, and as
 * af_plan_read_selection() does.
 */
enum anyflash_status af_plan_request_read(const struct af_plan_words *words,
                                          struct af_arena *arena,
                                          struct af_plan_request *request,
                                          struct af_plan_read_notes *notes,
                                          struct anyflash_error *err);

#endif
