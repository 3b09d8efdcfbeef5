/*
 * wheel_file.c: a wheel's hash and its own words; putting it into a project's
 * folder. Called by config.
 */
#include "cli/wheel_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/file_output.h"
#include "formats/metadata.h"
#include "formats/sha256.h"
#include "formats/zip.h"

#define METADATA_BYTES_MAX (1u << 20)
#define REQUIRES_MAX 64u
#define FOLDER_END ".dist-info/METADATA"

/* The member NAME-VERSION.dist-info/METADATA, or NULL. */
static const struct af_zip_member *metadata_member(const struct af_zip *zip)
{
    for (size_t i = 0; i < zip->member_count; i++) {
        const char *name = zip->members[i].name;
        if (af_ends_with(name, FOLDER_END) &&
            strchr(name, '/') == name + strlen(name) - strlen("/METADATA"))
            return &zip->members[i];
    }
    return NULL;
}

static const char *folder_version(struct af_arena *arena, const char *member)
{
    const char *dash = strchr(member, '-');
    size_t len = strlen(member) - strlen(FOLDER_END);
    size_t before = dash == NULL ? len : (size_t)(dash - member) + 1;
    return before >= len ? NULL : af_arena_text_n(arena, member + before, len - before);
}

static void read_requires(struct af_arena *arena, struct af_span text,
                          struct af_wheel_facts *facts)
{
    struct af_header header;
    const char **list = af_arena_array(arena, REQUIRES_MAX, sizeof *list);
    while (list != NULL && facts->requires_count < REQUIRES_MAX &&
           af_header_next(&text, &header)) {
        struct af_requirement requirement;
        if (af_header_is(&header, "Requires-Dist") &&
            af_requirement_parse(header.value, &requirement) && !requirement.only_for_extra)
            list[facts->requires_count++] =
                af_arena_text_n(arena, header.value.data, header.value.len);
    }
    facts->requires_dist = list;
}

static enum anyflash_status read_metadata(struct af_arena *arena, const char *path,
                                          struct af_wheel_facts *facts,
                                          struct anyflash_error *err)
{
    struct af_source source = {0};
    struct af_zip zip = {0};
    struct af_span text = {0};
    enum anyflash_status status = af_source_open_file(path, &source, err);
    if (status == ANYFLASH_OK)
        status = af_zip_open(&source, &zip, err);
    if (status == ANYFLASH_OK) {
        const struct af_zip_member *member = metadata_member(&zip);
        status = member == NULL
                     ? af_fail(err, ANYFLASH_E_DATA, "'%s' has no METADATA: it is no wheel",
                               source.name)
                     : af_zip_read(&zip, member, arena, METADATA_BYTES_MAX, &text, err);
        if (status == ANYFLASH_OK) {
            facts->metadata_version = folder_version(arena, member->name);
            read_requires(arena, text, facts);
        }
    }
    af_zip_close(&zip);
    af_source_close(&source);
    return status;
}

enum anyflash_status af_wheel_file_facts(struct af_arena *arena, const char *path,
                                         struct af_wheel_facts *facts_out,
                                         struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_wheel_facts facts = {0};
    enum anyflash_status status = af_sha256_file(path, hex, NULL, err);
    if (status == ANYFLASH_OK)
        status = read_metadata(arena, path, &facts, err);
    if (status != ANYFLASH_OK)
        return status;
    facts.sha256 = af_arena_text(arena, hex);
    if (arena->failed)
        return af_fail_memory(err);
    *facts_out = facts;
    return ANYFLASH_OK;
}

static enum anyflash_status copy(struct af_arena *arena, const char *from, const char *to,
                                 struct anyflash_error *err)
{
    struct af_mapping mapping;
    enum anyflash_status status = af_file_map(from, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span piece = {(const char *)mapping.data, mapping.len};
    status = af_file_write(arena, to, &piece, 1, err);
    af_file_unmap(&mapping);
    return status;
}

enum anyflash_status af_wheel_file_place(struct af_arena *arena, const char *from,
                                         const char *to, struct anyflash_error *err)
{
    char shown[160];
    const char *folder = af_path_folder(arena, to);
    const char *part = af_arena_format(arena, "%s.%ld.part", to, (long)getpid());
    if (folder == NULL || part == NULL)
        return af_fail_memory(err);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return af_fail(err, ANYFLASH_E_IO, "cannot make '%s': %s",
                       af_text_quote(shown, sizeof shown, folder, strlen(folder)),
                       strerror(errno));
    const char *real_from = af_path_real(arena, from);
    const char *real_to = af_path_real(arena, to);
    if (real_to != NULL && af_equal(real_from, real_to))
        return ANYFLASH_OK;
    if (real_from != NULL && link(real_from, part) == 0) {
        if (rename(part, to) == 0) {
            unlink(part); /* of two links to one file rename() keeps both */
            return ANYFLASH_OK;
        }
        unlink(part);
    }
    return copy(arena, from, to, err);
}
