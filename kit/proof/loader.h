/*
 * loader.h: where ld.so finds a library, and in which order libraries are loaded;
 * nothing is loaded. Private to symbol_scope.c, scope_load.c,
 * recorded_libraries.c and torch_table_library.c.
 *
 * Not modelled: LD_PRELOAD, LD_AUDIT, glibc-hwcaps subfolders (their libraries
 * define the same symbols).
 */
#ifndef AF_KIT_PROOF_LOADER_H
#define AF_KIT_PROOF_LOADER_H

#include "kit/formats/elf.h"
#include "kit/proof/symbol_scope.h"
#include "kit/system/file.h"

/* A library in the process: its public struct, and the file it came from. */
struct af_module {
    struct af_library library;     /* library.source is this module */
    const struct af_dynamic *file; /* NULL for the extension itself */
    const char *origin;            /* $ORIGIN; NULL: not known */
    const char *rpath;
    const char *runpath;
    const char *const *needed;
    size_t needed_count;
};

/* Libraries of a process in the order of loading. */
struct af_module_list {
    struct af_library *items[AF_SCOPE_LIBRARIES_MAX];
    size_t count;
};

/* A mapped file; one entry stands for all its paths. */
struct af_mapped {
    const char *path;
    struct af_mapping mapping;
    struct af_dynamic dynamic;
    uint64_t device;
    uint64_t inode;
    bool is_usable; /* an ELF file for the program's machine */
};

struct af_loader {
    struct af_arena *arena;
    unsigned machine; /* of the program; a file for another machine is skipped */
    bool is_64;
    const char *library_path; /* LD_LIBRARY_PATH, or NULL */
    struct af_span cache;     /* ld.so.cache; empty if there is none */
    /* Folders that torch itself searches when ld.so finds nothing. */
    const char **fallbacks;
    size_t fallback_count;
    bool use_fallbacks;
    /*
     * Libraries of a torch that is not installed, from the table; NULL: all libraries are
     * files.
     */
    const struct af_proof_torch_table_libraries *stock;
    bool use_stock; /* while torch itself is loaded */
    /*
     * Set when the machine is not this system: its interpreter, C and C++ libraries are known
     * from this record only, and files are searched only beside the extension.
     */
    const struct af_machine *record;
    bool use_siblings;   /* see takes_siblings in symbol_scope.h */
    const char *sibling; /* the last library that was found in that way, or NULL */
    struct af_mapped *mapped[2 * AF_SCOPE_LIBRARIES_MAX];
    size_t mapped_count;
};

/* List of DT_NEEDED names that were not found; names beyond its capacity are dropped. */
struct af_missing_list {
    struct af_missing_library items[AF_SCOPE_LIBRARIES_MAX];
    size_t count;
};

/* Adds the module to the list as needed by `asked_by`; NULL on failure. */
struct af_library *af_loader_put(struct af_module *module, const struct af_library *asked_by,
                                 struct af_module_list *list);

/* Adds the file as a new module to the list; NULL when it is not usable. */
struct af_library *af_loader_add(struct af_loader *loader, struct af_arena *arena,
                                 const char *path, const struct af_library *asked_by,
                                 struct af_module_list *list);

/*
 * Loads what the modules from index `first` on need, breadth first, and fills their `needs`.
 * New modules are allocated in `arena`.
 */
void af_loader_walk(struct af_loader *loader, struct af_arena *arena,
                    struct af_module_list *list, size_t first, struct af_missing_list *missing);

void af_loader_release(struct af_loader *loader);

#endif
