/*
 * subject.c: finds the shared libraries of what is inspected and reads their
 * facts. Called by `inspect` and by what proves a wheel before installing it.
 */
#include "run/subject.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"

#define FOLDERS_MAX 4000u
#define NAMES_MAX 20000u
#define NAME_BYTES 4000u

/* "x.so", and "libx.so.1.2" */
static bool is_library_name(const char *name)
{
    const char *so = strstr(name, ".so");
    return af_ends_with(name, ".so") ||
           (so != NULL && so[3] == '.' && so[4] >= '0' && so[4] <= '9');
}

static bool add_file(struct af_arena *arena, const char *path, struct af_subject *subject)
{
    struct anyflash_error why = {0};
    if (subject->count == AF_SUBJECT_EXTENSIONS_MAX) {
        subject->cut = true;
        return false;
    }
    struct af_subject_extension *one = &subject->extensions[subject->count++];
    *one = (struct af_subject_extension){.path = af_text_scrub(arena, path, NAME_BYTES),
                                         .folder = af_path_folder(arena, path)};
    if (af_binary_read_file(arena, path, &one->binary, &why) != ANYFLASH_OK)
        one->problem = af_arena_text(arena, why.message);
    return true;
}

/* All shared libraries below the folder, folder after folder; links are not followed. */
static enum anyflash_status add_folder(struct af_arena *arena, const char *folder,
                                       struct af_subject *subject, struct anyflash_error *err)
{
    const char **queue = af_arena_array(arena, FOLDERS_MAX, sizeof *queue);
    size_t count = 0;
    if (queue == NULL)
        return af_fail_memory(err);
    queue[count++] = folder;
    for (size_t i = 0; i < count; i++) {
        const char **names = NULL;
        size_t name_count = 0;
        enum anyflash_status status =
            af_folder_list(arena, queue[i], NAMES_MAX, &names, &name_count, NULL, err);
        if (status != ANYFLASH_OK && (i == 0 || arena->failed))
            return status;
        for (size_t n = 0; status == ANYFLASH_OK && n < name_count; n++) {
            const char *path = af_path_join(arena, queue[i], names[n]);
            if (path == NULL || af_file_is_link(path))
                continue;
            if (is_library_name(names[n]) && af_file_is_regular(path))
                add_file(arena, path, subject);
            else if (count < FOLDERS_MAX && af_file_is_folder(path))
                queue[count++] = path;
        }
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_subject_open(const char *path, struct af_arena *arena,
                                     struct af_subject *out, struct anyflash_error *err)
{
    struct af_subject subject = {
        .name = af_text_scrub(arena, path, NAME_BYTES),
        .extensions =
            af_arena_array(arena, AF_SUBJECT_EXTENSIONS_MAX, sizeof *subject.extensions),
    };
    enum anyflash_status status = ANYFLASH_OK;
    if (arena->failed)
        return af_fail_memory(err);
    if (af_file_is_absent(path))
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' does not exist", subject.name);
    if (af_file_is_folder(path))
        status = add_folder(arena, path, &subject, err);
    else
        add_file(arena, path, &subject);
    if (status == ANYFLASH_OK && arena->failed)
        status = af_fail_memory(err);
    if (status == ANYFLASH_OK)
        *out = subject;
    return status;
}
