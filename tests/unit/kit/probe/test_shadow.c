/*
 * test_shadow.c: finds a flash_attn folder in the current folder, which Python
 * would import.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/probe/probes.h"

#include "tests/unit/own_folder.h"

struct place {
    char folder[OWN_FOLDER_BYTES];
    struct af_machine machine;
};

static void write_file(const struct place *place, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void look(struct place *place, char *const *environment)
{
    struct af_probe_options options = {.folder = place->folder, .environment = environment};
    struct af_probe probe = {&place->machine, &place->machine.arena, &options};
    af_probe_shadow(&probe);
}

static int make_place(void **state)
{
    static struct place place;
    char path[512];
    assert_true(own_folder_make(place.folder));
    snprintf(path, sizeof path, "%s/flash_attn", place.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    af_machine_init(&place.machine, "test", "not looked at");
    *state = &place;
    return 0;
}

static int remove_place(void **state)
{
    static const char *const names[] = {"flash_attn/__init__.py",
                                        "flash_attn_2_cuda.cpython-312.so", "torch.py",
                                        "flash_attn", ""};
    struct place *place = *state;
    char path[512];
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", place->folder, names[i]);
        remove(path);
    }
    af_machine_release(&place->machine);
    return 0;
}

static char *const no_variables[] = {NULL};

static void test_shadow__finds_a_source_tree(void **state)
{
    struct place *place = *state;
    write_file(place, "flash_attn/__init__.py");
    look(place, no_variables);
    assert_int_equal(place->machine.python.shadowed_by.state, AF_FACT_KNOWN);
}

static void test_shadow__finds_a_file(void **state)
{
    struct place *place = *state;
    write_file(place, "torch.py");
    look(place, no_variables);
    assert_int_equal(place->machine.python.shadowed_by.state, AF_FACT_KNOWN);
}

static void test_shadow__a_folder_without_a_module_is_none(void **state)
{
    struct place *place = *state;
    look(place, no_variables);
    assert_int_equal(place->machine.python.shadowed_by.state, AF_FACT_ABSENT);
}

static void test_shadow__a_tree_built_in_place_is_none(void **state)
{
    struct place *place = *state;
    write_file(place, "flash_attn/__init__.py");
    write_file(place, "flash_attn_2_cuda.cpython-312.so");
    look(place, no_variables);
    assert_int_equal(place->machine.python.shadowed_by.state, AF_FACT_ABSENT);
}

static void test_shadow__a_safe_path_hides_the_folder(void **state)
{
    static char variable[] = "PYTHONSAFEPATH=1";
    static char *const safe[] = {variable, NULL};
    struct place *place = *state;
    write_file(place, "flash_attn/__init__.py");
    look(place, safe);
    assert_int_equal(place->machine.python.shadowed_by.state, AF_FACT_ABSENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shadow__finds_a_source_tree, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_shadow__finds_a_file, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_shadow__a_folder_without_a_module_is_none,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_shadow__a_tree_built_in_place_is_none, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_shadow__a_safe_path_hides_the_folder, make_place,
                                        remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
