/*
 * inspect_target.h: what is inspected: a file, a folder, a wheel, or the installed
 * packages; and the facts of every extension in it.
 *
 * Opening a wheel reads only its list of members. The facts of an extension are read
 * in two steps: from its first bytes, which is enough to see that it does not load;
 * then from all of it, unpacked to a temporary folder beside the other libraries of
 * the wheel. Facts that are in the state (wheel_facts.h) are not read again; then
 * only those libraries of the wheel are unpacked that others need.
 */
#ifndef AF_KIT_PROOF_INSPECT_TARGET_H
#define AF_KIT_PROOF_INSPECT_TARGET_H

#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/machine/machine.h"
#include "kit/proof/wheel_facts.h"

#define AF_INSPECT_EXTENSIONS_MAX 2000u

/* One shared library of the target. Texts in the arena of the call. */
struct af_inspect_extension {
    const char *path;    /* within the target, or the file itself */
    const char *file;    /* the file on disk; NULL: still packed */
    const char *folder;  /* the folder it is in, or will be in, for $ORIGIN; NULL: not known */
    bool is_bundled;     /* in NAME.libs: a library that a package ships for its own use */
    const char *problem; /* why there are no facts; NULL: there are, or not yet */
    const char *unread;  /* why it was not examined (to the end); NULL: it was */
    bool has_facts;      /* `facts` are filled */
    struct af_facts facts;
    const struct af_zip_member *member; /* of a wheel */
    /*
     * For the state: where its bytes are, and their hash or its replacement
     * (af_place_hash()). Whoever has hashed the file sets `sha256` before its facts
     * are read.
     */
    struct af_place place;
    const char *sha256;
    bool was_asked;       /* whether the state was asked for its facts */
    bool is_new_to_state; /* the state does not know these facts */
};

/* What a wheel says about itself, in its name and inside. */
struct af_inspect_wheel {
    bool has_name; /* `name` is filled: the file's name is a wheel's */
    struct af_wheel_name name;
    const char *filename;
    const char *metadata_name;    /* Name of METADATA, or NULL */
    const char *metadata_version; /* Version of METADATA, or NULL */
    const char *needs_torch;      /* specifier of its Requires-Dist on torch, or NULL */
    const char *tag;              /* first Tag of WHEEL, or NULL */
    const char *stated_torch; /* "2.8", by its local version or by "torch==2.8.0"; or NULL */
    struct af_texts
        contradictions; /* sentences: contradictions between its name and its content */
};

struct af_inspect_target {
    const char *name;                        /* as asked for, scrubbed */
    struct af_inspect_extension *extensions; /* in the order of their paths */
    size_t count;
    bool is_package; /* a wheel or installed: a package's own code loads its extensions */
    bool cut;        /* more than AF_INSPECT_EXTENSIONS_MAX were there */
    struct af_inspect_wheel *wheel;   /* NULL: it is no wheel */
    struct af_source *source;         /* of a wheel; else NULL */
    struct af_wheel_archive *archive; /* of a wheel */
    const char *unpacked;             /* temporary folder; NULL: nothing was unpacked */
    bool has_unpacked_needed;         /* of the wheel: what its libraries need of each other */
    bool has_unpacked_all;
    struct af_state *state; /* borrowed; NULL: nothing is known or kept */
    struct af_place place;  /* of a wheel */
};

/*
 * Opens `what`: a shared library, a wheel, or a folder that is searched for
 * libraries. A library that cannot be read becomes an extension with a `problem`.
 * `state` is borrowed until the target is closed. Fails with NOT_FOUND, IO, DATA (a
 * web page or a Git LFS pointer instead of a wheel) or NO_MEMORY when the target as
 * a whole cannot be opened.
 */
enum anyflash_status af_inspect_target_open(const char *what, struct af_state *state,
                                            struct af_arena *arena,
                                            struct af_inspect_target *out,
                                            struct anyflash_error *err);

/* The extensions of the packages that `machine` has installed, by their RECORDs. */
enum anyflash_status af_inspect_target_open_installed(const struct af_machine *machine,
                                                      struct af_state *state,
                                                      struct af_arena *arena,
                                                      struct af_inspect_target *out,
                                                      struct anyflash_error *err);

/*
 * A wheel in a source that is open and that was found at `place` (zero: not known).
 * The source is closed with the target, and also when this fails.
 */
enum anyflash_status af_inspect_target_open_source(
    struct af_source *source, const char *filename, const struct af_place *place,
    struct af_state *state, struct af_arena *arena, struct af_inspect_target *out,
    struct anyflash_error *err);

/*
 * Reads facts of extension `index` of a wheel: those that are known, else from its
 * first bytes, if it is packed and large; else does nothing, and it has no facts
 * yet.
 */
enum anyflash_status af_inspect_target_read_start(struct af_inspect_target *target,
                                                  size_t index, struct af_arena *arena,
                                                  struct anyflash_error *err);

/*
 * Reads all facts of extension `index`, its GPU code too; libraries of a wheel are
 * unpacked as far as needed. If the extension cannot be read, its `problem` says
 * why.
 */
enum anyflash_status af_inspect_target_read(struct af_inspect_target *target, size_t index,
                                            struct af_arena *arena, struct anyflash_error *err);

/*
 * The FlashAttention kernels of extension `index`, whose facts are all read;
 * only of what Python or torch loads as an extension: a module, or a library
 * that needs torch. Without GPU code, or when they cannot be read, there are none.
 */
enum anyflash_status af_inspect_target_read_kernels(struct af_inspect_target *target,
                                                    size_t index, struct af_arena *arena,
                                                    struct anyflash_error *err);

/* Stores what was read in the state. Call it once, after the answer was printed. */
void af_inspect_target_store_facts(struct af_inspect_target *target, struct af_arena *arena);

/*
 * Removes the unpacked files and closes the wheel. Does nothing to a
 * zero-initialised target.
 */
void af_inspect_target_close(struct af_inspect_target *target);

#endif
