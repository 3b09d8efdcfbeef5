/*
 * wheel_content.c: sorts each member of a wheel into the kinds of content_kinds.inc, by the
 * path that it is installed to, and collects the findings. content_metadata.c reads the wheel's
 * metadata, content_run_paths.c the run paths; content_environment.c knows the files of an
 * environment.
 */
#include "kit/proof/wheel_content.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"
#include "kit/formats/metadata.h"
#include "kit/proof/inspect_target.h"
#include "kit/system/file.h"

#define NAME_BYTES 400u
#define INFO_BYTES_MAX (4u << 20) /* of a file of metadata */

enum effect { ORDINARY, NAMED, REFUSED, FORBIDDEN };

#define AF_CONTENT_KIND(id, text, why, flash, other) {text, why, {other, flash}},
static const struct {
    const char *name;
    const char *why;
    enum effect effects[2]; /* in any other wheel, in a wheel of a FlashAttention package */
} kinds[] = {
#include "kit/proof/content_kinds.inc"
};
#undef AF_CONTENT_KIND

const char *af_content_kind_name(enum af_content_kind kind)
{
    return kinds[kind].name;
}

const char *af_content_kind_why(enum af_content_kind kind)
{
    return kinds[kind].why;
}

struct comparing {
    struct af_arena *arena;
    const struct af_inspect_target *target;
    struct af_content *content;
    struct af_content_finding *findings;
    char package[AF_WHEEL_NAME_BYTES]; /* normalised */
    const char *info;                  /* "demo-1.0.dist-info/" of this package; NULL: none */
};

/* Adds a finding once, unless it is ordinary in such a wheel. `name` need not end in a NUL. */
static void add(struct comparing *comparing, enum af_content_kind kind, struct af_span name,
                const char *detail)
{
    struct af_content *content = comparing->content;
    enum effect effect = kinds[kind].effects[content->package != NULL];
    if (effect == ORDINARY)
        return;
    if (content->count == AF_CONTENT_FINDINGS_MAX) {
        content->unlisted_count++;
        content->unlisted_refused_count += effect >= REFUSED;
        return;
    }
    const char *text = af_arena_text_n(comparing->arena, name.data, name.len);
    text = af_text_scrub(comparing->arena, text, NAME_BYTES);
    for (size_t i = 0; i < content->count; i++)
        if (comparing->findings[i].kind == kind &&
            strcmp(comparing->findings[i].name, text) == 0)
            return;
    comparing->findings[content->count++] = (struct af_content_finding){
        .kind = kind,
        .name = text,
        .detail = af_text_scrub(comparing->arena, detail, NAME_BYTES),
        .is_refused = effect >= REFUSED,
        .is_forbidden = effect == FORBIDDEN};
}

/* "flash_attn/" has everything below it; "flash_attn_2_cuda.*" has one path part. */
static bool matches(const char *pattern, const char *path)
{
    size_t len = strlen(pattern);
    char last = pattern[len - 1];
    if (last != '/' && last != '*')
        return strcmp(pattern, path) == 0;
    size_t fixed_len = last == '*' ? len - 1 : len;
    return strncmp(pattern, path, fixed_len) == 0 &&
           (last == '/' || strchr(path + fixed_len, '/') == NULL);
}

/* Whether row `i` of data/wheel_contents.tsv (package, path, kind) is about this package. */
static bool is_about(const struct comparing *comparing, size_t i)
{
    return strcmp(af_embedded_wheel_contents[i][0], comparing->package) == 0;
}

static bool is_expected(const struct comparing *comparing, const char *path, bool is_extension)
{
    for (size_t i = 0; af_embedded_wheel_contents[i][0] != NULL; i++)
        if (is_about(comparing, i) &&
            strcmp(af_embedded_wheel_contents[i][2], "requirement") != 0 &&
            (!is_extension || strcmp(af_embedded_wheel_contents[i][2], "extension") == 0) &&
            matches(af_embedded_wheel_contents[i][1], path))
            return true;
    return false;
}

/* Whether something in this top folder is expected. */
static bool is_shared_folder(const struct comparing *comparing, const char *path,
                             size_t top_len)
{
    for (size_t i = 0; af_embedded_wheel_contents[i][0] != NULL; i++)
        if (is_about(comparing, i) &&
            strncmp(af_embedded_wheel_contents[i][1], path, top_len + 1) == 0)
            return true;
    return false;
}

static bool ends_with_any(const char *path, const char *const *ends, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (af_ends_with(path, ends[i]))
            return true;
    return false;
}

