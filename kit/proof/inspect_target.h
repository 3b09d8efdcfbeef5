/*
 * inspect_target.h: a target to inspect (a file, a folder, a wheel, or the installed packages)
 * and the facts of every extension in it.
 *
 * Opening a wheel reads only its list of members. The facts of an extension are read from the
 * whole file, unpacked to a temporary folder beside the other libraries of the wheel.
 */
#ifndef AF_KIT_PROOF_INSPECT_TARGET_H
#define AF_KIT_PROOF_INSPECT_TARGET_H

#include "kit/formats/binary.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/machine/machine.h"
#include "kit/system/file.h"
#include "kit/system/http.h"

#define AF_INSPECT_EXTENSIONS_MAX 2000u

/* The facts of one library that a proof needs. */
struct af_facts {
    struct af_binary binary;
    const struct af_gpu_code *gpu_code;     /* NULL: there is no GPU code, or it was not read */
    const struct af_flash_kernels *kernels; /* NULL: not read */
};

/* One shared library of the target. Texts in the arena of the call. */
struct af_inspect_extension {
    const char *path;    /* within the target, or the file itself */
    const char *file;    /* the file on disk; NULL: not unpacked yet */
    const char *folder;  /* the folder that it is or will be in, for $ORIGIN; NULL: not known */
    bool is_bundled;     /* in NAME.libs: a library that a package ships for its own use */
    const char *problem; /* why its facts could not be read; NULL: no failure so far */
    bool has_facts;      /* `facts` are filled */
    struct af_facts facts;
    const struct af_zip_member *member; /* set for members of a wheel */
};

/* What a wheel's file name and metadata say. */
struct af_inspect_wheel {
    bool has_name; /* `name` is filled: the file name is a valid wheel name */
    struct af_wheel_name name;
    const char *filename;
    const char *metadata_name;    /* Name of METADATA, or NULL */
    const char *metadata_version; /* Version of METADATA, or NULL */
    const char *needs_torch;      /* version specifier of its Requires-Dist on torch, or NULL */
    const char *tag;              /* first Tag of WHEEL, or NULL */
    /* "2.8", from its local version or from "torch==2.8.0"; or NULL */
    const char *stated_torch;
    /* "2 files do not match it, for example a.py"; NULL: they do, or it has no RECORD */
    const char *record_problem;
    struct af_texts
        contradictions; /* sentences: contradictions between its name and its content */
};

struct af_inspect_target {
    const char *name;                        /* as the user wrote it, scrubbed */
    struct af_inspect_extension *extensions; /* in the order of their paths */
    size_t count;
    /* a wheel or an installed package: the package's own code loads its extensions */
    bool is_package;
    bool cut; /* there were more than AF_INSPECT_EXTENSIONS_MAX extensions */
    struct af_inspect_wheel *wheel;   /* NULL: the target is no wheel */
    struct af_mapping mapping;        /* of a wheel */
    struct af_wheel_archive *archive; /* set for a wheel */
    const char *unpacked;             /* temporary folder; NULL: nothing was unpacked */
    bool was_unpacked;                /* all libraries of the wheel that can be */
};

/*
 * Opens `what`: a shared library, a wheel, or a folder that is searched for
 * libraries. A library that cannot be read becomes an extension with a `problem`.
 * Fails with NOT_FOUND, IO or DATA (a web page or a Git LFS pointer instead of a wheel)
 * when the target as a whole cannot be opened.
 */
enum anyflash_status af_inspect_target_open(const char *what, struct af_arena *arena,
                                            struct af_inspect_target *out,
                                            struct anyflash_error *err);

/*
 * Opens the extensions of the packages that are installed on `machine`, as listed in their
 * RECORDs.
 */
void af_inspect_target_open_installed(const struct af_machine *machine, struct af_arena *arena,
                                      struct af_inspect_target *out);

/*
 * Downloads the wheel at `url` to the cache folder and opens it. The file's name is removed at
 * once; its disk space is freed when the target is closed. Fails as
 * af_download_run(), and with NOT_FOUND without a home folder.
 */
enum anyflash_status af_inspect_target_open_url(const struct af_http *http, const char *url,
                                                struct af_arena *arena,
                                                struct af_inspect_target *out,
                                                struct anyflash_error *err);

/*
 * Reads all facts of extension `index`, including its GPU code; libraries of a wheel are
 * unpacked as far as needed. If the extension cannot be read, its `problem` says why.
 */
enum anyflash_status af_inspect_target_read(struct af_inspect_target *target, size_t index,
                                            struct af_arena *arena, struct anyflash_error *err);

/*
 * Reads the FlashAttention kernels of extension `index`, whose facts must all have been read.
 * Only extensions that Python or torch loads are examined: a module, or a library that needs
 * torch. There are no kernels if there is no GPU code or if it cannot be read.
 */
void af_inspect_target_read_kernels(struct af_inspect_target *target, size_t index,
                                    struct af_arena *arena);

/*
 * Removes the unpacked files and closes the wheel. Does nothing to a
 * zero-initialised target.
 */
void af_inspect_target_close(struct af_inspect_target *target);

/* ---- Private to inspect_target.c, inspect_wheel.c and wheel_content.c ---- */

/*
 * Whether the path is named like a shared library: "x.so" or "libx.so.1.2", with or without
 * folders.
 */
bool af_proof_path_is_shared_library(const char *path);

/* Adds an extension to the target; NULL when there are too many. */
struct af_inspect_extension *af_inspect_target_add(struct af_inspect_target *target,
                                                   const char *path);

/* Reads the list of extensions and the wheel's metadata from the open archive. */
void af_inspect_target_read_wheel(struct af_inspect_target *target, struct af_arena *arena);

/*
 * Unpacks the libraries of the wheel that are not unpacked yet to a temporary folder. Does
 * nothing when there are none.
 */
enum anyflash_status af_inspect_target_unpack(struct af_inspect_target *target,
                                              struct af_arena *arena,
                                              struct anyflash_error *err);

#endif
