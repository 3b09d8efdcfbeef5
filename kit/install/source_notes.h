/*
 * source_notes.h: messages and hints about where the files of a plan come from. Messages go to
 * run->progress. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_SOURCE_NOTES_H
#define AF_KIT_INSTALL_SOURCE_NOTES_H

#include "kit/answer/plan.h"
#include "kit/install/install.h"

/* Says with what the file's hash, `sha256`, was compared. */
void af_install_tell_hash(const struct af_run *run, const struct af_step_wheel *wheel,
                          const char *sha256);

/* Says who published the file at this address, where that is known. */
void af_install_tell_publisher(const struct af_run *run, const char *url);

/*
 * Before uv gets requirements: says that a project's file, perhaps a stranger's, chooses where
 * they come from.
 */
void af_install_tell_uv_index(const struct af_run *run);

/*
 * Hint after a wheel could not be had: names what the folder of --from has. NULL: there is
 * nothing to say. Returns text in the run's arena.
 */
const char *af_install_fetch_hint(const struct af_run *run, const struct af_step_wheel *wheel);

#endif
