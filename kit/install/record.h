/*
 * record.h: lists installed distributions by their dist-info folders, and the files that each
 * one owns; checks a distribution against its RECORD, line by line.
 *
 * uv and pip consider an installation complete even if they were killed half-way: METADATA
 * exists, but files are missing. Only comparing RECORD with the files shows this. Source:
 * "Recording installed projects" (Python packaging specifications).
 */
#ifndef AF_KIT_INSTALL_RECORD_H
#define AF_KIT_INSTALL_RECORD_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_DISTRIBUTIONS_MAX 20000u
#define AF_RECORD_BYTES_MAX (64u * 1024u * 1024u)
#define AF_RECORD_FAULTS_MAX 16u

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
 * Whether a path of RECORD may be read or moved: relative to the site folder, ".." only at its
 * start, and at most as often as the site folder is deep in its environment
 * (lib64/python3.12/site-packages).
 */
bool af_record_path_is_inside(const char *path);

enum af_record_fault_kind {
    AF_RECORD_FILE_MISSING, /* missing, or not a regular file */
    AF_RECORD_FILE_SIZE,    /* its size differs from RECORD */
    AF_RECORD_FILE_CHANGED, /* its SHA-256 differs from RECORD */
    AF_RECORD_FILE_OUTSIDE, /* the path is outside the environment */
    AF_RECORD_FILE_UNREAD   /* it exists, but cannot be read */
};

/* "missing", "its size differs from RECORD", ... */
const char *af_record_fault_text(enum af_record_fault_kind kind);

struct af_record_fault {
    const char *path; /* as in RECORD, scrubbed */
    enum af_record_fault_kind kind;
};

struct af_record_result {
    size_t line_count;
    uint64_t hashed_bytes;
    bool has_installer; /* INSTALLER exists: installers write it near their end */
    size_t fault_count; /* number of all faults; the first of them are in `faults` */
    struct af_record_fault faults[AF_RECORD_FAULTS_MAX];
};

/*
 * Compares each line of `info_folder`/RECORD with its file under `site_folder` (or in the rest
 * of its environment, for scripts): existence, size and SHA-256. Byte code and
 * RECORD itself have no hash and may be missing. Texts are in `arena`. Fails with NOT_FOUND
 * when there is no RECORD, IO or LIMIT (a RECORD of more than 64 MiB).
 */
enum anyflash_status af_record_check(const char *site_folder, const char *info_folder,
                                     struct af_arena *arena,
                                     struct af_record_result *result_out,
                                     struct anyflash_error *err);

#endif
