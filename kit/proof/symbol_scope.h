/*
 * symbol_scope.h: where an extension's symbols come from: the libraries of a Python
 * process after `import torch`, in the order in which the loader searches them.
 *
 * A scope is made from an installed environment (its files are mapped, and the
 * closure over DT_NEEDED is walked as ld.so walks it), or from the table of a torch
 * release that is not installed. Then af_scope_load() says what dlopen() of one
 * extension would do, without doing it.
 *
 * Order in the process: first the program and its libraries, then
 * libtorch_global_deps and its libraries (torch makes them global), then those that
 * only libtorch_python brings: they are loaded, but an extension sees them only if
 * its own DT_NEEDED closure names them.
 *
 * Source: ld.so(8), dlopen(3), gABI chapter 5 "Shared Object Dependencies".
 */
#ifndef AF_KIT_PROOF_SYMBOL_SCOPE_H
#define AF_KIT_PROOF_SYMBOL_SCOPE_H

#include "engine/base/mem.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/formats/binary.h"
#include "kit/machine/machine.h"

#define AF_SCOPE_LIBRARIES_MAX 512u

struct af_library;

/* How a library answers; UNKNOWN where it is known by name only. */
struct af_library_kind {
    /* Whether it defines the symbol, at `version` (NULL: its default). */
    enum af_answer (*defines)(const struct af_library *library, const char *name,
                              const char *version);
    /* Whether it defines the symbol version `version` ("GLIBC_2.34"). */
    enum af_answer (*has_version)(const struct af_library *library, const char *version);
};

/* One library, or the program itself. */
struct af_library {
    const char *name; /* SONAME, or the name it was asked for by */
    const char *path; /* file; without folder: of a table; NULL: known by name only */
    const struct af_library *asked_by; /* whose DT_NEEDED brought it; NULL: a root */
    bool is_torch;                     /* a part of torch itself */
    bool is_new; /* not loaded by `import torch`: the extension brings it */
    const struct af_library_kind *kind;
    void *source;              /* the kind's own */
    struct af_library **needs; /* of its DT_NEEDED those that are found, in order */
    size_t need_count;
};

/* A DT_NEEDED that no rule of the loader finds. */
struct af_missing_library {
    const char *name;
    const char *asked_by;
};

/* What is known of the torch in the scope. */
struct af_scope_torch {
    const char *version;     /* as torch.__version__; NULL: no torch */
    int major_number;        /* 2; -1 without torch */
    int minor_number;        /* 9 */
    enum af_answer cxx11abi; /* by a symbol that libc10 defines */
    const char *cudart;      /* "libcudart.so.12" of libc10_cuda's DT_NEEDED; NULL: no CUDA */
    bool has_cuda;           /* libc10_cuda is there */
};

struct af_scope {
    struct af_arena arena;
    const char *name; /* name for people: the environment's folder, or "torch 2.9.1+cu128" */
    struct af_scope_torch torch;
    struct af_library **libraries; /* all that are loaded after `import torch` */
    size_t count;
    size_t global_count;                /* the first of them: seen by every extension */
    struct af_missing_library *missing; /* of torch's own closure */
    size_t missing_count;
    const char *problem; /* why the scope is not complete (and answers are unknown); or NULL */
    /*
     * Set by callers that ask about extensions of packages: a library beside an
     * extension that nothing else finds counts as found, because the package loads
     * it first.
     */
    bool takes_siblings;
    struct af_loader *loader; /* private: finds files; NULL: none can be looked for */
};

/*
 * The scope of the environment that `machine` was probed from on this system.
 * Files that cannot be read are left out and named in `problem`. Fails with
 * NO_MEMORY only. Release with af_scope_release(), also after failure.
 */
enum anyflash_status af_scope_installed(const struct af_machine *machine, struct af_scope *out,
                                        struct anyflash_error *err);

/*
 * The scope of a torch that is not installed: its libraries from the table, the
 * build of `choice` (which must have one); interpreter, C and C++ libraries from
 * the files of this system with `is_here`, else from the record `machine`.
 * `symbols` must outlive the scope. Fails with NO_MEMORY only; release as above.
 */
enum anyflash_status af_scope_of_torch(const struct af_catalog_torch_symbols *symbols,
                                       const struct af_catalog_torch_choice *choice,
                                       const struct af_machine *machine, bool is_here,
                                       struct af_scope *out, struct anyflash_error *err);
void af_scope_release(struct af_scope *scope);

/* The loaded library called `name`, or NULL. */
const struct af_library *af_scope_library(const struct af_scope *scope, const char *name);

/* Whether `name` is its SONAME or its file's name: the loader takes either. */
bool af_library_is_called(const struct af_library *library, const char *name);

/* A symbol that a library needs and no library defines. */
struct af_unresolved {
    const char *name; /* mangled */
    const char *library;
};

#define AF_UNRESOLVED_MAX 64u

/* What dlopen() of one extension finds. Arrays in the arena of the call. */
struct af_load {
    const struct af_library *const *order; /* where symbols are looked up, first wins */
    size_t count;
    struct af_missing_library *missing;
    size_t missing_count;
    const char *sibling; /* one that only its package can have loaded; NULL: none */
    /* Of the libraries that it brings, at most AF_UNRESOLVED_MAX; its own are not in it. */
    const struct af_unresolved *unresolved;
    size_t unresolved_count;
};

/*
 * Walks the DT_NEEDED closure of `binary`, which lies (or will lie) in
 * `folder` (for $ORIGIN; NULL: not known), as the loader would after `import
 * torch`. What is mapped on the way stays mapped until the scope is released;
 * it does not change what other extensions find. In a scope without files a
 * library that is not there is taken as one that is known by name only.
 */
enum anyflash_status af_scope_load(struct af_scope *scope, const struct af_binary *binary,
                                   const char *folder, struct af_arena *arena,
                                   struct af_load *out, struct anyflash_error *err);

/*
 * Whether the symbol is defined, asked in the loader's order: a name without
 * version takes the default definition; a library without symbol versions
 * serves any. UNKNOWN where it would have to come from a library that is known
 * by name only.
 */
enum af_answer af_load_defines(const struct af_load *load, const char *name,
                               const char *version);

/* Whether the library of the scope called `library` defines `version`; NO: it is not there. */
enum af_answer af_load_has_version(const struct af_load *load, const char *library,
                                   const char *version);

#endif
