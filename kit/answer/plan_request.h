/*
 * plan_request.h: the input of the deciding commands.
 *
 * What a user types, or a caller of the WebAssembly module sends, is text:
 * struct af_plan_request_texts. af_plan_request_read() checks it once and makes a
 * struct af_plan_request, which all other functions use.
 */
#ifndef AF_KIT_ANSWER_PLAN_REQUEST_H
#define AF_KIT_ANSWER_PLAN_REQUEST_H

#include "kit/compile/offer/kernel_selection.h"
#include "kit/fit/fit.h"

/*
 * What a source build has to contain, as texts; NULL or false: not given.
 * `model` holds the bytes of the config.json named `model_path`, which the
 * caller has read.
 */
struct af_plan_selection_texts {
    const char *model_path; /* --for */
    struct af_span model;
    const char *head_dims; /* --head-dim */
    const char *dtypes;    /* --dtype */
    const char *features;  /* --features */
    bool inference;        /* --inference */
    bool full;             /* --full */
};

/* Remarks and hints from reading: static or arena text, or NULL. */
struct af_plan_read_notes {
    const char *remark; /* on what was assumed */
    const char *hint;   /* for the error that was returned */
};

/*
 * The selection, without GPU targets. If no option says what to build, it is
 * af_selection_usual(). Fails with ARGUMENT if no option says it although `must` is set, if a
 * text is not valid, or if two exclude each other; and like af_selection_read_model().
 */
enum anyflash_status af_plan_read_selection(const struct af_plan_selection_texts *words,
                                            bool must, struct af_selection *selection,
                                            struct af_plan_read_notes *notes,
                                            struct anyflash_error *err);

/* The options of the deciding commands, as texts; NULL or false: not given. */
struct af_plan_request_texts {
    const char *package;                    /* --package: "flash_attn", "Flash-Attn" */
    const char *version;                    /* --version: "2.8.3" */
    const char *arch;                       /* --arch: "9.0", "90", "sm_90" */
    const char *prefer;                     /* --prefer: the name of a rung */
    bool official_only;                     /* --official */
    const struct af_publishers *publishers; /* lists that the caller has read */
    size_t publisher_list_count;
    struct af_plan_selection_texts build; /* nothing given: af_selection_usual() */
};

/* A request: which machines, which wheels, which options. */
struct af_plan_request {
    const struct af_catalog *catalog;
    const struct af_machine *const *machines; /* the plan must work on all of them */
    size_t machine_count;
    struct af_fit_options fit;     /* includes what is proved: fit.known */
    struct af_selection selection; /* what a build would contain, without GPU targets */
    bool elsewhere;                /* the machine was described; this may run on another one */
    /* What the commands that an answer names repeat, so that they give the same answer; lists
       that end with NULL, or NULL. */
    const char *const *install_options;
    const char *const *undo_options;
};

/*
 * Sets request->fit and request->selection from `words`. Texts are copied to `arena`
 * or borrowed from `words`. Fails with ARGUMENT, saying which values the option
 * accepts, and like af_plan_read_selection().
 */
enum anyflash_status af_plan_request_read(const struct af_plan_request_texts *words,
                                          struct af_arena *arena,
                                          struct af_plan_request *request,
                                          struct af_plan_read_notes *notes,
                                          struct anyflash_error *err);

#endif
