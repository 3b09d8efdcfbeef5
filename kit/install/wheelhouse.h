/*
 * wheelhouse.h: a folder of wheels as a package index that uv and pip install
 * from, over HTTP or from the disk.
 *
 * The index is a folder that stands for itself: PROJECT/ with the wheels (hard
 * links where the file system lets us, else copies), the metadata file of each,
 * and the project's page; above them the page of all projects. Every page is
 * there as HTML (index.html) and as JSON (index.json). All links are relative:
 * it may be moved, copied, or served by any server of plain files.
 *
 * A wheel is listed only when installers will take it: its name is a wheel's, the
 * archive is whole (zip.h; every member is unpacked once and its CRC-32
 * compared), it has one dist-info folder with METADATA, WHEEL and RECORD, and
 * METADATA has the name and version of the file's name. pip refuses wheels from
 * an index where it has not, as the official flash-attn wheels, whose local
 * version stands in the file's name alone; uv 0.13 takes them.
 *
 * Wheel variants (a label behind the platform in the name, variant.json inside)
 * are drafts and listed on request only. Of those of one version a table is made,
 * NAME-VERSION-variants.json, which uv's preview `wheel-variants` reads; pip passes
 * all of them over.
 *
 * Sources: PEP 503 (pages, names), 629 and 700 (version 1.1), 691 (JSON), 658
 * and 714 (metadata files), 825 and 850 (drafts: variants).
 */
#ifndef AF_KIT_INSTALL_WHEELHOUSE_H
#define AF_KIT_INSTALL_WHEELHOUSE_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_WHEELHOUSE_FILES_MAX 20000u

/*
 * One file of the folder whose name ends in ".whl", or a table made of such.
 * Texts in the arena of the call.
 */
struct af_wheelhouse_wheel {
    const char *file;     /* its name in the folder, scrubbed */
    const char *reason;   /* why it is left out; NULL: listed, and all below is there */
    const char *filename; /* in the index: "%2B" of `file` is '+' */
    const char *project;  /* normalised: "flash-attn" */
    const char *version;  /* normalised, with the local part */
    const char *sha256;
    const char *metadata_sha256; /* of the metadata file */
    const char *requires_python; /* specifier, or NULL */
    uint64_t size_bytes;
    const char *variant_json; /* of a wheel variant: its variant.json; else NULL */
    bool is_table;            /* no wheel, but the table of a version's variants, made here */
};

struct af_wheelhouse {
    const char *index;                        /* folder of the index */
    const struct af_wheelhouse_wheel *wheels; /* by project, then file name; left out last */
    size_t wheel_count;
    size_t listed_count; /* the first of them */
    bool emptied;        /* none, where an index stood */
    size_t table_count;  /* of these no wheels, but tables of variants */
    size_t project_count;
    const char *const *others; /* names that are no wheels, scrubbed; folders end in '/' */
    size_t other_count;
};

struct af_wheelhouse_question {
    const char *folder; /* of the wheels; its subfolders are not searched */
    const char *index;  /* to write; NULL: FOLDER/simple */
    bool inconsistent;  /* list wheels, too, whose METADATA has another version */
    bool variants;      /* list wheel variants, too */
};

/*
 * Writes the index. Files come first and pages after them, each whole under its
 * own name at once, so that whoever installs meanwhile sees the old page or the new
 * one; what an earlier index of ours holds beyond that is removed last. When
 * no wheel can be listed nothing is written. That a wheel is left out is no
 * failure. Fails with NOT_FOUND or IO (also: the index's place holds pages that
 * are not ours), LIMIT, NO_MEMORY; then pages are as they were, or new.
 */
enum anyflash_status af_wheelhouse_make(const struct af_wheelhouse_question *question,
                                        struct af_arena *arena, struct af_wheelhouse *house_out,
                                        struct anyflash_error *err);

#endif
