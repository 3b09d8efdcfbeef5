/*
 * own_folder.h: folders for a test program, in $TMPDIR or /tmp. They and their
 * contents are removed when the program ends, even if a test failed before it
 * could clean up.
 */
#ifndef OWN_FOLDER_H
#define OWN_FOLDER_H

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_FOLDER_BYTES 256

static char own_folder_top[OWN_FOLDER_BYTES - 16];
static pid_t own_folder_owner;

static inline int own_folder_remove_one(const char *path, const struct stat *facts, int kind,
                                        struct FTW *place)
{
    (void)facts;
    (void)place;
    if (kind == FTW_DNR)
        chmod(path, 0700);
    remove(path);
    return 0; /* a file that cannot be removed does not stop the rest */
}

static inline void own_folder_remove(void)
{
    if (getpid() == own_folder_owner) /* not in a child process */
        nftw(own_folder_top, own_folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Creates a new, empty folder; false if that fails. */
static inline bool own_folder_make(char path[OWN_FOLDER_BYTES])
{
    const char *temporary = getenv("TMPDIR");
    temporary = temporary == NULL || temporary[0] != '/' ? "/tmp" : temporary;
    if (own_folder_owner == 0) {
        int len = snprintf(own_folder_top, sizeof own_folder_top, "%s/anyflash-unit-XXXXXX",
                           temporary);
        if (len < 0 || (size_t)len >= sizeof own_folder_top || mkdtemp(own_folder_top) == NULL)
            return false;
        own_folder_owner = getpid();
        atexit(own_folder_remove);
    }
    snprintf(path, OWN_FOLDER_BYTES, "%s/XXXXXX", own_folder_top);
    return mkdtemp(path) != NULL;
}

#endif
