/*
 * rules_platform.c: rules about the file itself, about its tags (platform and
 * interpreter), and about the libraries, driver and packages that it needs.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/verdict.h"

/*
 * Rules about the file itself: whether it can be downloaded and installed at
 * all, whether it is for this kind of GPU, and what a reader should know about
 * it.
 */

void af_rule_file(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    const struct af_view *view = check->view;
    if (!wheel->valid_name)
        af_fit_wheel_check_add_reason(check, AF_REASON_INVALID_NAME, "rename it first");
    if (wheel->url == NULL && wheel->path == NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_NO_ADDRESS, "%s",
                                      af_equal(wheel->source, "pytorch-wheel-index")
                                          ? "it is only on PyTorch's own package index"
                                          : wheel->source);
    if (check->fit->options->version == NULL && wheel->version[1] == '.' &&
        wheel->version[0] < '2')
        af_fit_wheel_check_add_reason(check, AF_REASON_FLASH_ATTN_OLD, "version %s",
                                      wheel->version);
    bool rocm_here = af_view_uses_rocm(view);
    if (wheel->rocm && !rocm_here)
        af_fit_wheel_check_add_reason(check, AF_REASON_MACHINE_ROCM,
                                      "the wheel is made for ROCm");
    if (!wheel->rocm && rocm_here && !af_fit_wheel_is_pure(wheel))
        af_fit_wheel_check_add_reason(
            check, AF_REASON_MACHINE_ROCM, "%s; the wheel is made for CUDA",
            view->torch.rocm ? view->torch.text : "the GPU here is AMD's");
}

static void note_installed(struct af_fit_wheel_check *check)
{
    const struct af_package *own = af_machine_package(check->view->machine, "flash-attn");
    const char *origin = own == NULL ? NULL : af_fact_text_or(&own->origin, NULL);
    if (check->wheel->url != NULL && origin != NULL && af_url_equal(origin, check->wheel->url))
        af_fit_wheel_check_add_reason(check, AF_REASON_ALREADY_INSTALLED, "%s",
                                      own->origin.source);
    if (strcmp(check->wheel->package, "flash_attn") == 0 &&
        af_machine_package(check->view->machine, "flash-attn-4") != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_NAMESPACE, "%s", "");
}

/* The note for a trap; AF_REASON_COUNT: another rule reports it. */
static enum af_reason_id note_of(const struct af_trap *trap)
{
    enum af_reason_id id;
    if (trap->effect != AF_TRAP_NOTE && trap->effect != AF_TRAP_ABI)
        return AF_REASON_COUNT;
    if (strcmp(trap->reason, "mislabelled-wheel") == 0)
        return AF_REASON_LABEL_UNTRUE;
    if (!af_reason_parse(trap->reason, &id) || af_reasons[id].effect != AF_REASON_NOTE)
        return AF_REASON_COUNT;
    return id;
}

void af_rule_traps(struct af_fit_wheel_check *check)
{
    note_installed(check);
    if (!check->wheel->listed)
        af_fit_wheel_check_add_reason(check, AF_REASON_DERIVED, "%s", check->wheel->source);
    if (check->arena == NULL)
        return; /* notes do not change the answer */
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        enum af_reason_id id = note_of(&af_tables.traps[i]);
        bool spoken = id == AF_REASON_METADATA || id == AF_REASON_LOCAL_ORDER; /* its message */
        if (id != AF_REASON_COUNT && af_trap_matches(&af_tables.traps[i], check->wheel))
            af_fit_wheel_check_add_reason(check, id, "%s",
                                          spoken ? "" : af_tables.traps[i].detail);
    }
}

/*
 * The tags of a wheel's name against platform and interpreter.
 *
 * If the interpreter's own list of platform tags is known, it decides, as it
 * does for installers; else the tag is parsed. No published wheel loads on
 * musl: they are all linked to glibc, although "linux_x86_64" does not say so.
 * Source: PEP 425, PEP 513, PEP 571, PEP 599, PEP 600.
 */

static const struct {
    const char *start;
    int glibc_minor;
} legacy[] = {{"manylinux1_", 5}, {"manylinux2010_", 12}, {"manylinux2014_", 17}};

/* The newest glibc 2.N that a manylinux tag allows the wheel to need; -1 for another tag. */
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
        return AF_YES; /* the glibc rule reports it */
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
                                      "the wheel needs glibc, but this system has musl");
    else if (check->platform_answer == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PLATFORM_TAG, "%s, but this is %s %s",
                                      tags, view->os == NULL ? "another platform" : view->os,
                                      view->arch == NULL ? "" : view->arch);
    else if (check->platform_answer == AF_UNKNOWN)
        af_fit_wheel_check_add_reason(check, af_view_unknown_platform(view),
                                      "the wheel is for %s", tags);
}

static bool python_accepted(const struct af_view *view, const struct af_catalog_wheel *wheel)
{
    if (wheel->python_minor >= 0 && wheel->python_minor != view->interpreter.minor &&
        !af_starts_with(wheel->abi, "abi3"))
        return false; /* a shortcut: the next line would give the same answer */
    return af_tags_python_accepted(&view->interpreter, wheel->python, wheel->abi);
}

/* What its metadata requires of Python, if that is more than its tags say and not met here. */
static const char *unmet_python(const struct af_fit_wheel_check *check)
{
    const struct af_catalog_fa4_release *fa4 = af_catalog_fa4(check->wheel);
    const char *here = check->view->python_text;
    struct af_version version;
    if (fa4 == NULL || here == NULL || !af_version_parse(here, strlen(here), &version) ||
        af_specifier_contains(fa4->python_requires, &version) != AF_NO)
        return NULL;
    return fa4->python_requires;
}

