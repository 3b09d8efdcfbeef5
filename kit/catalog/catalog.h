/*
 * catalog.h: the published wheels, as recorded in the project's data.
 *
 * The embedded catalog is data/wheels.jsonl, packed at build time and
 * decompressed once when it is loaded. A newer file in the same JSON-lines form
 * can replace it. Wheels keep the order of the file and never change.
 */
#ifndef AF_KIT_CATALOG_CATALOG_H
#define AF_KIT_CATALOG_CATALOG_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"
#include "kit/catalog/tables.h"

#define AF_CATALOG_BYTES_MAX (64u * 1024u * 1024u)

/*
 * One wheel file. Texts belong to the catalog; NULL means unknown (see
 * data/README.md). Equal texts of a field share one pointer, except for filename
 * and url. The numbers are parsed from the texts above them; -1 means unknown or
 * not stated.
 */
struct af_catalog_wheel {
    const char *filename;
    const char *url;
    const char *source; /* "Dao-AILab/flash-attention", "huggingface:owner/name", ... */
    const char *release_tag;
    const char *package; /* flash_attn, flash_attn_3, flash_attn_4, ... */
    const char *version; /* public part, such as "2.8.3" */
    const char *local;   /* such as "cu12torch2.8cxx11abiTRUE" */
    const char *build;   /* build tag; NULL for nearly all wheels */
    const char *python;  /* tags in the file name */
    const char *abi;
    const char *platform;
    const char *cuda;             /* as in the name: "12" or "12.8" */
    const char *torch;            /* as in the name: "2.8" or "2.8.0" */
    const char *torch_build_cuda; /* CUDA variant of the torch it was built against: "126" */
    const char *cuda_toolkit;
    const char *glibc_min;
    const char *glibc_basis; /* platform_tag, observed, build_image_upper_bound */
    const char *sm;          /* SMs with a cubin, joined by ' ': "8.0 9.0" */
    const char *sm_basis;
    const char *note;
    const char *path; /* a file on this machine, of af_catalog_add_files(); NULL: published */
    const unsigned char *sha256;       /* of the file, AF_SHA256_BYTES; NULL: unknown */
    enum af_answer cxx11abi;           /* as labelled in the name */
    enum af_answer cxx11abi_effective; /* as found in the extension */
    enum af_answer metadata_has_local;
    int16_t torch_major, torch_minor, torch_patch;
    int16_t cuda_major, cuda_minor;
    int16_t python_minor; /* 12 of cp312; -1: several tags, py3, ... */
    int16_t glibc_minor;  /* 32 of glibc_min "2.32" */
    int32_t version_rank; /* position among the catalog's versions, 0 the oldest */
    bool official;
    bool valid_name;
    bool rocm;
    bool listed; /* evidence: listed on a page; else derived from a workflow */
};

struct af_catalog {
    const struct af_catalog_wheel *wheels;
    size_t count;
    const char *name; /* "embedded" or the file name */
    const char *date; /* when the oldest listing was read, "2026-08-22"; NULL: unknown */
    struct af_arena arena;
};

/* Files that exceed these fail with LIMIT. */
#define AF_CATALOG_ROWS_MAX 200000u
#define AF_CATALOG_LINE_BYTES_MAX 16384u

/* Loads the embedded catalog. Fails with INTERNAL. */
enum anyflash_status af_catalog_load_embedded(struct af_catalog *catalog,
                                              struct anyflash_error *err);

/*
 * Loads a catalog in JSON lines, the form of data/wheels.jsonl; `name` is its
 * name for errors. A bad row fails with DATA, naming file, line and field;
 * unknown keys (of a newer file) are ignored, and a file name may occur more
 * than once. `bytes` is not needed afterwards.
 */
enum anyflash_status af_catalog_parse(struct af_catalog *catalog, struct af_span bytes,
                                      const char *name, struct anyflash_error *err);

/*
 * Adds files on this machine to the end of the catalog. What they are for is read from their
 * names, as of published wheels; files whose names are no wheels of a flash-attn package are
 * left out. Pointers into catalog->wheels that were taken before are no longer of this catalog.
 * Fails with DATA if a name cannot be shown on a terminal.
 */
enum anyflash_status af_catalog_add_files(struct af_catalog *catalog, const char *const *paths,
                                          size_t count, struct anyflash_error *err);

/*
 * Whether the wheel's library was built without torch, and so works with each one; its kernels
 * are PTX 7.8, for every GPU of SM 8.0 or newer.
 */
bool af_catalog_is_torch_free(const struct af_catalog_wheel *wheel);

/* Whether it is a wheel of FlashAttention-4, and what is known of its release, or NULL. */
bool af_catalog_is_fa4(const struct af_catalog_wheel *wheel);
const struct af_catalog_fa4_release *af_catalog_fa4(const struct af_catalog_wheel *wheel);

/* Whether `majors` of compute capability, such as those of a release, have that of SM 89. */
bool af_catalog_has_major(struct af_words majors, int sm);

void af_catalog_release(struct af_catalog *catalog);

/*
 * Whether wheels for torch major.minor may be published that the catalog cannot know, because
 * this torch came out after the wheels were listed. No if the catalog has no date.
 */
bool af_catalog_predates_torch(const struct af_catalog *catalog, int major, int minor);

/* The hash of the wheel's file in hexadecimal; NULL if it is unknown. */
const char *af_catalog_sha256(struct af_arena *arena, const struct af_catalog_wheel *wheel);

/* ---- Wheels as JSON lines, the form of data/wheels.jsonl; in catalog_rows.c ---- */

/*
 * Reads the lines of `bytes` into `arena`; `name` is the file's name for errors.
 * A first line {"catalog_date": "2026-08-22"} sets *date_out, which is otherwise
 * NULL. Empty lines are skipped. Fails with DATA ("'name' line 7, field 'torch':
 * ...") or LIMIT.
 */
enum anyflash_status af_catalog_rows_read(struct af_span bytes, const char *name,
                                          struct af_arena *arena,
                                          const struct af_catalog_wheel **wheels_out,
                                          size_t *count_out, const char **date_out,
                                          struct anyflash_error *err);

/* Appends the first line: the date of the sources, such as "2026-11-21". */
void af_catalog_write_date(struct af_text *rows, const char *date);

/* Appends one line. Reading it back gives the same wheel. */
void af_catalog_write_row(struct af_text *rows, const struct af_catalog_wheel *wheel);

#endif
