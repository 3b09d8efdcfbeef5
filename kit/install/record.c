/*
 * record.c: compares RECORD with the files. Only reads; a hostile RECORD cannot make it read
 * files outside the environment.
 */
#include "kit/install/record.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/system/file.h"

#define RECORD_BYTES_MAX (64u * 1024u * 1024u)
#define STEPS_UP_MAX 3
#define PATH_BYTES (2 * AF_FORMATS_RECORD_PATH_BYTES)

struct check {
    const char *site;
    bool hash;
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
    check->result->hashed_count++;
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
    } else if (check->hash && line->sha256[0] != '\0') {
        check_hash(check, line, path);
    }
}

enum anyflash_status af_record_check(const char *site_folder, const char *info_folder,
                                     bool hash, struct af_arena *arena,
                                     struct af_record_result *result_out,
                                     struct anyflash_error *err)
{
    struct af_record_result result = {0};
    struct check check = {site_folder, hash, arena, &result};
    struct af_formats_record_line line;
    struct af_span text;
    const char *record = af_path_join(arena, info_folder, "RECORD");
    const char *installer = af_path_join(arena, info_folder, "INSTALLER");
    if (record == NULL || installer == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_read(arena, record, RECORD_BYTES_MAX, &text, err);
    if (status != ANYFLASH_OK)
        return status;
    while (af_formats_record_next(&text, &line))
        check_line(&check, &line);
    result.has_installer = af_file_is_regular(installer);
    if (arena->failed)
        return af_fail_memory(err);
    *result_out = result;
    return ANYFLASH_OK;
}
