/*
 * record.h: checks an installed distribution against its RECORD, line by line.
 *
 * uv and pip consider an installation complete that was killed half-way: METADATA
 * exists, files are missing. Only comparing RECORD with the files shows it. Source:
 * "Recording installed projects" (Python packaging specifications).
 */
#ifndef AF_KIT_INSTALL_RECORD_H
#define AF_KIT_INSTALL_RECORD_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_RECORD_FAULTS_MAX 16u

enum af_record_fault_kind {
    AF_RECORD_FILE_MISSING, /* missing, or not a regular file */
    AF_RECORD_FILE_SIZE,    /* another size than RECORD says */
    AF_RECORD_FILE_CHANGED, /* its SHA-256 differs from RECORD */
    AF_RECORD_FILE_OUTSIDE, /* the line names a path outside the environment */
    AF_RECORD_FILE_UNREAD   /* there, but not readable */
};

/* "missing", "another size", ... */
const char *af_record_fault_text(enum af_record_fault_kind kind);

struct af_record_fault {
    const char *path; /* as RECORD has it, scrubbed */
    enum af_record_fault_kind kind;
};

struct af_record_result {
    size_t line_count;
    size_t hashed_count;
    uint64_t hashed_bytes;
    bool has_installer; /* INSTALLER is there: installers write it near their end */
    size_t fault_count; /* all; the first are in `faults` */
    struct af_record_fault faults[AF_RECORD_FAULTS_MAX];
};

/*
 * Compares each line of `info_folder`/RECORD with its file under `site_folder`
 * (and up to its environment, where scripts go): existence, size, and with
 * `hash` the SHA-256. Byte code and RECORD itself have no hash and need not be
 * there. Texts in `arena`. Fails with NOT_FOUND when there is no RECORD, IO,
 * LIMIT (a RECORD of more than 64 MiB) or NO_MEMORY.
 */
enum anyflash_status af_record_check(const char *site_folder, const char *info_folder,
                                     bool hash, struct af_arena *arena,
                                     struct af_record_result *result_out,
                                     struct anyflash_error *err);

#endif
