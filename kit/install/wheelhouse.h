/*
 * wheelhouse.h: a folder of wheels as a package index from which uv and pip
 * install, over HTTP or from the disk.
 *
 * The index is a folder PROJECT/ for each project, with its wheels (hard links
 * where the file system allows it, else copies), the metadata file of each wheel
 * and the project's page; and a page of all projects above them. Each page is
 * written as HTML (index.html) and as JSON (index.json). All links are relative, so
 * the folder may be moved, copied, or served by any server of plain files.
 *
 * A wheel is listed only if installers accept it: its file name is valid, it is a zip
 * file with one dist-info folder that has METADATA, WHEEL and RECORD, and METADATA
 * states the name and version of the file name. pip refuses other wheels from an
 * index, for example the official flash-attn wheels, whose local version is only in
 * the file name; uv accepts them.
 *
 * Sources: PEP 503 (pages, names), 691 (JSON), 658 and 714 (metadata files).
 */
#ifndef AF_KIT_INSTALL_WHEELHOUSE_H
#define AF_KIT_INSTALL_WHEELHOUSE_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/* A file of the folder whose name ends in ".whl". Texts in the arena of the call. */
struct af_wheelhouse_wheel {
    const char *file; /* its name in the folder, scrubbed */
    /* why it is left out; NULL: it is listed, and all fields below are set */
    const char *reason;
    const char *filename; /* file name in the index: "%2B" of `file` becomes '+' */
    const char *project;  /* normalised: "flash-attn" */
    const char *version;  /* normalised, with the local part */
    const char *sha256;
    const char *metadata_sha256; /* of the metadata file */
    const char *requires_python; /* specifier, or NULL */
    uint64_t size_bytes;
};

struct af_wheelhouse {
    const char *index;     /* folder of the index */
    const char *index_url; /* "file:///srv/wheels/simple/"; NULL: nothing was written */
    /* ordered by project, then file name; left-out wheels are last */
    const struct af_wheelhouse_wheel *wheels;
    size_t wheel_count;
    size_t listed_count; /* the first listed_count wheels are listed */
    size_t project_count;
};

struct af_wheelhouse_question {
    const char *folder; /* the folder of the wheels; its subfolders are not searched */
    const char *index;  /* folder to write; NULL: FOLDER/simple */
    bool inconsistent;  /* also list wheels whose METADATA states another version */
};

/*
 * Writes the index: first files, then pages, each replaced atomically, so that an installer
 * that reads the index at the same time sees either the old page or the new one. Other files
 * that an earlier run put into the index are removed last. Nothing is written if no wheel can
 * be listed and there is no earlier index. Leaving out a wheel is not a failure. Fails with
 * NOT_FOUND or IO (also if the folder has a page that we did not write), LIMIT, NO_MEMORY; then
 * each page is the old or the new one.
 */
enum anyflash_status af_wheelhouse_make(const struct af_wheelhouse_question *question,
                                        struct af_arena *arena, struct af_wheelhouse *house_out,
                                        struct anyflash_error *err);

/*
 * Checks the wheel at `path` (wheelhouse_wheel.c); `file` is its name in the folder. Fills all
 * of `wheel` except wheel->file, and *metadata_out. If the wheel is left out, also because it
 * cannot be read, sets wheel->reason instead. Texts are in `arena`. Fails with NO_MEMORY only.
 */
enum anyflash_status af_wheelhouse_read(const char *path, const char *file, bool inconsistent,
                                        struct af_arena *arena,
                                        struct af_wheelhouse_wheel *wheel,
                                        struct af_span *metadata_out,
                                        struct anyflash_error *err);

#endif
