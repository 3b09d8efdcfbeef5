/*
 * wheelhouse.h: a folder of wheels as a package index from which uv and pip
 * install, over HTTP or from the disk.
 *
 * The index has a folder for each project, with its wheels, the metadata file of each wheel and
 * the project's page; and a page of all projects above them. Each page is written as HTML
 * (index.html) and as JSON (index.json). All links are relative, so the index may be moved,
 * copied, or served by any server of plain files. Wheels are hard links; if the index is on
 * another file system, they are copies, which every run makes anew before it removes the old
 * ones.
 *
 * A wheel is listed if its file name is valid and its METADATA states the same name and
 * version. pip refuses other wheels from an index, for example the official flash-attn wheels,
 * whose local version is only in the file name; uv accepts them. A wheel that contains more
 * than its package is left out unless that is allowed (proof/content_refusal.h).
 *
 * Sources: PEP 503 (pages, names), 691 (JSON), 658 and 714 (metadata files).
 */
#ifndef AF_KIT_INSTALL_WHEELHOUSE_H
#define AF_KIT_INSTALL_WHEELHOUSE_H

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/formats/binary.h"

/* A wheel in the index. All texts are in the arena of the call. */
struct af_wheelhouse_wheel {
    const char *path;     /* in the folder */
    const char *filename; /* in the index: "%2B" has become '+' */
    const char *project;  /* normalised: "flash-attn" */
    const char *version;  /* normalised, with the local part */
    const char *sha256;
    struct af_span metadata;
    const char *metadata_sha256;
    const char *requires_python; /* specifier, or NULL */
    uint64_t size_bytes;
};

struct af_wheelhouse_left_out {
    const char *file; /* scrubbed */
    const char *reason;
};

struct af_wheelhouse {
    const char *index; /* its folder */
    bool is_written;
    struct af_wheelhouse_wheel *wheels; /* ordered by project, then file name */
    size_t wheel_count;
    size_t project_count;
    struct af_wheelhouse_left_out *left_out; /* files named *.whl that are not in the index */
    size_t left_out_count;
};

struct af_wheelhouse_question {
    const char *folder; /* the folder of the wheels; its subfolders are not searched */
    const char *index;  /* folder to write; NULL: FOLDER/simple */
    bool inconsistent;  /* also list wheels whose METADATA states another version */
    struct af_texts allow_content; /* what wheels may contain beside their packages */
};

/*
 * Writes the index into INDEX/.anyflash-new, then exchanges the folder of each project and the
 * pages (af_file_exchange()), so that installers see either the old project or the new one. If
 * anything fails before, the old index is unchanged. INDEX itself stays the same folder, for
 * servers that run in it. What a killed run leaves is removed by the next one. Waits while
 * another process writes the same index.
 *
 * Fails with IO, naming the file, if INDEX has a file that no earlier run wrote. Nothing is
 * written if no wheel can be listed and there is no earlier index. Leaving out a wheel is not a
 * failure. Also fails with NOT_FOUND, LIMIT or NO_MEMORY.
 */
enum anyflash_status af_wheelhouse_make(const struct af_wheelhouse_question *question,
                                        struct af_arena *arena, struct af_wheelhouse *house_out,
                                        struct anyflash_error *err);

/*
 * Checks the wheel at wheel->path (wheelhouse_wheel.c) and fills all other fields of
 * `wheel`. If the wheel cannot be listed, the failure's message says why.
 */
enum anyflash_status af_wheelhouse_read(struct af_wheelhouse_wheel *wheel, bool inconsistent,
                                        struct af_arena *arena, struct anyflash_error *err);

#endif
