/*
 * catalog.h: the published wheels, as the project's data says.
 *
 * The embedded catalog is data/wheels.jsonl, packed at build time and
 * decompressed once at loading. A newer file in the same JSON-lines form can
 * take its place. Wheels are sorted as the file is and never change.
 */
#ifndef AF_KIT_CATALOG_CATALOG_H
#define AF_KIT_CATALOG_CATALOG_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_CATALOG_BYTES_MAX (64u * 1024u * 1024u)

/*
 * One file. Texts belong to the catalog; NULL is unknown (see data/README.md).
 * Equal texts of one field are one pointer, but for filename and url. The
 * numbers are the texts above them, read once; -1 is unknown or not said.
 */
struct af_catalog_wheel {
    const char *filename;
    const char *url;
    const char *source; /* "Dao-AILab/flash-attention", "huggingface:owner/name", ... */
    const char *release_tag;
    const char *package; /* flash_attn, flash_attn_3, flash_attn_4, ... */
    const char *version; /* public, as "2.8.3" */
    const char *local;   /* as "cu12torch2.8cxx11abiTRUE" */
    const char *build;   /* build tag; NULL in nearly all names */
    const char *python;  /* tags of the file name */
    const char *abi;
    const char *platform;
    const char *cuda;             /* as the name says: "12" or "12.8" */
    const char *torch;            /* as the name says: "2.8" or "2.8.0" */
    const char *torch_build_cuda; /* CUDA variant of the torch it was built against: "126" */
    const char *cuda_toolkit;
    const char *glibc_min;
    const char *glibc_basis; /* platform_tag, observed, build_image_upper_bound */
    const char *sm;          /* SMs with a cubin, joined by ' ': "8.0 9.0" */
    const char *sm_basis;
    const char *note;
    enum af_answer cxx11abi;           /* label of the name */
    enum af_answer cxx11abi_effective; /* what the extension really has */
    enum af_answer metadata_has_local;
    int16_t torch_major, torch_minor, torch_patch;
    int16_t cuda_major, cuda_minor;
    int16_t python_minor; /* 12 of cp312; -1: several tags, py3, ... */
    int16_t glibc_minor;  /* 32 of glibc_min "2.32" */
    int32_t version_rank; /* place of `version` among all of this catalog, 0 the oldest */
    bool official;
    bool valid_name;
    bool rocm;
    bool listed; /* evidence: a page names it; else derived from a workflow */
};

struct af_catalog {
    const struct af_catalog_wheel *wheels;
    size_t count;
    const char *name; /* "embedded" or the file */
    const char *date; /* state of its sources, as "2026-08-22" */
    struct af_arena arena;
};

/* Caps on a catalog file; beyond them loading fails with LIMIT. */
#define AF_CATALOG_ROWS_MAX 200000u
#define AF_CATALOG_LINE_BYTES_MAX 16384u

/* Loads the catalog inside the program. Fails with NO_MEMORY or INTERNAL. */
enum anyflash_status af_catalog_load_embedded(struct af_catalog *catalog,
                                              struct anyflash_error *err);

/*
 * Loads a catalog in JSON lines, the form of data/wheels.jsonl; `name` is what
 * errors call it. A bad row fails with DATA, naming file, line and field;
 * unknown keys are ignored (a newer file), and a file name may occur more than
 * once. `bytes` is not needed afterwards.
 */
enum anyflash_status af_catalog_parse(struct af_catalog *catalog, struct af_span bytes,
                                      const char *name, struct anyflash_error *err);

void af_catalog_release(struct af_catalog *catalog);

#endif
