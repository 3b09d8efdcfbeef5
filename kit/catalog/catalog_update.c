/*
 * catalog_update.c: reads the wheels of a page of releases; writes and reads the
 * file of an updated catalog.
 */
#include "kit/catalog/catalog_update.h"

#include <stdio.h>
#include <string.h>

#include <zstd.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/formats/embedded.h"
#include "kit/formats/wheel_name.h"

#define PACKAGE_START "flash-attn"
#define NAME_BYTES 256
#define GLIBC_BYTES 16
#define MAGIC "AFU1"
#define HEAD_BYTES (sizeof MAGIC - 1 + AF_SHA256_HEX_BYTES - 1)
#define COMPRESSION_LEVEL 9

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
           (af_starts_with(normal, PACKAGE_START) || strcmp(normal, "flashattn") == 0);
}

/* NULL for a text that says nothing. */
static const char *unless_empty(const char *text)
{
    return text == NULL || text[0] == '\0' ? NULL : text;
}

/* "2.28" for manylinux_2_28_x86_64; "" for a tag without a glibc version. */
static void read_glibc(const char *platform, char version[GLIBC_BYTES])
{
    static const char start[] = "manylinux_2_";
    size_t len =
        af_starts_with(platform, start) ? strspn(platform + sizeof start - 1, "0123456789") : 0;
    version[0] = '\0';
    if (len > 0 && len <= 3)
        snprintf(version, GLIBC_BYTES, "2.%.*s", (int)len, platform + sizeof start - 1);
}

/* GitHub's "sha256:HEX"; a digest of another kind counts as none. */
static bool read_digest(const char *digest, unsigned char sha256[AF_SHA256_BYTES])
{
    static const char start[] = "sha256:";
    return digest != NULL && af_starts_with(digest, start) &&
           af_sha256_from_hex(digest + sizeof start - 1, sha256);
}

/* A file of a release; only `filename` is known of one on this machine. */
struct asset {
    const char *filename;
    const char *url;
    const char *tag;
    const char *digest;
};

/* Adds the file whose name is `wheel`. */
static enum anyflash_status add_asset(const struct asset *asset,
                                      const struct af_wheel_name *wheel,
                                      const struct af_listing_source *source,
                                      struct af_catalog_list *list, struct anyflash_error *err)
{
    char shown[2 * AF_WHEEL_NAME_BYTES];
    char version[AF_WHEEL_NAME_BYTES];
    char glibc[GLIBC_BYTES];
    unsigned char sha256[AF_SHA256_BYTES];
    struct af_wheel_local local = {.cxx11abi = AF_UNKNOWN};
    const char *plus = strchr(wheel->version_text, '+');
    if (plus != NULL)
        af_wheel_local_parse(plus + 1, af_formats_torch_digits_of(source->source), &local);
    read_glibc(wheel->platform, glibc);
    snprintf(version, sizeof version, "%.*s", (int)strcspn(wheel->version_text, "+"),
             wheel->version_text);
    const struct af_catalog_wheel made = {
        .filename = asset->filename,
        .url = unless_empty(asset->url),
        .source = source->source,
        .release_tag = unless_empty(asset->tag),
        .package = wheel->package,
        .version = version,
        .local = plus == NULL ? NULL : unless_empty(plus + 1),
        .build = unless_empty(wheel->build),
        .python = wheel->python,
        .abi = wheel->abi,
        .platform = wheel->platform,
        .cuda = unless_empty(local.cuda),
        .torch = unless_empty(local.torch),
        .glibc_min = unless_empty(glibc),
        .glibc_basis = glibc[0] == '\0' ? NULL : "platform_tag",
        .sha256 = read_digest(asset->digest, sha256) ? sha256 : NULL,
        .cxx11abi = local.cxx11abi,
        .cxx11abi_effective = AF_UNKNOWN,
        .metadata_has_local = AF_UNKNOWN,
        .official = af_equal(source->kind, "official"),
        .valid_name = true,
        .rocm = local.rocm,
        .listed = true,
    };
    af_text_quote(shown, sizeof shown, asset->filename, strlen(asset->filename));
    return af_catalog_list_add(list, &made, shown, err);
}

/* Whether the file name is that of a wheel of a flash-attn package. */
static bool read_name(const char *filename, struct af_wheel_name *wheel)
{
    return af_wheel_name_parse(filename, strlen(filename), wheel) == AF_WHEEL_NAME_VALID &&
           is_ours(wheel);
}

enum anyflash_status af_listing_add_file(const char *filename,
                                         const struct af_listing_source *source,
                                         struct af_catalog_list *list,
                                         struct anyflash_error *err)
{
    struct af_wheel_name wheel;
    const struct asset asset = {.filename = filename};
    return read_name(filename, &wheel) ? add_asset(&asset, &wheel, source, list, err)
                                       : ANYFLASH_OK;
}

