/*
 * test_tables.c: every row of the embedded tables can be read, and the facts
 * that decisions depend on agree with the sources.
 */
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/fit/reason.h"
#include "kit/formats/version.h"
#include "tests/unit/every_allocation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct loaded {
    struct af_tables tables;
    struct af_catalog catalog;
};

static int load(void **state)
{
    static struct loaded loaded;
    af_json_start();
    *state = &loaded;
    return af_tables_load(&loaded.tables, NULL) == ANYFLASH_OK &&
                   af_catalog_load_embedded(&loaded.catalog, NULL) == ANYFLASH_OK
               ? 0
               : -1;
}

static int unload(void **state)
{
    struct loaded *loaded = *state;
    af_tables_release(&loaded->tables);
    af_catalog_release(&loaded->catalog);
    return 0;
}

static const struct af_catalog_torch_release *torch(void **state, int minor)
{
    const struct af_catalog_torch_release *release =
        af_tables_torch(&((struct loaded *)*state)->tables, 2, minor);
    assert_non_null(release);
    return release;
}

static void test_tables__hold_every_torch_minor_in_order(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    assert_int_equal(tables->torch_count, 16);
    for (size_t i = 0; i < tables->torch_count; i++) {
        assert_int_equal(tables->torch[i].minor_number, i);
        assert_true(af_starts_with(tables->torch[i].latest, tables->torch[i].minor));
    }
}

static void test_tables__each_torch_has_one_default_per_platform(void **state)
{
    static const char *const platforms[] = {"linux_x86_64", "linux_aarch64", "win_amd64"};
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    for (size_t i = 0; i < tables->torch_count; i++) {
        for (size_t k = 0; k < AF_COUNT(platforms); k++) {
            const struct af_catalog_torch_release *release = &tables->torch[i];
            int defaults = 0;
            for (size_t v = 0; v < release->variant_count; v++)
                defaults += release->variants[v].is_default &&
                            strcmp(release->variants[v].platform, platforms[k]) == 0;
            if (defaults != 1)
                fail_msg("torch %s has %d defaults on %s", release->minor, defaults,
                         platforms[k]);
        }
    }
}

static void test_tables__default_cuda_is_what_a_plain_install_brings(void **state)
{
    static const struct {
        int minor;
        const char *cuda;
    } wanted[] = {{4, "cu121"},  {6, "cu124"},  {8, "cu128"},
                  {11, "cu130"}, {14, "cu130"}, {15, "cu132"}};
    for (size_t i = 0; i < AF_COUNT(wanted); i++)
        assert_string_equal(
            af_tables_default(torch(state, wanted[i].minor), "linux_x86_64")->cuda,
            wanted[i].cuda);
}

static void test_tables__torch_26_has_both_abis(void **state)
{
    const struct af_catalog_torch_release *release = torch(state, 6);
    assert_int_equal(af_tables_variant(release, "linux_x86_64", "cu124")->cxx11abi, AF_NO);
    assert_int_equal(af_tables_variant(release, "linux_x86_64", "cu126")->cxx11abi, AF_YES);
    assert_int_equal(af_tables_variant(release, "win_amd64", "cu126")->cxx11abi, AF_UNKNOWN);
    assert_null(af_tables_variant(release, "linux_x86_64", "cu130"));
}

static void test_tables__layouts_are_the_tried_generations(void **state)
{
    assert_int_equal(torch(state, 3)->layout, torch(state, 5)->layout);
    assert_int_equal(torch(state, 7)->layout, torch(state, 8)->layout);
    assert_int_equal(torch(state, 10)->layout, torch(state, 12)->layout);
    assert_int_equal(torch(state, 13)->layout, torch(state, 15)->layout);
    assert_int_not_equal(torch(state, 5)->layout, torch(state, 6)->layout);
    assert_int_not_equal(torch(state, 8)->layout, torch(state, 9)->layout);
    assert_int_not_equal(torch(state, 9)->layout, torch(state, 10)->layout);
    assert_int_not_equal(torch(state, 2)->layout, torch(state, 3)->layout);
}

