/*
 * wheel_content.h: what a wheel contains beside what the wheels of its package's authors
 * contain: hooks that run at every start of Python, further modules, commands, libraries, run
 * paths that leave the packages. Most wheels of flash-attn come from third parties, and a wheel
 * that loads well can still bring something else.
 *
 * What to expect is data: data/wheel_contents.tsv, and data/taken_names.tsv for the names of
 * Python's and torch's modules. The code inside the package's own folder is not examined: it is
 * what the user asked for.
 */
#ifndef AF_KIT_PROOF_WHEEL_CONTENT_H
#define AF_KIT_PROOF_WHEEL_CONTENT_H

#include "kit/proof/inspect_target.h"

#define AF_CONTENT_KIND(id, text, why, flash, other) AF_CONTENT_##id,
enum af_content_kind {
#include "kit/proof/content_kinds.inc"
    AF_CONTENT_KIND_COUNT
};
#undef AF_CONTENT_KIND

/* "pth-file", as in JSON; static text. */
const char *af_content_kind_name(enum af_content_kind kind);

/* Why it matters, as half a sentence: "Python runs its lines whenever it starts". */
const char *af_content_kind_why(enum af_content_kind kind);

struct af_content_finding {
    enum af_content_kind kind;
    /*
     * Scrubbed. A path in the wheel, ending in '/' for a whole folder; for commands and entry
     * points the name in entry_points.txt. The user allows it by this name.
     */
    const char *name;
    const char *detail; /* "/tmp/lib", "group torch.backends"; or NULL */
    bool is_refused;
    bool is_forbidden; /* refused, and no option allows it */
};

#define AF_CONTENT_FINDINGS_MAX 256u

/* Texts are in the arena of the call. */
struct af_content {
    /* normalised name of the package whose list was used: "flash-attn"; NULL: there is none */
    const char *package;
    const struct af_content_finding *findings; /* in the order of the wheel */
    size_t count;
    /* findings after AF_CONTENT_FINDINGS_MAX others; one may be counted more than once */
    size_t unlisted_count;
    size_t unlisted_refused_count;
};

/*
 * Compares the members of an open wheel with the list of its package, which its file name
 * says. Run paths are compared for the extensions whose facts have been read completely. The
 * first bytes of members are read only if the wheel is a file on this machine, not behind an
 * address. `target->wheel` must not be NULL.
 */
void af_content_find(const struct af_inspect_target *target, struct af_arena *arena,
                     struct af_content *out);

/*
 * Whether a wheel may be installed or handed on, by what it contains beside its package. One
 * check for all commands that install or stage wheels, in content_refusal.c.
 */

/* Why a wheel is refused. Texts in the arena of the call. */
struct af_content_refusal {
    const char *reason; /* names the files and why they matter; NULL: not refused */
    const char *hint;   /* the options that would allow them */
};

/*
 * Decides for findings that are known. `allowed` are the names that the user allowed
 * (--allow-content); a wheel with more refused findings than can be listed is refused
 * whatever is allowed.
 */
void af_content_refuse(const struct af_content *content, const char *filename,
                       const struct af_texts *allowed, struct af_arena *arena,
                       struct af_content_refusal *out);

/*
 * Opens the wheel at `path`, reads its libraries and decides. Fails as
 * af_inspect_target_open(), or with IO if a library cannot be unpacked to the temporary folder.
 */
enum anyflash_status af_content_refuse_file(const char *path, const struct af_texts *allowed,
                                            struct af_arena *arena,
                                            struct af_content_refusal *out,
                                            struct anyflash_error *err);

/* Private to this room: the parts of af_content_find(), and what they share. */

/* Adds a finding, unless it is ordinary in such a wheel. `name` need not end in a NUL. */
typedef void af_content_add(void *context, enum af_content_kind kind, struct af_span name,
                            const char *detail);

/*
 * Calls `add` for what METADATA, whose text is `text`, makes installers do beside installing
 * the wheel. `package` is the normalised name of the package whose list is used, or NULL.
 */
void af_content_metadata(struct af_span text, const char *package, af_content_add *add,
                         void *context);

/*
 * Calls `add` for each line of entry_points.txt, read as importlib.metadata does:
 * "[console_scripts]", "name = module:function"; only '#' begins a comment.
 */
void af_content_entry_points(struct af_span text, struct af_arena *arena, af_content_add *add,
                             void *context);

/* Calls `add` for run paths and needed paths of the extensions whose facts are known. */
void af_content_run_paths(const struct af_inspect_target *target, struct af_arena *arena,
                          af_content_add *add, void *context);

/* Whether the first folder of the path, of `top_len` bytes, ends in `end`. */
bool af_content_is_top_folder(const char *path, size_t top_len, const char *end);

/* The part of the path behind the folder of an environment's packages; NULL: it is in none. */
const char *af_content_in_packages(const char *path);

/* Whether a virtual environment has it in its bin folder: "activate.fish", "python3.12". */
bool af_content_is_environment_command(struct af_span name);

/* Whether data/PATH of NAME.data replaces a file of the environment or configures it. */
bool af_content_is_environment_file(const char *path);

#endif
