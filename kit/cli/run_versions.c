/*
 * run_versions.c: the versions that the project's requirements allow or pin, and the build of
 * torch that is behind a version.
 */
#include "kit/cli/run_versions.h"

#include <stdlib.h>
#include <string.h>

#include "kit/catalog/tables.h"

#define PACKAGE AF_CLI_RUN_PACKAGE

bool af_cli_wanted_allows(const struct af_cli_wanted *wanted, const char *name,
                          const char *version)
{
    const struct af_project_requirement *found = NULL;
    while ((found = af_project_next(&wanted->project, found, name, &wanted->here)) != NULL)
        if (af_project_allows(found->specifier, version) == AF_NO)
            return false;
    return true;
}

const char *af_cli_wanted_pin(const struct af_cli_wanted *wanted, const char *name)
{
    const struct af_project_requirement *found = NULL;
    const char *version = NULL;
    while (version == NULL &&
           (found = af_project_next(&wanted->project, found, name, &wanted->here)) != NULL)
        version = af_project_pinned_version(&wanted->cli->arena, found->specifier);
    return version;
}

/* "cu128" or "cpu" of an index whose path ends in it, or of --torch-backend; NULL: neither. */
static const char *build_in(struct af_arena *arena, const char *text)
{
    for (const char *at = text; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        size_t digits = strncmp(at, "cu", 2) == 0 ? strspn(at + 2, "0123456789") : 0;
        size_t len = digits >= 2 ? 2 + digits : strncmp(at, "cpu", 3) == 0 ? 3 : 0;
        if (len > 0 && (at[len] == '\0' || strchr("/ ", at[len]) != NULL))
            return af_arena_text_n(arena, at, len);
    }
    return NULL;
}

/* What the command's indexes have: "cu128", "cpu"; NULL: they do not say it. */
static const char *index_build(struct af_cli_wanted *wanted)
{
    static const char *const variables[] = {"UV_TORCH_BACKEND", "UV_INDEX",
                                            "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL",
                                            "UV_INDEX_URL",     "PIP_EXTRA_INDEX_URL",
                                            "PIP_INDEX_URL"};
    struct af_arena *arena = &wanted->cli->arena;
    const char *found = NULL;
    for (const struct af_project_option *at = wanted->project.options;
         at != NULL && found == NULL; at = at->next)
        found = build_in(arena, at->value);
    for (size_t i = 0; i < AF_COUNT(variables) && found == NULL; i++) {
        const char *value = getenv(variables[i]);
        if (value != NULL && af_starts_with(variables[i], "UV") == wanted->command.uv)
            found = build_in(arena, value);
    }
    return found;
}

const char *af_cli_torch_with_build(struct af_cli_wanted *wanted, const char *version)
{
    struct af_version parsed;
    const struct af_machine *machine = &wanted->change.machine;
    const char *platform = af_tables_platform(af_fact_text_or(&machine->platform.os, NULL),
                                              af_fact_text_or(&machine->platform.arch, NULL));
    if (strchr(version, '+') != NULL || !af_version_parse(version, strlen(version), &parsed))
        return version;
    const struct af_catalog_torch_release *release =
        af_tables_torch((int)parsed.release[0], (int)parsed.release[1]);
    const char *cuda = index_build(wanted);
    if (cuda == NULL && release != NULL && platform != NULL) {
        const struct af_catalog_torch_variant *variant = af_tables_default(release, platform);
        cuda = variant == NULL ? NULL : variant->cuda;
    }
    return cuda == NULL ? version
                        : af_arena_format(&wanted->cli->arena, "%s+%s", version, cuda);
}

const struct af_catalog_wheel *af_cli_wanted_next_version(const struct af_cli_wanted *wanted,
                                                          int32_t rank)
{
    const struct af_catalog *catalog = &wanted->inputs.catalog;
    const struct af_catalog_wheel *best = NULL;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        if (wheel->version_rank < rank && strcmp(wheel->package, "flash_attn") == 0 &&
            (best == NULL || wheel->version_rank > best->version_rank) &&
            af_cli_wanted_allows(wanted, PACKAGE, wheel->version))
            best = wheel;
    }
    return best;
}

const char *af_cli_wanted_version(struct af_cli_wanted *wanted, bool with_local)
{
    struct af_version version;
    char text[64];
    const char *pin = af_cli_wanted_pin(wanted, PACKAGE);
    return pin == NULL || !af_version_parse(pin, strlen(pin), &version)
               ? pin
               : af_arena_text(&wanted->cli->arena,
                               af_version_format(&version, with_local, text, sizeof text));
}

const struct af_catalog_wheel *af_cli_wanted_newest(const struct af_cli_wanted *wanted)
{
    return af_cli_wanted_next_version(wanted, INT32_MAX);
}
