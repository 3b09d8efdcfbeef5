/*
 * given.h: what the handlers of --given's keys share; the readers of pasted text
 * use it, too. Private to kit/machine. given.c has the table of keys; given_*.c
 * parse values as users write them. A handler never fails: a value that it cannot parse
 * becomes unknown, with a remark.
 */
#ifndef AF_KIT_MACHINE_GIVEN_H
#define AF_KIT_MACHINE_GIVEN_H

#include "kit/machine/machine.h"

struct af_given {
    struct af_machine *machine;
    struct af_arena *arena; /* the machine's arena */
    const char *key;
    const char *value;  /* scrubbed, trimmed */
    const char *lower;  /* value in lower case */
    const char *source; /* "--given key=value" */
    struct af_origin origin;
    const char *remark;  /* what could not be parsed; NULL: nothing so far */
    const char *problem; /* why the value cannot be read at all; NULL: it can */
};

/* Starts a key: `value` also in lower case, no remark. */
void af_given_begin(struct af_given *given, const char *key, const char *value,
                    const char *source, struct af_origin origin);

/*
 * Set a fact as af_fact_*() do, with the source and origin of the word. `why` says how the
 * fact follows from the word ("that product"); NULL: it is the value.
 */
void af_given_text(struct af_given *given, struct af_fact *fact, const char *text,
                   const char *why);
void af_given_absent(struct af_given *given, struct af_fact *fact, const char *why);
void af_given_bool(struct af_given *given, struct af_fact *fact, bool truth, const char *why);
void af_given_int(struct af_given *given, struct af_fact *fact, int64_t number);

/* Replaces the remark with "key=value: " and the formatted sentence. */
void af_given_remark(struct af_given *given, const char *format, ...) AF_PRINTF(2, 3);

/* The value cannot be read at all: "not a version". Sets the remark, too. */
void af_given_unreadable(struct af_given *given, const char *what);

/* As af_given_unreadable(), and makes the fact unknown. */
void af_given_unclear(struct af_given *given, struct af_fact *fact, const char *what);

/* Whether the text of `len` bytes is one of the words, separated by '|'. */
bool af_given_is_word(const char *text, size_t len, const char *words);

/* Whether the value is none, no, null, absent, not installed, or empty. */
bool af_given_is_none(const struct af_given *given);

/* Whether a word of --given with that key set the fact; NULL: any key. */
bool af_given_by(const struct af_fact *fact, const char *key);

/*
 * The version at the start of the value, up to the first blank, in the arena;
 * NULL when there is none ("1.x", ">12", "newest").
 */
const char *af_given_version(const struct af_given *given);

/* Stores the value in the fact that the key is a short name of. */
void af_given_named_fact(struct af_given *given);

/* Sets the facts that follow from os, arch, libc and Python together: tags and SOABI. */
void af_given_derive(struct af_given *given);

/*
 * The two halves of af_given_derive(). `origin` says in the sources who stated
 * the facts.
 */
void af_given_derive_tags(struct af_given *given, const char *origin);
void af_given_derive_soabi(struct af_given *given, const char *origin);

/* Describes GPU `index` by its name and the name in lower case; adds rows up to it. */
void af_given_gpu_describe(struct af_given *given, size_t index, const char *name,
                           const char *lower);

void af_given_os(struct af_given *given);
void af_given_arch(struct af_given *given);
void af_given_platform(struct af_given *given);
void af_given_distribution(struct af_given *given);
void af_given_libc(struct af_given *given);
void af_given_glibcxx(struct af_given *given);

void af_given_python(struct af_given *given);
void af_given_torch(struct af_given *given);
void af_given_torch_cuda(struct af_given *given);

void af_given_flash_attn(struct af_given *given);
void af_given_package(struct af_given *given);
void af_given_installer(struct af_given *given);
void af_given_tool(struct af_given *given);

void af_given_gpu(struct af_given *given);
void af_given_sm(struct af_given *given);
void af_given_vram(struct af_given *given);
void af_given_driver(struct af_given *given);
void af_given_cuda_api(struct af_given *given);
void af_given_visible_devices(struct af_given *given);

void af_given_toolkit(struct af_given *given);
void af_given_compiler(struct af_given *given);
void af_given_ram(struct af_given *given);
void af_given_cores(struct af_given *given);
void af_given_disk(struct af_given *given);
void af_given_variable(struct af_given *given);

#endif
