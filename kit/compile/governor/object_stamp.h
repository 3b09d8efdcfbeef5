/*
 * object_stamp.h: which objects are finished. Does not depend on ninja's log,
 * of which a killed build may lose the last lines.
 *
 * Beside each object the wrapper writes a stamp file OBJECT.done: the hash of
 * the command, the object's size and time, and the files that the compiler read
 * (from its dependency file, which ninja removes). The object is current while
 * all of this holds and no file that it depends on is newer. OBJECT.kept is a
 * second link to the object, because an interrupted ninja removes objects.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_OBJECT_STAMP_H
#define AF_KIT_COMPILE_GOVERNOR_OBJECT_STAMP_H

#include "engine/base/base.h"

/*
 * Whether the object of this compiler command is up to date. `argv` is the
 * command line from ninja, with "-c SOURCE", "-o OBJECT" and "-MF DEPENDENCIES"
 * in any order; paths are relative to the working folder. If it is up to date,
 * the object and the dependency file are restored. A command without -c and -o
 * never is.
 */
bool af_stamp_is_current(const char *const *argv);

/*
 * Reserves disk space for the stamp of a command that is about to run, as
 * OBJECT.done.new, so that it can be written even if the object fills the disk.
 */
void af_stamp_reserve(const char *const *argv);

/* Writes the stamp after success. If that fails, the object is compiled again next time. */
void af_stamp_write(const char *const *argv);

/* Frees the reserved space after a failure. */
void af_stamp_discard(const char *const *argv);

#endif
