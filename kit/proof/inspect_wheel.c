/*
 * inspect_wheel.c: what a wheel says about itself: its name against METADATA,
 * WHEEL and RECORD. Nothing of it is believed, everything is compared.
 */
#include "kit/proof/inspect_wheel.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/system/file.h"

#define TEXT_BYTES_MAX (4u << 20)
#define RECORD_BYTES_MAX (64u << 20)
#define SHOWN_BYTES 400u
#define LIES_MAX 16u

const char *af_inspect_not_a_wheel(struct af_span start)
{
    static const char lfs[] = "version https://git-lfs";
    struct af_span text = af_text_trim(start);
    if (text.len >= sizeof lfs - 1 && memcmp(text.data, lfs, sizeof lfs - 1) == 0)
        return "a Git LFS pointer, not the file itself (`git lfs pull` fetches it)";
    if (text.len >= 14 && (strncasecmp(text.data, "<!doctype html", 14) == 0 ||
                           strncasecmp(text.data, "<html", 5) == 0))
        return "a web page, not the file itself (the download answered with a page)";
    return NULL;
}

/* Sentences about contradictions, collected. */
struct lies {
    struct af_arena *arena;
    const char **items;
    size_t count;
};

static void add_lie(struct lies *lies, const char *text)
{
    if (text != NULL && lies->count < LIES_MAX)
        lies->items[lies->count++] = text;
}

static const char *keep_span(struct af_arena *arena, struct af_span span)
{
    const char *text = af_arena_text_n(arena, span.data, span.len);
    return af_text_scrub(arena, text, SHOWN_BYTES);
}

/* The member NAME.dist-info/`file`, read; empty when it is not there or too long. */
static struct af_span read_info(struct af_inspect_target *target, struct af_arena *arena,
                                const char *file, size_t max_bytes)
{
    struct af_span bytes = {NULL, 0};
    enum anyflash_status status =
        af_wheel_archive_read_info(target->archive, file, arena, max_bytes, &bytes, NULL);
    arena->failed = arena->failed || status == ANYFLASH_E_NO_MEMORY;
    return status == ANYFLASH_OK ? bytes : (struct af_span){NULL, 0};
}

static void read_metadata(struct af_inspect_target *target, struct af_arena *arena)
{
    struct af_inspect_wheel *wheel = target->wheel;
    struct af_span rest = read_info(target, arena, "METADATA", TEXT_BYTES_MAX);
    struct af_header header;
    struct af_requirement requirement;
    while (af_header_next(&rest, &header)) {
        if (af_header_is(&header, "Name"))
            wheel->metadata_name = keep_span(arena, header.value);
        else if (af_header_is(&header, "Version"))
            wheel->metadata_version = keep_span(arena, header.value);
        else if (af_header_is(&header, "Requires-Dist") &&
                 af_requirement_parse(header.value, &requirement) &&
                 af_text_span_equal(requirement.name, "torch") && !requirement.only_for_extra)
            wheel->needs_torch = keep_span(arena, requirement.specifier);
    }
    rest = read_info(target, arena, "WHEEL", TEXT_BYTES_MAX);
    while (wheel->tag == NULL && af_header_next(&rest, &header)) {
        if (af_header_is(&header, "Tag"))
            wheel->tag = keep_span(arena, header.value);
    }
}

/* Whether two names are of one project, as PEP 503 compares them. */
static bool same_project(const char *a, const char *b)
{
    char normalised[AF_WHEEL_NAME_BYTES];
    return af_name_normalise((struct af_span){a, strlen(a)}, normalised, sizeof normalised) &&
           af_name_is((struct af_span){b, strlen(b)}, normalised);
}

/*
 * Whether WHEEL's first tag is one of those in the name. The platform is often
 * widened afterwards (linux to manylinux), so Python and ABI count.
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
 * Whether METADATA has the version of the name. The label of the name alone,
 * "+cu12torch2.8cxx11abiTRUE" as the official wheels of flash-attn have it, is no lie.
 */
