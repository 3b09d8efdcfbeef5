/* catalog_stored.c: writes and reads the file of an updated catalog. */
#include "kit/catalog/catalog_stored.h"

#include <string.h>

#include <zstd.h>

#include "kit/base/sha256.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/formats/embedded.h"

#define MAGIC "AFU1"
#define HEAD_BYTES (sizeof MAGIC - 1 + AF_SHA256_HEX_BYTES - 1)
#define COMPRESSION_LEVEL 9

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
    size_t capacity = ZSTD_compressBound(packed.len);
    char *bytes = status == ANYFLASH_OK ? af_mem_alloc(capacity) : NULL;
    if (bytes != NULL) {
        size_t len = ZSTD_compress(bytes, capacity, packed.data, packed.len, COMPRESSION_LEVEL);
        make_head(head);
        af_text_add_n(stored, head, HEAD_BYTES);
        if (ZSTD_isError(len))
            stored->failed = true;
        else
            af_text_add_n(stored, bytes, len);
    }
    if (status == ANYFLASH_OK && (bytes == NULL || stored->failed))
        status = af_fail_memory(err);
    af_mem_free(bytes);
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
    if (status == ANYFLASH_OK || status == ANYFLASH_E_NO_MEMORY)
        return status;
    return af_fail(err, ANYFLASH_E_DATA, "'%s' is corrupt", shown);
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
