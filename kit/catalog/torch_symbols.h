/*
 * torch_symbols.h: the symbols that builds of torch export, for a torch that is
 * not installed. Each build is the torch wheel with the CUDA wheels it depends
 * on. torch_choice.c chooses the build for a torch; torch_symbols.c has the rest.
 *
 * The data is data/torch_symbols.json (builds and their libraries, constants whose
 * members have the names of its keys) and torch_symbols.bin (48-bit hashes of all
 * names, format in tools/make_torch_symbols.py); embedded at build time. Names can be looked up
 * but not listed. A lookup always finds a name that a build has; it also finds a
 * name that the build lacks with a probability of about 1.6e-9 (names over
 * 2^48). The WebAssembly module has a short table: only the names of torch's own
 * libraries, with 32 bits of each hash (8.5e-5).
 */
#ifndef AF_KIT_CATALOG_TORCH_SYMBOLS_H
#define AF_KIT_CATALOG_TORCH_SYMBOLS_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/formats/binary.h"

#define AF_CATALOG_TORCH_LIBRARIES_MAX 64u

struct af_catalog_torch_library {
    const char *name;         /* SONAME: "libc10.so" */
    const char *file;         /* file name; the loader finds it by either */
    const char *origin;       /* "torch", or its wheel: "nvidia-cublas-cu12 12.8.4.1" */
    struct af_texts needed;   /* DT_NEEDED, in order */
    struct af_texts versions; /* symbol versions it defines: "libcudart.so.12" */
};

/* Whether torch's own wheel has it. */
bool af_catalog_torch_library_is_own(const struct af_catalog_torch_library *library);

/* Whether only builds with CUDA have it: libtorch_cuda, libcudart. */
bool af_catalog_torch_library_is_cuda(const struct af_catalog_torch_library *library);

struct af_catalog_symbol_build {
    const char *version;  /* "2.9.1" */
    const char *variant;  /* "cu128", "cpu" */
    const char *platform; /* "linux_x86_64", "linux_aarch64" */
    enum af_answer cxx11abi;
    const char *cudart;           /* "libcudart.so.12", from libc10_cuda; NULL: no CUDA */
    const char *pybind_internals; /* "__pybind11_internals_v11_..."; NULL: unknown */
    const struct af_catalog_torch_library *libraries;
    size_t libraries_count; /* at most AF_CATALOG_TORCH_LIBRARIES_MAX */
};

struct af_catalog_torch_builds {
    const struct af_catalog_symbol_build *builds; /* oldest first */
    size_t builds_count;
};
extern const struct af_catalog_torch_builds af_catalog_torch_builds;

struct af_catalog_torch_symbols {
    struct af_arena arena;
    const struct af_catalog_symbol_build *builds; /* oldest first */
    size_t build_count;
    /* private: see torch_symbols.c */
    const unsigned char *bytes;
    size_t rest_bytes; /* of a hash, after its first 16 bits */
    const uint32_t *starts;
    size_t name_count;
    size_t pattern_count;
};

/*
 * Unpacks the names (a few milliseconds, 4 MB). Fails with INTERNAL
 * when the embedded data is invalid. Once loaded, safe from any thread.
 */
enum anyflash_status af_catalog_torch_symbols_load(struct af_catalog_torch_symbols *symbols,
                                                   struct anyflash_error *err);
void af_catalog_torch_symbols_release(struct af_catalog_torch_symbols *symbols);

/* Bit i is set if library i of the build defines the dynamic symbol `name`. Below 1 us. */
uint64_t af_catalog_torch_symbols_in(const struct af_catalog_torch_symbols *symbols,
                                     const struct af_catalog_symbol_build *build,
                                     const char *name);

/* Whether the table has builds for the platform. */
bool af_catalog_torch_symbols_cover(const struct af_catalog_torch_symbols *symbols,
                                    const char *platform);

/*
 * Finds the oldest and the newest torch version with a build for the platform that
 * defines the name, for any CUDA version; with a build for any platform if the
 * table has none for this one. Returns false if no build does. The texts belong to
 * the table.
 */
bool af_catalog_torch_symbols_span(const struct af_catalog_torch_symbols *symbols,
                                   const char *platform, const char *name,
                                   const char **oldest_out, const char **newest_out);

/*
 * The build used for a torch that may be missing from the table. If another
 * build is used instead, `note` says so and why that is possible.
 */
struct af_catalog_torch_choice {
    const struct af_catalog_symbol_build *build; /* whose torch libraries apply; NULL: none */
    const struct af_catalog_symbol_build *cuda;  /* whose CUDA libraries apply; NULL: none */
    const char *version;                         /* "2.9.1+cu130": the requested torch */
    const char *variant;                         /* "cu130", "cpu" */
    int major_number;
    int minor_number;
    int cuda_major;   /* 13; -1: no CUDA, or unknown */
    const char *note; /* NULL: exactly this build was found */
};

/*
 * Chooses the build for `version` ("2.9.1+cu128"; without a local part, the build
 * on PyPI for the platform; "2.9": its newest patch release). Another patch release
 * of the minor can be used instead of a missing one; another minor cannot. The torch
 * libraries of another CUDA variant can be used, or of another platform if that has
 * no such build, with the CUDA libraries of a build that has that CUDA version, or
 * that major. ROCm builds, pre-releases and invalid versions have no build. Texts are
 * in `arena`.
 */
enum anyflash_status af_catalog_torch_symbols_choose(
    const struct af_catalog_torch_symbols *symbols, const char *version, const char *platform,
    struct af_arena *arena, struct af_catalog_torch_choice *out, struct anyflash_error *err);

#endif
