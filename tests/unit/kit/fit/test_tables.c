/*
 * test_tables.c: every row of the embedded tables can be read, and the facts
 * that decisions depend on agree with the sources.
 */
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/fit/reason.h"
#include "kit/formats/version.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct af_catalog catalog;

static int load(void **state)
{
    (void)state;
    return af_catalog_load_embedded(&catalog, NULL) == ANYFLASH_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    af_catalog_release(&catalog);
    return 0;
}

static const struct af_catalog_torch_release *torch(int minor)
{
    const struct af_catalog_torch_release *release = af_tables_torch(2, minor);
    assert_non_null(release);
    return release;
}

static void test_tables__hold_every_torch_minor_in_order(void **state)
{
    (void)state;
    assert_int_equal(af_tables.torch_count, 16);
    for (size_t i = 0; i < af_tables.torch_count; i++) {
        assert_int_equal(af_tables.torch[i].torch_minor, i);
        assert_true(af_starts_with(af_tables.torch[i].latest, af_tables.torch[i].torch));
    }
}

static void test_tables__each_torch_has_one_default_per_platform(void **state)
{
    (void)state;
    static const char *const platforms[] = {"linux_x86_64", "linux_aarch64", "win_amd64"};
    for (size_t i = 0; i < af_tables.torch_count; i++) {
        for (size_t k = 0; k < AF_COUNT(platforms); k++) {
            const struct af_catalog_torch_release *release = &af_tables.torch[i];
            int defaults = 0;
            for (size_t v = 0; v < release->variants_count; v++)
                defaults += release->variants[v].is_default &&
                            strcmp(release->variants[v].platform, platforms[k]) == 0;
            if (defaults != 1)
                fail_msg("torch %s has %d defaults on %s", release->torch, defaults,
                         platforms[k]);
        }
    }
}

static void test_tables__default_cuda_is_what_a_plain_install_brings(void **state)
{
    (void)state;
    static const struct {
        int minor;
        const char *cuda;
    } wanted[] = {{4, "cu121"},  {6, "cu124"},  {8, "cu128"},
                  {11, "cu130"}, {14, "cu130"}, {15, "cu132"}};
    for (size_t i = 0; i < AF_COUNT(wanted); i++)
        assert_string_equal(af_tables_default(torch(wanted[i].minor), "linux_x86_64")->cuda,
                            wanted[i].cuda);
}

static void test_tables__torch_26_has_both_abis(void **state)
{
    (void)state;
    const struct af_catalog_torch_release *release = torch(6);
    assert_int_equal(af_tables_variant(release, "linux_x86_64", "cu124")->cxx11abi, AF_NO);
    assert_int_equal(af_tables_variant(release, "linux_x86_64", "cu126")->cxx11abi, AF_YES);
    assert_int_equal(af_tables_variant(release, "win_amd64", "cu126")->cxx11abi, AF_UNKNOWN);
    assert_null(af_tables_variant(release, "linux_x86_64", "cu130"));
}

static void test_tables__layouts_are_the_tried_generations(void **state)
{
    (void)state;
    assert_int_equal(torch(3)->layout, torch(5)->layout);
    assert_int_equal(torch(7)->layout, torch(8)->layout);
    assert_int_equal(torch(10)->layout, torch(12)->layout);
    assert_int_equal(torch(13)->layout, torch(15)->layout);
    assert_int_not_equal(torch(5)->layout, torch(6)->layout);
    assert_int_not_equal(torch(8)->layout, torch(9)->layout);
    assert_int_not_equal(torch(9)->layout, torch(10)->layout);
    assert_int_not_equal(torch(2)->layout, torch(3)->layout);
}

static void test_tables__variants_carry_the_numbers_of_their_cuda(void **state)
{
    (void)state;
    const struct af_catalog_torch_variant *variant =
        af_tables_variant(torch(15), "linux_x86_64", "cu132");
    assert_int_equal(variant->cuda_major, 13);
    assert_int_equal(variant->cuda_minor, 2);
    assert_string_equal(variant->glibc_min, "2.28");
    assert_int_equal(torch(15)->cxx_std_min, 20);
    assert_true(af_words_have(torch(15)->python, "3.15"));
    assert_false(af_words_have(torch(15)->python, "3.10"));
}

static void test_tables__toolkits_know_their_compilers_and_drivers(void **state)
{
    (void)state;
    const struct af_cuda_toolkit *toolkit = af_tables_cuda(12, 8);
    assert_non_null(toolkit);
    assert_int_equal(toolkit->gcc_max, 14);
    assert_string_equal(toolkit->driver_linux_min, "570.26");
    assert_string_equal(toolkit->driver_linux_floor, "525.60.13");
    assert_true(af_words_have(toolkit->sm_targets, "12.0"));
    assert_null(af_tables_cuda(12, 7));
    assert_int_equal(af_tables_cuda(13, 3)->clang_max, 21);
    assert_int_equal(af_tables_cuda(13, 5)->gcc_max, 16);
    assert_true(af_words_have(af_tables_cuda(13, 5)->sm_targets, "10.7"));
}

static void test_tables__flash_attn_releases_are_in_order(void **state)
{
    (void)state;
    struct af_version before, here;
    for (size_t i = 0; i < af_tables.flash_count; i++) {
        const char *text = af_tables.flash[i].version;
        assert_true(af_version_parse(text, strlen(text), &here));
        if (i > 0 && af_version_compare(&before, &here) >= 0)
            fail_msg("%s is out of order", text);
        before = here;
        assert_ptr_equal(af_tables_flash(text), &af_tables.flash[i]);
    }
    assert_null(af_tables_flash("2.8.99"));
    assert_string_equal(af_tables_flash("2.8.3")->python_requires, ">=3.9");
}

