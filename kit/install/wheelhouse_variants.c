/*
 * wheelhouse_variants.c: what wheel variants say about themselves, checked and
 * merged into the table of their version (PEP 825, draft).
 */
#include <string.h>

#include "engine/base/mem.h"
#include "kit/base/json.h"
#include "kit/install/wheelhouse_parts.h"

#define VARIANT_BYTES_MAX (256u << 10)
#define VARIANTS "variants"

/* NULL in *json_out when it is no variant.json. Fails with NO_MEMORY. */
static enum anyflash_status parse(struct af_span text, json_t **json_out,
                                  struct anyflash_error *err)
{
    enum anyflash_status status =
        af_json_parse(text, VARIANT_BYTES_MAX, "variant.json", json_out, NULL);
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    if (status != ANYFLASH_OK)
        *json_out = NULL;
    return ANYFLASH_OK;
}

enum anyflash_status af_wheelhouse_variant_check(struct af_span text, const char *label,
                                                 bool *good_out, struct anyflash_error *err)
{
    json_t *json;
    enum anyflash_status status = parse(text, &json, err);
    if (status != ANYFLASH_OK)
        return status;
    const json_t *variants = json_object_get(json, VARIANTS);
    *good_out =
        json_is_string(json_object_get(json, "$schema")) && json_object_size(variants) == 1 &&
        json_is_object(json_object_get(variants, label)) && strlen(text.data) == text.len;
    json_decref(json);
    return ANYFLASH_OK;
}

/* All but the variants themselves is equal. */
static bool agrees(const json_t *table, json_t *one)
{
    const char *key;
    json_t *value;
    if (json_object_size(table) != json_object_size(one))
        return false;
    json_object_foreach(one, key, value)
    {
        if (strcmp(key, VARIANTS) != 0 && !json_equal(json_object_get(table, key), value))
            return false;
    }
    return true;
}

/* Adds the one variant of `one`; *fits_out false: the table has another by that label. */
static enum anyflash_status add_variant(json_t *table, json_t *one, bool *fits_out,
                                        struct anyflash_error *err)
{
    json_t *variants = json_object_get(table, VARIANTS);
    json_t *added = json_object_get(one, VARIANTS);
    const char *label = json_object_iter_key(json_object_iter(added));
    json_t *properties = json_object_get(added, label);
    const json_t *known = json_object_get(variants, label);
    *fits_out = agrees(table, one) && (known == NULL || json_equal(known, properties));
    if (*fits_out && known == NULL && json_object_set(variants, label, properties) != 0)
        return af_fail_memory(err);
    return ANYFLASH_OK;
}

static enum anyflash_status merge(json_t **table, struct af_wheelhouse_wheel *wheel,
                                  struct anyflash_error *err)
{
    json_t *one;
    bool fits = true;
    const struct af_span text = {wheel->variant_json, strlen(wheel->variant_json)};
    enum anyflash_status status = parse(text, &one, err);
    if (status != ANYFLASH_OK)
        return status;
    if (*table == NULL)
        *table = json_incref(one);
    else
        status = add_variant(*table, one, &fits, err);
    if (!fits)
        wheel->reason = "its variant.json contradicts that of another wheel of its version";
    json_decref(one);
    return status;
}

enum anyflash_status af_wheelhouse_variants(struct af_wheelhouse_wheel *wheels, size_t count,
                                            struct af_text *text, struct anyflash_error *err)
{
    json_t *table = NULL;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < count && status == ANYFLASH_OK; i++) {
        if (wheels[i].variant_json != NULL && strcmp(wheels[i].project, wheels->project) == 0 &&
            strcmp(wheels[i].version, wheels->version) == 0)
            status = merge(&table, &wheels[i], err);
    }
    char *dumped = status == ANYFLASH_OK ? json_dumps(table, JSON_INDENT(1)) : NULL;
    if (status == ANYFLASH_OK && dumped == NULL)
        status = af_fail_memory(err);
    if (dumped != NULL) {
        af_text_format(text, "%s\n", dumped);
        if (text->failed)
            status = af_fail_memory(err);
    }
    af_mem_free(dumped);
    json_decref(table);
    return status;
}
