/*
 * test_python.c: the probe of the Python environment, on intact and broken
 * machines in temporary folders.
 */
#include "fake.h"
#include "tests/unit/every_allocation.h"

#define SYSCONFIG(flags, minor)                                                                \
    "# system configuration\nbuild_time_vars = {'ABIFLAGS': '" flags "',\n"                    \
    " 'EXT_SUFFIX': '.cpython-3" minor flags "-x86_64-linux-gnu.so',\n"                        \
    " 'SOABI': 'cpython-3" minor flags "-x86_64-linux-gnu'}\n"

/* An installation of Python 3.13.7 under /opt/python, glibc 2.31. */
static void make_python(struct fake *fake)
{
    fake_elf(fake, "/opt/python/bin/python3.13", "python-3.13");
    fake_link(fake, "/opt/python/bin/python3", "python3.13");
    fake_link(fake, "/opt/python/bin/python", "python3");
    fake_file(fake, "/opt/python/lib/python3.13/os.py", "");
    fake_file(fake, "/opt/python/lib/python3.13/_sysconfigdata__linux_x86_64-linux-gnu.py",
              SYSCONFIG("", "13"));
    fake_file(fake, "/opt/python/lib/python3.13/site-packages/a.txt", "");
    fake_elf(fake, "/lib/x86_64-linux-gnu/ld-2.31.so", "glibc-2.31");
    fake_link(fake, "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/ld-2.31.so");
    fake_elf(fake, "/lib/x86_64-linux-gnu/libc.so.6", "glibc-2.31");
}

static void make_venv(struct fake *fake, const char *prefix)
{
    char path[256];
    snprintf(path, sizeof path, "%s/pyvenv.cfg", prefix);
    fake_file(fake, path, "home = /opt/python/bin\nversion_info = 3.13.7\n");
    snprintf(path, sizeof path, "%s/bin/python", prefix);
    fake_link(fake, path, "/opt/python/bin/python3");
    snprintf(path, sizeof path, "%s/lib/python3.13/site-packages/a.txt", prefix);
    fake_file(fake, path, "");
}

static struct af_python *probe_python(struct fake *fake)
{
    struct anyflash_error err = {0};
    assert_int_equal(af_probe_python(&fake->probe, &err), ANYFLASH_OK);
    return &fake->machine.python;
}

static void test_python__venv_of_virtual_env_is_read_from_files(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    make_venv(&fake, "/venv");
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(&fake);
    assert_fact_ends(python->prefix, "/venv");
    assert_fact(python->kind, "venv");
    assert_fact(python->chosen_by, "VIRTUAL_ENV");
    assert_fact_ends(python->base_executable, "/opt/python/bin/python3.13");
    assert_fact(python->implementation, "cpython");
    assert_fact(python->version, "3.13.7");
    assert_fact(python->abi_flags, "");
    assert_fact(python->soabi, "cpython-313-x86_64-linux-gnu");
    assert_fact(python->ext_suffix, ".cpython-313-x86_64-linux-gnu.so");
    assert_int_equal(python->site_packages.value.list.count, 1);
    assert_true(af_ends_with(python->site_packages.value.list.items[0],
                             "/venv/lib/python3.13/site-packages"));
    assert_int_equal(af_fact_truth(&python->externally_managed), AF_NO);
    assert_int_equal(af_fact_truth(&python->writable), AF_YES);
    fake_end(&fake);
}

