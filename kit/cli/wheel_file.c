/*
 * wheel_file.c: a wheel's hash and its own words. Called by config.
 */
#include "kit/cli/wheel_file.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/zip.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"

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
                          struct af_plan_wheel_facts *facts)
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
                                          struct af_plan_wheel_facts *facts,
                                          struct anyflash_error *err)
{
    struct af_source source = {0};
    struct af_zip zip = {0};
    struct af_span text = {0};
    enum anyflash_status status = af_file_source_open(path, &source, err);
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

enum anyflash_status af_cli_wheel_file_facts(struct af_arena *arena, const char *path,
                                             struct af_plan_wheel_facts *facts_out,
                                             struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_plan_wheel_facts facts = {0};
    enum anyflash_status status = af_file_sha256(path, hex, NULL, err);
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
