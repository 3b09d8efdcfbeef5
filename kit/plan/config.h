/*
 * config.h: a decision as configuration of other tools, so that they install
 * it and nothing else. Text in, text out: no file is read or written here.
 *
 * A pin is one wheel and the machines it is for, told apart by an environment
 * marker. How each tool is spoken to, and why, is in docs/reference/config.md.
 */
#ifndef AF_KIT_PLAN_CONFIG_H
#define AF_KIT_PLAN_CONFIG_H

#include "kit/fit/fit.h"
#include "kit/formats/toml.h"

#define AF_PINS_MAX 64
#define AF_CONFIG_NOTES_MAX 24

/* What is known about a wheel's file, where one was given. Texts borrowed; NULL unknown. */
struct af_plan_wheel_facts {
    const char *sha256;           /* hexadecimal */
    const char *metadata_version; /* of its dist-info folder, as "2.8.3" */
    const char *const *requires_dist;
    size_t requires_count;
};

/* One wheel, or a source build where `wheel` is NULL. Texts in the lock's arena. */
struct af_pin {
    const struct af_machine *machine;
    const struct af_rung *rung;
    const struct af_catalog_wheel *wheel;
    const char *version; /* public, as "2.8.3" */
    const char *url;     /* '+' as %2B; NULL for a build */
    const char *file;    /* its name as published */
    const char *plain;   /* its name without the local part */
    const char *path;    /* where the plain file lies in the project, as "wheels/..."; NULL:
                            the address itself is pinned */
    const char *marker;  /* never empty: what machine this is for */
    const char *python_marker;   /* the part about Python, or "" */
    const char *platform_marker; /* the part about the platform, or "" */
    int python_minor;            /* -1: any */
    const char *torch;           /* "2.8"; NULL: any, or unknown */
    const char
        *torch_build; /* "cu126": that torch is not what a plain install brings; or NULL */
    enum af_answer
        metadata_has_local; /* the version inside has the local part of the name too */
    struct af_plan_wheel_facts facts;
};

/* How the wheel is named to uv. */
enum af_pin_source { AF_PIN_AUTO, AF_PIN_PATH, AF_PIN_URL };

struct af_config_lock {
    struct af_arena *arena; /* the caller's */
    const char *package;    /* as installers list it: "flash-attn" */
    struct af_pin pins[AF_PINS_MAX];
    size_t pin_count;
    bool is_build;
    const char *marker; /* of all pins together */
    const char *notes[AF_CONFIG_NOTES_MAX];
    size_t note_count;
};

/*
 * A lock of nothing. Add the pins one by one, then af_config_lock_finish(). Decisions
 * and catalog must outlive it.
 */
void af_config_lock_init(struct af_config_lock *lock, struct af_arena *arena);

/*
 * The pin of a decision for `machines` that share Python and platform. Equal
 * pins become one. Fails with UNSUPPORTED when the decision cannot be locked
 * (no wheel and no build; a build beside wheels; two wheels that no marker tells
 * apart): the sentence says which.
 */
enum anyflash_status af_config_lock_add(struct af_config_lock *lock,
                                        const struct af_decision *decision,
                                        const struct af_machine *machine,
                                        struct anyflash_error *err);

/* Where the facts of pin `index`'s file go; call before af_config_lock_finish(). */
void af_config_lock_facts(struct af_config_lock *lock, size_t index,
                          struct af_plan_wheel_facts facts);

/* Settles how each pin is named, markers and notes. */
enum anyflash_status af_config_lock_finish(struct af_config_lock *lock,
                                           enum af_pin_source source,
                                           struct anyflash_error *err);

/* Adds what the reader should know; formatted. */
void af_config_lock_note(struct af_config_lock *lock, const char *format, ...) AF_PRINTF(2, 3);

struct af_config_options {
    const char *extra; /* optional extra that gets flash-attn; NULL: the dependencies */
};

/*
 * The tools. Each takes a file's text ("" when there is none) and gives the
 * new text in the lock's arena. Failing: DATA where the file is not
 * understood, UNSUPPORTED where the tool could not do it right, with the reason.
 */
typedef enum anyflash_status af_config_maker(struct af_config_lock *lock,
                                             const struct af_config_options *options,
                                             struct af_span old, const char *name,
                                             struct af_span *new_out,
                                             struct anyflash_error *err);
af_config_maker af_config_uv;         /* pyproject.toml */
af_config_maker af_config_pip;        /* requirements.txt */
af_config_maker af_config_pylock;     /* pylock.toml */
af_config_maker af_config_poetry;     /* pyproject.toml */
af_config_maker af_config_pixi;       /* pixi.toml, or pyproject.toml with tool.pixi */
af_config_maker af_config_conda;      /* environment.yml: new files only */
af_config_maker af_config_dockerfile; /* a fragment */

/* One thing asked of uv.lock. */
struct af_config_lock_check {
    enum af_answer answer;
    const char *what;
    const char *evidence;
};

/*
 * Compares uv.lock with the lock: every pin is in it, by the source that was
 * written, with the version and (where it is known) the hash that it must
 * have, no other flash-attn is, and torch is the one the wheel was built for.
 * Checks in the lock's arena. Fails with DATA when the file is not understood.
 */
enum anyflash_status af_config_check_uv(struct af_config_lock *lock, struct af_span text,
                                        const char *name,
                                        const struct af_config_lock_check **checks_out,
                                        size_t *count_out, struct anyflash_error *err);

#endif
