/*
 * tables.h: facts about torch releases, CUDA toolkits, flash-attn releases, and
 * wheels whose names are wrong.
 *
 * They are constants that tools/pack_data.c makes from data/torch.json, cuda.json,
 * flash_attn_releases.json, flash_attn_4.json and traps.json when the program is built;
 * those files give the source and date of each row, and their keys are the names of the
 * members here. NULL and -1 mean unknown.
 */
#ifndef AF_KIT_CATALOG_TABLES_H
#define AF_KIT_CATALOG_TABLES_H

#include "engine/base/base.h"

struct af_catalog_wheel;

struct af_words {
    const char *const *items;
    size_t count;
};

/* One build of a torch release. */
struct af_catalog_torch_variant {
    const char *platform; /* linux_x86_64, linux_aarch64, win_amd64 */
    const char *cuda;     /* "cu128", "cpu" */
    int cuda_major;       /* 12; -1 for cpu */
    int cuda_minor;
    enum af_answer cxx11abi; /* UNKNOWN on Windows, where it does not apply */
    const char *glibc_min;   /* "2.28"; NULL off Linux */
    struct af_words sm;      /* "8.0"; count 0: unknown */
    bool is_default;         /* what `pip install torch` gets from PyPI */
};

/* One minor release of torch. Variants: newest CUDA last. */
struct af_catalog_torch_release {
    const char *torch;    /* "2.9" */
    const char *latest;   /* newest patch release: "2.9.1" */
    const char *released; /* "2025-10-14", or when it was first seen */
    int torch_major;
    int torch_minor;
    int layout; /* releases of equal number share their C++ object layout */
    /* flash-attn 2 built for this release was tested with these: symbols and layout agree */
    struct af_words neighbours;
    int cxx_std_min;                      /* 17 or 20: required by its headers */
    enum af_answer flash_kernels_windows; /* PyTorch's CUDA builds for Windows have them */
    struct af_words python;               /* "3.12" */
    struct af_words python_free_threaded; /* "3.13" */
    const struct af_catalog_torch_variant *variants;
    size_t variants_count;
};

struct af_cuda_toolkit {
    const char *cuda; /* "12.8" */
    int cuda_major;
    int cuda_minor;
    int gcc_max; /* newest supported major of the host compiler; -1 unknown */
    int clang_max;
    const char *driver_linux_min; /* the driver that ships with the toolkit's first update */
    const char *driver_windows_min;
    const char *driver_linux_floor; /* oldest driver that runs this major's cubins */
    struct af_words sm_targets;
};

/* A PTX version and the first CUDA version whose drivers can compile it. */
struct af_ptx_isa {
    const char *ptx; /* "8.7" */
    int ptx_major;
    int ptx_minor;
    const char *cuda; /* "12.8" */
    int cuda_major;
    int cuda_minor;
};

/* A compression of GPU code that older drivers cannot decompress. */
struct af_unpacking {
    const char *packing; /* "zstd" */
    const char *driver_linux_min;
};

/* One release of flash-attn 2. */
struct af_catalog_flash_release {
    const char *version;         /* "2.8.3.post1" */
    const char *python_requires; /* ">=3.9" */
    const char *archs;           /* default of FLASH_ATTN_CUDA_ARCHS; NULL: none */
};

/* A known weakness of releases of flash-attn 2. */
struct af_advisory {
    const char *id;       /* "GHSA-..." */
    const char *versions; /* PEP 440 specifiers for the public version */
    const char *detail;   /* one sentence for the user */
};

/* FlashAttention-4, from this release to the one before the next row. */
struct af_catalog_fa4_release {
    const char *first; /* "4.0.0b34" */
    const char *python_requires;
    struct af_words needs;    /* what it requires besides torch; count 0: unknown */
    const char *needs_cuda13; /* instead of needs.items[0] if torch is for CUDA 13, or NULL */
    struct af_words forward;  /* majors of compute capability: "8", "9", ... */
    struct af_words backward;
    struct af_words paged; /* with a paged KV cache */
};

