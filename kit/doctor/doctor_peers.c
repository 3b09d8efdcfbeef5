/*
 * doctor_peers.c: rules about packages beside flash-attn: those that accept only some
 * versions of it or of torch, and packages that are installed twice.
 */
#include <string.h>

#include "kit/doctor/rules.h"
#include "kit/formats/version.h"

static bool fact_version(const struct af_fact *fact, struct af_version *version_out)
{
    const char *text = af_fact_text_or(fact, NULL);
    return text != NULL && af_version_parse(text, strlen(text), version_out);
}

/* Whether the peer's metadata or its code refuses flash-attn `version`. */
static bool refuses(const struct af_package *peer, const struct af_version *version)
{
    struct af_version bound;
    const char *needs = af_fact_text_or(&peer->needs_flash_attn, NULL);
    if (needs != NULL && af_specifier_contains(needs, version) == AF_NO)
        return true;
    if (fact_version(&peer->flash_attn_min, &bound) &&
        af_version_compare_public(version, &bound) < 0)
        return true;
    return fact_version(&peer->flash_attn_max, &bound) &&
           af_version_compare_public(version, &bound) > 0;
}

static void check_window(struct af_examination *examination, const struct af_package *peer,
                         const struct af_package *flash, const struct af_version *version)
{
    if (!refuses(peer, version))
        return;
    const char *low = af_fact_text_or(&peer->flash_attn_min, NULL);
    const char *high = af_fact_text_or(&peer->flash_attn_max, NULL);
    const char *needs = af_fact_text_or(&peer->needs_flash_attn, "");
    af_examination_add(
        examination, AF_REASON_PEER_WINDOW, "%s %s accepts flash-attn %s%s%s%s, here is %s",
        af_fact_text_or(&peer->name, "a package"), af_fact_text_or(&peer->version, ""),
        low == NULL && high == NULL ? needs : "", low != NULL ? low : "",
        low != NULL || high != NULL ? " to " : "", high != NULL ? high : "",
        af_fact_text_or(&flash->version, "?"));
}

static void check_torch(struct af_examination *examination, const struct af_package *peer,
                        const struct af_version *torch)
{
    const char *needs = af_fact_text_or(&peer->needs_torch, NULL);
    if (needs == NULL || af_fact_is(&peer->name, "flash-attn") ||
        af_specifier_contains(needs, torch) != AF_NO)
        return;
    af_examination_add(examination, AF_REASON_TORCH_FORCED, "%s %s needs torch %s, here is %s",
                       af_fact_text_or(&peer->name, "a package"),
                       af_fact_text_or(&peer->version, ""), needs,
                       examination->machine->torch.version.value.text);
}

void af_examine_peers(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const struct af_package *flash = af_machine_package(machine, "flash-attn");
    struct af_version flash_version;
    struct af_version torch;
    bool has_flash = flash != NULL && fact_version(&flash->version, &flash_version);
    bool has_torch = fact_version(&machine->torch.version, &torch);
    for (size_t i = 0; i < machine->packages.count; i++) {
        const struct af_package *peer = &machine->packages.rows[i];
        if (has_flash && peer != flash)
            check_window(examination, peer, flash, &flash_version);
        if (has_torch)
            check_torch(examination, peer, &torch);
    }
}

/* Of each pair in different folders, the later one is reported once. */
void af_examine_double_installs(struct af_examination *examination)
{
    const struct af_package_rows *packages = &examination->machine->packages;
    for (size_t i = 1; i < packages->count; i++) {
        const struct af_package *package = &packages->rows[i];
        const char *name = af_fact_text_or(&package->name, NULL);
        bool is_torch = af_equal(name, "torch");
        if (!is_torch && !af_equal(name, "flash-attn"))
            continue;
        const struct af_package *first = af_machine_package(examination->machine, name);
        if (first == NULL || first == package)
            continue;
        af_examination_add(
            examination, is_torch ? AF_REASON_TWO_TORCH : AF_REASON_TWO_INSTALLS,
            "%s %s in %s, then %s in %s", name, af_fact_text_or(&first->version, "?"),
            af_fact_text_or(&first->folder, "?"), af_fact_text_or(&package->version, "?"),
            af_fact_text_or(&package->folder, "?"));
    }
}
