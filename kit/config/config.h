/*
 * config.h: turns a decision into configuration for other tools, so that they
 * install exactly that. Text in, text out: no file is read or written here.
 *
 * A pin is one wheel and an environment marker for the machines that it is for.
 * docs/reference/config.md describes what is written for each tool, and why.
 */
#ifndef AF_KIT_CONFIG_CONFIG_H
#define AF_KIT_CONFIG_CONFIG_H

#include "kit/fit/fit.h"
#include "kit/formats/toml.h"

#define AF_PINS_MAX 64
#define AF_CONFIG_NOTES_MAX 24

/* What is known about the file of a wheel, if it was given. Borrowed texts; NULL: unknown. */
struct af_config_wheel_facts {
    const char *sha256;           /* hexadecimal */
    const char *metadata_version; /* of its dist-info folder, such as "2.8.3" */
    const char *const *requires_dist;
    size_t requires_count;
};

/* One wheel. Texts in the lock's arena. */
struct af_pin {
    const struct af_machine *machine;
    const struct af_rung *rung;
    const struct af_catalog_wheel *wheel;
    const char *version;         /* public version, such as "2.8.3" */
    const char *url;             /* '+' as %2B */
    const char *file;            /* its name as published */
    const char *plain;           /* its name without the local version */
    const char *path;            /* of the plain file, "wheels/..."; NULL: it is not local */
    const char *marker;          /* never empty: the machines that this is for */
    const char *python_marker;   /* the part about Python, or "" */
    const char *platform_marker; /* the part about the platform, or "" */
    int python_minor;            /* -1: any */
    const char *torch;           /* "2.8"; NULL: any, or unknown */
    const char *torch_build;     /* "cu126" if a plain install brings another torch; or NULL */
    enum af_answer metadata_has_local; /* the METADATA version has the local part of the name */
    struct af_config_wheel_facts facts;
};

/* What uv is given as the source of the wheel. */
enum af_pin_source { AF_PIN_AUTO, AF_PIN_PATH, AF_PIN_URL };

struct af_config_lock {
    struct af_arena *arena;        /* belongs to the caller */
    struct af_decision *decisions; /* one for each group of machines */
    size_t decision_count;
    const char *package; /* as installers list it: "flash-attn" */
    struct af_pin pins[AF_PINS_MAX];
    size_t pin_count;
    const char *marker; /* about all pins together */
    const char *notes[AF_CONFIG_NOTES_MAX];
    size_t note_count;
};

/*
 * Makes one decision for each group of machines that a marker can distinguish, and the pins
 * from them. Fails with UNSUPPORTED, with the reason, if a decision cannot be locked (no
 * published wheel; two wheels that no marker can distinguish), LIMIT, or as af_fit_decide().
 * Catalog, machines and arena must outlive the lock, which must be released
 * also after a failure.
 */
enum anyflash_status af_config_lock_decide(struct af_config_lock *lock, struct af_arena *arena,
                                           const struct af_catalog *catalog,
                                           const struct af_machine *const *machines,
                                           size_t machine_count,
                                           const struct af_fit_options *options,
                                           struct anyflash_error *err);

/* Releases the decisions. Does nothing to a zero-initialised lock. */
void af_config_lock_release(struct af_config_lock *lock);

/* Chooses each pin's source by its facts, and sets markers. */
void af_config_lock_finish(struct af_config_lock *lock, enum af_pin_source source);

/*
 * Adds a note if `pip install torch` alone would install a torch for another CUDA, or without
 * ROCm: it names the index that has the right one. `where`: the setting that takes the index.
 */
void af_config_lock_note_torch(struct af_config_lock *lock, const char *where);

/* Adds a note for the reader; formatted. */
void af_config_lock_note(struct af_config_lock *lock, const char *format, ...) AF_PRINTF(2, 3);

struct af_config_options {
    const char *extra; /* optional extra that flash-attn is added to; NULL: the dependencies */
    bool is_written;   /* the text becomes the file; false: it is only shown */
};

/*
 * Takes the text of the pyproject.toml `name` ("" if there is none) and sets the new text, in
 * the lock's arena. Fails with DATA if the file cannot be parsed, UNSUPPORTED if uv would not
 * install the right thing, with the reason.
 */
enum anyflash_status af_config_uv(struct af_config_lock *lock,
                                  const struct af_config_options *options, struct af_span old,
                                  const char *name, struct af_span *new_out,
                                  struct anyflash_error *err);

/*
 * Sets lines for the user to paste, in the lock's arena. `tool`: pip, pylock, poetry, pixi,
 * conda or dockerfile. Fails with UNSUPPORTED for more than one pin, or if the tool cannot
 * install what was decided.
 */
enum anyflash_status af_config_fragment(struct af_config_lock *lock, const char *tool,
                                        struct af_span *new_out, struct anyflash_error *err);

#endif
