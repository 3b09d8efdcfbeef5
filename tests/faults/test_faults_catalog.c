/*
 * test_faults_catalog.c: lack of memory at every allocation of loading the
 * catalog (embedded and from a file) and the tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/catalog/catalog.h"
#include "kit/catalog/tables.h"
#include "kit/probe/catalog_file.h"

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

/* Fails request after request until the attempt no longer notices. */
static void fail_everywhere(attempt *try, bool all_after)
{
    for (size_t nth = 1;; nth++) {
        struct anyflash_error problem = {0};
        af_mem_fail_nth(nth, all_after);
        enum anyflash_status status = try(&problem);
        bool reached = af_mem_request_count() >= nth;
        af_mem_fail_nth(0, false);
        if (!reached) {
            assert_int_equal(status, ANYFLASH_OK);
            assert_true(nth > 1);
            return;
        }
        if (status != ANYFLASH_E_NO_MEMORY)
            fail_msg("request %zu: status %d, '%s'", nth, (int)status, problem.message);
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
