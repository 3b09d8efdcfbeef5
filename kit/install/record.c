/*
 * record.c: reads dist-info folders and their RECORD, and compares RECORD with the files. Only
 * reads; a hostile RECORD cannot make it read files outside the environment.
 */
#include "kit/install/record.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/system/file.h"

#define STEPS_UP_MAX 3
#define PATH_BYTES (2 * AF_FORMATS_RECORD_PATH_BYTES)

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

/* Without METADATA a folder is what an installer left of one, because of a file of others. */
static bool is_whole(struct af_arena *arena, const char *site,
                     const struct af_distribution *distribution)
{
    const char *path = af_arena_format(arena, "%s/%s/METADATA", site, distribution->folder);
    return distribution->egg || af_file_exists(path);
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
    for (size_t i = 0; i < name_count; i++)
        if (read_name(arena, names[i], &list[count]) && is_whole(arena, site, &list[count]))
            count++;
    *list_out = list;
    *count_out = count;
    return ANYFLASH_OK;
}

static enum anyflash_status read_record(struct af_arena *arena, const char *site,
                                        const struct af_distribution *distribution,
                                        struct af_span *text_out, struct anyflash_error *err)
{
    const char *path = af_arena_format(arena, "%s/%s/RECORD", site, distribution->folder);
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
    while (af_formats_record_next(&text, &line)) {
        if (af_record_path_is_inside(line.path))
            paths[count++] = af_arena_text(arena, line.path);
        else if (odd_out != NULL && *odd_out == NULL)
            *odd_out = af_text_scrub(arena, line.path, 200);
    }
    *paths_out = paths;
    *count_out = count;
    return ANYFLASH_OK;
}

struct check {
    const char *site;
    struct af_arena *arena;
    struct af_record_result *result;
};

const char *af_record_fault_text(enum af_record_fault_kind kind)
{
    static const char *const texts[] = {
        [AF_RECORD_FILE_MISSING] = "missing",
        [AF_RECORD_FILE_SIZE] = "its size differs from RECORD",
        [AF_RECORD_FILE_CHANGED] = "its content differs from RECORD",
        [AF_RECORD_FILE_OUTSIDE] = "outside the environment",
        [AF_RECORD_FILE_UNREAD] = "not readable",
    };
    return texts[kind];
}

static void fault(struct check *check, const char *path, enum af_record_fault_kind kind)
{
    struct af_record_result *result = check->result;
    if (result->fault_count < AF_RECORD_FAULTS_MAX)
        result->faults[result->fault_count] = (struct af_record_fault){
            af_text_scrub(check->arena, path, AF_FORMATS_RECORD_PATH_BYTES), kind};
    result->fault_count++;
}

bool af_record_path_is_inside(const char *path)
{
    int steps_up = 0;
    while (af_starts_with(path, "../")) {
        path += 3;
        steps_up++;
    }
    return steps_up <= STEPS_UP_MAX && path[0] != '/' && path[0] != '\0' &&
           strcmp(path, "..") != 0 && strstr(path, "/../") == NULL &&
           !af_ends_with(path, "/..") && strstr(path, "//") == NULL &&
           strstr(path, "/./") == NULL && !af_starts_with(path, "./");
}

/* Byte code may be missing: the interpreter creates and removes it at any time. */
static bool may_be_absent(const struct af_formats_record_line *line)
{
    return line->sha256[0] == '\0' && af_ends_with(line->path, ".pyc");
}

static void check_hash(struct check *check, const struct af_formats_record_line *line,
                       const char *path)
{
    char hex[AF_SHA256_HEX_BYTES];
    uint64_t size_bytes = 0;
    if (af_file_sha256(path, hex, &size_bytes, NULL) != ANYFLASH_OK) {
        fault(check, line->path, AF_RECORD_FILE_UNREAD);
        return;
    }
    check->result->hashed_bytes += size_bytes;
    if (!af_sha256_equal(hex, line->sha256))
        fault(check, line->path, AF_RECORD_FILE_CHANGED);
}

static void check_line(struct check *check, const struct af_formats_record_line *line)
{
    struct stat found;
    char path[PATH_BYTES];
    check->result->line_count++;
    if (!af_record_path_is_inside(line->path) ||
        snprintf(path, sizeof path, "%s/%s", check->site, line->path) >= PATH_BYTES) {
        fault(check, line->path, AF_RECORD_FILE_OUTSIDE);
    } else if (stat(path, &found) != 0 || !S_ISREG(found.st_mode)) {
        if (!may_be_absent(line))
            fault(check, line->path, AF_RECORD_FILE_MISSING);
    } else if (line->size_bytes >= 0 && found.st_size != line->size_bytes) {
        fault(check, line->path, AF_RECORD_FILE_SIZE);
    } else if (line->sha256[0] != '\0') {
        check_hash(check, line, path);
    }
}

enum anyflash_status af_record_check(const char *site_folder, const char *info_folder,
                                     struct af_arena *arena,
                                     struct af_record_result *result_out,
                                     struct anyflash_error *err)
{
    struct af_record_result result = {0};
    struct check check = {site_folder, arena, &result};
    struct af_formats_record_line line;
    struct af_span text;
    const char *record = af_path_join(arena, info_folder, "RECORD");
    const char *installer = af_path_join(arena, info_folder, "INSTALLER");
    enum anyflash_status status = af_file_read(arena, record, AF_RECORD_BYTES_MAX, &text, err);
    if (status != ANYFLASH_OK)
        return status;
    while (af_formats_record_next(&text, &line))
        check_line(&check, &line);
    result.has_installer = af_file_is_regular(installer);
    *result_out = result;
    return ANYFLASH_OK;
}
