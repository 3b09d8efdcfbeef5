/*
 * wheelhouse_wheel.c: whether installers will take a wheel from an index, and
 * what its line of the page says.
 */
#include <string.h>

#include "kit/formats/metadata.h"
#include "kit/formats/names.h"
#include "kit/formats/wheel_name.h"
#include "kit/formats/zip.h"
#include "kit/install/wheelhouse_parts.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"

#define METADATA_BYTES_MAX (1u << 20)
#define VARIANT_BYTES_MAX (256u << 10)
#define NAME_BYTES 256
#define PIECE_BYTES 65536
#define INFO_END ".dist-info/"

/* An open wheel. */
struct opened {
    struct af_source source;
    struct af_zip zip;
    struct af_wheel_name name;
    const struct af_wheelhouse_question *question;
    struct af_arena *arena;
    struct af_wheelhouse_wheel *wheel;
};

static void leave_out(struct opened *opened, const char *reason)
{
    opened->wheel->reason = af_arena_text(opened->arena, reason);
}

/*
 * A failure that is the wheel's own becomes the reason; true when it is: then
 * the others go on. Only lack of memory fails the whole.
 */
static bool is_its_own(struct opened *opened, enum anyflash_status status,
                       const struct anyflash_error *error)
{
    if (status == ANYFLASH_OK || status == ANYFLASH_E_NO_MEMORY)
        return false;
    leave_out(opened, error->message);
    return true;
}

/* "flash_attn-2.8.3+cu12.dist-info/": the only such folder at the top; NULL: not one. */
static const char *info_folder(struct opened *opened)
{
    const char *found = NULL;
    for (size_t i = 0; i < opened->zip.member_count; i++) {
        const char *name = opened->zip.members[i].name;
        const char *end = strstr(name, INFO_END);
        size_t len = end == NULL ? 0 : (size_t)(end - name) + strlen(INFO_END);
        if (end == NULL || memchr(name, '/', len - 1) != NULL)
            continue;
        if (found == NULL)
            found = af_arena_text_n(opened->arena, name, len);
        else if (strncmp(found, name, len) != 0 || found[len] != '\0')
            return NULL;
    }
    return found;
}

/* Unpacks all of it to nowhere. */
static enum anyflash_status check_bytes(struct opened *opened, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    char *piece = af_arena_alloc(opened->arena, PIECE_BYTES);
    if (piece == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < opened->zip.member_count && status == ANYFLASH_OK; i++) {
        struct af_zip_stream stream = {0};
        size_t got = PIECE_BYTES;
        if (opened->zip.members[i].is_folder)
            continue;
        status = af_zip_stream_open(&opened->zip, &opened->zip.members[i], &stream, err);
        while (status == ANYFLASH_OK && got == PIECE_BYTES)
            status = af_zip_stream_read(&stream, piece, PIECE_BYTES, &got, err);
        af_zip_stream_close(&stream);
    }
    return status;
}

static bool header_text(struct af_span metadata, const char *name, struct af_span *value_out)
{
    struct af_header header;
    while (af_header_next(&metadata, &header)) {
        if (af_header_is(&header, name)) {
            *value_out = header.value;
            return true;
        }
    }
    return false;
}

/* Name and Version against the file's name. */
static void compare_metadata(struct opened *opened, struct af_span metadata)
{
    struct af_span name = {0};
    struct af_span text = {0};
    struct af_version version;
    char shown[96];
    if (!header_text(metadata, "Name", &name) || !af_name_is(name, opened->wheel->project)) {
        opened->wheel->reason = af_arena_format(
            opened->arena, "its METADATA is that of '%s', not of %s",
            af_text_quote(shown, sizeof shown, name.data, name.len), opened->wheel->project);
        return;
    }
    bool is_version = header_text(metadata, "Version", &text) &&
                      af_version_parse(text.data, text.len, &version);
    bool is_same = is_version && af_version_compare(&version, &opened->name.version) == 0;
    if (is_same || (is_version && opened->question->inconsistent))
        return;
    opened->wheel->reason = af_arena_format(
        opened->arena,
        "its METADATA has version '%s', its name %s: pip refuses it from an index",
        af_text_quote(shown, sizeof shown, text.data, text.len), opened->wheel->version);
}

static void read_requires_python(struct opened *opened, struct af_span metadata)
{
    struct af_span text = {0};
    struct af_version version;
    if (!header_text(metadata, "Requires-Python", &text))
        return;
    const char *specifier = af_arena_text_n(opened->arena, text.data, text.len);
    if (specifier == NULL || !af_version_parse("3.12", 4, &version))
        return;
    if (af_specifier_contains(specifier, &version) == AF_UNKNOWN)
        leave_out(opened, "its METADATA has a Requires-Python that is no specifier");
    else
        opened->wheel->requires_python = specifier;
}