static bool is_library(const char *path)
{
    static const char *const ends[] = {".pyd", ".dll", ".dylib"};
    return af_proof_path_is_shared_library(path) || ends_with_any(path, ends, AF_COUNT(ends));
}

static bool is_module_file(const char *path)
{
    static const char *const ends[] = {".py", ".pyc", ".pyw"};
    return ends_with_any(path, ends, AF_COUNT(ends)) || is_library(path);
}

/* Whether it is a program: by its name or its first bytes. */
static bool is_program(struct comparing *comparing, const struct af_zip_member *member)
{
    static const char *const ends[] = {".exe", ".bat", ".cmd", ".ps1", ".sh"};
    static const char *const starts[] = {"\177ELF", "MZ", "#!", "\xcf\xfa\xed\xfe",
                                         "\xca\xfe\xba\xbe"};
    struct af_span start = {NULL, 0};
    if (ends_with_any(member->name, ends, AF_COUNT(ends)))
        return true;
    if (is_module_file(member->name))
        return false;
    enum anyflash_status status = af_zip_read_start(&comparing->target->archive->zip, member,
                                                    comparing->arena, 4, &start, NULL);
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(starts); i++)
        if (start.len >= strlen(starts[i]) &&
            memcmp(start.data, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

bool af_content_is_top_folder(const char *path, size_t top_len, const char *end)
{
    size_t len = strlen(end);
    return path[top_len] == '/' && top_len > len && memcmp(path + top_len - len, end, len) == 0;
}

/*
 * Whether the path is, or is in, a folder of metadata: NAME-VERSION.dist-info/, which Python
 * finds in any case, or a file NAME.egg-info.
 */
static bool is_metadata(const char *path, size_t top_len)
{
    static const char *const ends[] = {".dist-info", ".egg-info"};
    for (size_t i = 0; i < AF_COUNT(ends); i++) {
        size_t len = strlen(ends[i]);
        if (top_len > len && strncasecmp(path + top_len - len, ends[i], len) == 0)
            return true;
    }
    return false;
}

/* Whether the path is in NAME.libs of this package; "numpy.libs" is numpy's. */
static bool is_own_bundle(const struct comparing *comparing, const char *path, size_t top_len)
{
    static const char end[] = ".libs";
    return af_content_is_top_folder(path, top_len, end) &&
           af_name_is((struct af_span){path, top_len - strlen(end)}, comparing->package);
}

/* Whether `stem`, a top-level name, is a module of Python or torch and not of this package. */
static bool is_taken(const struct comparing *comparing, struct af_span stem)
{
    if (af_name_is(stem, comparing->package))
        return false;
    for (size_t i = 0; af_embedded_taken_names[i][0] != NULL; i++)
        if (strcmp(af_embedded_taken_names[i][1], comparing->package) != 0 &&
            af_text_span_equal(stem, af_embedded_taken_names[i][0]))
            return true;
    return false;
}

/*
 * Compares a member that is installed as `path` below the folder of the packages. The kinds
 * that Python itself acts on come first.
 */
static void compare_path(struct comparing *comparing, const struct af_zip_member *member,
                         const char *path)
{
    size_t before_len = (size_t)(path - member->name);
    size_t top_len = strcspn(path, "/");
    bool is_top = path[top_len] == '\0';
    const struct af_span whole = {member->name, strlen(member->name)};
    const struct af_span top = {member->name, before_len + top_len + (is_top ? 0 : 1)};
    const struct af_span stem = {path, is_top ? strcspn(path, ".") : top_len};
    bool is_module = !is_top || is_module_file(path);
    if (is_top && (af_ends_with(path, ".pth") || af_ends_with(path, ".start"))) /* PEP 829 */
        add(comparing, AF_CONTENT_PTH, whole, NULL);
    else if (is_module && (af_text_span_equal(stem, "sitecustomize") ||
                           af_text_span_equal(stem, "usercustomize")))
        add(comparing, AF_CONTENT_STARTUP, top, NULL);
    else if (is_module && is_taken(comparing, stem))
        add(comparing, AF_CONTENT_TAKEN_NAME, top, NULL);
    else if (is_own_bundle(comparing, path, top_len))
        add(comparing, is_library(path) ? AF_CONTENT_BUNDLED : AF_CONTENT_FILE, whole, NULL);
    else if (is_library(path) && !is_expected(comparing, path, true))
        add(comparing, AF_CONTENT_LIBRARY, whole, NULL);
    else if (is_program(comparing, member))
        add(comparing, AF_CONTENT_PROGRAM, whole, NULL);
    else if (is_expected(comparing, path, false))
        return;
    else if (is_module)
        add(comparing, AF_CONTENT_MODULE,
            is_shared_folder(comparing, path, top_len) ? whole : top, NULL);
    else
        add(comparing, AF_CONTENT_FILE, whole, NULL);
}

/*
 * Whether it is a module that was compiled from a file which the wheel does not contain:
 * a/__pycache__/b.cpython-312.pyc belongs to a/b.py.
 */
static bool is_compiled_alone(struct comparing *comparing, const char *path)
{
    static const char folder[] = "__pycache__/";
    const char *name = af_path_name(path);
    const size_t before = (size_t)(name - path), folder_len = strlen(folder);
    if (!af_ends_with(path, ".pyc") || before < folder_len ||
        strncasecmp(name - folder_len, folder, folder_len) != 0)
        return false;
    const char *source =
        af_arena_format(comparing->arena, "%.*s%.*s.py", (int)(before - folder_len), path,
                        (int)strcspn(name, "."), name);
    return af_zip_find(&comparing->target->archive->zip, source) == NULL;
}

/*
 * Compares a member that is installed as `path` below the folder of the packages. Only the
 * wheel's own metadata is expected, and only from where `inspect` and the installers read it.
 */
static void compare_installed(struct comparing *comparing, const struct af_zip_member *member,
                              const char *path)
{
    size_t top_len = strcspn(path, "/");
    size_t slash_len = path[top_len] == '/' ? 1 : 0;
    const struct af_span top = {member->name,
                                (size_t)(path - member->name) + top_len + slash_len};
    if (is_metadata(path, top_len))
        add(comparing, AF_CONTENT_OTHER_METADATA, top, NULL);
    else if (is_compiled_alone(comparing, member->name))
        add(comparing, AF_CONTENT_COMPILED_ALONE,
            (struct af_span){member->name, strlen(member->name)}, NULL);
    else
        compare_path(comparing, member, path);
}

/* Compares a member of NAME-VERSION.data/; `path` is behind that folder (PEP 427). */
static void compare_data(struct comparing *comparing, const struct af_zip_member *member,
                         const char *path)
{
    const struct af_span whole = {member->name, strlen(member->name)};
    const char *packages = af_content_in_packages(path);
    const char *rest = strchr(path, '/') == NULL ? path : strchr(path, '/') + 1;
    if (af_starts_with(path, "purelib/") || af_starts_with(path, "platlib/"))
        compare_installed(comparing, member, rest);
    else if (af_starts_with(path, "scripts/"))
        add(comparing,
            af_content_is_environment_command((struct af_span){rest, strlen(rest)})
                ? AF_CONTENT_ENVIRONMENT
                : AF_CONTENT_COMMAND,
            whole, NULL);
    else
        add(comparing,
            af_content_is_environment_file(rest) ? AF_CONTENT_ENVIRONMENT : AF_CONTENT_OUTSIDE,
            whole, NULL);
    if (packages != NULL)
        compare_installed(comparing, member, packages);
}

/* Whether it is the version of the file name, as far as it can be read. */
static bool is_own_version(const struct comparing *comparing, struct af_span text)
{
    struct af_version version;
    return text.len > 0 &&
           (!af_version_parse(text.data, text.len, &version) ||
            af_version_compare_public(&version, &comparing->target->wheel->name.version) == 0);
}

/* Finds the folder of the wheel's own metadata. */
static void find_info(struct comparing *comparing)
{
    const struct af_zip *zip = &comparing->target->archive->zip;
    for (size_t i = 0; i < zip->member_count && comparing->info == NULL; i++) {
        const char *name = zip->members[i].name;
        size_t top_len = strcspn(name, "/");
        struct af_info_folder folder;
        if (name[top_len] == '/' &&
            af_info_folder_parse((struct af_span){name, top_len}, &folder) && !folder.egg &&
            af_name_is(folder.name, comparing->package) &&
            is_own_version(comparing, folder.version))
            comparing->info = af_arena_text_n(comparing->arena, name, top_len + 1);
    }
}

/* pip installs the content of every top folder whose name ends in ".data" by scheme. */
static bool is_data(const char *path, size_t top_len)
{
    static const char end[] = ".data";
    size_t len = strlen(end);
    return path[top_len] == '/' && top_len >= len &&
           strncasecmp(path + top_len - len, end, len) == 0;
}

/* NAME-VERSION.data, beside NAME-VERSION.dist-info (PEP 427). */
static bool is_own_data(const struct comparing *comparing, const char *path, size_t top_len)
{
    size_t len = comparing->info == NULL ? 0 : strlen(comparing->info) - strlen(".dist-info/");
    return len > 0 && af_content_is_top_folder(path, top_len, ".data") &&
           top_len == len + strlen(".data") && memcmp(path, comparing->info, len) == 0;
}

static void compare_member(struct comparing *comparing, const struct af_zip_member *member)
{
    const char *path = member->name;
    size_t top_len = strcspn(path, "/");
    if (member->is_folder || (comparing->info != NULL && af_starts_with(path, comparing->info)))
        return;
    if (is_own_data(comparing, path, top_len))
        compare_data(comparing, member, path + top_len + 1);
    else if (is_data(path, top_len))
        add(comparing, AF_CONTENT_FOREIGN_DATA, (struct af_span){path, top_len + 1}, NULL);
    else
        compare_installed(comparing, member, path);
}

/* The text of a file of the wheel's metadata; false: there is none, or it cannot be read. */
static bool read_info(struct comparing *comparing, const char *file, struct af_span *text_out,
                      bool *is_long_out)
{
    const struct af_zip *zip = &comparing->target->archive->zip;
    const char *path = comparing->info == NULL
                           ? NULL
                           : af_arena_format(comparing->arena, "%s%s", comparing->info, file);
    const struct af_zip_member *member = path == NULL ? NULL : af_zip_find(zip, path);
    enum anyflash_status status = member == NULL ? ANYFLASH_E_NOT_FOUND
                                                 : af_zip_read(zip, member, comparing->arena,
                                                               INFO_BYTES_MAX, text_out, NULL);
    *is_long_out = status == ANYFLASH_E_LIMIT;
    return status == ANYFLASH_OK;
}

static void add_by(void *context, enum af_content_kind kind, struct af_span name,
                   const char *detail)
{
    add(context, kind, name, detail);
}

static void compare_metadata(struct comparing *comparing)
{
    struct af_span text;
    bool is_long;
    if (read_info(comparing, "METADATA", &text, &is_long))
        af_content_metadata(text, comparing->content->package, add_by, comparing);
    else if (is_long)
        add(comparing, AF_CONTENT_HIDDEN_LINE, (struct af_span){"METADATA", 8},
            "the file is too long to be read");
}

static void compare_entry_points(struct comparing *comparing)
{
    struct af_span text;
    bool is_long;
    if (read_info(comparing, "entry_points.txt", &text, &is_long))
        af_content_entry_points(text, comparing->arena, add_by, comparing);
    else if (is_long)
        add(comparing, AF_CONTENT_ENTRY_POINT, (struct af_span){"entry_points.txt", 16},
            "the file is too long to be read");
}

/* Installers write what the archive contains, or what RECORD lists: both must be the same. */
static void compare_record(struct comparing *comparing)
{
    const char *problem = comparing->target->wheel->record_problem;
    if (problem != NULL)
        add(comparing, AF_CONTENT_RECORD, (struct af_span){"RECORD", 6}, problem);
}

void af_content_find(const struct af_inspect_target *target, struct af_arena *arena,
                     struct af_content *out)
{
    struct af_content content = {.package = NULL};
    struct comparing *comparing = af_arena_alloc(arena, sizeof *comparing);
    struct af_content_finding *findings =
        af_arena_array(arena, AF_CONTENT_FINDINGS_MAX, sizeof *findings);
    *comparing = (struct comparing){
        .arena = arena, .target = target, .content = &content, .findings = findings};
    if (target->wheel->has_name)
        af_name_normalise(
            (struct af_span){target->wheel->name.package, strlen(target->wheel->name.package)},
            comparing->package, sizeof comparing->package);
    for (size_t i = 0; af_embedded_wheel_contents[i][0] != NULL; i++)
        if (is_about(comparing, i))
            content.package = af_embedded_wheel_contents[i][0];
    find_info(comparing);
    compare_record(comparing);
    for (size_t i = 0; i < target->archive->zip.member_count; i++)
        compare_member(comparing, &target->archive->zip.members[i]);
    compare_metadata(comparing);
    compare_entry_points(comparing);
    af_content_run_paths(target, arena, add_by, comparing);
    content.findings = findings;
    *out = content;
}