static bool has_version(const struct af_wheel_name *name, const char *said)
{
    struct af_version version;
    if (!af_version_parse(said, strlen(said), &version))
        return false;
    return version.local[0] == '\0' ? af_version_compare_public(&version, &name->version) == 0
                                    : af_version_compare(&version, &name->version) == 0;
}

static void compare_name(const struct af_inspect_wheel *wheel, struct lies *lies)
{
    const struct af_wheel_name *name = &wheel->name;
    const char *said = wheel->metadata_version;
    if (!wheel->has_name) {
        add_lie(lies, "its file name is no wheel's name: installers refuse it");
        return;
    }
    if (wheel->metadata_name == NULL)
        add_lie(lies, "it has no METADATA that can be read: installers refuse it");
    else if (!same_project(name->package, wheel->metadata_name))
        add_lie(lies, af_arena_format(lies->arena, "the name says '%s', METADATA says '%s'",
                                      name->package, wheel->metadata_name));
    if (said != NULL && !has_version(name, said))
        add_lie(lies, af_arena_format(lies->arena,
                                      "the name says version %s, METADATA says %s: installers "
                                      "refuse such a file or take it for the other",
                                      name->version_text, said));
    if (wheel->tag != NULL && !has_tag(name, wheel->tag))
        add_lie(lies, af_arena_format(lies->arena, "the name says %s-%s-%s, WHEEL says %s",
                                      name->python, name->abi, name->platform, wheel->tag));
}

/* Members of the archive that RECORD lists with another size, or not at all. */
static void compare_record(struct af_inspect_target *target, struct lies *lies)
{
    struct af_span rest = read_info(target, lies->arena, "RECORD", RECORD_BYTES_MAX);
    struct af_formats_record_line *line = af_arena_alloc(lies->arena, sizeof *line);
    size_t listed = 0;
    size_t wrong = 0;
    const char *first = NULL;
    bool has_record = rest.len > 0;
    while (line != NULL && af_formats_record_next(&rest, line)) {
        const struct af_zip_member *member = af_zip_find(&target->archive->zip, line->path);
        bool same = member != NULL &&
                    (line->size_bytes < 0 || (uint64_t)line->size_bytes == member->size_bytes);
        listed += member != NULL;
        wrong += !same;
        if (!same && first == NULL)
            first = af_text_scrub(lies->arena, line->path, SHOWN_BYTES);
    }
    size_t files = 0;
    for (size_t i = 0; i < target->archive->zip.member_count; i++)
        files += !target->archive->zip.members[i].is_folder;
    if (!has_record)
        add_lie(lies, "it has no RECORD: installers refuse it");
    else if (wrong > 0)
        add_lie(lies,
                af_arena_format(lies->arena, "RECORD does not agree with %zu files, as %s",
                                wrong, first));
    else if (listed < files)
        add_lie(lies,
                af_arena_format(lies->arena, "%zu files are not in RECORD", files - listed));
}

/* torch by the local version of name or METADATA, else by "==2.8.0". */
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

enum anyflash_status af_inspect_target_read_wheel(struct af_inspect_target *target,
                                                  struct af_arena *arena,
                                                  struct anyflash_error *err)
{
    struct lies lies = {arena, af_arena_array(arena, LIES_MAX, sizeof(char *)), 0};
    struct af_inspect_wheel *wheel = af_arena_alloc(arena, sizeof *wheel);
    if (arena->failed)
        return af_fail_memory(err);
    target->wheel = wheel;
    const char *filename = af_path_name(target->name);
    wheel->filename = filename;
    wheel->has_name =
        af_wheel_name_parse(filename, strlen(filename), &wheel->name) == AF_WHEEL_NAME_VALID;
    read_metadata(target, arena);
    compare_name(wheel, &lies);
    compare_record(target, &lies);
    wheel->stated_torch = stated_torch(arena, wheel);
    wheel->lies = (struct af_texts){lies.items, lies.count};
    add_members(target, arena);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
