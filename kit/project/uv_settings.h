/*
 * uv_settings.h: what [tool.uv] says about one package, for all who read it, and the one writer
 * of its metadata. Source: uv's manual, "Settings" (dependency-metadata).
 */
#ifndef AF_KIT_PROJECT_UV_SETTINGS_H
#define AF_KIT_PROJECT_UV_SETTINGS_H

#include "kit/formats/toml.h"

/* The child of a table or array that names the package, in any spelling; NULL: none. */
const struct af_toml_item *af_project_uv_child(const struct af_toml_item *table,
                                               const char *package);

/*
 * The package's block of [[tool.uv.dependency-metadata]] that counts for `version` (NULL: its
 * first block, for any); NULL: none.
 */
const struct af_toml_item *af_project_uv_metadata(const struct af_toml *toml,
                                                  const char *package, const char *version);

/*
 * Sets requires-dist of that block to `requirements`, or adds a block. Without a version it
 * counts for all files: one with a version does not match a wheel whose name has a local part.
 */
enum anyflash_status af_project_uv_set_metadata(struct af_toml *toml, const char *package,
                                                const char *version,
                                                const char *const *requirements, size_t count,
                                                struct anyflash_error *err);

#define AF_PROJECT_UV_REQUIREMENTS 3

/* What flash-attn of that version requires besides torch: its setup.py's install_requires. */
size_t af_project_uv_flash_requirements(const char *version,
                                        const char *list_out[AF_PROJECT_UV_REQUIREMENTS]);

#endif
