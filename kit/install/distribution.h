/*
 * distribution.h: lists installed distributions by their dist-info folders, and the files that
 * each one owns. (record.h checks the files.)
 */
#ifndef AF_KIT_INSTALL_DISTRIBUTION_H
#define AF_KIT_INSTALL_DISTRIBUTION_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_DISTRIBUTIONS_MAX 20000u
#define AF_RECORD_BYTES_MAX (64u * 1024u * 1024u)

/* One dist-info (or egg-info) folder of a site folder. */
struct af_distribution {
    const char *folder;  /* "flash_attn-2.8.3.dist-info" */
    const char *name;    /* normalised: "flash-attn" */
    const char *version; /* of the folder's name */
    bool egg;            /* egg-info or egg: it has no RECORD */
};

/* All distributions of `site`, sorted by folder; none if `site` does not exist. */
enum anyflash_status af_distributions_list(struct af_arena *arena, const char *site,
                                           struct af_distribution **list_out, size_t *count_out,
                                           struct anyflash_error *err);

/*
 * The paths of a distribution's RECORD, relative to `site`, in the arena; none when there is no
 * RECORD. Paths outside the environment (af_record_path_is_inside()) are left out; *odd_out
 * (unless NULL) is the first of them.
 */
enum anyflash_status af_distribution_files(struct af_arena *arena, const char *site,
                                           const struct af_distribution *distribution,
                                           const char ***paths_out, size_t *count_out,
                                           const char **odd_out, struct anyflash_error *err);

/*
 * The trimmed first line of a small file beside RECORD ("INSTALLER"); NULL if it does not
 * exist.
 */
const char *af_distribution_text(struct af_arena *arena, const char *site,
                                 const struct af_distribution *distribution, const char *file);

#endif
