/*
 * test_catalog_names.c: every file name of the catalog, read by wheel_name.h,
 * against the fields of its row.
 */
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/formats/wheel_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int load(void **state)
{
    static struct af_catalog catalog;
    *state = &catalog;
    return af_catalog_load_embedded(&catalog, NULL) == ANYFLASH_OK ? 0 : -1;
}

static int unload(void **state)
{
    af_catalog_release(*state);
    return 0;
}

static void assert_parts(const struct af_catalog_wheel *wheel, const struct af_wheel_name *name)
{
    const char *plus = strchr(name->version_text, '+');
    assert_string_equal(name->python, wheel->python);
    assert_string_equal(name->abi, wheel->abi);
    assert_string_equal(name->platform, wheel->platform);
    assert_true(af_starts_with(name->version_text, wheel->version));
    if (wheel->local != NULL)
        assert_string_equal(plus + 1, wheel->local);
    else
        assert_null(plus);
}

static void test_catalog_names__every_name_reads_as_its_row_says(void **state)
{
    const struct af_catalog *catalog = *state;
    size_t refused = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        struct af_wheel_name name;
        if (af_wheel_name_parse(wheel->filename, strlen(wheel->filename), &name) ==
            AF_WHEEL_NAME_VALID)
            assert_parts(wheel, &name);
        else {
            assert_false(wheel->valid_name);
            refused++;
        }
    }
    assert_int_equal(refused, 2);
}

static void assert_same(const struct af_catalog_wheel *wheel, const char *what,
                        const char *read, const char *row)
{
    if (*read != '\0' && !af_equal(read, row))
        fail_msg("%s of %s reads '%s', the row says '%s'", what, wheel->filename, read,
                 row == NULL ? "nothing" : row);
}

static void test_catalog_names__local_parts_read_as_their_rows_say(void **state)
{
    const struct af_catalog *catalog = *state;
    size_t silent = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        struct af_wheel_local local;
        if (wheel->local == NULL)
            continue;
        af_wheel_local_parse(wheel->local, af_formats_torch_digits_of(wheel->source), &local);
        assert_same(wheel, "cuda", local.cuda, wheel->cuda);
        assert_same(wheel, "torch", local.torch, wheel->torch);
        assert_int_equal(local.cxx11abi, wheel->cxx11abi);
        silent += (local.cuda[0] == '\0' && !wheel->rocm) ||
                  (local.torch[0] == '\0' && wheel->torch != NULL);
    }
    assert_true(silent <= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalog_names__every_name_reads_as_its_row_says),
        cmocka_unit_test(test_catalog_names__local_parts_read_as_their_rows_say),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