static void test_tables__variants_carry_the_numbers_of_their_cuda(void **state)
{
    const struct af_catalog_torch_variant *variant =
        af_tables_variant(torch(state, 15), "linux_x86_64", "cu132");
    assert_int_equal(variant->cuda_major, 13);
    assert_int_equal(variant->cuda_minor, 2);
    assert_string_equal(variant->glibc_min, "2.28");
    assert_int_equal(torch(state, 15)->cxx_std_min, 20);
    assert_true(af_words_have(torch(state, 15)->pythons, "3.15"));
    assert_false(af_words_have(torch(state, 15)->pythons, "3.10"));
}

static void test_tables__toolkits_know_their_compilers_and_drivers(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    const struct af_cuda_toolkit *toolkit = af_tables_cuda(tables, 12, 8);
    assert_non_null(toolkit);
    assert_int_equal(toolkit->gcc_max, 14);
    assert_string_equal(toolkit->driver_linux_min, "570.26");
    assert_string_equal(toolkit->driver_linux_floor, "525.60.13");
    assert_true(af_words_have(toolkit->sm_targets, "12.0"));
    assert_null(af_tables_cuda(tables, 12, 7));
    assert_int_equal(af_tables_cuda(tables, 13, 3)->clang_max, -1);
}

static void test_tables__flash_attn_releases_are_in_order(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    struct af_version before, here;
    for (size_t i = 0; i < tables->flash_count; i++) {
        const char *text = tables->flash[i].version;
        assert_true(af_version_parse(text, strlen(text), &here));
        if (i > 0 && af_version_compare(&before, &here) >= 0)
            fail_msg("%s is out of order", text);
        before = here;
        assert_ptr_equal(af_tables_flash(tables, text), &tables->flash[i]);
    }
    assert_null(af_tables_flash(tables, "2.8.99"));
    assert_string_equal(af_tables_flash(tables, "2.8.3")->python_requires, ">=3.9");
}

static void test_tables__know_every_release_of_flash_attention_4(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    const struct af_catalog_fa4_release *release = af_tables_fa4(tables, "4.0.0b28");
    assert_string_equal(release->first, "4.0.0b27");
    assert_true(af_words_have(release->needs, "apache-tvm-ffi>=0.1.12,<0.2"));
    release = af_tables_fa4(tables, "4.0.0b36");
    assert_true(af_words_have(release->needs, "apache-tvm-ffi>=0.1.11,<0.2"));
    assert_true(af_starts_with(release->needs.items[0], "nvidia-cutlass-dsl"));
    assert_true(af_starts_with(release->needs_cuda13, "nvidia-cutlass-dsl[cu13]"));
    assert_true(af_words_have(release->forward, "8"));
    assert_false(af_words_have(release->backward, "8"));
    assert_ptr_equal(af_tables_fa4(tables, "4.0.0b9999"), release);
    assert_int_equal(af_tables_fa4(tables, "4.0.0b1")->needs.count, 0);
    assert_null(af_tables_fa4(tables, "3.0.0"));
    assert_null(af_tables_fa4(tables, "no version"));
}

/* The number of wheels in the catalog that the trap matches. */
static size_t hits(void **state, const char *id)
{
    const struct loaded *loaded = *state;
    size_t count = 0;
    for (size_t i = 0; i < loaded->tables.trap_count; i++) {
        if (strcmp(loaded->tables.traps[i].id, id) != 0)
            continue;
        for (size_t k = 0; k < loaded->catalog.count; k++)
            count += af_trap_matches(&loaded->tables.traps[i], &loaded->catalog.wheels[k]);
    }
    return count;
}

static void test_traps__each_is_about_some_wheel(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    assert_true(tables->trap_count >= 40);
    for (size_t i = 0; i < tables->trap_count; i++) {
        if (hits(state, tables->traps[i].id) == 0)
            fail_msg("'%s' matches no wheel", tables->traps[i].id);
    }
}

