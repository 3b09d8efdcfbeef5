/*
 * update.h: updates the catalog from the listings of the repositories that publish wheels
 * (data/sources.json), and reverts it.
 *
 * Facts about known wheels are kept: a listing only adds wheels and hashes, and removes wheels
 * that are no longer published. A source stays unchanged if it cannot be read, or if more than
 * a tenth of its known wheels are missing from its listing. The result is a file in the state
 * folder, which is then loaded instead of the embedded catalog.
 */
#ifndef AF_KIT_INSTALL_UPDATE_H
#define AF_KIT_INSTALL_UPDATE_H

#include "kit/catalog/catalog.h"
#include "kit/system/http.h"
#include "kit/system/progress.h"

#define AF_UPDATE_SOURCES_BYTES_MAX (1u << 20)

/* The result for one source. */
struct af_update_source {
    const char *source;
    size_t known;        /* wheels in the embedded catalog */
    size_t listed;       /* wheels in its listing */
    size_t added;        /* listed wheels that are not in the embedded catalog */
    size_t gone;         /* known wheels that are no longer published */
    size_t replaced;     /* known wheels whose file is now another one, by its hash */
    const char *problem; /* why it stayed unchanged; NULL: it was read */
};

/* Texts are in the arena that was given; the caller releases the catalog. */
struct af_update {
    struct af_update_source *sources;
    size_t source_count;
    size_t read_count; /* the number of sources that were read */
    size_t added;
    size_t gone;
    size_t replaced;
    struct af_catalog catalog; /* the new one */
};

/*
 * Reads the listings of all `sources` (NULL: the embedded data/sources.json). Facts
 * come from `embedded`; sources that cannot be read keep their rows of `current`
 * (which may be the same). Fails with the failure of the first source when none
 * could be read, or DATA when `sources` is malformed.
 */
enum anyflash_status af_update_fetch(const struct af_http *http, const struct af_span *sources,
                                     const struct af_catalog *embedded,
                                     const struct af_catalog *current,
                                     const struct af_progress *progress, struct af_arena *arena,
                                     struct af_update *update_out, struct anyflash_error *err);

/*
 * Writes the new catalog to af_state_catalog_path(folder) and replaces an older one; the folder
 * is created.
 */
enum anyflash_status af_update_save(const struct af_update *update, const char *folder,
                                    struct anyflash_error *err);

/* Writes the new catalog to `path` as JSON lines, the form of data/wheels.jsonl. */
enum anyflash_status af_update_export(const struct af_update *update, const char *path,
                                      struct anyflash_error *err);

/* Removes the file, so that the embedded catalog is used again. *there_out: it existed. */
enum anyflash_status af_update_undo(const char *folder, bool *there_out,
                                    struct anyflash_error *err);

#endif
