/*
 * test_python.c: the probe of the Python environment, on intact and broken
 * machines in temporary folders.
 */
#include "machine_place.h"

#define SYSCONFIG(flags, minor)                                                                \
    "# system configuration\nbuild_time_vars = {'ABIFLAGS': '" flags "',\n"                    \
    " 'EXT_SUFFIX': '.cpython-3" minor flags "-x86_64-linux-gnu.so',\n"                        \
    " 'SOABI': 'cpython-3" minor flags "-x86_64-linux-gnu'}\n"

/* An installation of Python 3.13.7 under /opt/python, glibc 2.31. */
static void make_python(struct place *place)
{
    place_elf(place, "/opt/python/bin/python3.13", "python-3.13");
    place_link(place, "/opt/python/bin/python3", "python3.13");
    place_link(place, "/opt/python/bin/python", "python3");
    place_put(place, "/opt/python/lib/python3.13/os.py", "");
    place_put(place, "/opt/python/lib/python3.13/_sysconfigdata__linux_x86_64-linux-gnu.py",
              SYSCONFIG("", "13"));
    place_put(place, "/opt/python/lib/python3.13/site-packages/a.txt", "");
    place_elf(place, "/lib/x86_64-linux-gnu/ld-2.31.so", "glibc-2.31");
    place_link(place, "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/ld-2.31.so");
    place_elf(place, "/lib/x86_64-linux-gnu/libc.so.6", "glibc-2.31");
}

static void make_venv(struct place *place, const char *prefix)
{
    char path[256];
    snprintf(path, sizeof path, "%s/pyvenv.cfg", prefix);
    place_put(place, path, "home = /opt/python/bin\nversion_info = 3.13.7\n");
    snprintf(path, sizeof path, "%s/bin/python", prefix);
    place_link(place, path, "/opt/python/bin/python3");
    snprintf(path, sizeof path, "%s/lib/python3.13/site-packages/a.txt", prefix);
    place_put(place, path, "");
}

/* A place whose project is below a home. */
static int make_home(void **state)
{
    int status = place_make(state);
    struct place *place = *state;
    if (status == 0)
        place->options.folder = af_arena_format(&place->arena, "%s/u/me/project", place->root);
    return status;
}

static struct af_python *probe_python(struct place *place)
{
    struct anyflash_error err = {0};
    assert_int_equal(af_probe_python(&place->probe, &err), ANYFLASH_OK);
    return &place->machine.python;
}