void af_rule_python(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    const struct af_catalog_wheel *wheel = check->wheel;
    if (!view->cpython)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_PYTHON_NOT_CPYTHON, "this is %s",
            af_fact_text_or(&view->machine->python.implementation, "another"));
    else if (!view->python_known)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_PYTHON, "the wheel is for %s-%s",
                                      wheel->python, wheel->abi);
    else if (!python_accepted(view, wheel))
        af_fit_wheel_check_add_reason(check, AF_REASON_PYTHON_TAG,
                                      "%s-%s, but this is Python %s", wheel->python, wheel->abi,
                                      view->python_text);
    else if (unmet_python(check) != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_PYTHON_TAG,
                                      "it requires Python %s, but this is Python %s",
                                      unmet_python(check), view->python_text);
}

/*
 * What the wheel needs from its surroundings: glibc and libstdc++, a driver
 * that supports its CUDA, and packages that accept its version.
 */

/* The oldest libstdc++ that wheels built on Ubuntu 20.04 or newer were found to need. */
static const struct af_dotted glibcxx_seen = {{3, 4, 26}, 3};

/* Whether the installed torch itself needs at least this glibc, which proves that the system
   has it. */
static bool torch_needs_as_much(const struct af_view *view, const struct af_dotted *need)
{
    struct af_dotted own;
    const struct af_catalog_torch_variant *variant = view->torch.variant;
    return variant != NULL && af_dotted_parse(variant->glibc_min, &own) &&
           af_dotted_compare(&own, need) >= 0;
}

static void need_glibc(struct af_fit_wheel_check *check, const struct af_dotted *need)
{
    const struct af_view *view = check->view;
    const struct af_catalog_wheel *wheel = check->wheel;
    bool bound = af_equal(wheel->glibc_basis, "build_image_upper_bound");
    if (view->glibc.count == 0) {
        if (!torch_needs_as_much(view, need))
            af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GLIBC,
                                          "the wheel needs glibc %s%s", wheel->glibc_min,
                                          bound ? " or less" : "");
        return;
    }
    if (af_dotted_compare(&view->glibc, need) >= 0)
        return;
    af_fit_wheel_check_add_reason(check, bound ? AF_REASON_GLIBC_MAYBE : AF_REASON_GLIBC,
                                  "%sglibc %s, but this machine has %d.%d",
                                  bound ? "it was built with " : "", wheel->glibc_min,
                                  view->glibc.part[0], view->glibc.part[1]);
}

void af_rule_system(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    struct af_dotted need;
    struct af_dotted glibcxx;
    const char *here = af_fact_text_or(&check->view->machine->platform.glibcxx, NULL);
    if (!af_dotted_parse(wheel->glibc_min, &need))
        return;
    need_glibc(check, &need);
    if (here != NULL && af_starts_with(here, "GLIBCXX_"))
        here += strlen("GLIBCXX_");
    if (af_dotted_parse(here, &glibcxx) && !af_equal(wheel->glibc_basis, "platform_tag") &&
        af_dotted_compare(&glibcxx, &glibcxx_seen) < 0)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_LIBSTDCXX,
            "this system has GLIBCXX_%s, but similar wheels need GLIBCXX_3.4.26", here);
}

void af_rule_driver(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    int major = af_fit_wheel_cuda_major(check->wheel);
    const char *need;
    if (af_catalog_is_torch_free(check->wheel)) {
        if (view->gpu == AF_FACT_KNOWN && af_driver_compiles(view, 7, 8, NULL, &need) == AF_NO)
            af_fit_wheel_check_add_reason(
                check, AF_REASON_DRIVER,
                "its PTX needs driver 520 or newer, but %s is installed",
                view->driver_text == NULL ? "an older one" : view->driver_text);
        return;
    }
    if (view->gpu == AF_FACT_KNOWN && af_driver_serves(view, major, &need) == AF_NO)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_DRIVER, "CUDA %d needs driver %s or newer, but %s is installed",
            major, need,
            view->driver_text == NULL ? "one for another CUDA" : view->driver_text);
}

/* Whether `version` is at the bound `fact` or on its allowed side; true if unknown. */
static bool within(const struct af_fact *fact, const struct af_version *version, int side)
{
    struct af_version bound;
    const char *text = af_fact_text_or(fact, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &bound))
        return true;
    int order = af_version_compare_public(&bound, version);
    return order == 0 || order == side;
}

static void ask_peer(struct af_fit_wheel_check *check, const struct af_package *peer,
                     const struct af_version *version)
{
    const char *needs = af_fact_text_or(&peer->needs_flash_attn, "");
    const char *name = af_fact_text_or(&peer->name, "a package");
    const char *peer_version = af_fact_text_or(&peer->version, "");
    if (!within(&peer->flash_attn_min, version, -1) ||
        !within(&peer->flash_attn_max, version, 1))
        af_fit_wheel_check_add_reason(
            check, AF_REASON_PEER_WINDOW,
            "%s %s accepts flash-attn %s to %s, but the wheel is %s", name, peer_version,
            af_fact_text_or(&peer->flash_attn_min, "any"),
            af_fact_text_or(&peer->flash_attn_max, "any"), check->wheel->version);
    else if (needs[0] != '\0' && af_specifier_contains(needs, version) == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PEER_WINDOW,
                                      "%s %s needs flash-attn %s, but the wheel is %s", name,
                                      peer_version, needs, check->wheel->version);
}

void af_rule_peers(struct af_fit_wheel_check *check)
{
    const struct af_machine *machine = check->view->machine;
    struct af_version version;
    if (strcmp(check->wheel->package, "flash_attn") != 0 ||
        !af_version_parse(check->wheel->version, strlen(check->wheel->version), &version))
        return;
    for (size_t i = 0; i < machine->packages.count; i++)
        ask_peer(check, &machine->packages.rows[i], &version);
}
