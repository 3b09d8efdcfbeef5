/*
 * loader.h: where ld.so finds a library, and in which order libraries are loaded;
 * nothing is loaded. Private to symbol_scope.c and stand_ins.c.
 *
 * Not modelled: LD_PRELOAD, LD_AUDIT, glibc-hwcaps subfolders (their libraries
 * define the same symbols).
 */
#ifndef AF_KIT_PROOF_LOADER_H
#define AF_KIT_PROOF_LOADER_H

#include "kit/formats/elf.h"
#include "kit/proof/symbol_scope.h"
#include "kit/system/file.h"

/* A library in the process: what the public struct says, and where it came from. */
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

/* A file that was mapped, once under all its paths. */
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
    unsigned machine; /* of the program; a file for another is passed over */
    bool is_64;
    const char *library_path; /* LD_LIBRARY_PATH, or NULL */
    struct af_span cache;     /* ld.so.cache; empty without */
    /* Folders where torch itself looks when ld.so finds nothing. */
    const char **fallbacks;
    size_t fallback_count;
    bool use_fallbacks;
    const char *torch_folder; /* files below it are torch's */
    /* From the table, for a torch that is not installed; NULL: all libraries are files. */
    const struct af_proof_torch_table_libraries *stock;
    bool use_stock; /* while torch itself is loaded */
    /*
     * Not this system: its interpreter, C and C++ libraries are known by this
     * record only, and files are looked for beside the extension alone.
     */
    const struct af_machine *record;
    bool use_siblings;   /* as scope.h has it */
    const char *sibling; /* that was found so last, or NULL */
    struct af_mapped *mapped[2 * AF_SCOPE_LIBRARIES_MAX];
    size_t mapped_count;
};

/* A DT_NEEDED that was not found is added here, as long as there is room. */
struct af_missing_list {
    struct af_missing_library items[AF_SCOPE_LIBRARIES_MAX];
    size_t count;
};

/* Adds the module to the list as asked for by `asked_by`; NULL when that cannot be done. */
struct af_library *af_loader_put(struct af_module *module, const struct af_library *asked_by,
                                 struct af_module_list *list);

/* Adds the file as a new module to the list; NULL when it cannot be used or lacks memory. */
struct af_library *af_loader_add(struct af_loader *loader, struct af_arena *arena,
                                 const char *path, const struct af_library *asked_by,
                                 struct af_module_list *list);

/*
 * Loads what the modules from `first` on need, breadth first, and fills their
 * `needs`. New modules are in `arena`.
 */
void af_loader_walk(struct af_loader *loader, struct af_arena *arena,
                    struct af_module_list *list, size_t first, struct af_missing_list *missing);

void af_loader_release(struct af_loader *loader);

#endif