static void test_python__venv_of_virtual_env_is_read_from_files(void **state)
{
    struct place *place = *state;
    make_python(place);
    make_venv(place, "/venv");
    place_set(place, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(place);
    assert_fact_ends(&python->prefix, "/venv");
    assert_fact(&python->kind, "venv");
    assert_fact(&python->chosen_by, "VIRTUAL_ENV");
    assert_fact_ends(&python->base_executable, "/opt/python/bin/python3.13");
    assert_fact(&python->implementation, "cpython");
    assert_fact(&python->version, "3.13.7");
    assert_fact(&python->abi_flags, "");
    assert_fact(&python->soabi, "cpython-313-x86_64-linux-gnu");
    assert_fact(&python->ext_suffix, ".cpython-313-x86_64-linux-gnu.so");
    assert_int_equal(python->site_packages.value.list.count, 1);
    assert_true(af_ends_with(python->site_packages.value.list.items[0],
                             "/venv/lib/python3.13/site-packages"));
    assert_int_equal(af_fact_truth(&python->externally_managed), AF_NO);
    assert_int_equal(af_fact_truth(&python->writable), AF_YES);
}

static void test_python__platform_tags_follow_the_interpreters_own_libc(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_set(place, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(place);
    assert_int_equal(python->platform_tags.state, AF_FACT_KNOWN);
    assert_string_equal(python->platform_tags.value.list.items[0], "linux_x86_64");
    assert_string_equal(python->platform_tags.value.list.items[1], "manylinux_2_31_x86_64");
}

static void test_python__libc_without_banner_is_dated_by_its_symbol_versions(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_elf(place, "/lib/x86_64-linux-gnu/libc.so.6", "glibc-no-banner");
    place_set(place, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(place);
    assert_string_equal(python->platform_tags.value.list.items[1], "manylinux_2_30_x86_64");
}

static void test_python__musl_gives_musllinux_and_alpha_versions_are_spelled(void **state)
{
    struct place *place = *state;
    place_elf(place, "/usr/bin/python3.15", "python-musl");
    place_link(place, "/usr/bin/python3", "python3.15");
    place_put(place, "/usr/lib/python3.15/os.py", "");
    place_elf(place, "/lib/ld-musl-x86_64.so.1", "musl-1.2.4");
    place_set(place, "PATH=/usr/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->version, "3.15.0a2");
    assert_string_equal(python->platform_tags.value.list.items[1], "musllinux_1_2_x86_64");
    assert_unknown(&python->soabi, "_sysconfigdata");
}

static void test_python__old_binary_is_dated_by_its_text(void **state)
{
    struct place *place = *state;
    place_elf(place, "/usr/bin/python3.9", "python-3.9");
    place_put(place, "/usr/lib/python3.9/os.py", "");
    place_link(place, "/usr/bin/python3", "python3.9");
    place_set(place, "PATH=/usr/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->version, "3.9.18");
    assert_unknown(&python->platform_tags, "libc.so.6");
}

static void test_python__free_threaded_build_has_the_t_flag(void **state)
{
    struct place *place = *state;
    place_elf(place, "/opt/t/bin/python3.13t", "python-3.13");
    place_link(place, "/opt/t/bin/python3", "python3.13t");
    place_put(place, "/opt/t/lib/python3.13t/os.py", "");
    place_put(place, "/opt/t/lib/python3.13t/_sysconfigdata_t_linux_x86_64-linux-gnu.py",
              SYSCONFIG("t", "13"));
    place_put(place, "/opt/t/lib/python3.13t/site-packages/x", "");
    place_set(place, "PATH=/opt/t/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->abi_flags, "t");
    assert_fact(&python->soabi, "cpython-313t-x86_64-linux-gnu");
    assert_true(af_ends_with(python->site_packages.value.list.items[0],
                             "/opt/t/lib/python3.13t/site-packages"));
}

static void test_python__build_details_are_preferred(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_put(place, "/opt/python/lib/python3.13/build-details.json",
              "{\"abi\":{\"flags\":[\"t\"],\"extension_suffix\":\".cpython-314-x.so\"}}");
    place_set(place, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->ext_suffix, ".cpython-314-x.so");
    assert_fact(&python->soabi, "cpython-314-x");
}

static void test_python__virtual_env_without_cfg_is_passed_over(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_put(place, "/venv/readme", "");
    place_set(place, "VIRTUAL_ENV=/venv");
    place_set(place, "PATH=/nowhere:/opt/python/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->chosen_by, "PATH");
    assert_fact_ends(&python->prefix, "/opt/python");
    assert_fact(&python->kind, "system");
}

static void test_python__dot_venv_of_a_parent_folder_is_found(void **state)
{
    struct place *place = *state;
    make_python(place);
    make_venv(place, "/u/me/.venv");
    place_put(place, "/u/me/project/x", "");
    place_set(place, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->chosen_by, ".venv");
    assert_fact_ends(&python->prefix, "/u/me/.venv");
}

static void test_python__dot_venv_without_cfg_is_chosen_and_unknown(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_put(place, "/u/me/project/.venv/readme", "");
    struct af_python *python = probe_python(place);
    assert_fact(&python->chosen_by, ".venv");
    assert_unknown(&python->version, ".venv/bin/python");
    assert_unknown(&python->site_packages, "pyvenv.cfg");
}

static void test_python__conda_prefix_needs_conda_meta(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_put(place, "/opt/python/conda-meta/history", "");
    place_set(place, "CONDA_PREFIX=/opt/python");
    struct af_python *python = probe_python(place);
    assert_fact(&python->chosen_by, "CONDA_PREFIX");
    assert_fact(&python->kind, "conda");
}

static void test_python__pyenv_shim_leads_to_the_version_in_force(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_put_program(place, "/u/me/.pyenv/shims/python3", "#!/bin/sh\n");
    place_put(place, "/u/me/.pyenv/version", "3.11.7\n");
    place_put(place, "/u/me/.python-version", "2.7 3.13\n");
    place_link(place, "/u/me/.pyenv/versions/3.13.6/bin", "/nowhere");
    place_link(place, "/u/me/.pyenv/versions/3.13.7", "/opt/python");
    place_put(place, "/u/me/project/x", "");
    place_set(place, "HOME=/u/me");
    place_set(place, "PATH=/u/me/.pyenv/shims:/usr/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->chosen_by, "pyenv");
    assert_fact(&python->kind, "pyenv");
    assert_fact(&python->version, "3.13.7");
}

static void test_python__system_python_of_debian_has_dist_packages(void **state)
{
    struct place *place = *state;
    place_elf(place, "/usr/bin/python3.13", "python-3.13");
    place_link(place, "/usr/bin/python3", "python3.13");
    place_put(place, "/usr/lib/python3.13/os.py", "");
    place_put(place, "/usr/lib/python3.13/EXTERNALLY-MANAGED", "");
    place_put(place, "/usr/lib/python3/dist-packages/more.pth",
              "# comment\nimport os; evil()\n../extra\n/nowhere\n");
    place_put(place, "/usr/lib/python3/extra/x", "");
    place_put(place, "/usr/local/lib/python3.13/dist-packages/x", "");
    place_put(place, "/u/me/.local/lib/python3.13/site-packages/x", "");
    place_set(place, "HOME=/u/me");
    place_set(place, "PATH=/usr/bin");
    struct af_python *python = probe_python(place);
    static const char *const expected[] = {
        "/u/me/.local/lib/python3.13/site-packages", "/usr/local/lib/python3.13/dist-packages",
        "/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages/../extra"};
    assert_int_equal(python->site_packages.value.list.count, AF_COUNT(expected));
    for (size_t i = 0; i < AF_COUNT(expected); i++)
        assert_true(af_ends_with(python->site_packages.value.list.items[i], expected[i]));
    assert_int_equal(af_fact_truth(&python->externally_managed), AF_YES);
}

static void test_python__dangling_interpreter_is_unknown_and_named(void **state)
{
    struct place *place = *state;
    place_put(place, "/venv/pyvenv.cfg", "home = /gone\nversion_info = 3.12.4\n");
    place_link(place, "/venv/bin/python", "/gone/python3.12");
    place_put(place, "/venv/lib/python3.12/site-packages/x", "");
    place_set(place, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(place);
    assert_unknown(&python->version, "/venv/bin/python' is a broken link to");
    assert_unknown(&python->base_executable, "/gone/python3.12");
    assert_unknown(&python->platform_tags, "/venv/bin/python");
    assert_int_equal(python->problem.state, AF_FACT_KNOWN);
    assert_fact_ends(&python->problem, "/gone/python3.12'");
    assert_int_equal(python->site_packages.state, AF_FACT_KNOWN);
}

static void test_python__loop_of_links_ends(void **state)
{
    struct place *place = *state;
    place_put(place, "/venv/pyvenv.cfg", "home = /gone\n");
    place_link(place, "/venv/bin/python", "python3");
    place_link(place, "/venv/bin/python3", "python");
    place_set(place, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(place);
    assert_unknown(&python->version, "/venv/bin/python");
}

static void test_python__huge_cfg_is_not_read(void **state)
{
    struct place *place = *state;
    make_python(place);
    make_venv(place, "/venv");
    assert_int_equal(truncate(place_path(place, "/venv/pyvenv.cfg"), 200 << 20), 0);
    place_set(place, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(place);
    assert_fact(&python->version, "3.13.7");
    assert_unknown(&python->site_packages, "pyvenv.cfg");
}

static void test_python__fifo_for_cfg_does_not_block(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkfifo(place_path(place, "/venv/pyvenv.cfg"), 0600), 0);
    assert_int_equal(mkfifo(place_path(place, "/venv/bin/python"), 0700), 0);
    place_set(place, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(place);
    assert_unknown(&python->version, "/venv/bin/python");
    assert_unknown(&python->site_packages, "pyvenv.cfg");
}

static void test_python__unreadable_folder_is_unknown(void **state)
{
    struct place *place = *state;
    make_python(place);
    make_venv(place, "/venv");
    place_set(place, "VIRTUAL_ENV=/venv");
    chmod(place_path(place, "/opt/python"), 0);
    struct af_python *python = probe_python(place);
    chmod(place_path(place, "/opt/python"), 0755);
    if (geteuid() != 0)
        assert_unknown(&python->version, "/venv/bin/python");
}

static void test_python__names_with_escapes_are_scrubbed(void **state)
{
    struct place *place = *state;
    make_python(place);
    make_venv(place, "/ve\x1b[31m\xff");
    place_set(place, "VIRTUAL_ENV=/ve\x1b[31m\xff");
    struct af_python *python = probe_python(place);
    assert_fact(&python->version, "3.13.7");
    assert_null(strchr(python->prefix.value.text, '\x1b'));
    assert_null(strchr(python->site_packages.value.list.items[0], '\x1b'));
}

static void test_python__other_implementations_are_named_and_refused(void **state)
{
    struct place *place = *state;
    place_elf(place, "/opt/pypy/bin/pypy3.11", "python-3.13");
    place_link(place, "/opt/pypy/bin/python3", "pypy3.11");
    place_set(place, "PATH=/opt/pypy/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->implementation, "pypy");
    assert_unknown(&python->version, "not CPython");
}

static void test_python__none_at_all_is_absent(void **state)
{
    struct place *place = *state;
    struct af_python *python = probe_python(place);
    assert_int_equal(python->version.state, AF_FACT_ABSENT);
    assert_int_equal(python->site_packages.state, AF_FACT_ABSENT);
}

static void test_python__named_interpreter_that_is_none_fails(void **state)
{
    struct place *place = *state;
    struct anyflash_error err = {0};
    make_python(place);
    place_elf(place, "/usr/bin/ls", "python-3.13");
    static const char *const wrong[] = {"/nowhere", "/usr/bin/ls", "9.9", "no\x1bsuch", ""};
    for (size_t i = 0; i < AF_COUNT(wrong); i++) {
        place->options.python = wrong[i];
        assert_int_equal(af_probe_python(&place->probe, &err), ANYFLASH_E_NOT_FOUND);
        assert_non_null(strstr(err.message, "interpreter"));
        assert_null(strchr(err.message, '\x1b'));
    }
    place->options.python = "/opt/python";
    assert_fact(&probe_python(place)->version, "3.13.7");
}

static void test_python__named_environment_without_interpreter_is_broken(void **state)
{
    static const char *const named[] = {"/v", "/v/bin/python"};
    struct place *place = *state;
    place_put(place, "/v/pyvenv.cfg", "home = /gone/bin\n");
    place_link(place, "/v/bin/python", "/gone/bin/python3.13");
    for (size_t i = 0; i < AF_COUNT(named); i++) {
        place->options.python = named[i];
        assert_int_equal(probe_python(place)->problem.state, AF_FACT_KNOWN);
    }
}

static void test_python__version_asked_for_may_be_one_of_uvs_or_pyenvs(void **state)
{
    struct place *place = *state;
    make_python(place);
    place_link(place, "/u/me/.local/share/uv/python/cpython-3.13.7-linux-x86_64-gnu",
               "/opt/python");
    place_set(place, "HOME=/u/me");
    place->options.python = "3.13";
    struct af_python *python = probe_python(place);
    assert_fact(&python->version, "3.13.7");
    assert_fact(&python->chosen_by, "--python");
    assert_true(strstr(python->executable.value.text, "uv/python") != NULL);
}

static void test_python__debug_build_is_seen_by_its_only_sysconfig_file(void **state)
{
    struct place *place = *state;
    place_elf(place, "/opt/d/bin/python3.13", "python-3.13");
    place_link(place, "/opt/d/bin/python3", "python3.13");
    place_put(place, "/opt/d/lib/python3.13/os.py", "");
    place_put(place, "/opt/d/lib/python3.13/_sysconfigdata_d_linux_x86_64-linux-gnu.py",
              SYSCONFIG("d", "13"));
    place_set(place, "PATH=/opt/d/bin");
    struct af_python *python = probe_python(place);
    assert_fact(&python->abi_flags, "d");
    assert_fact(&python->soabi, "cpython-313d-x86_64-linux-gnu");
}

#define HOME_TEST(name) cmocka_unit_test_setup_teardown(name, make_home, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOME_TEST(test_python__venv_of_virtual_env_is_read_from_files),
        HOME_TEST(test_python__platform_tags_follow_the_interpreters_own_libc),
        HOME_TEST(test_python__libc_without_banner_is_dated_by_its_symbol_versions),
        HOME_TEST(test_python__musl_gives_musllinux_and_alpha_versions_are_spelled),
        HOME_TEST(test_python__old_binary_is_dated_by_its_text),
        HOME_TEST(test_python__free_threaded_build_has_the_t_flag),
        HOME_TEST(test_python__build_details_are_preferred),
        HOME_TEST(test_python__virtual_env_without_cfg_is_passed_over),
        HOME_TEST(test_python__dot_venv_of_a_parent_folder_is_found),
        HOME_TEST(test_python__dot_venv_without_cfg_is_chosen_and_unknown),
        HOME_TEST(test_python__conda_prefix_needs_conda_meta),
        HOME_TEST(test_python__pyenv_shim_leads_to_the_version_in_force),
        HOME_TEST(test_python__system_python_of_debian_has_dist_packages),
        HOME_TEST(test_python__dangling_interpreter_is_unknown_and_named),
        HOME_TEST(test_python__loop_of_links_ends),
        HOME_TEST(test_python__huge_cfg_is_not_read),
        HOME_TEST(test_python__fifo_for_cfg_does_not_block),
        HOME_TEST(test_python__unreadable_folder_is_unknown),
        HOME_TEST(test_python__names_with_escapes_are_scrubbed),
        HOME_TEST(test_python__other_implementations_are_named_and_refused),
        HOME_TEST(test_python__none_at_all_is_absent),
        HOME_TEST(test_python__named_interpreter_that_is_none_fails),
        HOME_TEST(test_python__named_environment_without_interpreter_is_broken),
        HOME_TEST(test_python__version_asked_for_may_be_one_of_uvs_or_pyenvs),
        HOME_TEST(test_python__debug_build_is_seen_by_its_only_sysconfig_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
