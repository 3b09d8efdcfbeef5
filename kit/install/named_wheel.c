/*
 * named_wheel.c: the plan for one wheel that the user names, as a file or a
 * URL. Compares what its METADATA requires with what is installed. Installed
 * packages are not changed for a wheel; conflicts are only reported.
 */
#include "kit/install/named_wheel.h"

#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/fetch.h"
#include "kit/install/record.h"
#include "kit/system/file.h"

#define NEEDS_MAX 8
#define METADATA_BYTES_MAX (4u * 1024u * 1024u)

/* The wheel while it is read. Texts are in the run's arena. */
struct named {
    struct af_run *run;
    struct af_arena *arena; /* the run's */
    const struct af_machine *machine;
    struct af_marker_environment here;
    struct af_step_wheel wheel;
    const char *module;
    const char *missing[NEEDS_MAX]; /* requirements not installed, such as "einops>=0.6" */
    size_t missing_count;
    const char *hint;
};

/* The installed version; NULL: not installed. */
static const char *installed_version(const struct named *named, struct af_span name)
{
    const struct af_fact *sites = &named->machine->python.site_packages;
    size_t site_count = sites->state == AF_FACT_KNOWN ? sites->value.list.count : 0;
    for (size_t i = 0; i < site_count; i++) {
        struct af_distribution *list;
        size_t count;
        if (af_distributions_list(named->arena, sites->value.list.items[i], &list, &count,
                                  NULL) != ANYFLASH_OK)
            continue;
        for (size_t j = 0; j < count; j++)
            if (af_name_is(name, list[j].name))
                return list[j].version != NULL ? list[j].version : "";
    }
    return NULL;
}

static void tell(const struct named *named, const struct af_requirement *requirement,
                 const char *specifier, const char *what)
{
    char name[100];
    char said[100];
    af_text_quote(name, sizeof name, requirement->name.data, requirement->name.len);
    af_text_quote(said, sizeof said, specifier, strlen(specifier));
    af_progress_message(&named->run->progress, "the wheel requires %s%s%s", name, said, what);
}

/*
 * torch and all installed packages stay as they are; conflicts with the wheel's
 * requirements are reported.
 */
static void check_installed_version(const struct named *named,
                                    const struct af_requirement *requirement,
                                    const char *specifier, const char *installed)
{
    struct af_version version;
    char shown[100];
    bool is_torch = af_name_is(requirement->name, "torch");
    if (!af_version_parse(installed, strlen(installed), &version) ||
        af_specifier_contains(specifier, &version) != AF_NO)
        return;
    af_text_quote(shown, sizeof shown, installed, strlen(installed));
    const char *what = af_arena_format(
        named->arena, ", but %s is installed and stays: %s`pip check` will complain", shown,
        is_torch ? "its bytes prove whether it loads, but " : "");
    tell(named, requirement, specifier, what);
}

static void take_missing(struct named *named, const struct af_requirement *requirement,
                         const char *specifier)
{
    if (requirement->url.len > 0 || named->missing_count == NEEDS_MAX)
        tell(named, requirement, specifier, ", which is not installed: install it yourself");
    else
        named->missing[named->missing_count++] =
            af_arena_format(named->arena, "%.*s%s", (int)requirement->name.len,
                            requirement->name.data, specifier);
}

static void take_requirement(struct named *named, const struct af_requirement *requirement)
{
    enum af_answer meant = af_marker_holds(requirement->marker, &named->here);
    struct af_span text = requirement->specifier;
    const char *specifier =
        af_arena_text_n(named->arena, text.len > 0 ? text.data : "", text.len);
    if (meant == AF_NO)
        return;
    const char *installed = installed_version(named, requirement->name);
    if (installed != NULL)
        check_installed_version(named, requirement, specifier, installed);
    else if (meant == AF_UNKNOWN)
        tell(named, requirement, specifier,
             " under a condition that anyflash cannot evaluate: install it "
             "yourself if it is needed");
    else if (af_name_is(requirement->name, "torch"))
        tell(named, requirement, specifier, ", which is not installed: install it first");
    else
        take_missing(named, requirement, specifier);
}

