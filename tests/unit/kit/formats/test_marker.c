/*
 * test_marker.c: markers from real METADATA, and texts that are not markers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/formats/metadata.h"

#include <string.h>

static const struct af_marker_environment here = {
    .python_full_version = "3.12.4",
    .os_name = "posix",
    .sys_platform = "linux",
    .platform_system = "Linux",
    .platform_machine = "x86_64",
    .implementation_name = "cpython",
    .platform_python_implementation = "CPython",
    .extra = "",
};

static enum af_answer ask(const char *marker)
{
    return af_marker_holds((struct af_span){marker, strlen(marker)}, &here);
}

struct row {
    const char *marker;
    enum af_answer answer;
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ask(rows[i].marker) != rows[i].answer)
            fail_msg("'%s' is %s", rows[i].marker, af_answer_text(ask(rows[i].marker)));
}

static void test_marker__compares_versions_as_versions(void **state)
{
    static const struct row rows[] = {
        {"python_version >= '3.9'", AF_YES},
        {"python_version < \"3.10\"", AF_NO},
        {"python_version>='3.10' and python_version<'3.13'", AF_YES},
        {"'3.9' <= python_version", AF_YES},
        {"\"3.13\" <= python_version", AF_NO},
        {"python_full_version == '3.12.*'", AF_YES},
        {"python_full_version < '3.12.4'", AF_NO},
        {"python_version == '3.12'", AF_YES},
        {"python_version ~= '3.8'", AF_YES},
        {"python_version not in '2.7, 3.4'", AF_YES},
        {"python_version in '3.11 3.12'", AF_YES},
    };
    (void)state;
    check(rows, AF_COUNT(rows));
}

static void test_marker__compares_texts(void **state)
{
    static const struct row rows[] = {
        {"", AF_YES},
        {"sys_platform == 'linux'", AF_YES},
        {"sys_platform != 'linux'", AF_NO},
        {"platform_system == \"Linux\" and platform_machine == \"x86_64\"", AF_YES},
        {"os_name == 'nt'", AF_NO},
        {"implementation_name == 'cpython'", AF_YES},
        {"platform_python_implementation != 'PyPy'", AF_YES},
        {"'linux' in sys_platform", AF_YES},
        {"platform.machine == 'aarch64'", AF_NO},
    };
    (void)state;
    check(rows, AF_COUNT(rows));
}

static void test_marker__an_extra_that_was_not_asked_for_is_none(void **state)
{
    static const struct row rows[] = {
        {"extra == 'test'", AF_NO},
        {"extra != 'test'", AF_YES},
        {"python_version >= '3.9' and extra == 'dev'", AF_NO},
    };
    (void)state;
    check(rows, AF_COUNT(rows));
    struct af_marker_environment with = here;
    with.extra = "my-extra";
    static const char text[] = "extra == 'My_Extra'";
    assert_int_equal(af_marker_holds((struct af_span){text, sizeof text - 1}, &with), AF_YES);
}

static void test_marker__joins_with_precedence_and_parentheses(void **state)
{
    static const struct row rows[] = {
        {"os_name == 'nt' and os_name == 'nt' or os_name == 'posix'", AF_YES},
        {"os_name == 'posix' or os_name == 'nt' and os_name == 'nt'", AF_YES},
        {"(os_name == 'posix' or os_name == 'nt') and os_name == 'nt'", AF_NO},
        {"((os_name=='posix'))", AF_YES},
        {"os_name == 'nt' or (sys_platform == 'linux' and (python_version > '3'))", AF_YES},
    };
    (void)state;
    check(rows, AF_COUNT(rows));
}

static void test_marker__what_is_not_known_stays_unknown_unless_it_does_not_matter(void **state)
{
    static const struct row rows[] = {
        {"platform_release >= '5'", AF_UNKNOWN},
        {"platform_release >= '5' and os_name == 'nt'", AF_NO},
        {"platform_release >= '5' or os_name == 'posix'", AF_YES},
        {"platform_version == 'x' or os_name == 'nt'", AF_UNKNOWN},
    };
    (void)state;
    check(rows, AF_COUNT(rows));
}

static void test_marker__what_is_no_marker_is_unknown(void **state)
{
    static const char *const texts[] = {"python_version",
                                        "python_version >=",
                                        "python_version >= '3.9",
                                        "python_version >= '3.9' and",
                                        "and",
                                        "()",
                                        "(os_name == 'posix'",
                                        "os_name == 'posix')",
                                        "os_name == 'posix' os_name == 'posix'",
                                        "my_variable == 'x'",
                                        "os_name is 'posix'",
                                        "not os_name == 'posix'",
                                        "((((((((((((((((((((os_name == 'posix'"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(texts); i++)
        if (ask(texts[i]) != AF_UNKNOWN)
            fail_msg("'%s' is %s", texts[i], af_answer_text(ask(texts[i])));
}

static void test_marker__sanitizers_find_nothing_at_any_truncation(void **state)
{
    static const char text[] = "(python_version >= '3.9' or os_name == \"nt\") and "
                               "extra == 'test' or sys_platform not in 'win32 darwin'";
    (void)state;
    for (size_t len = 0; len < sizeof text; len++) {
        char *copy = test_malloc(len + 1);
        memcpy(copy, text, len);
        af_marker_holds((struct af_span){copy, len}, &here);
        test_free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marker__compares_versions_as_versions),
        cmocka_unit_test(test_marker__compares_texts),
        cmocka_unit_test(test_marker__an_extra_that_was_not_asked_for_is_none),
        cmocka_unit_test(test_marker__joins_with_precedence_and_parentheses),
        cmocka_unit_test(
            test_marker__what_is_not_known_stays_unknown_unless_it_does_not_matter),
        cmocka_unit_test(test_marker__what_is_no_marker_is_unknown),
        cmocka_unit_test(test_marker__sanitizers_find_nothing_at_any_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