/* variant.json of a wheel whose name has a label. */
static enum anyflash_status read_variant(struct opened *opened, const char *folder,
                                         struct anyflash_error *err)
{
    struct af_span text;
    bool is_good;
    const char *path = af_arena_format(opened->arena, "%svariant.json", folder);
    if (opened->name.variant[0] == '\0')
        return ANYFLASH_OK;
    const struct af_zip_member *member = path == NULL ? NULL : af_zip_find(&opened->zip, path);
    if (member == NULL) {
        leave_out(opened, "its dist-info has no variant.json");
        return ANYFLASH_OK;
    }
    enum anyflash_status status =
        af_zip_read(&opened->zip, member, opened->arena, VARIANT_BYTES_MAX, &text, err);
    if (status == ANYFLASH_OK)
        status = af_wheelhouse_variant_check(text, opened->name.variant, &is_good, err);
    if (status == ANYFLASH_OK && is_good)
        opened->wheel->variant_json = text.data;
    else if (status == ANYFLASH_OK)
        leave_out(opened, "its variant.json does not describe the label of its name");
    return status;
}

static enum anyflash_status read_inside(struct opened *opened, struct af_span *metadata_out,
                                        struct anyflash_error *err)
{
    static const char *const needed[] = {"METADATA", "WHEEL", "RECORD"};
    const struct af_zip_member *members[AF_COUNT(needed)];
    const char *folder = info_folder(opened);
    for (size_t i = 0; i < AF_COUNT(needed); i++) {
        const char *path =
            folder == NULL ? NULL : af_arena_format(opened->arena, "%s%s", folder, needed[i]);
        members[i] = path == NULL ? NULL : af_zip_find(&opened->zip, path);
        if (members[i] == NULL) {
            opened->wheel->reason =
                folder == NULL
                    ? "it has no dist-info folder, or several"
                    : af_arena_format(opened->arena, "its dist-info has no %s", needed[i]);
            return opened->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
        }
    }
    enum anyflash_status status = af_zip_read(&opened->zip, members[0], opened->arena,
                                              METADATA_BYTES_MAX, metadata_out, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!af_text_is_utf8(metadata_out->data, metadata_out->len)) {
        leave_out(opened, "its METADATA is no UTF-8");
        return ANYFLASH_OK;
    }
    compare_metadata(opened, *metadata_out);
    if (opened->wheel->reason == NULL)
        read_requires_python(opened, *metadata_out);
    if (opened->wheel->reason == NULL)
        status = read_variant(opened, folder, err);
    if (status != ANYFLASH_OK)
        return status;
    return opened->wheel->reason == NULL ? check_bytes(opened, err) : ANYFLASH_OK;
}

/* From the file's name: file name in the index, project, version. */
static void read_name(struct opened *opened, const char *name)
{
    char project[NAME_BYTES];
    char version[NAME_BYTES];
    char *filename = af_arena_text(opened->arena, name);
    enum af_wheel_name_problem problem = af_wheel_name_parse(name, strlen(name), &opened->name);
    if (filename == NULL)
        return;
    if (problem != AF_WHEEL_NAME_VALID) {
        opened->wheel->reason =
            af_arena_format(opened->arena, "its name %s", af_wheel_name_problem_text(problem));
        return;
    }
    if (opened->name.variant[0] != '\0' && !opened->question->variants) {
        leave_out(opened, "it is a wheel variant, which only previews of uv take");
        return;
    }
    for (char *at = filename; (at = strchr(at, '%')) != NULL; at++) {
        *at = '+'; /* the only escape that the parser lets through is %2B */
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
    const struct af_span package = {opened->name.package, strlen(opened->name.package)};
    if (!af_name_normalise(package, project, sizeof project)) {
        leave_out(opened, "its name is too long");
        return;
    }
    af_version_format(&opened->name.version, true, version, sizeof version);
    opened->wheel->filename = filename;
    opened->wheel->project = af_arena_text(opened->arena, project);
    opened->wheel->version = af_arena_text(opened->arena, version);
}

/* Hashes of the file and of its metadata. */
static enum anyflash_status hash(struct opened *opened, const char *path,
                                 struct af_span metadata, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    af_sha256_bytes(metadata, hex);
    opened->wheel->metadata_sha256 = af_arena_text(opened->arena, hex);
    enum anyflash_status status = af_file_sha256(path, hex, &opened->wheel->size_bytes, err);
    opened->wheel->sha256 = status == ANYFLASH_OK ? af_arena_text(opened->arena, hex) : NULL;
    return status;
}

enum anyflash_status af_wheelhouse_read(const char *path, const char *name,
                                        const struct af_wheelhouse_question *question,
                                        struct af_arena *arena,
                                        struct af_wheelhouse_wheel *wheel,
                                        struct af_span *metadata_out,
                                        struct anyflash_error *err)
{
    struct anyflash_error own = {0};
    struct opened *opened = af_arena_alloc(arena, sizeof *opened);
    if (opened == NULL)
        return af_fail_memory(err);
    opened->arena = arena;
    opened->question = question;
    opened->wheel = wheel;
    read_name(opened, name);
    enum anyflash_status status = arena->failed ? af_fail_memory(&own) : ANYFLASH_OK;
    if (status == ANYFLASH_OK && wheel->reason == NULL)
        status = af_file_source_open(path, &opened->source, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL)
        status = af_zip_open(&opened->source, &opened->zip, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL)
        status = read_inside(opened, metadata_out, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL)
        status = hash(opened, path, *metadata_out, &own);
    af_zip_close(&opened->zip);
    af_source_close(&opened->source);
    if (arena->failed)
        return af_fail_memory(err);
    if (is_its_own(opened, status, &own))
        status = arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    else if (status != ANYFLASH_OK)
        return af_fail(err, status, "%s", own.message);
    return status;
}