static void read_needs(struct named *named, struct af_span text)
{
    char said[200];
    struct af_header header;
    struct af_requirement requirement;
    while (af_header_next(&text, &header)) {
        if (!af_header_is(&header, "Requires-Dist"))
            continue;
        if (af_requirement_parse(header.value, &requirement))
            take_requirement(named, &requirement);
        else /* installers may read it in different ways, such as the address of a file */
            af_progress_message(
                &named->run->progress,
                "the wheel requires '%s', which is not a name with versions: it is ignored",
                af_text_quote(said, sizeof said, header.value.data, header.value.len));
    }
}

static enum anyflash_status read_name(struct named *named, struct anyflash_error *err)
{
    struct af_wheel_name parts;
    char normal[256];
    char shown[200];
    const char *filename = named->wheel.filename;
    enum af_wheel_name_problem problem =
        af_wheel_name_parse(filename, strlen(filename), &parts);
    if (problem != AF_WHEEL_NAME_VALID ||
        !af_name_normalise((struct af_span){parts.package, strlen(parts.package)}, normal,
                           sizeof normal))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'%s' is not a wheel: its name %s",
                       af_text_quote(shown, sizeof shown, filename, strlen(filename)),
                       af_wheel_name_problem_text(problem));
    named->wheel.package = af_arena_text(named->arena, normal);
    named->wheel.version = af_arena_text(named->arena, parts.version_text);
    return ANYFLASH_OK;
}

/* The hash that the catalog has for the URL; NULL: none. */
static const char *known_hash(struct af_arena *arena, const struct af_catalog *catalog,
                              const char *url)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->wheels[i].sha256 != NULL && catalog->wheels[i].url != NULL &&
            af_url_equal(catalog->wheels[i].url, url))
            return af_catalog_sha256(arena, &catalog->wheels[i]);
    return NULL;
}

/* The expected hash: the user's, else the URL's fragment, else the catalog's. */
static enum anyflash_status read_url(struct named *named, const char *word,
                                     const struct af_catalog *catalog,
                                     struct anyflash_error *err)
{
    size_t len = strcspn(word, "#");
    const char *fragment = word + len;
    const char *url = af_arena_text_n(named->arena, word, len);
    if (af_starts_with(fragment, "#sha256=") && !af_sha256_is_hex(fragment + 8))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "the URL's '#sha256=' is not followed by 64 hexadecimal digits");
    if (named->wheel.sha256 == NULL)
        named->wheel.sha256 = af_starts_with(fragment, "#sha256=")
                                  ? fragment + 8
                                  : known_hash(named->arena, catalog, url);
    named->wheel.url = af_url_encode_plus(named->arena, url);
    named->wheel.filename = af_url_file_name(named->arena, url);
    return read_name(named, err);
}

static enum anyflash_status read_word(struct named *named, const char *word,
                                      const struct af_catalog *catalog,
                                      struct anyflash_error *err)
{
    if (af_url_is_http(word))
        return read_url(named, word, catalog, err);
    named->wheel.path = af_file_real_path(named->arena, word);
    if (named->wheel.path == NULL) {
        char shown[200];
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' does not exist",
                       af_text_quote(shown, sizeof shown, word, strlen(word)));
    }
    named->wheel.filename = af_arena_text(named->arena, af_path_name(named->wheel.path));
    return read_name(named, err);
}

/* The module to import: a folder or compiled file of the wheel that has the package's name. */
static void take_member(struct named *named, const char *name)
{
    char module[256];
    size_t len = strlen(named->wheel.package);
    if (len + 1 > sizeof module || named->module != NULL)
        return;
    for (size_t i = 0; i <= len; i++)
        module[i] = named->wheel.package[i] == '-' ? '_' : named->wheel.package[i];
    if (strncmp(name, module, len) == 0 &&
        (strcmp(name + len, "/__init__.py") == 0 || name[len] == '.'))
        named->module = af_arena_text(named->arena, module);
}

