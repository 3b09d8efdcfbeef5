/*
 * inspect_wheel.c: compares a wheel's name with its METADATA, WHEEL and RECORD. All of these
 * may be wrong, so each is compared with the others.
 */
#include "kit/proof/inspect_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"

#define START_BYTES 64u /* the header of an ELF file */

/* Creates all folders of `path` below `root`; zip.h has already rejected unsafe names. */
static bool make_folders(char *path, size_t root_len)
{
    for (char *at = path + root_len + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!made)
            return false;
    }
    return true;
}

static enum anyflash_status write_all(void *context, const void *bytes, size_t len,
                                      struct anyflash_error *err)
{
    const int *fd = context;
    if (af_interrupted())
        return af_fail(err, ANYFLASH_E_TIMEOUT, "interrupted while unpacking the wheel");
    for (size_t done = 0; done < len;) {
        ssize_t got = write(*fd, (const char *)bytes + done, len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return af_fail(err, ANYFLASH_E_IO, "cannot write an unpacked library: %s",
                           strerror(errno));
        done += (size_t)got;
    }
    return ANYFLASH_OK;
}

/* Whether the member is an ELF file; if not, its `problem` says so, and it is not unpacked. */
static bool is_elf(struct af_inspect_target *target, struct af_arena *arena,
                   struct af_inspect_extension *one)
{
    struct anyflash_error why = {0};
    struct af_span start;
    struct af_binary binary;
    enum anyflash_status status =
        af_zip_read_start(&target->archive->zip, one->member, arena, START_BYTES, &start, &why);
    if (status == ANYFLASH_OK && start.len >= 4 && memcmp(start.data, "\177ELF", 4) == 0)
        return true;
    if (status == ANYFLASH_OK)
        status = af_binary_read(arena, start, one->path, &binary, &why);
    one->problem = af_arena_text(arena, why.message);
    return false;
}

static enum anyflash_status unpack_one(struct af_inspect_target *target, struct af_arena *arena,
                                       struct af_inspect_extension *one,
                                       struct anyflash_error *err)
{
    struct anyflash_error why = {0};
    char *path = af_arena_format(arena, "%s/%s", target->unpacked, one->member->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return af_file_fail("create", path, err);
    enum anyflash_status status =
        af_zip_extract(&target->archive->zip, one->member, write_all, &fd, &why);
    close(fd);
    one->file = path;
    if (status == ANYFLASH_E_DATA)
        one->problem = af_arena_text(arena, why.message);
    else if (status != ANYFLASH_OK)
        return af_fail(err, status, "%s", why.message);
    return ANYFLASH_OK;
}

/*
 * Creates the temporary folder and the folders of all libraries in it, because run paths may go
 * through any of them.
 */
static enum anyflash_status make_place(struct af_inspect_target *target, struct af_arena *arena,
                                       struct anyflash_error *err)
{
    const char *place = getenv("TMPDIR");
    char *folder = af_arena_format(arena, "%s/anyflash-inspect-XXXXXX",
                                   place != NULL && place[0] == '/' ? place : "/tmp");
    if (mkdtemp(folder) == NULL)
        return af_fail(err, ANYFLASH_E_IO, "cannot create a temporary folder '%s': %s", folder,
                       strerror(errno));
    target->unpacked = folder;
    for (size_t i = 0; i < target->count; i++) {
        struct af_inspect_extension *one = &target->extensions[i];
        char *path = af_arena_format(arena, "%s/%s", folder, one->member->name);
        one->folder = af_path_folder(arena, path);
        if (!make_folders(path, strlen(folder)))
            return af_fail(err, ANYFLASH_E_IO, "cannot create a folder below '%s': %s", folder,
                           strerror(errno));
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_inspect_target_unpack(struct af_inspect_target *target,
                                              struct af_arena *arena,
                                              struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (target->was_unpacked)
        return ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < target->count; i++) {
        struct af_inspect_extension *one = &target->extensions[i];
        if (one->file != NULL || one->problem != NULL)
            continue;
        bool is_library = is_elf(target, arena, one);
        if (is_library && target->unpacked == NULL)
            status = make_place(target, arena, err);
        if (is_library && status == ANYFLASH_OK)
            status = unpack_one(target, arena, one, err);
    }
    target->was_unpacked = status == ANYFLASH_OK;
    return status;
}

/* Removes the files, then the folders that they were in, deepest first. */
static void remove_unpacked(struct af_inspect_target *target)
{
    size_t root_len = strlen(target->unpacked);
    for (size_t i = 0; i < target->count; i++) {
        const struct af_inspect_extension *one = &target->extensions[i];
        char folder[4200];
        if (one->file != NULL)
            unlink(one->file);
        if (one->folder == NULL || strlen(one->folder) >= sizeof folder)
            continue;
        memcpy(folder, one->folder, strlen(one->folder) + 1);
        while (strlen(folder) > root_len) {
            rmdir(folder); /* fails while the folder is not empty */
            *strrchr(folder, '/') = '\0';
        }
    }
    rmdir(target->unpacked);
}

void af_inspect_target_close(struct af_inspect_target *target)
{
    if (target->unpacked != NULL)
        remove_unpacked(target);
    if (target->archive != NULL)
        af_wheel_archive_close(target->archive);
    af_file_unmap(&target->mapping);
    *target = (struct af_inspect_target){0};
}

#define TEXT_BYTES_MAX (4u << 20)
#define RECORD_BYTES_MAX (64u << 20)
#define SHOWN_BYTES 400u
#define CONTRADICTIONS_MAX 16u

/* The list of contradictions found, as sentences. */
struct contradictions {
    struct af_arena *arena;
    const char **items;
    size_t count;
};

static void add_contradiction(struct contradictions *found, const char *text)
{
    if (found->count < CONTRADICTIONS_MAX)
        found->items[found->count++] = text;
}

static const char *keep_span(struct af_arena *arena, struct af_span span)
{
    const char *text = af_arena_text_n(arena, span.data, span.len);
    return af_text_scrub(arena, text, SHOWN_BYTES);
}

/* Reads the member NAME.dist-info/`file`; empty when it does not exist or is too long. */
static struct af_span read_info(struct af_inspect_target *target, struct af_arena *arena,
                                const char *file, size_t max_bytes)
{
    struct af_span bytes = {NULL, 0};
    enum anyflash_status status =
        af_wheel_archive_read_info(target->archive, file, arena, max_bytes, &bytes, NULL);
    return status == ANYFLASH_OK ? bytes : (struct af_span){NULL, 0};
}

static void read_metadata(struct af_inspect_target *target, struct af_arena *arena)
{
    struct af_inspect_wheel *wheel = target->wheel;
    struct af_span rest = read_info(target, arena, "METADATA", TEXT_BYTES_MAX);
    struct af_span value;
    struct af_requirement requirement;
    if (af_header_find(rest, "Name", &value))
        wheel->metadata_name = keep_span(arena, value);
    if (af_header_find(rest, "Version", &value))
        wheel->metadata_version = keep_span(arena, value);
    while (af_requirement_next(&rest, &requirement)) {
        if (af_text_span_equal(requirement.name, "torch") && !requirement.only_for_extra)
            wheel->needs_torch = keep_span(arena, requirement.specifier);
    }
    rest = read_info(target, arena, "WHEEL", TEXT_BYTES_MAX);
    if (af_header_find(rest, "Tag", &value))
        wheel->tag = keep_span(arena, value);
}

/* Whether two project names are equal after normalisation (PEP 503). */
static bool same_project(const char *a, const char *b)
{
    char normalised[AF_WHEEL_NAME_BYTES];
    return af_name_normalise((struct af_span){a, strlen(a)}, normalised, sizeof normalised) &&
           af_name_is((struct af_span){b, strlen(b)}, normalised);
}

/*
 * Whether WHEEL's first tag is one of those in the file name. The platform is often widened
 * afterwards (linux to manylinux), so only Python and ABI are compared.
 */
static bool has_tag(const struct af_wheel_name *name, const char *tag)
{
    const char *const fields[] = {name->python, name->abi};
    for (size_t i = 0; i < AF_COUNT(fields); i++) {
        size_t len = strcspn(tag, "-");
        bool found = false;
        for (const char *at = fields[i]; !found && *at != '\0';) {
            size_t part = strcspn(at, ".");
            found = part == len && strncasecmp(at, tag, len) == 0;
            at += part;
            at += *at == '.';
        }
        if (!found)
            return false;
        tag += len;
        tag += *tag == '-';
    }
    return true;
}

/*
 * Whether METADATA has the version of the file name. A local version that only the file name
 * has, such as "+cu12torch2.8cxx11abiTRUE" of flash-attn's official wheels, is no
 * contradiction.
 */
static bool has_version(const struct af_wheel_name *name, const char *said)
{
    struct af_version version;
    if (!af_version_parse(said, strlen(said), &version))
        return false;
    return version.local[0] == '\0' ? af_version_compare_public(&version, &name->version) == 0
                                    : af_version_compare(&version, &name->version) == 0;
}

static void compare_name(const struct af_inspect_wheel *wheel, struct contradictions *found)
{
    const struct af_wheel_name *name = &wheel->name;
    const char *said = wheel->metadata_version;
    if (!wheel->has_name) {
        add_contradiction(found,
                          "its file name is not a valid wheel name: installers refuse it");
        return;
    }
    if (wheel->metadata_name == NULL)
        add_contradiction(found, "its METADATA cannot be read: installers refuse it");
    else if (!same_project(name->package, wheel->metadata_name))
        add_contradiction(found, af_arena_format(found->arena,
                                                 "the file name says '%s', METADATA says '%s'",
                                                 name->package, wheel->metadata_name));
    if (said != NULL && !has_version(name, said))
        add_contradiction(
            found,
            af_arena_format(found->arena,
                            "the file name says version %s, METADATA says %s: installers "
                            "reject such a file or mistake it for the other version",
                            name->version_text, said));
    if (wheel->tag != NULL && !has_tag(name, wheel->tag))
        add_contradiction(
            found, af_arena_format(found->arena, "the file name says %s-%s-%s, WHEEL says %s",
                                   name->python, name->abi, name->platform, wheel->tag));
}

/* How the lines of RECORD and the members of the archive match. */
struct record_match {
    bool *listed; /* by member */
    size_t wrong; /* lines without a member of that size */
    const char *first_wrong;
    size_t unlisted; /* files */
};

/* More wrong lines than this and than members prove enough. */
#define WRONG_LINES_MAX 1000u

/* Compares a line; in an archive a file is listed with its size, or without one. */
static void match_line(struct af_inspect_target *target, struct af_arena *arena,
                       const struct af_formats_record_line *line, struct record_match *match)
{
    const struct af_zip *zip = &target->archive->zip;
    const struct af_zip_member *member = af_zip_find(zip, line->path);
    if (member != NULL)
        match->listed[member - zip->members] = true;
    if (member != NULL &&
        (line->size_bytes < 0 || (uint64_t)line->size_bytes == member->size_bytes))
        return;
    match->wrong++;
    if (match->first_wrong == NULL)
        match->first_wrong = af_text_scrub(arena, line->path, SHOWN_BYTES);
}

static void match_record(struct af_inspect_target *target, struct af_arena *arena,
                         struct af_span rest, struct record_match *match)
{
    const struct af_zip *zip = &target->archive->zip;
    struct af_formats_record_line *line = af_arena_alloc(arena, sizeof *line);
    match->listed = af_arena_array(arena, zip->member_count, sizeof *match->listed);
    while (match->wrong <= zip->member_count + WRONG_LINES_MAX &&
           af_formats_record_next(&rest, line))
        match_line(target, arena, line, match);
    for (size_t i = 0; i < zip->member_count; i++)
        match->unlisted += !zip->members[i].is_folder && !match->listed[i];
}

/* Finds members of the archive that RECORD lists with another size, or not at all. */
static void compare_record(struct af_inspect_target *target, struct contradictions *found)
{
    struct af_arena *arena = found->arena;
    struct record_match match = {.listed = NULL};
    struct af_span text = read_info(target, arena, "RECORD", RECORD_BYTES_MAX);
    match_record(target, arena, text, &match);
    if (text.len == 0) {
        add_contradiction(found, "it has no RECORD: installers refuse it");
    } else if (match.wrong > 0) {
        target->wheel->record_problem = af_arena_format(
            arena, "%zu %s match it, for example %s", match.wrong,
            match.wrong == 1 ? "file does not" : "files do not", match.first_wrong);
        add_contradiction(
            found, af_arena_format(arena, "%zu files do not match RECORD, for example %s",
                                   match.wrong, match.first_wrong));
    } else if (match.unlisted > 0) {
        add_contradiction(found,
                          af_arena_format(arena, "%zu file%s not in RECORD", match.unlisted,
                                          match.unlisted == 1 ? " is" : "s are"));
    }
}

/*
 * The torch that the wheel states: in the local version of its name or METADATA, else in a
 * requirement such as "==2.8.0".
 */
static const char *stated_torch(struct af_arena *arena, const struct af_inspect_wheel *wheel)
{
    struct af_wheel_local local;
    struct af_version version;
    const char *const texts[] = {wheel->has_name ? wheel->name.version_text : NULL,
                                 wheel->metadata_version};
    for (size_t i = 0; i < AF_COUNT(texts); i++) {
        if (texts[i] == NULL || !af_version_parse(texts[i], strlen(texts[i]), &version))
            continue;
        af_wheel_local_parse(version.local, AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE, &local);
        if (local.torch[0] != '\0')
            return af_arena_text(arena, local.torch);
    }
    const char *spec = wheel->needs_torch;
    if (spec == NULL || !af_starts_with(spec, "==") || strchr(spec, ',') != NULL)
        return NULL;
    spec += strspn(spec, "= ");
    return af_arena_text_n(arena, spec, strcspn(spec, "+*"));
}

static void add_members(struct af_inspect_target *target, struct af_arena *arena)
{
    for (size_t i = 0; i < target->archive->zip.member_count; i++) {
        const struct af_zip_member *member = &target->archive->zip.members[i];
        if (member->is_folder || !af_proof_path_is_shared_library(member->name))
            continue;
        struct af_inspect_extension *one =
            af_inspect_target_add(target, af_text_scrub(arena, member->name, SHOWN_BYTES));
        if (one != NULL)
            one->member = member;
    }
}

void af_inspect_target_read_wheel(struct af_inspect_target *target, struct af_arena *arena)
{
    struct contradictions found = {
        arena, af_arena_array(arena, CONTRADICTIONS_MAX, sizeof(char *)), 0};
    struct af_inspect_wheel *wheel = af_arena_alloc(arena, sizeof *wheel);
    target->wheel = wheel;
    const char *filename = af_path_name(target->name);
    wheel->filename = filename;
    wheel->has_name =
        af_wheel_name_parse(filename, strlen(filename), &wheel->name) == AF_WHEEL_NAME_VALID;
    read_metadata(target, arena);
    compare_name(wheel, &found);
    compare_record(target, &found);
    wheel->stated_torch = stated_torch(arena, wheel);
    wheel->contradictions = (struct af_texts){found.items, found.count};
    add_members(target, arena);
}
