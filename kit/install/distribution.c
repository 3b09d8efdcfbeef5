/* distribution.c: reads dist-info folders and their RECORD. */
#include "kit/install/distribution.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/record.h"
#include "kit/system/file.h"

#define SMALL_BYTES_MAX (64u * 1024u)

/* False if the folder is not that of a distribution. */
static bool read_name(struct af_arena *arena, const char *folder,
                      struct af_distribution *distribution)
{
    char normal[256];
    struct af_info_folder parts;
    if (!af_info_folder_parse((struct af_span){folder, strlen(folder)}, &parts) ||
        !af_name_normalise(parts.name, normal, sizeof normal))
        return false;
    *distribution = (struct af_distribution){
        .folder = folder,
        .name = af_arena_text(arena, normal),
        .version = af_arena_text_n(arena, parts.version.data, parts.version.len),
        .egg = parts.egg,
    };
    return true;
}

enum anyflash_status af_distributions_list(struct af_arena *arena, const char *site,
                                           struct af_distribution **list_out, size_t *count_out,
                                           struct anyflash_error *err)
{
    const char **names = NULL;
    size_t name_count = 0;
    *list_out = NULL;
    *count_out = 0;
    enum anyflash_status status =
        af_folder_list(arena, site, AF_DISTRIBUTIONS_MAX, &names, &name_count, NULL, err);
    if (status == ANYFLASH_E_NOT_FOUND)
        return ANYFLASH_OK;
    if (status != ANYFLASH_OK)
        return status;
    struct af_distribution *list = af_arena_array(arena, name_count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list != NULL && i < name_count; i++)
        if (read_name(arena, names[i], &list[count]))
            count++;
    if (arena->failed)
        return af_fail_memory(err);
    *list_out = list;
    *count_out = count;
    return ANYFLASH_OK;
}

static enum anyflash_status read_record(struct af_arena *arena, const char *site,
                                        const struct af_distribution *distribution,
                                        struct af_span *text_out, struct anyflash_error *err)
{
    const char *path = af_arena_format(arena, "%s/%s/RECORD", site, distribution->folder);
    if (path == NULL)
        return af_fail_memory(err);
    return af_file_read(arena, path, AF_RECORD_BYTES_MAX, text_out, err);
}

/* Number of lines in `text`, an upper bound for the number of paths. */
static size_t count_lines(struct af_span text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '\n';
    return count;
}

enum anyflash_status af_distribution_files(struct af_arena *arena, const char *site,
                                           const struct af_distribution *distribution,
                                           const char ***paths_out, size_t *count_out,
                                           const char **odd_out, struct anyflash_error *err)
{
    struct af_formats_record_line line;
    struct af_span text = {0};
    size_t count = 0;
    *paths_out = NULL;
    *count_out = 0;
    if (odd_out != NULL)
        *odd_out = NULL;
    enum anyflash_status status = distribution->egg
                                      ? ANYFLASH_E_NOT_FOUND
                                      : read_record(arena, site, distribution, &text, err);
    if (status == ANYFLASH_E_NOT_FOUND)
        return ANYFLASH_OK;
    if (status != ANYFLASH_OK)
        return status;
    const char **paths = af_arena_array(arena, count_lines(text), sizeof *paths);
    while (paths != NULL && af_formats_record_next(&text, &line)) {
        if (af_record_path_is_inside(line.path))
            paths[count++] = af_arena_text(arena, line.path);
        else if (odd_out != NULL && *odd_out == NULL)
            *odd_out = af_text_scrub(arena, line.path, 200);
    }
    if (arena->failed)
        return af_fail_memory(err);
    *paths_out = paths;
    *count_out = count;
    return ANYFLASH_OK;
}

const char *af_distribution_text(struct af_arena *arena, const char *site,
                                 const struct af_distribution *distribution, const char *file)
{
    struct af_span text;
    struct af_span line;
    const char *path = af_arena_format(arena, "%s/%s/%s", site, distribution->folder, file);
    if (path == NULL || af_file_read(arena, path, SMALL_BYTES_MAX, &text, NULL) != ANYFLASH_OK)
        return NULL;
    if (!af_text_line(&text, &line))
        return "";
    line = af_text_trim(line);
    return af_arena_text_n(arena, line.data == NULL ? "" : line.data, line.len);
}
