/*
 * test_faults_catalog.c: makes each allocation fail in turn while the catalog
 * (embedded and from a file) is loaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/catalog/catalog.h"
#include "kit/probe/probe.h"
#include "tests/unit/every_allocation.h"

#include <string.h>

static enum anyflash_status load_embedded(struct anyflash_error *err)
{
    struct af_catalog catalog;
    enum anyflash_status status = af_catalog_load_embedded(&catalog, err);
    if (status == ANYFLASH_OK)
        af_catalog_release(&catalog);
    return status;
}

static enum anyflash_status load_file(struct anyflash_error *err)
{
    struct af_catalog catalog;
    enum anyflash_status status =
        af_probe_catalog(&catalog, AF_TEST_DATA "/faults/few_wheels.jsonl", err);
    if (status == ANYFLASH_OK)
        af_catalog_release(&catalog);
    return status;
}

static void test_catalog__embedded_survives_every_lack_of_memory(void **state)
{
    (void)state;
    every_allocation_of(load_embedded, false);
    every_allocation_of(load_embedded, true);
}

static void test_catalog__file_survives_every_lack_of_memory(void **state)
{
    (void)state;
    every_allocation_of(load_file, false);
    every_allocation_of(load_file, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalog__embedded_survives_every_lack_of_memory),
        cmocka_unit_test(test_catalog__file_survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
