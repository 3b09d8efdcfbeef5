/*
 * test_faults_catalog.c: makes each allocation fail in turn while the catalog
 * (embedded and from a file) and the tables are loaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/catalog/catalog.h"
#include "kit/catalog/tables.h"
#include "kit/probe/catalog_file.h"
#include "tests/unit/every_allocation.h"

#include <string.h>

typedef enum anyflash_status attempt(struct anyflash_error *err);

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

static enum anyflash_status load_tables(struct anyflash_error *err)
{
    struct af_tables tables;
    enum anyflash_status status = af_tables_load(&tables, err);
    if (status == ANYFLASH_OK)
        af_tables_release(&tables);
    return status;
}

/* Makes one request after the other fail, until an attempt needs fewer. */
static void fail_everywhere(attempt *try, bool all_after)
{
    struct every_allocation each = {.all_after = all_after};
    while (every_allocation_next(&each)) {
        struct anyflash_error problem = {0};
        every_allocation_begin(&each);
        enum anyflash_status status = try(&problem);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &problem);
    }
}

static void test_catalog__embedded_survives_every_lack_of_memory(void **state)
{
    (void)state;
    fail_everywhere(load_embedded, false);
    fail_everywhere(load_embedded, true);
}

static void test_catalog__file_survives_every_lack_of_memory(void **state)
{
    (void)state;
    fail_everywhere(load_file, false);
    fail_everywhere(load_file, true);
}

static void test_tables__survive_every_lack_of_memory(void **state)
{
    (void)state;
    fail_everywhere(load_tables, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalog__embedded_survives_every_lack_of_memory),
        cmocka_unit_test(test_catalog__file_survives_every_lack_of_memory),
        cmocka_unit_test(test_tables__survive_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
