/*
 * folder_list.c: the names in a folder, and lists of names that grow.
 */
#include "kit/system/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void af_file_names_add(struct af_file_names *names, const char *name)
{
    if (names->count == names->capacity) {
        names->capacity = names->capacity == 0 ? 64 : names->capacity * 2;
        names->items = af_memory_resize(names->items, names->capacity * sizeof *names->items);
    }
    names->items[names->count++] = name;
}

/* Reads at most `max_count` names; *cut_out: there are more. */
static void read_names(DIR *stream, struct af_arena *arena, size_t max_count,
                       struct af_file_names *names, bool *cut_out)
{
    struct dirent *entry;
    *cut_out = false;
    while (!*cut_out && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *cut_out = names->count == max_count;
        if (!*cut_out)
            af_file_names_add(names, af_arena_text(arena, entry->d_name));
    }
}

enum anyflash_status af_folder_list(struct af_arena *arena, const char *folder,
                                    size_t max_count, const char ***names_out,
                                    size_t *count_out, bool *cut_out,
                                    struct anyflash_error *err)
{
    struct af_file_names names = {0};
    bool is_cut;
    DIR *stream = opendir(folder);
    if (stream == NULL)
        return af_file_fail_errno(err, "list", folder, errno);
    read_names(stream, arena, max_count, &names, &is_cut);
    closedir(stream);
    const char **kept = af_arena_array(arena, names.count + 1, sizeof *kept);
    if (names.count > 0) {
        qsort(names.items, names.count, sizeof *names.items, compare_names);
        memcpy(kept, names.items, names.count * sizeof *kept);
    }
    af_memory_free(names.items);
    *names_out = kept;
    *count_out = names.count;
    if (cut_out != NULL)
        *cut_out = is_cut;
    return ANYFLASH_OK;
}
