/*
 * wheelhouse_wheel.c: checks whether installers accept a wheel from an index, and collects what
 * the index says about it.
 */
#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/wheelhouse.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"

#define METADATA_BYTES_MAX (1u << 20)
#define NAME_BYTES 256

/* The wheel while it is read. */
struct opened {
    struct af_arena *arena;
    struct af_source source;
    struct af_wheel_archive archive;
    struct af_wheel_name name;
    struct af_wheelhouse_wheel *wheel;
    struct af_span metadata;
};

static void leave_out(struct opened *opened, const char *reason)
{
    opened->wheel->reason = af_arena_text(opened->arena, reason);
}

/* Reads file name in the index, project and version from the name of the file. */
static void read_name(struct opened *opened, const char *file)
{
    char project[NAME_BYTES];
    char version[NAME_BYTES];
    struct af_wheelhouse_wheel *wheel = opened->wheel;
    struct af_wheel_name *name = &opened->name;
    char *filename = af_arena_text(opened->arena, file);
    enum af_wheel_name_problem problem = af_wheel_name_parse(file, strlen(file), name);
    bool valid = problem == AF_WHEEL_NAME_VALID;
    const struct af_span package = {name->package, valid ? strlen(name->package) : 0};
    if (!valid)
        wheel->reason =
            af_arena_format(opened->arena, "its name %s", af_wheel_name_problem_text(problem));
    else if (name->variant[0] != '\0')
        leave_out(opened, "it is a wheel variant, which installers do not support yet");
    else if (!af_name_normalise(package, project, sizeof project))
        leave_out(opened, "its name is too long");
    if (wheel->reason != NULL || opened->arena->failed)
        return;
    for (char *at = filename; (at = strchr(at, '%')) != NULL; at++) {
        *at = '+'; /* "%2B" is the only escape in a valid name */
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
    wheel->filename = filename;
    wheel->project = af_arena_text(opened->arena, project);
    wheel->version = af_arena_text(
        opened->arena, af_version_format(&name->version, true, version, sizeof version));
}

/* The value of the first header of that name; empty if there is none. */
static struct af_span header_value(struct af_span metadata, const char *name)
{
    struct af_header header;
    while (af_header_next(&metadata, &header)) {
        if (af_header_is(&header, name))
            return header.value;
    }
    return (struct af_span){"", 0};
}

/* Compares Name and Version with the file name, and reads Requires-Python. */
static void check_metadata(struct opened *opened, bool inconsistent)
{
    char shown[96];
    struct af_version version;
    struct af_wheelhouse_wheel *wheel = opened->wheel;
    struct af_span name = header_value(opened->metadata, "Name");
    struct af_span stated = header_value(opened->metadata, "Version");
    struct af_span python = header_value(opened->metadata, "Requires-Python");
    bool is_version = af_version_parse(stated.data, stated.len, &version);
    bool is_same = is_version && af_version_compare(&version, &opened->name.version) == 0;
    const char *specifier = af_arena_text_n(opened->arena, python.data, python.len);
    if (!af_text_is_utf8(opened->metadata.data, opened->metadata.len))
        leave_out(opened, "its METADATA is not UTF-8");
    else if (!af_name_is(name, wheel->project))
        wheel->reason = af_arena_format(
            opened->arena, "its METADATA is that of '%s', not of %s",
            af_text_quote(shown, sizeof shown, name.data, name.len), wheel->project);
    else if (!is_same && !(is_version && inconsistent))
        wheel->reason = af_arena_format(
            opened->arena,
            "its METADATA states version '%s', its name %s: pip refuses it from an index",
            af_text_quote(shown, sizeof shown, stated.data, stated.len), wheel->version);
    else if (python.len > 0 && specifier != NULL && af_version_parse("3.12", 4, &version) &&
             af_specifier_contains(specifier, &version) == AF_UNKNOWN)
        leave_out(opened, "its METADATA has a Requires-Python that is not a specifier");
    else if (python.len > 0)
        wheel->requires_python = specifier;
}

static enum anyflash_status read_inside(struct opened *opened, bool inconsistent,
                                        struct anyflash_error *err)
{
    static const char *const needed[] = {"METADATA", "WHEEL", "RECORD"};
    if (opened->archive.info_count != 1)
        leave_out(opened, "it has no dist-info folder, or several");
    for (size_t i = 0; i < AF_COUNT(needed) && opened->wheel->reason == NULL; i++) {
        if (af_wheel_archive_info(&opened->archive, needed[i]) == NULL)
            opened->wheel->reason =
                af_arena_format(opened->arena, "its dist-info has no %s", needed[i]);
    }
    if (opened->arena->failed || opened->wheel->reason != NULL)
        return opened->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    enum anyflash_status status = af_wheel_archive_read_info(
        &opened->archive, needed[0], opened->arena, METADATA_BYTES_MAX, &opened->metadata, err);
    if (status == ANYFLASH_OK)
        check_metadata(opened, inconsistent);
    return status;
}

enum anyflash_status af_wheelhouse_read(const char *path, const char *file, bool inconsistent,
                                        struct af_arena *arena,
                                        struct af_wheelhouse_wheel *wheel,
                                        struct af_span *metadata_out,
                                        struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct anyflash_error own = {0};
    struct opened *opened = af_arena_alloc(arena, sizeof *opened);
    if (opened == NULL)
        return af_fail_memory(err);
    opened->arena = arena;
    opened->wheel = wheel;
    read_name(opened, file);
    if (wheel->reason != NULL || arena->failed)
        return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    enum anyflash_status status = af_file_source_open(path, &opened->source, &own);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(&opened->source, &opened->archive, &own);
    if (status == ANYFLASH_OK)
        status = read_inside(opened, inconsistent, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL)
        status = af_file_sha256(path, hex, &wheel->size_bytes, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL) {
        wheel->sha256 = af_arena_text(arena, hex);
        af_sha256_bytes(opened->metadata, hex);
        wheel->metadata_sha256 = af_arena_text(arena, hex);
        *metadata_out = opened->metadata;
    }
    af_wheel_archive_close(&opened->archive);
    af_source_close(&opened->source);
    if (status != ANYFLASH_OK && status != ANYFLASH_E_NO_MEMORY)
        leave_out(opened, own.message);
    return arena->failed || status == ANYFLASH_E_NO_MEMORY ? af_fail_memory(err) : ANYFLASH_OK;
}
