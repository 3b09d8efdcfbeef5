/*
 * listing.c: converts a page of releases to rows of the catalog.
 */
#include "kit/catalog/listing.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/formats/wheel_name.h"

#define PACKAGE_START "flash-attn"
#define NAME_BYTES 256

static enum anyflash_status no_listing(const char *name, const char *what,
                                       struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s' is not a list of releases: %s", name, what);
}

/* Whether the file name is that of a flash-attn package. */
static bool is_ours(const struct af_wheel_name *wheel)
{
    char normal[NAME_BYTES];
    struct af_span package = {wheel->package, strlen(wheel->package)};
    return af_name_normalise(package, normal, sizeof normal) &&
           af_starts_with(normal, PACKAGE_START);
}

/* row under construction; `json` is NULL after an allocation failure */
struct row {
    json_t *json;
    bool failed;
};

static void set_text(struct row *row, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        row->failed |= json_object_set_new(row->json, key, json_string(text)) != 0;
}

/* "2.28" for manylinux_2_28_x86_64; nothing for a tag without a glibc version. */
static void set_glibc(struct row *row, const char *platform)
{
    char version[16];
    int len = 0;
    if (!af_starts_with(platform, "manylinux_2_"))
        return;
    const char *minor = platform + strlen("manylinux_2_");
    len = (int)strspn(minor, "0123456789");
    if (len == 0 || len > 3)
        return;
    snprintf(version, sizeof version, "2.%.*s", len, minor);
    set_text(row, "glibc_min", version);
    set_text(row, "glibc_basis", "platform_tag");
}

/* Reads the targets of "any.cu13.sm80.sm120.hd64": "8.0", "12.0". */
static void set_targets(struct row *row, const char *local)
{
    json_t *list = json_array();
    for (const char *at = local; at != NULL; at = strchr(at + 1, '.')) {
        char sm[16];
        int64_t target = 0;
        size_t len = strcspn(at + 1, ".");
        if (!af_starts_with(at, ".sm") || len >= sizeof sm)
            continue;
        snprintf(sm, sizeof sm, "%.*s", (int)(len - 2), at + 3);
        if (!af_parse_i64(sm, 10, 999, &target))
            continue;
        snprintf(sm, sizeof sm, "%d.%d", (int)target / 10, (int)target % 10);
        list = af_json_append(list, json_string(sm));
    }
    if (json_array_size(list) > 0)
        row->failed |= json_object_set(row->json, "sm", list) != 0;
    row->failed |= list == NULL;
    json_decref(list);
}

static void set_local(struct row *row, const struct af_wheel_name *wheel, const char *source)
{
    struct af_wheel_local local;
    const char *plus = strchr(wheel->version_text, '+');
    if (plus == NULL)
        return;
    if (af_starts_with(plus, "+any."))
        set_targets(row, plus);
    af_wheel_local_parse(plus + 1, af_formats_torch_digits_of(source), &local);
    set_text(row, "local", plus + 1);
    set_text(row, "cuda", local.cuda);
    set_text(row, "torch", local.torch);
    if (local.cxx11abi != AF_UNKNOWN)
        row->failed |= json_object_set_new(row->json, "cxx11abi",
                                           json_boolean(local.cxx11abi == AF_YES)) != 0;
    if (local.rocm)
        set_text(row, "gpu", "rocm");
}

/* GitHub's "sha256:HEX"; a digest of another kind counts as none. */
static void set_digest(struct row *row, const char *digest)
{
    static const char start[] = "sha256:";
    if (digest != NULL && af_starts_with(digest, start) &&
        af_sha256_is_hex(digest + sizeof start - 1))
        set_text(row, "sha256", digest + sizeof start - 1);
}