static void test_tables__know_every_release_of_flash_attention_4(void **state)
{
    (void)state;
    const struct af_catalog_fa4_release *release = af_tables_fa4("4.0.0b28");
    assert_string_equal(release->first, "4.0.0b27");
    assert_true(af_words_have(release->needs, "apache-tvm-ffi>=0.1.12,<0.2"));
    release = af_tables_fa4("4.0.0b36");
    assert_true(af_words_have(release->needs, "apache-tvm-ffi>=0.1.11,<0.2"));
    assert_true(af_starts_with(release->needs.items[0], "nvidia-cutlass-dsl"));
    assert_true(af_starts_with(release->needs_cuda13, "nvidia-cutlass-dsl[cu13]"));
    assert_true(af_words_have(release->forward, "8"));
    assert_false(af_words_have(release->backward, "8"));
    assert_ptr_equal(af_tables_fa4("4.0.0b9999"), release);
    assert_int_equal(af_tables_fa4("4.0.0b1")->needs.count, 0);
    assert_null(af_tables_fa4("3.0.0"));
    assert_null(af_tables_fa4("no version"));
}

/* The number of wheels in the catalog that the trap matches. */
static size_t hits(const char *id)
{
    size_t count = 0;
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        if (strcmp(af_tables.traps[i].id, id) != 0)
            continue;
        for (size_t k = 0; k < catalog.count; k++)
            count += af_trap_matches(&af_tables.traps[i], &catalog.wheels[k]);
    }
    return count;
}

static void test_traps__each_is_about_some_wheel(void **state)
{
    (void)state;
    assert_true(af_tables.traps_count >= 40);
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        if (hits(af_tables.traps[i].id) == 0)
            fail_msg("'%s' matches no wheel", af_tables.traps[i].id);
    }
}

static void test_traps__lying_labels_are_those_of_the_catalog(void **state)
{
    (void)state;
    size_t lies = 0;
    for (size_t i = 0; i < catalog.count; i++) {
        const struct af_catalog_wheel *wheel = &catalog.wheels[i];
        lies +=
            wheel->official && wheel->cxx11abi == AF_NO && wheel->cxx11abi_effective == AF_YES;
    }
    assert_int_equal(lies, 61);
    assert_int_equal(hits("abi-label-official-torch26"), 25);
    assert_int_equal(hits("abi-label-new-torch"), 36 + 8);
}

/* An ABI trap must not contradict the catalog. */
static void test_traps__abi_effects_agree_with_the_catalog(void **state)
{
    (void)state;
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        const struct af_trap *trap = &af_tables.traps[i];
        if (trap->effect != AF_TRAP_ABI)
            continue;
        enum af_answer wanted = strcmp(trap->value, "true") == 0 ? AF_YES : AF_NO;
        for (size_t k = 0; k < catalog.count; k++) {
            const struct af_catalog_wheel *wheel = &catalog.wheels[k];
            if (af_trap_matches(trap, wheel) && wheel->cxx11abi_effective != wanted)
                fail_msg("%s: %s", trap->id, wheel->filename);
        }
    }
}

static void test_traps__effects_with_a_figure_have_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        const struct af_trap *trap = &af_tables.traps[i];
        bool bare = trap->effect == AF_TRAP_NOTE || trap->effect == AF_TRAP_NOT_INSTALLABLE;
        assert_int_equal(trap->value == NULL, bare);
    }
}

static void test_traps__name_reasons_that_there_are(void **state)
{
    (void)state;
    enum af_reason_id id;
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        if (!af_reason_parse(af_tables.traps[i].reason, &id))
            fail_msg("'%s' names the reason '%s'", af_tables.traps[i].id,
                     af_tables.traps[i].reason);
    }
}

static void test_traps__nightly_rows_cover_the_releases_that_used_them(void **state)
{
    (void)state;
    assert_true(hits("nightly-torch2.3-20240207") > 0);
    assert_int_equal(hits("invalid-name"), 2);
    assert_true(hits("sm-refused-27") > 3000);
}

static void test_tables__the_advisory_ends_where_it_was_fixed(void **state)
{
    (void)state;
    assert_string_equal(af_tables_advisory("flash-attn", "2.8.3+cu12torch2.8")->id,
                        "GHSA-7g5w-pq96-8c5w");
    assert_non_null(af_tables_advisory("flash_attn", "2.8.3.post1"));
    assert_null(af_tables_advisory("flash_attn", "2.8.3.post2"));
    assert_null(af_tables_advisory("flash_attn", "2.8.4"));
    assert_null(af_tables_advisory("flash-attn-3", "2.0.0"));
    assert_null(af_tables_advisory("flash-attn", "no version"));
    assert_null(af_tables_advisory(NULL, NULL));
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
        cmocka_unit_test(test_tables__the_advisory_ends_where_it_was_fixed),
        cmocka_unit_test(test_traps__each_is_about_some_wheel),
        cmocka_unit_test(test_traps__lying_labels_are_those_of_the_catalog),
        cmocka_unit_test(test_traps__abi_effects_agree_with_the_catalog),
        cmocka_unit_test(test_traps__effects_with_a_figure_have_one),
        cmocka_unit_test(test_traps__name_reasons_that_there_are),
        cmocka_unit_test(test_traps__nightly_rows_cover_the_releases_that_used_them),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
