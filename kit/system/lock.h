/*
 * lock.h: a lock that allows only one process at a time to change an environment.
 *
 * The lock is a record lock on SITE/.anyflash.lock: the kernel releases it when its process
 * ends for any reason, so there are no stale locks. The file is in the environment, because two
 * users or two hosts with different state files may share the environment. The file names the
 * holder, and is removed with the lock.
 */
#ifndef AF_KIT_SYSTEM_LOCK_H
#define AF_KIT_SYSTEM_LOCK_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/system/progress.h"

/* A lock; zero-initialised it is not held. */
struct af_lock {
    int fd;
    const char *path;
    bool held;
    bool is_shared; /* other users may write to the folder: they must be able to lock it, too */
    /* the file system does not support locks: other processes are not kept out */
    bool unsupported;
};

enum af_lock_wait {
    AF_LOCK_WAIT,    /* wait, after a message that names the holder */
    AF_LOCK_NO_WAIT, /* fail with TIMEOUT and name the holder */
    AF_LOCK_TRY      /* as NO_WAIT, for callers that only check */
};

/*
 * Locks `site`. `command` ("install") is shown to processes that wait for the lock. Fails with
 * TIMEOUT (in use; the message names pid, host, command and start time) or IO (read-only, no
 * permission); also with TIMEOUT when af_interrupted() becomes true while waiting.
 */
enum anyflash_status af_lock_take(struct af_lock *lock, const char *site, const char *command,
                                  enum af_lock_wait wait, const struct af_progress *progress,
                                  struct af_arena *arena, struct anyflash_error *err);
void af_lock_release(struct af_lock *lock);

/* Whether another process holds the lock of `site`. Creates nothing. */
bool af_lock_is_held(const char *site, struct af_arena *arena);

#endif