/* The problem of the wheels that a trap matches; `value` is the detail. */
enum af_trap_effect {
    AF_TRAP_NOTE,           /* only a note for the user; value NULL */
    AF_TRAP_ABI,            /* the actual C++ ABI is "true" or "false" */
    AF_TRAP_GLIBC,          /* actually needs glibc `value` */
    AF_TRAP_SM_MAX,         /* its code refuses GPUs above SM `value` */
    AF_TRAP_SM_ONLY,        /* has GPU code only for the SMs of `value` ("8.0 9.0") */
    AF_TRAP_TORCH_BUILD,    /* compiled against exactly torch `value` (nightly or patch) */
    AF_TRAP_TORCH_MIN,      /* works with torch `value` and later (stable ABI) */
    AF_TRAP_NOT_INSTALLABLE /* installers refuse the file */
};

/* Wheels whose name or tags are wrong. A NULL or empty condition matches every wheel. */
struct af_trap {
    const char *id;     /* unique row name */
    const char *reason; /* text id of reason.h */
    enum af_trap_effect effect;
    const char *value;
    const char *detail; /* one line for the user */
    struct {
        struct af_words packages;
        struct af_words sources;
        struct af_words torch;             /* minors: "2.6" */
        struct af_words platforms;         /* prefixes of the platform tag: "linux_", "win" */
        struct af_words builds;            /* torch_build_cuda: "126" */
        const char *versions;              /* specifiers for the public version */
        const char *local_has;             /* substring of the local version */
        enum af_answer label;              /* C++ ABI in the name; UNKNOWN: any */
        enum af_answer metadata_has_local; /* UNKNOWN: any */
        enum af_answer valid_name;         /* UNKNOWN: any */
        bool official;                     /* only wheels of the authors */
    } match;
};

struct af_tables {
    const struct af_catalog_torch_release *torch; /* oldest first */
    size_t torch_count;
    const struct af_cuda_toolkit *cuda; /* oldest first */
    size_t cuda_count;
    const struct af_ptx_isa *ptx_isa; /* oldest first */
    size_t ptx_isa_count;
    const struct af_unpacking *unpacking;
    size_t unpacking_count;
    const struct af_catalog_flash_release *flash; /* oldest first */
    size_t flash_count;
    const struct af_advisory *advisories;
    size_t advisories_count;
    const struct af_catalog_fa4_release *fa4; /* oldest first */
    size_t fa4_count;
    const struct af_trap *traps;
    size_t traps_count;
};

extern const struct af_tables af_tables;

/* Look up a row; NULL when there is none. */
const struct af_catalog_torch_release *af_tables_torch(int major, int minor);

/*
 * The C++ ABI (YES: the new one) of every Linux build of a release for CUDA; of a newer release
 * that of the newest listed one. UNKNOWN if they differ.
 */
enum af_answer af_tables_torch_abi(int major, int minor);
const struct af_catalog_torch_variant *af_tables_variant(
    const struct af_catalog_torch_release *release, const char *platform, const char *cuda);
/* The platform as these tables write it, "linux_x86_64"; NULL: none of theirs, or unknown. */
const char *af_tables_platform(const char *os, const char *arch);
/* What `pip install torch` gets. */
const struct af_catalog_torch_variant *af_tables_default(
    const struct af_catalog_torch_release *release, const char *platform);
const struct af_cuda_toolkit *af_tables_cuda(int major, int minor);
const struct af_catalog_flash_release *af_tables_flash(const char *version);
/* A weakness that flash-attn `version` has; NULL: none is known, or the package is another. */
const struct af_advisory *af_tables_advisory(const char *package, const char *version);
/* The row that is true for `version` of FlashAttention-4. */
const struct af_catalog_fa4_release *af_tables_fa4(const char *version);

/*
 * The CUDA builds of torch, newest first: the one after `previous` (NULL: the first), or NULL
 * after the last. Only those for `platform`, or for any if that is NULL. Builds of several
 * releases with the same name count once.
 */
const struct af_catalog_torch_variant *af_tables_next_build(
    const char *platform, const struct af_catalog_torch_variant *previous);

bool af_words_have(struct af_words words, const char *word);

/* Whether the trap applies to this wheel. The caller applies its effect to a machine. */
bool af_trap_matches(const struct af_trap *trap, const struct af_catalog_wheel *wheel);

#endif
