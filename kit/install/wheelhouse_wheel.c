/*
 * wheelhouse_wheel.c: checks whether installers accept a wheel from an index, and collects what
 * the index says about it.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/wheelhouse.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"

#define METADATA_BYTES_MAX (1u << 20)

static enum anyflash_status read_name(struct af_wheelhouse_wheel *wheel,
                                      struct af_wheel_name *name, struct af_arena *arena,
                                      struct anyflash_error *err)
{
    char text[AF_WHEEL_NAME_BYTES];
    const char *file = af_path_name(wheel->path);
    enum af_wheel_name_problem problem = af_wheel_name_parse(file, strlen(file), name);
    if (problem != AF_WHEEL_NAME_VALID)
        return af_fail(err, ANYFLASH_E_DATA, "its name %s",
                       af_wheel_name_problem_text(problem));
    if (name->variant[0] != '\0')
        return af_fail(err, ANYFLASH_E_DATA,
                       "it is a wheel variant, which installers do not support yet");
    const struct af_span package = {name->package, strlen(name->package)};
    wheel->filename = af_url_file_name(arena, file); /* decodes "%2B" */
    af_name_normalise(package, text, sizeof text);
    wheel->project = af_arena_text(arena, text);
    af_version_format(&name->version, true, text, sizeof text);
    wheel->version = af_arena_text(arena, text);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Compares Name and Version with the file name, and reads Requires-Python. */
static enum anyflash_status check_metadata(struct af_wheelhouse_wheel *wheel,
                                           const struct af_wheel_name *name, bool inconsistent,
                                           struct af_arena *arena, struct anyflash_error *err)
{
    char shown[96];
    struct af_version version;
    struct af_span package = {"", 0};
    struct af_span stated = {"", 0};
    struct af_span python = {NULL, 0};
    af_header_find(wheel->metadata, "Name", &package);
    af_header_find(wheel->metadata, "Version", &stated);
    af_header_find(wheel->metadata, "Requires-Python", &python);
    bool is_version = af_version_parse(stated.data, stated.len, &version);
    bool is_same = is_version && af_version_compare(&version, &name->version) == 0;
    if (!af_text_is_utf8(wheel->metadata.data, wheel->metadata.len))
        return af_fail(err, ANYFLASH_E_DATA, "its METADATA is not UTF-8");
    if (!af_name_is(package, wheel->project))
        return af_fail(err, ANYFLASH_E_DATA, "its METADATA names '%s', not %s",
                       af_text_quote(shown, sizeof shown, package.data, package.len),
                       wheel->project);
    if (!is_same && !(is_version && inconsistent))
        return af_fail(err, ANYFLASH_E_DATA,
                       "its METADATA says version '%s', but its file name says %s; pip rejects "
                       "such a wheel from an index",
                       af_text_quote(shown, sizeof shown, stated.data, stated.len),
                       wheel->version);
    if (python.len > 0)
        wheel->requires_python = af_arena_text_n(arena, python.data, python.len);
    if (arena->failed)
        return af_fail_memory(err);
    if (wheel->requires_python != NULL &&
        af_specifier_contains(wheel->requires_python, &version) == AF_UNKNOWN)
        return af_fail(err, ANYFLASH_E_DATA,
                       "its METADATA has a Requires-Python that is not a specifier");
    return ANYFLASH_OK;
}

/* Reads METADATA and compares it with the name. */
static enum anyflash_status read_archive(struct af_wheelhouse_wheel *wheel,
                                         const struct af_wheel_name *name, bool inconsistent,
                                         struct af_arena *arena, struct anyflash_error *err)
{
    struct af_source source = {0};
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_file_source_open(wheel->path, &source, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(&source, &archive, err);
    if (status == ANYFLASH_OK && archive.info_count > 1)
        status = af_fail(err, ANYFLASH_E_DATA, "it has several dist-info folders");
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_read_info(&archive, "METADATA", arena, METADATA_BYTES_MAX,
                                            &wheel->metadata, err);
    if (status == ANYFLASH_OK)
        status = check_metadata(wheel, name, inconsistent, arena, err);
    af_wheel_archive_close(&archive);
    af_source_close(&source);
    return status;
}

enum anyflash_status af_wheelhouse_read(struct af_wheelhouse_wheel *wheel, bool inconsistent,
                                        struct af_arena *arena, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_wheel_name name;
    enum anyflash_status status = read_name(wheel, &name, arena, err);
    if (status == ANYFLASH_OK)
        status = read_archive(wheel, &name, inconsistent, arena, err);
    if (status == ANYFLASH_OK)
        status = af_file_sha256(wheel->path, hex, &wheel->size_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    wheel->sha256 = af_arena_text(arena, hex);
    af_sha256_bytes(wheel->metadata, hex);
    wheel->metadata_sha256 = af_arena_text(arena, hex);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
