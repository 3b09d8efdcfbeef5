/*
 * config_parts.h: what the writers of configuration share. Texts are in the
 * lock's arena; NULL if memory runs out.
 */
#ifndef AF_KIT_CONFIG_CONFIG_PARTS_H
#define AF_KIT_CONFIG_CONFIG_PARTS_H

#include "kit/config/config.h"

/* "torch==2.8.*"; NULL: the wheel works with any. */
const char *af_pin_torch_requirement(struct af_config_lock *lock, const struct af_pin *pin);

/*
 * Whether some release MAJOR.MINOR.PATCH satisfies the specifier; a local version in the
 * specifier is ignored.
 */
bool af_config_minor_allowed(struct af_arena *arena, struct af_span specifier, int64_t major,
                             int64_t minor);

/* Whether the specifier allows the torch that the pin was built for. */
bool af_pin_torch_allowed(struct af_arena *arena, const struct af_pin *pin,
                          struct af_span specifier);

/*
 * The specifier of the package that a file has, if all pins satisfy it; else "", and a
 * note says that it goes. NULL if memory runs out.
 */
const char *af_config_lock_specifier(struct af_config_lock *lock, struct af_span specifier);

/*
 * Whether the requirements are known: they are for flash-attn itself, and for
 * files that were read.
 */
bool af_config_lock_knows_requirements(const struct af_config_lock *lock);

/*
 * What the wheel needs, with torch pinned: Requires-Dist values, in *list_out.
 * Where pins differ, each requirement has its pin's marker.
 */
size_t af_config_lock_requirements(struct af_config_lock *lock, const char ***list_out);

/* Fails with UNSUPPORTED, naming the tool, if the decision is a source build. */
enum anyflash_status af_config_lock_wants_wheels(const struct af_config_lock *lock,
                                                 const char *tool, struct anyflash_error *err);

/* Adds a note on which hashes are missing and how to get them. */
void af_config_lock_note_hashes(struct af_config_lock *lock);

/* Whether the requirement `text` is for `package` (normalised). */
bool af_config_requirement_is(const char *text, const char *package);

#endif
