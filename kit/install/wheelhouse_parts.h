/*
 * wheelhouse_parts.h: what the files of wheelhouse.h share. Private to them.
 */
#ifndef AF_KIT_INSTALL_WHEELHOUSE_PARTS_H
#define AF_KIT_INSTALL_WHEELHOUSE_PARTS_H

#include "kit/base/text.h"
#include "kit/install/wheelhouse.h"

/* In every page of ours; a page without it is somebody else's. */
#define AF_WHEELHOUSE_MARK_HTML "<meta name=\"generator\" content=\"anyflash wheelhouse\">"
#define AF_WHEELHOUSE_MARK_JSON "\"_generator\": \"anyflash wheelhouse\""

/*
 * Reads the wheel at `path`, whose name in the folder is `name`: fills `wheel`
 * and *metadata_out, or sets wheel->reason. Fails with NO_MEMORY only.
 */
enum anyflash_status af_wheelhouse_read(const char *path, const char *name,
                                        const struct af_wheelhouse_question *question,
                                        struct af_arena *arena,
                                        struct af_wheelhouse_wheel *wheel,
                                        struct af_span *metadata_out,
                                        struct anyflash_error *err);

/*
 * Merges the variants of the project and version of the first wheel, which is
 * one: what is common must be equal in all. One that contradicts the others gets
 * its `reason`. The document is added to `text`. Fails with NO_MEMORY.
 */
enum anyflash_status af_wheelhouse_variants(struct af_wheelhouse_wheel *wheels, size_t count,
                                            struct af_text *text, struct anyflash_error *err);

/* Whether text is the variant.json of a wheel with that label. Fails with NO_MEMORY. */
enum anyflash_status af_wheelhouse_variant_check(struct af_span text, const char *label,
                                                 bool *good_out, struct anyflash_error *err);

/* The page of one project: `wheels` are all of its. Failure is the text's. */
void af_wheelhouse_project_html(const struct af_wheelhouse_wheel *wheels, size_t count,
                                struct af_text *text);
void af_wheelhouse_project_json(const struct af_wheelhouse_wheel *wheels, size_t count,
                                struct af_text *text);

/* The page of all projects: `wheels` are all that are listed. */
void af_wheelhouse_root_html(const struct af_wheelhouse_wheel *wheels, size_t count,
                             struct af_text *text);
void af_wheelhouse_root_json(const struct af_wheelhouse_wheel *wheels, size_t count,
                             struct af_text *text);

/* How many of the first wheels belong to the first one's project. */
size_t af_wheelhouse_project_wheels(const struct af_wheelhouse_wheel *wheels, size_t count);

#endif
