/*
 * file_owner.c: whether another user could have written what is at a path, so that it is not to
 * be obeyed.
 */
#include "kit/system/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"

#define NOBODY 65534u /* owner of what belongs to a user whom this namespace lacks */

static enum anyflash_status fail_foreign(const char *path, const char *variable,
                                         struct anyflash_error *err)
{
    char shown[200];
    return af_fail(err, ANYFLASH_E_IO,
                   "'%s' belongs to another user: set %s to a folder of your own",
                   af_text_quote(shown, sizeof shown, path, strlen(path)), variable);
}

static enum anyflash_status fail_open(const char *path, struct anyflash_error *err)
{
    char shown[200];
    return af_fail(err, ANYFLASH_E_IO,
                   "other users may write to '%s': remove that permission (chmod go-w)",
                   af_text_quote(shown, sizeof shown, path, strlen(path)));
}

enum anyflash_status af_file_check_owner(const char *path, const char *variable,
                                         struct anyflash_error *err)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return ANYFLASH_OK;
    if (facts.st_uid != geteuid())
        return fail_foreign(path, variable, err);
    return (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? fail_open(path, err) : ANYFLASH_OK;
}

/* In a user namespace that lacks root, as in rootless containers, its folders are nobody's. */
static bool is_of_system(uid_t owner)
{
    unsigned long first = 0, outside = 0, count = 0;
    if (owner != NOBODY)
        return owner == 0;
    FILE *file = fopen("/proc/self/uid_map", "re");
    bool is_read = file != NULL && fscanf(file, "%lu %lu %lu", &first, &outside, &count) == 3;
    if (file != NULL)
        fclose(file);
    return is_read && count < UINT32_MAX;
}

enum anyflash_status af_file_check_owners(struct af_arena *arena, const char *folder,
                                          const char *variable, struct anyflash_error *err)
{
    enum anyflash_status status = af_file_check_owner(folder, variable, err);
    const char *above = folder;
    while (status == ANYFLASH_OK && strcmp(above, "/") != 0 && strcmp(above, ".") != 0) {
        struct stat facts;
        above = af_path_folder(arena, above);
        if (stat(above, &facts) != 0)
            continue;
        if (facts.st_uid != geteuid() && !is_of_system(facts.st_uid))
            status = fail_foreign(above, variable, err);
        else if ((facts.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
            status = fail_open(above, err);
    }
    return status;
}
