/*
 * wheel_file.c: a wheel's hash and its own words. Called by config.
 */
#include "kit/cli/wheel_file.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_archive.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"

#define METADATA_BYTES_MAX (1u << 20)
#define REQUIRES_MAX 64u

/* "2.8.3" of "flash_attn-2.8.3.dist-info/"; NULL when there is none. */
static const char *folder_version(struct af_arena *arena, const char *member)
{
    const char *dash = strchr(member, '-');
    size_t len = strlen(member) - strlen(".dist-info/");
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
    struct af_wheel_archive archive = {.info = NULL};
    struct af_span text = {0};
    enum anyflash_status status = af_file_source_open(path, &source, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(&source, &archive, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_read_info(&archive, "METADATA", arena, METADATA_BYTES_MAX,
                                            &text, err);
    if (status == ANYFLASH_OK) {
        facts->metadata_version = folder_version(arena, archive.info);
        read_requires(arena, text, facts);
    }
    af_wheel_archive_close(&archive);
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
