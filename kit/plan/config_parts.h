/*
 * config_parts.h: what the writers of configuration share. Texts are made in
 * the lock's arena; NULL when memory fails.
 */
#ifndef AF_KIT_PLAN_CONFIG_PARTS_H
#define AF_KIT_PLAN_CONFIG_PARTS_H

#include "kit/plan/config.h"

/* "torch==2.8.*", or NULL: the wheel takes any. */
const char *af_pin_torch_requirement(struct af_config_lock *lock, const struct af_pin *pin);

/* Whether that list is known: of flash-attn itself, and of files that were looked at. */
bool af_config_lock_knows_requirements(const struct af_config_lock *lock);

/*
 * What the wheel needs, torch pinned: Requires-Dist values, in *list_out. Where
 * pins differ each requirement carries its pin's marker.
 */
size_t af_config_lock_requirements(struct af_config_lock *lock, const char ***list_out);

/* "flash-attn @ URL#sha256=... ; MARKER": the form that turns on no hash mode. */
const char *af_pin_requirement(struct af_config_lock *lock, const struct af_pin *pin);

/* Fails with UNSUPPORTED, naming the tool, where the decision is a source build. */
enum anyflash_status af_config_lock_wants_wheels(const struct af_config_lock *lock,
                                                 const char *tool, struct anyflash_error *err);

/* Says where hashes are missing, and how to have them. */
void af_config_lock_note_hashes(struct af_config_lock *lock);

/* Whether all machines have conda's own torch. */
bool af_config_lock_is_conda(const struct af_config_lock *lock);

/* Whether the requirement `text` is about `package` (normalised). */
bool af_plan_requirement_is(const char *text, const char *package);

#endif
