/*
 * content_refusal.h: whether a wheel may be installed or handed on, by what it contains beside
 * its package (wheel_content.h). One check for all commands that install or stage wheels.
 */
#ifndef AF_KIT_PROOF_CONTENT_REFUSAL_H
#define AF_KIT_PROOF_CONTENT_REFUSAL_H

#include "kit/proof/wheel_content.h"

/* Why a wheel is refused. Texts in the arena of the call. */
struct af_content_refusal {
    const char *reason; /* names the files and why they matter; NULL: not refused */
    const char *hint;   /* the options that would allow them */
};

/*
 * Decides for findings that are known. `allowed` are the names that the user allowed
 * (--allow-content); a wheel with more refused findings than can be listed is refused
 * whatever is allowed. Fails with NO_MEMORY.
 */
enum anyflash_status af_content_refuse(const struct af_content *content, const char *filename,
                                       const struct af_texts *allowed, struct af_arena *arena,
                                       struct af_content_refusal *out,
                                       struct anyflash_error *err);

/*
 * Opens the wheel at `path`, reads its libraries and decides. Fails as
 * af_inspect_target_open(), or with IO if a library cannot be unpacked to the temporary folder.
 */
enum anyflash_status af_content_refuse_file(const char *path, const struct af_texts *allowed,
                                            struct af_arena *arena,
                                            struct af_content_refusal *out,
                                            struct anyflash_error *err);

#endif
