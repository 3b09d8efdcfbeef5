/*
 * update.h: the catalog brought up to date from the listings of the repositories
 * that publish wheels (data/sources.json), and taken back.
 *
 * What is known of a wheel is kept: a listing only adds wheels and takes away
 * those that are no longer published. A source that cannot be read, or whose
 * listing lacks more than a tenth of what is known, is left as it was. The
 * result is a file in the state folder that loading prefers to the embedded
 * catalog.
 */
#ifndef AF_KIT_INSTALL_UPDATE_H
#define AF_KIT_INSTALL_UPDATE_H

#include "kit/catalog/catalog.h"
#include "kit/system/http.h"
#include "kit/system/progress.h"

#define AF_UPDATE_SOURCES_BYTES_MAX (1u << 20)

/* What became of one source. */
struct af_update_source {
    const char *source;
    size_t known;        /* wheels in the embedded catalog */
    size_t listed;       /* wheels in its listing */
    size_t added;        /* that the embedded catalog has not */
    size_t gone;         /* known, but published no more */
    const char *problem; /* why it was left as it was; NULL: it was read */
};

/* Texts in the arena that was given; the catalog is released by the caller. */
struct af_update {
    struct af_update_source *sources;
    size_t source_count;
    size_t read_count; /* of them, read */
    size_t added;
    size_t gone;
    struct af_catalog catalog; /* the new one */
};

/*
 * Asks all sources of `sources` (NULL: the embedded data/sources.json).
 * `embedded` has the facts, `current` (may be the same) what sources that cannot
 * be read keep. Fails with what the first source failed with when none could be
 * read, DATA when `sources` is malformed, or NO_MEMORY.
 */
enum anyflash_status af_update_fetch(struct af_http *http, const struct af_span *sources,
                                     const struct af_catalog *embedded,
                                     const struct af_catalog *current,
                                     const struct af_progress *progress, struct af_arena *arena,
                                     struct af_update *update_out, struct anyflash_error *err);

/*
 * The file in `folder`, that of the state (run/state.h); NULL without a folder or memory.
 */
const char *af_update_path(struct af_arena *arena, const char *folder);

/* Writes the new catalog in place of an older one; the folder is made. */
enum anyflash_status af_update_save(const struct af_update *update, const char *folder,
                                    struct anyflash_error *err);

/* Removes the file: the embedded catalog counts again. *there_out: there was one. */
enum anyflash_status af_update_undo(const char *folder, bool *there_out,
                                    struct anyflash_error *err);

#endif