/*
 * The public version must be the one in the file name, because installers
 * reject other files.
 */
static enum anyflash_status check_version(struct named *named, struct af_span metadata,
                                          struct anyflash_error *err)
{
    struct af_version inside;
    struct af_version outside;
    char shown[100];
    struct af_span version;
    const char *said = named->wheel.version;
    if (!af_header_find(metadata, "Version", &version) ||
        !af_version_parse(version.data, version.len, &inside) ||
        !af_version_parse(said, strlen(said), &outside) ||
        af_version_compare_public(&inside, &outside) == 0)
        return ANYFLASH_OK;
    named->hint = "installers reject such a file; rename it to match its metadata";
    return af_fail(err, ANYFLASH_E_DATA,
                   "the wheel's versions differ: %s in its metadata, %s in its file name",
                   af_text_quote(shown, sizeof shown, version.data, version.len), said);
}

static enum anyflash_status read_members(struct named *named,
                                         const struct af_wheel_archive *archive,
                                         struct anyflash_error *err)
{
    struct af_span text;
    for (size_t i = 0; i < archive->zip.member_count; i++)
        take_member(named, archive->zip.members[i].name);
    const struct af_zip_member *metadata = af_wheel_archive_info(archive, "METADATA");
    if (metadata == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status =
        af_zip_read(&archive->zip, metadata, named->arena, METADATA_BYTES_MAX, &text, err);
    if (status == ANYFLASH_OK)
        status = check_version(named, text, err);
    if (status == ANYFLASH_OK)
        read_needs(named, text);
    return status;
}

static enum anyflash_status read_file(struct named *named, const char *path,
                                      struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(af_mapping_bytes(&mapping), path, &archive, err);
    if (status == ANYFLASH_OK)
        status = read_members(named, &archive, err);
    af_wheel_archive_close(&archive);
    af_file_unmap(&mapping);
    if (status == ANYFLASH_E_DATA && named->hint == NULL)
        named->hint = "download the file again; --sha256 HASH checks its hash";
    return status;
}

/* Downloads the wheel to the cache. The plan then has its hash, and installs this very file. */
static enum anyflash_status read_address(struct named *named, struct anyflash_error *err)
{
    struct af_fetched fetched;
    enum anyflash_status status = af_fetch(named->run, &named->wheel, NULL, &fetched, err);
    if (status != ANYFLASH_OK)
        return status;
    named->wheel.sha256 = af_arena_text(named->arena, fetched.sha256);
    return read_file(named, fetched.path, err);
}

/* Reads the wheel; offline only if it is a file. */
static enum anyflash_status read_wheel(struct named *named, struct anyflash_error *err)
{
    const char *from = named->run->from;
    if (named->wheel.path != NULL)
        return read_file(named, named->wheel.path, err);
    if (from != NULL)
        return read_file(named, af_path_join(named->arena, from, named->wheel.filename), err);
    return named->run->offline ? ANYFLASH_OK : read_address(named, err);
}

enum anyflash_status af_named_wheel_plan(struct af_run *run, const char *word,
                                         const char *sha256, const struct af_catalog *catalog,
                                         struct af_plan *plan, const char **hint_out,
                                         struct anyflash_error *err)
{
    struct named named = {.run = run,
                          .arena = run->arena,
                          .machine = run->machine,
                          .here = af_machine_markers(run->machine),
                          .wheel = {.sha256 = sha256}};
    enum anyflash_status status = read_word(&named, word, catalog, err);
    if (status == ANYFLASH_OK)
        status = read_wheel(&named, err);
    *hint_out = named.hint;
    if (status != ANYFLASH_OK)
        return status;
    af_plan_make_wheel(run->machine, &named.wheel, named.module, named.missing,
                       named.missing_count, plan);
    return ANYFLASH_OK;
}
