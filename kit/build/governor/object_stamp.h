/*
 * object_stamp.h: which objects are finished, known beside ninja's own log.
 *
 * A build that is killed may lose what ninja wrote down of finished files, and
 * they would be compiled again. So a gate keeps one small file beside each
 * object, OBJECT.done: the hash of the command, the object's size and time, and
 * what the compiler said it read (its dependency file, which ninja removes). A
 * command is over before it starts when all of that still holds and nothing
 * that it reads is newer than the object.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_OBJECT_STAMP_H
#define AF_KIT_BUILD_GOVERNOR_OBJECT_STAMP_H

#include "engine/base/base.h"

/*
 * Whether the command (as ninja gives it: "-c SOURCE", "-o OBJECT", "-MF
 * DEPENDENCIES", in any order; from the working folder) has been done; the
 * dependency file is then there again. A command without -c and -o never is.
 */
bool af_stamp_is_current(const char *const *argv);

/*
 * Takes room on the disk for the note of a command that is about to run, as
 * OBJECT.done.new: where its object just fits, what was finished is known, too.
 */
void af_stamp_reserve(const char *const *argv);

/* Notes that it has just ended well. What cannot be noted is only time lost. */
void af_stamp_write(const char *const *argv);

/* Gives the room back: it failed. */
void af_stamp_discard(const char *const *argv);

#endif
