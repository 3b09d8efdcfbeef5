/*
 * test_reason.c: the columns of reasons.inc agree with each other, so that a new row
 * cannot lack one.
 */
#include "kit/base/text.h"
#include "kit/fit/reason.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOR_EACH_REASON(id)                                                                    \
    for (enum af_reason_id id = (enum af_reason_id)0; id < AF_REASON_COUNT;                    \
         id = (enum af_reason_id)(id + 1))

static void fail_if(bool wrong, enum af_reason_id id, const char *what)
{
    if (wrong)
        fail_msg("%s %s", af_reasons[id].text_id, what);
}

static void test_reason__text_ids_are_unique(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        enum af_reason_id found;
        assert_true(af_reason_parse(af_reasons[id].text_id, &found));
        assert_int_equal(found, id);
    }
}

static void test_reason__each_has_a_message(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        fail_if(af_reasons[id].message == NULL, id, "has no message");
    }
}

/* The page has menus and a box for texts, so its hints must not name options. */
static void test_reason__hints_for_the_page_name_no_options(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        const char *hint = af_reasons[id].hint;
        const char *page_hint = af_reasons[id].page_hint;
        fail_if(hint != NULL && (strstr(hint, "--given") || strstr(hint, "--arch")) &&
                    page_hint == NULL,
                id, "has no hint for the page");
        if (page_hint != NULL)
            assert_true(hint != NULL && strstr(page_hint, "--given") == NULL);
    }
}

/* "--given torch=2.8.0" would be typed as it is, and plan for a torch that nobody has. */
static void test_reason__hints_state_no_version_as_if_it_were_known(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        const char *hint = af_reasons[id].hint;
        const char *given = hint == NULL ? NULL : strstr(hint, "--given ");
        const char *value = given == NULL ? NULL : strchr(given, '=');
        fail_if(value != NULL && value[1] >= '0' && value[1] <= '9', id,
                "has an example that reads as advice");
    }
}

static void test_reason__remarks_reject_nothing(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        fail_if(af_reasons[id].group == AF_REASON_GROUP_REMARK &&
                    af_reasons[id].effect != AF_REASON_NOTE,
                id, "is a remark and no note");
    }
}

/* What bytes can prove is about the libraries that a wheel needs, not about the machine. */
static void test_reason__bytes_settle_what_names_say_about_libraries(void **state)
{
    (void)state;
    static const char *const unsettled[] = {"torch-missing", "unknown-torch",
                                            "proved-not-to-load", "torch-without-cuda"};
    FOR_EACH_REASON(id)
    {
        bool settled = af_reasons[id].effect != AF_REASON_NOTE &&
                       af_reasons[id].group >= AF_REASON_GROUP_TORCH &&
                       af_reasons[id].group <= AF_REASON_GROUP_SYSTEM;
        for (size_t i = 0; i < AF_COUNT(unsettled); i++)
            settled = settled && !af_equal(af_reasons[id].text_id, unsettled[i]);
        fail_if(af_reasons[id].settled_by_bytes != settled, id,
                settled ? "lacks settled_by_bytes" : "has settled_by_bytes");
    }
}

static void test_reason__a_reason_for_all_wheels_is_one_of_an_option(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        enum af_reason_id all = af_reason_if_all(id);
        fail_if(all != id && (af_reasons[all].effect != AF_REASON_BLOCKS ||
                              af_reasons[id].effect != AF_REASON_BLOCKS ||
                              af_reasons[all].group != AF_REASON_GROUP_OPTION),
                id, "has an unsuitable if_all");
    }
}

static void test_reason__a_missing_fact_can_be_stated(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        bool is_missing = af_reasons[id].missing_fact != NULL;
        fail_if(is_missing && !af_reason_lacks_fact(id), id, "is not about a missing fact");
        fail_if(is_missing && af_reasons[id].page_hint == NULL, id, "has no hints");
    }
}

static void test_reason__findings_have_a_severity(void **state)
{
    (void)state;
    FOR_EACH_REASON(id)
    {
        bool is_finding = af_reasons[id].severity != AF_SEVERITY_NONE;
        bool is_used = af_reasons[id].group == AF_REASON_GROUP_ENVIRONMENT ||
                       af_reasons[id].comes_first || af_reason_asks_to_replace(id) ||
                       af_reason_finding(id) != af_reasons[id].message;
        fail_if(is_used && !is_finding, id, "has no severity");
        fail_if(is_finding && strlen(af_reason_finding(id)) < 10, id, "has no finding");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reason__text_ids_are_unique),
        cmocka_unit_test(test_reason__each_has_a_message),
        cmocka_unit_test(test_reason__hints_for_the_page_name_no_options),
        cmocka_unit_test(test_reason__hints_state_no_version_as_if_it_were_known),
        cmocka_unit_test(test_reason__remarks_reject_nothing),
        cmocka_unit_test(test_reason__bytes_settle_what_names_say_about_libraries),
        cmocka_unit_test(test_reason__a_reason_for_all_wheels_is_one_of_an_option),
        cmocka_unit_test(test_reason__a_missing_fact_can_be_stated),
        cmocka_unit_test(test_reason__findings_have_a_severity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