static void fill_row(struct row *row, const struct af_wheel_name *wheel, const char *filename,
                     const char *url, const char *tag, const struct af_listing_source *source)
{
    char version[AF_WHEEL_NAME_BYTES];
    snprintf(version, sizeof version, "%.*s", (int)strcspn(wheel->version_text, "+"),
             wheel->version_text);
    set_text(row, "source", source->source);
    set_text(row, "kind", source->kind);
    set_text(row, "package", wheel->package);
    set_text(row, "version", version);
    set_text(row, "build", wheel->build);
    set_text(row, "release_tag", tag);
    set_text(row, "filename", filename);
    set_text(row, "url", url);
    set_text(row, "python", wheel->python);
    set_text(row, "abi", wheel->abi);
    set_text(row, "platform", wheel->platform);
    set_text(row, "evidence", "listed");
    set_local(row, wheel, source->source);
    set_glibc(row, wheel->platform);
}

/* Takes ownership of the row. */
static void add_row(struct row *row, struct af_text *rows)
{
    char *line = row->failed ? NULL : json_dumps(row->json, JSON_COMPACT);
    if (line != NULL) {
        af_text_add(rows, line);
        af_text_add(rows, "\n");
    }
    rows->failed |= line == NULL;
    af_mem_free(line);
    json_decref(row->json);
}

bool af_listing_add_file(const char *filename, const struct af_listing_source *source,
                         struct af_text *rows)
{
    struct af_wheel_name wheel;
    struct row row = {NULL, false};
    if (af_wheel_name_parse(filename, strlen(filename), &wheel) != AF_WHEEL_NAME_VALID ||
        !is_ours(&wheel))
        return false;
    row.json = json_object();
    fill_row(&row, &wheel, filename, NULL, NULL, source);
    add_row(&row, rows);
    return true;
}

static enum anyflash_status read_asset(const json_t *asset, const char *tag, const char *name,
                                       const struct af_listing_source *source,
                                       struct af_text *rows, struct af_listing_counts *counts,
                                       struct anyflash_error *err)
{
    struct af_wheel_name wheel;
    const char *filename = json_string_value(json_object_get(asset, "name"));
    const char *url = json_string_value(json_object_get(asset, "browser_download_url"));
    const char *state = json_string_value(json_object_get(asset, "state"));
    if (filename == NULL || url == NULL)
        return no_listing(name, "a file lacks its name or its URL", err);
    if (!af_ends_with(filename, ".whl") || (state != NULL && !af_equal(state, "uploaded")))
        return ANYFLASH_OK;
    if (!af_starts_with(url, source->files))
        return no_listing(name, "a file is not among its project's releases", err);
    if (af_wheel_name_parse(filename, strlen(filename), &wheel) != AF_WHEEL_NAME_VALID ||
        !is_ours(&wheel)) {
        counts->skipped++;
        return ANYFLASH_OK;
    }
    counts->wheels++;
    struct row row = {json_object(), false};
    fill_row(&row, &wheel, filename, url, tag, source);
    set_digest(&row, json_string_value(json_object_get(asset, "digest")));
    add_row(&row, rows);
    return rows->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

static enum anyflash_status read_release(const json_t *release, const char *name,
                                         const struct af_listing_source *source,
                                         struct af_text *rows, struct af_listing_counts *counts,
                                         struct anyflash_error *err)
{
    const char *tag = json_string_value(json_object_get(release, "tag_name"));
    const json_t *assets = json_object_get(release, "assets");
    if (tag == NULL || !json_is_array(assets))
        return no_listing(name, "a release lacks its tag or its list of files", err);
    counts->releases++;
    if (json_is_true(json_object_get(release, "draft")))
        return ANYFLASH_OK;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < json_array_size(assets); i++)
        status = read_asset(json_array_get(assets, i), tag, name, source, rows, counts, err);
    return status;
}

enum anyflash_status af_listing_read(struct af_span page, const char *name,
                                     const struct af_listing_source *source,
                                     struct af_text *rows, struct af_listing_counts *counts,
                                     struct anyflash_error *err)
{
    json_t *releases = NULL;
    enum anyflash_status status =
        af_json_parse(page, AF_LISTING_BYTES_MAX, name, &releases, err);
    if (status == ANYFLASH_OK && !json_is_array(releases))
        status = no_listing(name, "it is not an array", err);
    for (size_t i = 0; status == ANYFLASH_OK && i < json_array_size(releases); i++)
        status = read_release(json_array_get(releases, i), name, source, rows, counts, err);
    json_decref(releases);
    return status;
}
