/*
 * lock.h: one change of an environment at a time.
 *
 * The lock is a record lock on SITE/.anyflash.lock: the kernel lets go of it
 * when its process ends, however it ends, so a stale lock cannot be. The file
 * lies in the environment, because two users or two hosts with different state
 * files may share it; it says who holds the lock, and goes with the holder.
 */
#ifndef AF_KIT_SYSTEM_LOCK_H
#define AF_KIT_SYSTEM_LOCK_H

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/system/progress.h"

/* Zero-initialised it is none. */
struct af_lock {
    int fd;
    const char *path;
    bool held;
    bool unsupported; /* the file system cannot lock: nobody is kept out */
};

enum af_lock_wait {
    AF_LOCK_WAIT,    /* waits, after saying who holds it */
    AF_LOCK_NO_WAIT, /* fails with TIMEOUT, saying who holds it */
    AF_LOCK_TRY      /* as NO_WAIT, for those who only ask */
};

/*
 * Locks `site`. `command` is what others are told ("install"). Fails with
 * TIMEOUT (held by another; the sentence names pid, host, command and since
 * when), IO (read-only, no permission) or NO_MEMORY; and with TIMEOUT when
 * af_interrupted() while waiting.
 */
enum anyflash_status af_lock_take(struct af_lock *lock, const char *site, const char *command,
                                  enum af_lock_wait wait, const struct af_progress *progress,
                                  struct af_arena *arena, struct anyflash_error *err);
void af_lock_release(struct af_lock *lock);

/* Whether another process holds the lock of `site`. Only looks: nothing is created. */
bool af_lock_is_held(const char *site, struct af_arena *arena);

#endif
