/*
 * symbol_scope.h: which libraries define an extension's symbols. A scope is the list of
 * libraries of a Python process after `import torch`, in the order in which the loader searches
 * them.
 *
 * A scope is made from an installed environment (its files are mapped, and the DT_NEEDED
 * closure is walked as ld.so walks it), or from the table of a torch release that is not
 * installed. af_scope_load() then predicts what dlopen() of one extension would do, without
 * calling it.
 *
 * Order in the process: first the program and its libraries, then libtorch_global_deps and its
 * libraries (torch makes them global), then libraries that only libtorch_python needs. Those
 * last ones are loaded, but an extension sees them only if they are in its own DT_NEEDED
 * closure.
 *
 * Source: ld.so(8), dlopen(3), gABI chapter 5 "Shared Object Dependencies".
 */
#ifndef AF_KIT_PROOF_SYMBOL_SCOPE_H
#define AF_KIT_PROOF_SYMBOL_SCOPE_H

#include "kit/base/memory.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/formats/binary.h"
#include "kit/machine/machine.h"

#define AF_SCOPE_LIBRARIES_MAX 512u

struct af_library;

/* How a library answers questions; UNKNOWN if only its name is known. */
struct af_library_kind {
    /* Whether it defines the symbol at `version` (NULL: the default version). */
    enum af_answer (*defines)(const struct af_library *library, const char *name,
                              const char *version);
    /* Whether it defines the symbol version `version` ("GLIBC_2.34"). */
    enum af_answer (*has_version)(const struct af_library *library, const char *version);
};

/* One library, or the program itself. */
struct af_library {
    const char *name; /* SONAME, or the name by which another library needs it */
    /* path; file name without folder if from a table; NULL: only its name is known */
    const char *path;
    const struct af_library *asked_by; /* the library whose DT_NEEDED loaded it; NULL: a root */
    bool is_new; /* not loaded by `import torch`: the extension loads it */
    const struct af_library_kind *kind;
    void *source;              /* data of the kind */
    struct af_library **needs; /* the libraries of its DT_NEEDED that are found, in order */
    size_t need_count;
};

/* A DT_NEEDED that no rule of the loader finds. */
struct af_missing_library {
    const char *name;
    const char *asked_by;
};

/* Facts about the torch in the scope. */
struct af_scope_torch {
    const char *version;     /* as torch.__version__; NULL: no torch */
    int major_number;        /* 2; -1 without torch */
    int minor_number;        /* 9 */
    enum af_answer cxx11abi; /* from a symbol that libc10 defines */
    const char *cudart;      /* "libcudart.so.12" of libc10_cuda's DT_NEEDED; NULL: no CUDA */
    bool has_cuda;           /* libc10_cuda exists */
};

struct af_scope {
    struct af_arena arena;
    struct af_scope_torch torch;
    struct af_library **libraries; /* all libraries that are loaded after `import torch` */
    size_t count;
    /* the first global_count libraries are visible to every extension */
    size_t global_count;
    struct af_missing_library *missing; /* missing from torch's own closure */
    size_t missing_count;
    const char *problem; /* why the scope is incomplete (answers are then unknown); or NULL */
    /*
     * Set by callers that ask about extensions of packages: a library beside the extension that
     * is not found otherwise counts as found, because the package loads it first.
     */
    bool takes_siblings;
    struct af_loader *loader; /* private: finds files */
};

/*
 * Makes the scope of the environment that `machine` was probed from on this system. Files that
 * cannot be read are left out and named in `problem`. Release it with af_scope_release().
 */
void af_scope_installed(const struct af_machine *machine, struct af_scope *out);

/*
 * Makes the scope of a torch that is not installed. torch's libraries come from the table, from
 * the build of `choice` (which must have one). The interpreter and the C and C++ libraries come
 * from the files of this system with `is_here`, else from the record `machine`. `symbols` must
 * outlive the scope. Release as above.
 */
void af_scope_of_torch(const struct af_catalog_torch_symbols *symbols,
                       const struct af_catalog_torch_choice *choice,
                       const struct af_machine *machine, bool is_here, struct af_scope *out);
void af_scope_release(struct af_scope *scope);

/* The loaded library called `name`, or NULL. */
const struct af_library *af_scope_library(const struct af_scope *scope, const char *name);

/* Whether `name` is its SONAME or its file name: the loader accepts both. */
bool af_library_is_called(const struct af_library *library, const char *name);

/* A symbol that a library needs and no library defines. */
struct af_unresolved {
    const char *name; /* mangled */
    const char *library;
};

#define AF_UNRESOLVED_MAX 64u

/* What dlopen() of one extension finds (scope_load.c). Arrays are in the call's arena. */
struct af_load {
    /* libraries in the order of symbol lookup; the first definition is used */
    const struct af_library *const *order;
    size_t count;
    struct af_missing_library *missing;
    size_t missing_count;
    const char *sibling; /* a library that only its package can have loaded; NULL: none */
    /*
     * Unresolved symbols of the libraries that the extension loads, at most AF_UNRESOLVED_MAX;
     * the extension's own symbols are not in this list.
     */
    const struct af_unresolved *unresolved;
    size_t unresolved_count;
};

/*
 * Walks the DT_NEEDED closure of `binary` as the loader would after `import torch`. The binary
 * is or will be in `folder` (for $ORIGIN; NULL: not known). Files that are mapped on the way
 * stay mapped until the scope is released; they do not change what other extensions find.
 */
void af_scope_load(struct af_scope *scope, const struct af_binary *binary, const char *folder,
                   struct af_arena *arena, struct af_load *out);

/*
 * Whether the symbol is defined, searched in the loader's order: a name without version matches
 * the default definition; a library without symbol versions matches any version. UNKNOWN if
 * only a library that is known by name alone could define it.
 */
enum af_answer af_load_defines(const struct af_load *load, const char *name,
                               const char *version);

/*
 * Whether the library of the scope called `library` defines `version`; NO if it has no such
 * library.
 */
enum af_answer af_load_has_version(const struct af_load *load, const char *library,
                                   const char *version);

#endif
