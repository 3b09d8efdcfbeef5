/*
 * test_systemd_scope.c: finds the folder of a scope in /proc, and the messages
 * about groups and scopes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/compile/governor/build_cgroup.h"

#define USERS "/user.slice/user-7.slice/user@7.service/app.slice"

static char root[64];

static int make_root(void **state)
{
    char path[96];
    (void)state;
    snprintf(root, sizeof root, "/tmp/anyflash-test-XXXXXX");
    if (mkdtemp(root) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/proc", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/7", root);
    return mkdir(path, 0700);
}

static int remove_root(void **state)
{
    char path[96];
    (void)state;
    snprintf(path, sizeof path, "%s/proc/7/cgroup", root);
    unlink(path);
    snprintf(path, sizeof path, "%s/proc/7", root);
    rmdir(path);
    snprintf(path, sizeof path, "%s/proc", root);
    rmdir(path);
    return rmdir(root);
}

/* `expected` follows "ROOT/sys/fs/cgroup"; NULL: there is none. */
static void check(const char *groups, const char *expected)
{
    char path[256];
    struct af_arena arena;
    snprintf(path, sizeof path, "%s/proc/7/cgroup", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(groups, file);
    fclose(file);
    af_arena_init(&arena);
    const char *folder = af_systemd_scope_folder(&arena, root, 7);
    if (expected == NULL) {
        assert_null(folder);
    } else {
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, expected);
        assert_non_null(folder);
        assert_string_equal(folder, path);
    }
    af_arena_release(&arena);
}

static void test_scope_is_found_in_the_hierarchy_that_limits(void **state)
{
    (void)state;
    check("0::" USERS "/anyflash-build-9.scope\n", USERS "/anyflash-build-9.scope");
    check("4:memory:/system.slice/anyflash-build-9.scope\n"
          "1:name=systemd:/system.slice/anyflash-build-9.scope\n"
          "0::/system.slice/anyflash-build-9.scope\n",
          "/memory/system.slice/anyflash-build-9.scope");
}

static void test_groups_of_others_and_those_that_limit_nothing_are_no_scope(void **state)
{
    (void)state;
    check("0::/user.slice/user-7.slice/session-3.scope\n", NULL);
    check("0::/anyflash-build-9.scope/more\n", NULL);
    check("0::/x-anyflash-build-9.scope\n", NULL);
    check("0::" USERS "/anyflash-build-9.scope\n4:memory:/user.slice/user-7.slice\n", NULL);
    check("no line of that kind\n0::\n:\n", NULL);
    check("", NULL);
}

static void test_what_systemd_refused_is_told(void **state)
{
    char text[AF_GOVERN_BUILD_CGROUP_BYTES];
    struct af_govern_build_cgroup cgroup = {.reason = 0};
    const struct af_systemd_scope refused = {.problem = "Failed to connect to bus"};
    (void)state;
    af_govern_build_cgroup_use_scope(&cgroup, &refused);
    assert_false(cgroup.scope);
    af_govern_build_cgroup_text(&cgroup, 1, text, sizeof text);
    assert_string_equal(
        text, "the build has no control group of its own (this system has no control groups; "
              "systemd-run: Failed to connect to bus)");
}

static void test_scope_that_limits_nothing_is_not_said_to_limit(void **state)
{
    char text[AF_GOVERN_BUILD_CGROUP_BYTES];
    static const char *const argv[] = {"systemd-run", NULL};
    struct af_govern_build_cgroup cgroup = {.reason = 0};
    struct af_systemd_scope words = {.argv = argv};
    (void)state;
    af_govern_build_cgroup_use_scope(&cgroup, &words);
    assert_true(cgroup.scope);
    af_govern_build_cgroup_text(&cgroup, UINT64_C(1) << 30, text, sizeof text);
    assert_string_equal(text,
                        "the build runs in a systemd scope, which does not limit its memory");
    words.limits = true;
    af_govern_build_cgroup_use_scope(&cgroup, &words);
    af_govern_build_cgroup_text(&cgroup, UINT64_C(1) << 30, text, sizeof text);
    assert_string_equal(text, "the build runs in a systemd scope, limited to 1.0 GiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope_is_found_in_the_hierarchy_that_limits),
        cmocka_unit_test(test_groups_of_others_and_those_that_limit_nothing_are_no_scope),
        cmocka_unit_test(test_what_systemd_refused_is_told),
        cmocka_unit_test(test_scope_that_limits_nothing_is_not_said_to_limit),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