static void test_python__platform_tags_follow_the_interpreters_own_libc(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_variable(&fake, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(&fake);
    assert_int_equal(python->platform_tags.state, AF_FACT_KNOWN);
    assert_string_equal(python->platform_tags.value.list.items[0], "linux_x86_64");
    assert_string_equal(python->platform_tags.value.list.items[1], "manylinux_2_31_x86_64");
    fake_end(&fake);
}

static void test_python__libc_without_banner_is_dated_by_its_symbol_versions(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_elf(&fake, "/lib/x86_64-linux-gnu/libc.so.6", "glibc-no-banner");
    fake_variable(&fake, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(&fake);
    assert_string_equal(python->platform_tags.value.list.items[1], "manylinux_2_30_x86_64");
    fake_end(&fake);
}

static void test_python__musl_gives_musllinux_and_alpha_versions_are_spelled(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_elf(&fake, "/usr/bin/python3.15", "python-musl");
    fake_link(&fake, "/usr/bin/python3", "python3.15");
    fake_file(&fake, "/usr/lib/python3.15/os.py", "");
    fake_elf(&fake, "/lib/ld-musl-x86_64.so.1", "musl-1.2.4");
    fake_variable(&fake, "PATH=/usr/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->version, "3.15.0a2");
    assert_string_equal(python->platform_tags.value.list.items[1], "musllinux_1_2_x86_64");
    assert_unknown(python->soabi, "_sysconfigdata");
    fake_end(&fake);
}

static void test_python__old_binary_is_dated_by_its_text(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_elf(&fake, "/usr/bin/python3.9", "python-3.9");
    fake_file(&fake, "/usr/lib/python3.9/os.py", "");
    fake_link(&fake, "/usr/bin/python3", "python3.9");
    fake_variable(&fake, "PATH=/usr/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->version, "3.9.18");
    assert_unknown(python->platform_tags, "libc.so.6");
    fake_end(&fake);
}

static void test_python__free_threaded_build_has_the_t_flag(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_elf(&fake, "/opt/t/bin/python3.13t", "python-3.13");
    fake_link(&fake, "/opt/t/bin/python3", "python3.13t");
    fake_file(&fake, "/opt/t/lib/python3.13t/os.py", "");
    fake_file(&fake, "/opt/t/lib/python3.13t/_sysconfigdata_t_linux_x86_64-linux-gnu.py",
              SYSCONFIG("t", "13"));
    fake_file(&fake, "/opt/t/lib/python3.13t/site-packages/x", "");
    fake_variable(&fake, "PATH=/opt/t/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->abi_flags, "t");
    assert_fact(python->soabi, "cpython-313t-x86_64-linux-gnu");
    assert_true(af_ends_with(python->site_packages.value.list.items[0],
                             "/opt/t/lib/python3.13t/site-packages"));
    fake_end(&fake);
}

static void test_python__build_details_are_preferred(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_file(&fake, "/opt/python/lib/python3.13/build-details.json",
              "{\"abi\":{\"flags\":[\"t\"],\"extension_suffix\":\".cpython-314-x.so\"}}");
    fake_variable(&fake, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->ext_suffix, ".cpython-314-x.so");
    assert_fact(python->soabi, "cpython-314-x");
    fake_end(&fake);
}

static void test_python__virtual_env_without_cfg_is_passed_over(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_file(&fake, "/venv/readme", "");
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    fake_variable(&fake, "PATH=/nowhere:/opt/python/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->chosen_by, "PATH");
    assert_fact_ends(python->prefix, "/opt/python");
    assert_fact(python->kind, "system");
    fake_end(&fake);
}

static void test_python__dot_venv_of_a_parent_folder_is_found(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    make_venv(&fake, "/u/me/.venv");
    fake_file(&fake, "/u/me/project/x", "");
    fake_variable(&fake, "PATH=/opt/python/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->chosen_by, ".venv");
    assert_fact_ends(python->prefix, "/u/me/.venv");
    fake_end(&fake);
}

static void test_python__dot_venv_without_cfg_is_chosen_and_unknown(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_file(&fake, "/u/me/project/.venv/readme", "");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->chosen_by, ".venv");
    assert_unknown(python->version, ".venv/bin/python");
    assert_unknown(python->site_packages, "pyvenv.cfg");
    fake_end(&fake);
}

static void test_python__conda_prefix_needs_conda_meta(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_file(&fake, "/opt/python/conda-meta/history", "");
    fake_variable(&fake, "CONDA_PREFIX=/opt/python");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->chosen_by, "CONDA_PREFIX");
    assert_fact(python->kind, "conda");
    fake_end(&fake);
}

static void test_python__pyenv_shim_leads_to_the_version_in_force(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_file(&fake, "/u/me/.pyenv/shims/python3", "#!/bin/sh\n");
    fake_file(&fake, "/u/me/.pyenv/version", "3.11.7\n");
    fake_file(&fake, "/u/me/.python-version", "2.7 3.13\n");
    fake_link(&fake, "/u/me/.pyenv/versions/3.13.6/bin", "/nowhere");
    fake_link(&fake, "/u/me/.pyenv/versions/3.13.7", "/opt/python");
    fake_file(&fake, "/u/me/project/x", "");
    fake_variable(&fake, "HOME=/u/me");
    fake_variable(&fake, "PATH=/u/me/.pyenv/shims:/usr/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->chosen_by, "pyenv");
    assert_fact(python->kind, "pyenv");
    assert_fact(python->version, "3.13.7");
    fake_end(&fake);
}

static void test_python__system_python_of_debian_has_dist_packages(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_elf(&fake, "/usr/bin/python3.13", "python-3.13");
    fake_link(&fake, "/usr/bin/python3", "python3.13");
    fake_file(&fake, "/usr/lib/python3.13/os.py", "");
    fake_file(&fake, "/usr/lib/python3.13/EXTERNALLY-MANAGED", "");
    fake_file(&fake, "/usr/lib/python3/dist-packages/more.pth",
              "# comment\nimport os; evil()\n../extra\n/nowhere\n");
    fake_file(&fake, "/usr/lib/python3/extra/x", "");
    fake_file(&fake, "/usr/local/lib/python3.13/dist-packages/x", "");
    fake_file(&fake, "/u/me/.local/lib/python3.13/site-packages/x", "");
    fake_variable(&fake, "HOME=/u/me");
    fake_variable(&fake, "PATH=/usr/bin");
    struct af_python *python = probe_python(&fake);
    static const char *const expected[] = {
        "/u/me/.local/lib/python3.13/site-packages", "/usr/local/lib/python3.13/dist-packages",
        "/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages/../extra"};
    assert_int_equal(python->site_packages.value.list.count, AF_COUNT(expected));
    for (size_t i = 0; i < AF_COUNT(expected); i++)
        assert_true(af_ends_with(python->site_packages.value.list.items[i], expected[i]));
    assert_int_equal(af_fact_truth(&python->externally_managed), AF_YES);
    fake_end(&fake);
}

static void test_python__dangling_interpreter_is_unknown_and_named(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_file(&fake, "/venv/pyvenv.cfg", "home = /gone\nversion_info = 3.12.4\n");
    fake_link(&fake, "/venv/bin/python", "/gone/python3.12");
    fake_file(&fake, "/venv/lib/python3.12/site-packages/x", "");
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(&fake);
    assert_unknown(python->version, "/venv/bin/python' is a broken link to");
    assert_unknown(python->base_executable, "/gone/python3.12");
    assert_unknown(python->platform_tags, "/venv/bin/python");
    assert_int_equal(python->problem.state, AF_FACT_KNOWN);
    assert_fact_ends(python->problem, "/gone/python3.12'");
    assert_int_equal(python->site_packages.state, AF_FACT_KNOWN);
    fake_end(&fake);
}

static void test_python__loop_of_links_ends(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_file(&fake, "/venv/pyvenv.cfg", "home = /gone\n");
    fake_link(&fake, "/venv/bin/python", "python3");
    fake_link(&fake, "/venv/bin/python3", "python");
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(&fake);
    assert_unknown(python->version, "/venv/bin/python");
    fake_end(&fake);
}

static void test_python__huge_cfg_is_not_read(void **state)
{
    struct fake fake;
    char place[1024];
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    make_venv(&fake, "/venv");
    assert_int_equal(truncate(fake_place(&fake, "/venv/pyvenv.cfg", place), 200 << 20), 0);
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->version, "3.13.7");
    assert_unknown(python->site_packages, "pyvenv.cfg");
    fake_end(&fake);
}

static void test_python__fifo_for_cfg_does_not_block(void **state)
{
    struct fake fake;
    char place[1024];
    (void)state;
    fake_start(&fake);
    assert_int_equal(mkfifo(fake_place(&fake, "/venv/pyvenv.cfg", place), 0600), 0);
    assert_int_equal(mkfifo(fake_place(&fake, "/venv/bin/python", place), 0700), 0);
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    struct af_python *python = probe_python(&fake);
    assert_unknown(python->version, "/venv/bin/python");
    assert_unknown(python->site_packages, "pyvenv.cfg");
    fake_end(&fake);
}

static void test_python__unreadable_folder_is_unknown(void **state)
{
    struct fake fake;
    char place[1024];
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    make_venv(&fake, "/venv");
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    chmod(fake_place(&fake, "/opt/python", place), 0);
    struct af_python *python = probe_python(&fake);
    chmod(place, 0755);
    if (geteuid() != 0)
        assert_unknown(python->version, "/venv/bin/python");
    fake_end(&fake);
}

static void test_python__names_with_escapes_are_scrubbed(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    make_venv(&fake, "/ve\x1b[31m\xff");
    fake_variable(&fake, "VIRTUAL_ENV=/ve\x1b[31m\xff");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->version, "3.13.7");
    assert_null(strchr(python->prefix.value.text, '\x1b'));
    assert_null(strchr(python->site_packages.value.list.items[0], '\x1b'));
    fake_end(&fake);
}

static void test_python__other_implementations_are_named_and_refused(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_elf(&fake, "/opt/pypy/bin/pypy3.11", "python-3.13");
    fake_link(&fake, "/opt/pypy/bin/python3", "pypy3.11");
    fake_variable(&fake, "PATH=/opt/pypy/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->implementation, "pypy");
    assert_unknown(python->version, "not CPython");
    fake_end(&fake);
}

static void test_python__none_at_all_is_absent(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    struct af_python *python = probe_python(&fake);
    assert_int_equal(python->version.state, AF_FACT_ABSENT);
    assert_int_equal(python->site_packages.state, AF_FACT_ABSENT);
    fake_end(&fake);
}

static void test_python__named_interpreter_that_is_none_fails(void **state)
{
    struct fake fake;
    struct anyflash_error err = {0};
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_elf(&fake, "/usr/bin/ls", "python-3.13");
    static const char *const wrong[] = {"/nowhere", "/usr/bin/ls", "9.9", "no\x1bsuch", ""};
    for (size_t i = 0; i < AF_COUNT(wrong); i++) {
        fake.options.python = wrong[i];
        assert_int_equal(af_probe_python(&fake.probe, &err), ANYFLASH_E_NOT_FOUND);
        assert_non_null(strstr(err.message, "interpreter"));
        assert_null(strchr(err.message, '\x1b'));
    }
    fake.options.python = "/opt/python";
    assert_fact(probe_python(&fake)->version, "3.13.7");
    fake_end(&fake);
}

static void test_python__named_environment_without_interpreter_is_broken(void **state)
{
    static const char *const named[] = {"/v", "/v/bin/python"};
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_file(&fake, "/v/pyvenv.cfg", "home = /gone/bin\n");
    fake_link(&fake, "/v/bin/python", "/gone/bin/python3.13");
    for (size_t i = 0; i < AF_COUNT(named); i++) {
        fake.options.python = named[i];
        assert_int_equal(probe_python(&fake)->problem.state, AF_FACT_KNOWN);
    }
    fake_end(&fake);
}

static void test_python__version_asked_for_may_be_one_of_uvs_or_pyenvs(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    fake_link(&fake, "/u/me/.local/share/uv/python/cpython-3.13.7-linux-x86_64-gnu",
              "/opt/python");
    fake_variable(&fake, "HOME=/u/me");
    fake.options.python = "3.13";
    struct af_python *python = probe_python(&fake);
    assert_fact(python->version, "3.13.7");
    assert_fact(python->chosen_by, "--python");
    assert_true(strstr(python->executable.value.text, "uv/python") != NULL);
    fake_end(&fake);
}

static void test_python__debug_build_is_seen_by_its_only_sysconfig_file(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    fake_elf(&fake, "/opt/d/bin/python3.13", "python-3.13");
    fake_link(&fake, "/opt/d/bin/python3", "python3.13");
    fake_file(&fake, "/opt/d/lib/python3.13/os.py", "");
    fake_file(&fake, "/opt/d/lib/python3.13/_sysconfigdata_d_linux_x86_64-linux-gnu.py",
              SYSCONFIG("d", "13"));
    fake_variable(&fake, "PATH=/opt/d/bin");
    struct af_python *python = probe_python(&fake);
    assert_fact(python->abi_flags, "d");
    assert_fact(python->soabi, "cpython-313d-x86_64-linux-gnu");
    fake_end(&fake);
}

static void test_python__every_lack_of_memory_is_reported(void **state)
{
    struct fake fake;
    (void)state;
    fake_start(&fake);
    make_python(&fake);
    make_venv(&fake, "/venv");
    fake_file(&fake, "/opt/python/lib/python3.13/build-details.json", "{\"abi\":{}}");
    fake_variable(&fake, "VIRTUAL_ENV=/venv");
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        af_machine_release(&fake.machine);
        fake_probe_reset(&fake);
        every_allocation_begin(&each);
        enum anyflash_status status = af_probe_python(&fake.probe, NULL);
        every_allocation_end(&each);
        every_allocation_check(&each, status, NULL);
    }
    fake_end(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python__venv_of_virtual_env_is_read_from_files),
        cmocka_unit_test(test_python__platform_tags_follow_the_interpreters_own_libc),
        cmocka_unit_test(test_python__libc_without_banner_is_dated_by_its_symbol_versions),
        cmocka_unit_test(test_python__musl_gives_musllinux_and_alpha_versions_are_spelled),
        cmocka_unit_test(test_python__old_binary_is_dated_by_its_text),
        cmocka_unit_test(test_python__free_threaded_build_has_the_t_flag),
        cmocka_unit_test(test_python__build_details_are_preferred),
        cmocka_unit_test(test_python__virtual_env_without_cfg_is_passed_over),
        cmocka_unit_test(test_python__dot_venv_of_a_parent_folder_is_found),
        cmocka_unit_test(test_python__dot_venv_without_cfg_is_chosen_and_unknown),
        cmocka_unit_test(test_python__conda_prefix_needs_conda_meta),
        cmocka_unit_test(test_python__pyenv_shim_leads_to_the_version_in_force),
        cmocka_unit_test(test_python__system_python_of_debian_has_dist_packages),
        cmocka_unit_test(test_python__dangling_interpreter_is_unknown_and_named),
        cmocka_unit_test(test_python__loop_of_links_ends),
        cmocka_unit_test(test_python__huge_cfg_is_not_read),
        cmocka_unit_test(test_python__fifo_for_cfg_does_not_block),
        cmocka_unit_test(test_python__unreadable_folder_is_unknown),
        cmocka_unit_test(test_python__names_with_escapes_are_scrubbed),
        cmocka_unit_test(test_python__other_implementations_are_named_and_refused),
        cmocka_unit_test(test_python__none_at_all_is_absent),
        cmocka_unit_test(test_python__named_interpreter_that_is_none_fails),
        cmocka_unit_test(test_python__named_environment_without_interpreter_is_broken),
        cmocka_unit_test(test_python__version_asked_for_may_be_one_of_uvs_or_pyenvs),
        cmocka_unit_test(test_python__debug_build_is_seen_by_its_only_sysconfig_file),
        cmocka_unit_test(test_python__every_lack_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
