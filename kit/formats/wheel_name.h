/*
 * wheel_name.h: the parts of a wheel's file name and of its local version.
 *
 * A name can be wrong: it does not prove what the wheel contains. Source: PEP
 * 427 (file name, build tag), PEP 440 (version), PEP 825 (variant label, the
 * seventh field), and the conventions of those who publish flash-attn wheels.
 */
#ifndef AF_KIT_FORMATS_WHEEL_NAME_H
#define AF_KIT_FORMATS_WHEEL_NAME_H

#include "kit/base/memory.h"
#include "kit/formats/version.h"

#define AF_WHEEL_NAME_BYTES 512

/*
 * A wheel's file name in parts. Texts point into `text`, so a copied struct must
 * be parsed again. `package` is as written; `build` and `variant` are "" when
 * absent. `version_text` carries the local part, decoded ("%2B" is '+').
 */
struct af_wheel_name {
    const char *package;
    const char *version_text;
    const char *build;
    const char *python;
    const char *abi;
    const char *platform;
    const char *variant;
    struct af_version version;
    char text[AF_WHEEL_NAME_BYTES];
};

enum af_wheel_name_problem {
    AF_WHEEL_NAME_VALID = 0,
    AF_WHEEL_NAME_TOO_LONG,
    AF_WHEEL_NAME_NO_WHEEL, /* does not end in .whl */
    AF_WHEEL_NAME_FIELDS,   /* not five to seven fields */
    AF_WHEEL_NAME_LETTERS,  /* a character that the field must not have */
    AF_WHEEL_NAME_BUILD,    /* the build tag does not start with a digit */
    AF_WHEEL_NAME_VERSION   /* not a PEP 440 version */
};

/* Parses the file name `text` (no folder). On a problem *name_out is unchanged. */
enum af_wheel_name_problem af_wheel_name_parse(const char *text, size_t len,
                                               struct af_wheel_name *name_out);

/* Describes a problem, for example "has no PEP 440 version". */
const char *af_wheel_name_problem_text(enum af_wheel_name_problem problem);

/* How a publisher writes torch's version without dots. */
enum af_formats_torch_digits {
    AF_FORMATS_TORCH_DIGITS_NONE,       /* dotted or unknown: do not guess */
    AF_FORMATS_TORCH_DIGITS_PATCH_LAST, /* torch280 = 2.8.0, torch2100 = 2.10.0 */
    AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE /* torch29 = 2.9, torch210 = 2.10, torch260 = 2.6.0 */
};

/*
 * The convention of a source, by its catalog name; AF_FORMATS_TORCH_DIGITS_NONE
 * if not listed.
 */
enum af_formats_torch_digits af_formats_torch_digits_of(const char *source);

#define AF_WHEEL_WORD_BYTES 16

/* The parts of a local version. Texts are "" when absent. */
struct af_wheel_local {
    char cuda[AF_WHEEL_WORD_BYTES];  /* "12", "12.8" */
    char torch[AF_WHEEL_WORD_BYTES]; /* "2.8", "2.8.0" */
    enum af_answer cxx11abi;         /* per the label; UNKNOWN without one */
    bool rocm;
};

/* Reads cu, torch and abi from any local version and ignores the rest. */
void af_wheel_local_parse(const char *local, enum af_formats_torch_digits digits,
                          struct af_wheel_local *local_out);

/*
 * Writes the normalised form of `name`: lower case, with each run of '-', '_'
 * and '.' as one '-'. Returns false and an empty buffer when it does not fit in
 * `size_bytes`.
 */
bool af_name_normalise(struct af_span name, char *buffer, size_t size_bytes);

/* Whether `name` normalises to `normalised`. */
bool af_name_is(struct af_span name, const char *normalised);

/*
 * A wheel's file name without "+local", as `config` stores wheels whose metadata lacks the
 * local version. In `arena` or `file` itself.
 */
const char *af_wheel_plain_name(struct af_arena *arena, const char *file);

/*
 * The name that installers list for a package: "flash-attn" for "flash_attn". Allocated in
 * `arena`.
 */
const char *af_wheel_listed_name(struct af_arena *arena, const char *package);

#endif