static enum anyflash_status read_asset(const json_t *json, const char *tag, const char *name,
                                       const struct af_listing_source *source,
                                       struct af_catalog_list *list, struct anyflash_error *err)
{
    struct af_wheel_name wheel;
    const struct asset asset = {
        .filename = json_string_value(json_object_get(json, "name")),
        .url = json_string_value(json_object_get(json, "browser_download_url")),
        .tag = tag,
        .digest = json_string_value(json_object_get(json, "digest"))};
    const char *state = json_string_value(json_object_get(json, "state"));
    if (asset.filename == NULL || asset.url == NULL)
        return no_listing(name, "a file lacks its name or its URL", err);
    if (!af_ends_with(asset.filename, ".whl") ||
        (state != NULL && !af_equal(state, "uploaded")))
        return ANYFLASH_OK;
    if (!af_starts_with(asset.url, source->files))
        return no_listing(name, "a file is not among its project's releases", err);
    return read_name(asset.filename, &wheel) ? add_asset(&asset, &wheel, source, list, err)
                                             : ANYFLASH_OK;
}

static enum anyflash_status read_release(const json_t *release, const char *name,
                                         const struct af_listing_source *source,
                                         struct af_catalog_list *list,
                                         struct anyflash_error *err)
{
    const char *tag = json_string_value(json_object_get(release, "tag_name"));
    const json_t *assets = json_object_get(release, "assets");
    if (tag == NULL || !json_is_array(assets))
        return no_listing(name, "a release lacks its tag or its list of files", err);
    if (json_is_true(json_object_get(release, "draft")))
        return ANYFLASH_OK;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < json_array_size(assets); i++)
        status = read_asset(json_array_get(assets, i), tag, name, source, list, err);
    return status;
}

enum anyflash_status af_listing_read(struct af_span page, const char *name,
                                     const struct af_listing_source *source,
                                     struct af_catalog_list *list, size_t *releases_out,
                                     struct anyflash_error *err)
{
    json_t *releases = NULL;
    enum anyflash_status status =
        af_json_parse(page, AF_LISTING_BYTES_MAX, name, &releases, err);
    if (status == ANYFLASH_OK && !json_is_array(releases))
        status = no_listing(name, "it is not an array", err);
    *releases_out = json_array_size(releases);
    for (size_t i = 0; status == ANYFLASH_OK && i < *releases_out; i++)
        status = read_release(json_array_get(releases, i), name, source, list, err);
    json_decref(releases);
    return status;
}

/* ---- The file of an updated catalog ---- */

/* The start of the file, for the catalog embedded in this program. */
static void make_head(char head[HEAD_BYTES + 1])
{
    memcpy(head, MAGIC, sizeof MAGIC - 1);
    af_sha256_bytes(
        (struct af_span){(const char *)af_embedded_catalog.bytes, af_embedded_catalog.len},
        head + sizeof MAGIC - 1);
}

enum anyflash_status af_catalog_stored_write(const struct af_catalog *catalog,
                                             struct af_text *stored, struct anyflash_error *err)
{
    struct af_text packed = {0};
    char head[HEAD_BYTES + 1];
    enum anyflash_status status =
        af_catalog_pack(catalog->wheels, catalog->count, catalog->date, &packed, err);
    if (status == ANYFLASH_OK) {
        size_t capacity = ZSTD_compressBound(packed.len);
        char *bytes = af_memory_alloc(capacity);
        size_t len = ZSTD_compress(bytes, capacity, packed.data, packed.len, COMPRESSION_LEVEL);
        if (ZSTD_isError(len))
            af_memory_end();
        make_head(head);
        af_text_add_n(stored, head, HEAD_BYTES);
        af_text_add_n(stored, bytes, len);
        af_memory_free(bytes);
    }
    af_text_release(&packed);
    return status;
}

static enum anyflash_status load(struct af_catalog *catalog, struct af_span file,
                                 const char *shown, struct anyflash_error *err)
{
    char head[HEAD_BYTES + 1];
    struct af_span bytes;
    make_head(head);
    if (file.len < HEAD_BYTES || memcmp(file.data, MAGIC, sizeof MAGIC - 1) != 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not an anyflash catalog", shown);
    if (memcmp(file.data, head, HEAD_BYTES) != 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' was made by another version of anyflash", shown);
    struct af_embedded packed = {(const unsigned char *)file.data + HEAD_BYTES,
                                 file.len - HEAD_BYTES};
    enum anyflash_status status = af_embedded_open(&packed, &catalog->arena, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_catalog_unpack(bytes, &catalog->arena, &catalog->wheels, &catalog->count,
                                   &catalog->date, err);
    return status == ANYFLASH_OK ? ANYFLASH_OK
                                 : af_fail(err, ANYFLASH_E_DATA, "'%s' is corrupt", shown);
}

enum anyflash_status af_catalog_stored_parse(struct af_catalog *catalog, struct af_span bytes,
                                             const char *name, struct anyflash_error *err)
{
    struct af_catalog made = {.name = "updated"};
    char shown[300];
    af_arena_init(&made.arena);
    enum anyflash_status status =
        load(&made, bytes, af_text_quote(shown, sizeof shown, name, strlen(name)), err);
    if (status == ANYFLASH_OK)
        *catalog = made;
    else
        af_arena_release(&made.arena);
    return status;
}