static void test_traps__lying_labels_are_those_of_the_catalog(void **state)
{
    const struct loaded *loaded = *state;
    size_t lies = 0;
    for (size_t i = 0; i < loaded->catalog.count; i++) {
        const struct af_catalog_wheel *wheel = &loaded->catalog.wheels[i];
        lies +=
            wheel->official && wheel->cxx11abi == AF_NO && wheel->cxx11abi_effective == AF_YES;
    }
    assert_int_equal(lies, 61);
    assert_int_equal(hits(state, "abi-label-official-torch26"), 25);
    assert_int_equal(hits(state, "abi-label-new-torch"), 36 + 8);
}

/* An ABI trap must not contradict the catalog. */
static void test_traps__abi_effects_agree_with_the_catalog(void **state)
{
    const struct loaded *loaded = *state;
    for (size_t i = 0; i < loaded->tables.trap_count; i++) {
        const struct af_trap *trap = &loaded->tables.traps[i];
        if (trap->effect != AF_TRAP_ABI)
            continue;
        enum af_answer wanted = strcmp(trap->value, "true") == 0 ? AF_YES : AF_NO;
        for (size_t k = 0; k < loaded->catalog.count; k++) {
            const struct af_catalog_wheel *wheel = &loaded->catalog.wheels[k];
            if (af_trap_matches(trap, wheel) && wheel->cxx11abi_effective != wanted)
                fail_msg("%s: %s", trap->id, wheel->filename);
        }
    }
}

static void test_traps__effects_with_a_figure_have_one(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    for (size_t i = 0; i < tables->trap_count; i++) {
        const struct af_trap *trap = &tables->traps[i];
        bool bare = trap->effect == AF_TRAP_NOTE || trap->effect == AF_TRAP_NOT_INSTALLABLE;
        assert_int_equal(trap->value == NULL, bare);
    }
}

static void test_traps__name_reasons_that_there_are(void **state)
{
    const struct af_tables *tables = &((struct loaded *)*state)->tables;
    enum af_reason_id id;
    for (size_t i = 0; i < tables->trap_count; i++) {
        if (!af_reason_parse(tables->traps[i].reason, &id))
            fail_msg("'%s' names the reason '%s'", tables->traps[i].id,
                     tables->traps[i].reason);
    }
}

static void test_traps__nightly_rows_cover_the_releases_that_used_them(void **state)
{
    assert_true(hits(state, "nightly-torch2.3-20240207") > 0);
    assert_int_equal(hits(state, "invalid-name"), 2);
    assert_true(hits(state, "sm-refused-27") > 3000);
}

static void test_tables__every_failed_allocation_is_reported(void **state)
{
    (void)state;
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        struct af_tables tables = {.date = "untouched"};
        every_allocation_begin(&each);
        enum anyflash_status status = af_tables_load(&tables, NULL);
        every_allocation_end(&each);
        every_allocation_check(&each, status, NULL);
        if (each.failed)
            assert_string_equal(tables.date, "untouched");
        else
            af_tables_release(&tables);
        each.nth += each.nth < 200 ? 0 : 96;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables__hold_every_torch_minor_in_order),
        cmocka_unit_test(test_tables__each_torch_has_one_default_per_platform),
        cmocka_unit_test(test_tables__default_cuda_is_what_a_plain_install_brings),
        cmocka_unit_test(test_tables__torch_26_has_both_abis),
        cmocka_unit_test(test_tables__layouts_are_the_tried_generations),
        cmocka_unit_test(test_tables__variants_carry_the_numbers_of_their_cuda),
        cmocka_unit_test(test_tables__toolkits_know_their_compilers_and_drivers),
        cmocka_unit_test(test_tables__flash_attn_releases_are_in_order),
        cmocka_unit_test(test_tables__know_every_release_of_flash_attention_4),
        cmocka_unit_test(test_traps__each_is_about_some_wheel),
        cmocka_unit_test(test_traps__lying_labels_are_those_of_the_catalog),
        cmocka_unit_test(test_traps__abi_effects_agree_with_the_catalog),
        cmocka_unit_test(test_traps__effects_with_a_figure_have_one),
        cmocka_unit_test(test_traps__name_reasons_that_there_are),
        cmocka_unit_test(test_traps__nightly_rows_cover_the_releases_that_used_them),
        cmocka_unit_test(test_tables__every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
