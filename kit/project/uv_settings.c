/*
 * uv_settings.c: settings of uv that concern one package.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/uv_settings.h"

/* More packages or groups than any project has; each of its groups may ask. */
#define CHILDREN_MAX 4000u

static bool is_named(const char *name, const char *package)
{
    return name != NULL && af_name_is((struct af_span){name, strlen(name)}, package);
}

/* Whether both are the same version: "2.7.3.0" is 2.7.3. */
static bool is_same_version(const char *a, const char *b)
{
    struct af_version one, other;
    return af_equal(a, b) ||
           (af_version_parse(a, strlen(a), &one) && af_version_parse(b, strlen(b), &other) &&
            af_version_compare_public(&one, &other) == 0);
}

static const char *text_at(const struct af_toml_item *table, const char *key)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    return item == NULL || item->text == NULL ? "" : item->text;
}

const struct af_toml_item *af_project_uv_child(const struct af_toml_item *table,
                                               const char *package)
{
    if (table == NULL || table->kind == AF_TOML_TABLES)
        return NULL;
    const struct af_toml_item *item = table->first;
    for (size_t i = 0; item != NULL && i < CHILDREN_MAX; i++, item = item->next)
        if (is_named(item->key != NULL ? item->key : item->text, package))
            return item;
    return NULL;
}

const struct af_toml_item *af_project_uv_metadata(const struct af_toml *toml,
                                                  const char *package, const char *version)
{
    const struct af_toml_item *list =
        af_toml_find(toml, AF_TOML_PATH("tool", "uv", "dependency-metadata"));
    for (const struct af_toml_item *block = list == NULL ? NULL : list->first; block != NULL;
         block = block->next) {
        const char *own = text_at(block, "version");
        if (is_named(text_at(block, "name"), package) &&
            (version == NULL || own[0] == '\0' || is_same_version(own, version)))
            return block;
    }
    return NULL;
}

/* ["a", "b"] */
static const char *list_text(struct af_arena *arena, const char *const *items, size_t count)
{
    const char *text = "[";
    for (size_t i = 0; i < count; i++)
        text = af_arena_format(arena, "%s%s%s", text, i > 0 ? ", " : "",
                               af_toml_quote(arena, items[i]));
    return af_arena_format(arena, "%s]", text);
}

enum anyflash_status af_project_uv_set_metadata(struct af_toml *toml, const char *package,
                                                const char *version,
                                                const char *const *requirements, size_t count,
                                                struct anyflash_error *err)
{
    const char *list = list_text(toml->arena, requirements, count);
    const char *name = af_toml_quote(toml->arena, package);
    const char *quoted = af_toml_quote(toml->arena, version == NULL ? "" : version);
    const struct af_toml_item *block = af_project_uv_metadata(toml, package, version);
    if (block == NULL) {
        const bool has = version != NULL;
        return af_toml_append_table(
            toml, AF_TOML_PATH("tool", "uv", "dependency-metadata"),
            (const char *const[]){"name", has ? "version" : "requires-dist", "requires-dist"},
            (const char *const[]){name, has ? quoted : list, list}, has ? 3 : 2, err);
    }
    enum anyflash_status status = af_toml_set_in(toml, block, "requires-dist", list, err);
    const struct af_toml_item *old =
        version != NULL ? NULL
                        : af_toml_get(af_project_uv_metadata(toml, package, NULL), "version");
    return status != ANYFLASH_OK || old == NULL ? status : af_toml_remove(toml, old, err);
}

size_t af_project_uv_flash_requirements(const char *version,
                                        const char *list_out[AF_PROJECT_UV_REQUIREMENTS])
{
    struct af_version own;
    static const struct af_version change = {
        .release = {2, 6}, .release_count = 2, .pre = -1, .post = -1, .dev = -1};
    const bool is_early = af_version_parse(version, strlen(version), &own) &&
                          af_version_compare_public(&own, &change) < 0;
    list_out[0] = "einops";
    list_out[1] = "packaging"; /* before 2.6 also what setup.py itself imports */
    list_out[2] = "ninja";
    return is_early ? AF_PROJECT_UV_REQUIREMENTS : 1;
}
