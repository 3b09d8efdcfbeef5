/*
 * test_systemd_scope.c: the messages about groups and scopes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kit/compile/governor/build_cgroup.h"

static void expect(const struct af_govern_build_cgroup *cgroup, uint64_t limit,
                   const char *expected)
{
    char text[AF_GOVERN_BUILD_CGROUP_BYTES];
    af_govern_build_cgroup_text(cgroup, limit, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_what_systemd_refused_is_told(void **state)
{
    const struct af_govern_build_cgroup cgroup = {.scope_reason = "Failed to connect to bus"};
    (void)state;
    expect(&cgroup, 1,
           "the build has no control group of its own (this system has no control groups; "
           "systemd-run: Failed to connect to bus)");
}

static void test_scope_that_limits_nothing_is_not_said_to_limit(void **state)
{
    struct af_govern_build_cgroup cgroup = {.scope = true};
    (void)state;
    expect(&cgroup, UINT64_C(1) << 30,
           "the build runs in a systemd scope, which does not limit its memory");
    cgroup.limits = true;
    expect(&cgroup, UINT64_C(1) << 30, "the build runs in a systemd scope, limited to 1.0 GiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_systemd_refused_is_told),
        cmocka_unit_test(test_scope_that_limits_nothing_is_not_said_to_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
