/*
 * rules_system.c: what the wheel needs around it: glibc and libstdc++, a driver
 * that serves its CUDA, and packages that accept its version.
 */
#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/verdict.h"

#include <string.h>

/* The oldest libstdc++ that wheels from Ubuntu 20.04 and newer were seen to need. */
static const struct af_dotted glibcxx_seen = {{3, 4, 26}, 3};

/* Whether the torch that is here needs as much glibc itself, so that it is there. */
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
            af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GLIBC, "wheel: glibc %s%s",
                                          wheel->glibc_min, bound ? " or less" : "");
        return;
    }
    if (af_dotted_compare(&view->glibc, need) >= 0)
        return;
    af_fit_wheel_check_add_reason(check, bound ? AF_REASON_GLIBC_MAYBE : AF_REASON_GLIBC,
                                  "wheel: glibc %s%s, here: %d.%d", wheel->glibc_min,
                                  bound ? " where it was built" : "", view->glibc.part[0],
                                  view->glibc.part[1]);
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
            "here: GLIBCXX_%s; such wheels were seen to need GLIBCXX_3.4.26", here);
}

void af_rule_driver(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    int major = af_fit_wheel_cuda_major(check->wheel);
    const char *need;
    if (view->gpu == AF_FACT_KNOWN &&
        af_driver_serves(view, check->fit->tables, major, &need) == AF_NO)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_DRIVER, "CUDA %d needs driver %s or newer, here: %s", major, need,
            view->driver_text == NULL ? "of another CUDA" : view->driver_text);
}

/* Whether `fact`, when known, lies on the wanted side of `version`. */
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
            check, AF_REASON_PEER_WINDOW, "%s %s takes %s to %s, wheel: %s", name, peer_version,
            af_fact_text_or(&peer->flash_attn_min, "any"),
            af_fact_text_or(&peer->flash_attn_max, "any"), check->wheel->version);
    else if (needs[0] != '\0' && af_specifier_contains(needs, version) == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PEER_WINDOW,
                                      "%s %s needs flash-attn %s, wheel: %s", name,
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
