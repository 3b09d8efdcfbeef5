/*
 * test_faults_update.c: makes each allocation fail in turn while archives are
 * read, and while a listing is turned into a catalog file and read back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_update.h"
#include "kit/formats/zip.h"
#include "kit/probe/probe.h"
#include "kit/system/file.h"
#include "tests/unit/every_allocation.h"
#include "tests/unit/own_folder.h"

#define WHEEL AF_TEST_SEEDS "/fuzz_zip/wheel.zip"
#define FILES "https://host/releases/download/"

static const char page[] =
    "[{\"tag_name\": \"v1\", \"assets\": [{\"name\": \"flash_attn-1.0+cu12torch2.8cxx11abiTRUE-"
    "cp312-cp312-manylinux_2_28_x86_64.whl\", \"browser_download_url\": \"" FILES "v1/a.whl\"},"
    "{\"name\": \"other.txt\", \"browser_download_url\": \"" FILES "v1/other.txt\"}]}]";

static enum anyflash_status drop(void *context, const void *bytes, size_t len,
                                 struct anyflash_error *err)
{
    (void)context, (void)bytes, (void)len, (void)err;
    return ANYFLASH_OK;
}

static enum anyflash_status read_archive(struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_zip zip;
    struct af_arena arena;
    struct af_span bytes;
    enum anyflash_status status = af_file_map(WHEEL, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_zip_open(af_mapping_bytes(&mapping), WHEEL, &zip, err);
    if (status == ANYFLASH_OK) {
        af_arena_init(&arena);
        const struct af_zip_member *member = &zip.members[0];
        status = af_zip_read(&zip, member, &arena, 1u << 20, &bytes, err);
        if (status == ANYFLASH_OK)
            status = af_zip_read_start(&zip, member, &arena, 3, &bytes, err);
        if (status == ANYFLASH_OK)
            status = af_zip_extract(&zip, af_zip_find(&zip, "tiny-1.0.dist-info/RECORD"), drop,
                                    NULL, err);
        af_arena_release(&arena);
        af_zip_close(&zip);
    }
    af_file_unmap(&mapping);
    return status;
}

static char path[OWN_FOLDER_BYTES + 8];

static enum anyflash_status store(const struct af_catalog *catalog, struct anyflash_error *err)
{
    struct af_text bytes = {0};
    enum anyflash_status status = af_catalog_stored_write(catalog, &bytes, err);
    FILE *file = status == ANYFLASH_OK ? fopen(path, "wb") : NULL;
    if (file != NULL) {
        assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
        assert_int_equal(fclose(file), 0);
    }
    af_text_release(&bytes);
    return status;
}

/* Converts a page to rows, to wheels, to rows again, to a file and back to wheels. */
static enum anyflash_status update(struct anyflash_error *err)
{
    const struct af_listing_source source = {"owner/name", "community", FILES};
    size_t releases;
    struct af_text rows = {0};
    struct af_catalog catalog = {.name = "test"};
    struct af_catalog loaded;
    af_arena_init(&catalog.arena);
    enum anyflash_status status = af_listing_read((struct af_span){page, sizeof page - 1},
                                                  "page", &source, &rows, &releases, err);
    if (status == ANYFLASH_OK)
        status =
            af_catalog_rows_read((struct af_span){rows.data, rows.len}, "rows", &catalog.arena,
                                 &catalog.wheels, &catalog.count, &catalog.date, err);
    if (status == ANYFLASH_OK)
        status = af_catalog_write_row(&rows, &catalog.wheels[0], err);
    if (status == ANYFLASH_OK)
        status = store(&catalog, err);
    if (status == ANYFLASH_OK)
        status = af_probe_catalog_stored(&loaded, path, err);
    if (status == ANYFLASH_OK) {
        assert_int_equal(loaded.count, 1);
        assert_string_equal(loaded.wheels[0].torch, "2.8");
        assert_string_equal(loaded.wheels[0].glibc_min, "2.28");
        af_catalog_release(&loaded);
    }
    af_text_release(&rows);
    af_arena_release(&catalog.arena);
    return status;
}

static void test_zip__survives_every_lack_of_memory(void **state)
{
    (void)state;
    every_allocation_of(read_archive, false);
    every_allocation_of(read_archive, true);
}

static void test_update__survives_every_lack_of_memory(void **state)
{
    (void)state;
    char folder[OWN_FOLDER_BYTES];
    assert_true(own_folder_make(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    every_allocation_of(update, false);
    every_allocation_of(update, true);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip__survives_every_lack_of_memory),
        cmocka_unit_test(test_update__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
