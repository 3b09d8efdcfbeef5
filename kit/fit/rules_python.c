/*
 * rules_python.c: the tags of a wheel's name against platform and interpreter.
 *
 * Where the interpreter's own list of platform tags is known it decides, as it
 * does for installers; else the tag is read. On musl nothing loads: published
 * wheels are linked to glibc, though "linux_x86_64" does not say so.
 * Source: PEP 425, PEP 513, PEP 571, PEP 599, PEP 600.
 */
#include "kit/base/text.h"
#include "kit/fit/verdict.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *start;
    int glibc_minor;
} legacy[] = {{"manylinux1_", 5}, {"manylinux2010_", 12}, {"manylinux2014_", 17}};

/* The glibc 2.N that a manylinux tag promises to need at most; -1 for another tag. */
static int manylinux_glibc(const char *tag)
{
    struct af_dotted minor;
    for (size_t i = 0; i < AF_COUNT(legacy); i++) {
        if (af_starts_with(tag, legacy[i].start))
            return legacy[i].glibc_minor;
    }
    bool perennial = af_starts_with(tag, "manylinux_2_") &&
                     af_dotted_parse(tag + strlen("manylinux_2_"), &minor);
    return perennial ? minor.part[0] : -1;
}

static enum af_answer linux_tag(const struct af_view *view, const char *tag)
{
    int need = manylinux_glibc(tag);
    if (need < 0 && !af_starts_with(tag, "linux_"))
        return AF_NO;
    if (view->arch == NULL)
        return AF_UNKNOWN;
    if (!af_ends_with(tag, view->arch))
        return AF_NO;
    if (need < 0)
        return AF_YES;
    if (view->glibc.count == 0)
        return AF_YES; /* the glibc rule asks for it */
    return af_dotted_compare(&view->glibc, &(struct af_dotted){{2, need}, 2}) >= 0 ? AF_YES
                                                                                   : AF_NO;
}

static enum af_answer tag_answer(const struct af_view *view, const char *tag)
{
    if (strcmp(tag, "any") == 0)
        return AF_YES;
    if (view->os == NULL)
        return AF_UNKNOWN;
    if (strcmp(view->os, "linux") == 0)
        return linux_tag(view, tag);
    if (strcmp(view->os, "windows") != 0 || !af_starts_with(tag, "win_"))
        return AF_NO;
    if (view->arch == NULL)
        return AF_UNKNOWN;
    return view->platform != NULL && strcmp(tag, view->platform) == 0 ? AF_YES : AF_NO;
}

/* The best answer of a compressed set "manylinux_2_24_x86_64.manylinux_2_28_x86_64". */
static enum af_answer set_answer(const struct af_view *view, const char *tags)
{
    enum af_answer best = AF_NO;
    const char *at = tags;
    while (*at != '\0' && best != AF_YES) {
        char tag[80];
        size_t len = strcspn(at, ".");
        snprintf(tag, sizeof tag, "%.*s", (int)(len < 79 ? len : 79), at);
        enum af_answer answer = tag_answer(view, tag);
        best = answer == AF_NO ? best : answer;
        at += len + (at[len] == '.' ? 1 : 0);
    }
    return best;
}

static enum af_answer platform_answer(const struct af_view *view, const char *tags)
{
    if (view->interpreter.platform_count > 0)
        return af_tags_platform_accepted(&view->interpreter, tags) ? AF_YES : AF_NO;
    return set_answer(view, tags);
}

void af_rule_platform(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    const char *tags = check->wheel->platform;
    if (check->platform != tags) {
        check->platform = tags;
        check->platform_answer = platform_answer(view, tags);
    }
    if (view->musl && !af_fit_wheel_is_pure(check->wheel))
        af_fit_wheel_check_add_reason(check, AF_REASON_PLATFORM_TAG,
                                      "wheel: glibc, here: musl");
    else if (check->platform_answer == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PLATFORM_TAG, "wheel: %s, here: %s %s",
                                      tags, view->os == NULL ? "other tags" : view->os,
                                      view->arch == NULL ? "" : view->arch);
    else if (check->platform_answer == AF_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_PLATFORM, "wheel: %s", tags);
}

static bool python_accepted(const struct af_view *view, const struct af_catalog_wheel *wheel)
{
    if (wheel->python_minor >= 0 && wheel->python_minor != view->interpreter.minor &&
        !af_starts_with(wheel->abi, "abi3"))
        return false; /* what the next line would find, at less cost */
    return af_tags_python_accepted(&view->interpreter, wheel->python, wheel->abi);
}

void af_rule_python(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    const struct af_catalog_wheel *wheel = check->wheel;
    if (!view->cpython)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_PYTHON_NOT_CPYTHON, "here: %s",
            af_fact_text_or(&view->machine->python.implementation, "another"));
    else if (!view->python_known)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_PYTHON, "wheel: %s-%s",
                                      wheel->python, wheel->abi);
    else if (!python_accepted(view, wheel))
        af_fit_wheel_check_add_reason(check, AF_REASON_PYTHON_TAG,
                                      "wheel: %s-%s, here: Python %s", wheel->python,
                                      wheel->abi, view->python_text);
}
