/*
 * config_torch.c: which torch a project will have on a machine: what its files allow, what they
 * pin, and what packages need that are made for one torch each.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/config/config_project.h"
#include "kit/formats/version.h"

#define PATCHES 40
#define SPECIFIER_BYTES_MAX 1024 /* it is evaluated often */

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

bool af_config_minor_allowed(struct af_arena *arena, struct af_span specifier, int64_t major,
                             int64_t minor)
{
    if (specifier.len > SPECIFIER_BYTES_MAX)
        return false;
    char *text = af_arena_text_n(arena, specifier.data, specifier.len);
    for (char *plus; (plus = strchr(text, '+')) != NULL;) {
        const char *rest = plus + strcspn(plus, ", ");
        memmove(plus, rest, strlen(rest) + 1);
    }
    for (int patch = 0; patch < PATCHES; patch++) {
        struct af_version version = {.release = {major, minor, patch},
                                     .release_count = 3,
                                     .pre = -1,
                                     .post = -1,
                                     .dev = -1};
        if (af_specifier_contains(text, &version) != AF_NO)
            return true;
    }
    return false;
}

/* What limits torch; each release of the others is for one release of torch. */
static const char *const names[] = {"torch", "torchvision", "torchaudio"};

/*
 * Whether a requirement on names[which] allows torch MAJOR.MINOR. torchvision 0.15 is for torch
 * 2.0, and so on; torchaudio has torch's numbers.
 */
static bool is_minor_allowed(const struct af_config_project *project,
                             const struct af_project_requirement *requirement, size_t which,
                             int64_t major, int64_t minor)
{
    bool is_vision = which == 1;
    return af_config_minor_allowed(project->arena, span_of(requirement->specifier),
                                   is_vision ? major - 2 : major,
                                   is_vision ? minor + 15 : minor);
}

/*
 * The requirement that excludes torch MAJOR.MINOR, or of torch itself the exact version (NULL:
 * any patch); NULL: none does.
 */
static const struct af_project_requirement *excluding(
    const struct af_config_project *project, const struct af_marker_environment *environment,
    int64_t major, int64_t minor, const char *exact)
{
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        const struct af_project_requirement *at = NULL;
        while ((at = af_config_project_next(project, at, names[i], environment)) != NULL) {
            bool is_allowed = i == 0 && exact != NULL
                                  ? af_project_allows(at->specifier, exact) != AF_NO
                                  : is_minor_allowed(project, at, i, major, minor);
            if (!is_allowed)
                return at;
        }
    }
    return NULL;
}

/* Whether some requirement says of machines like this one only that they have torch. */
static bool keeps_apart(const struct af_config_project *project,
                        const struct af_marker_environment *environment)
{
    const struct af_project_requirement *at = NULL;
    while ((at = af_project_next(&project->dependencies, at, names[0], environment)) != NULL)
        if (at->marker[0] != '\0')
            return true;
    return false;
}

/* How many of the requirements are for other machines and exclude torch MAJOR.MINOR. */
static size_t count_elsewhere(const struct af_config_project *project,
                              const struct af_project_requirement *at,
                              const struct af_marker_environment *environment, int64_t major,
                              int64_t minor, const struct af_project_requirement **last_out)
{
    size_t count = 0;
    for (; at != NULL; at = at->next)
        for (size_t i = 0; i < AF_COUNT(names); i++)
            if (af_equal(at->name, names[i]) &&
                af_marker_holds(span_of(at->marker), environment) == AF_NO &&
                !is_minor_allowed(project, at, i, major, minor)) {
                *last_out = at;
                count++;
            }
    return count;
}

const struct af_project_requirement *af_config_torch_elsewhere(
    const struct af_config_project *project, const struct af_marker_environment *environment,
    int64_t major, int64_t minor)
{
    const struct af_project_requirement *found = NULL;
    size_t in_dependencies = count_elsewhere(project, project->dependencies.requirements,
                                             environment, major, minor, &found);
    size_t in_file = project->file_count == 0
                         ? 0
                         : count_elsewhere(project, project->files[0].project.requirements,
                                           environment, major, minor, &found);
    return in_dependencies == in_file && keeps_apart(project, environment) ? NULL : found;
}

bool af_config_project_allows(const struct af_config_project *project,
                              const struct af_marker_environment *environment, int64_t major,
                              int64_t minor)
{
    return excluding(project, environment, major, minor, NULL) == NULL;
}

static const struct af_project_requirement *excluding_version(
    const struct af_config_decider *decider, const char *version)
{
    struct af_version parsed;
    if (!af_version_parse(version, strlen(version), &parsed))
        return NULL;
    return excluding(decider->project, &decider->here, parsed.release[0], parsed.release[1],
                     version);
}

const struct af_project_requirement *af_config_torch_limit(
    const struct af_config_decider *decider)
{
    const struct af_project_requirement *at = NULL;
    for (size_t i = 0; i < AF_COUNT(names); i++)
        while ((at = af_config_project_next(decider->project, at, names[i], &decider->here)) !=
               NULL)
            if (at->specifier[0] != '\0')
                return at;
    return NULL;
}

static const struct af_project_requirement *pinning(const struct af_config_decider *decider)
{
    const struct af_project_requirement *at = NULL;
    while ((at = af_config_project_next(decider->project, at, "torch", &decider->here)) != NULL)
        if (af_project_pinned_version(decider->project->arena, at->specifier) != NULL)
            return at;
    return NULL;
}

/*
 * A pin of a package of which each release needs one torch that is not known here. NULL: there
 * is none, or the machine has exactly that release, so that its torch is the right one.
 */
static const struct af_project_requirement *unknown_pin(const struct af_config_decider *decider)
{
    static const char *const others[] = {"vllm", "xformers"};
    for (size_t i = 0; i < AF_COUNT(others); i++) {
        const struct af_package *here = af_machine_package(decider->machine, others[i]);
        const char *has = here == NULL ? NULL : af_fact_text_or(&here->version, NULL);
        const struct af_project_requirement *at = NULL;
        while ((at = af_config_project_next(decider->project, at, others[i], &decider->here)) !=
               NULL)
            if (af_project_pinned_version(decider->project->arena, at->specifier) != NULL &&
                (has == NULL || af_project_allows(at->specifier, has) != AF_YES))
                return at;
    }
    return NULL;
}

/* ---- the torch of one machine ---- */

/*
 * "2.7.1+cu126" for "2.7.1": the build of the index that the project names, else the usual one.
 * Where that has no CUDA, as on Windows, whoever wants flash-attn takes the newest that has.
 */
static const char *with_build(const struct af_config_decider *decider, const char *version)
{
    struct af_version parsed;
    const struct af_machine *machine = decider->machine;
    const char *platform = af_tables_platform(af_fact_text_or(&machine->platform.os, NULL),
                                              af_fact_text_or(&machine->platform.arch, NULL));
    if (strchr(version, '+') != NULL || !af_version_parse(version, strlen(version), &parsed))
        return version;
    const struct af_catalog_torch_release *release =
        af_tables_torch((int)parsed.release[0], (int)parsed.release[1]);
    const struct af_catalog_torch_variant *usual =
        release == NULL || platform == NULL ? NULL : af_tables_default(release, platform);
    for (size_t i = release == NULL || platform == NULL ? 0 : release->variants_count;
         (usual == NULL || usual->cuda_major < 0) && i-- > 0;)
        if (strcmp(release->variants[i].platform, platform) == 0)
            usual = &release->variants[i];
    const char *cuda = decider->project->torch_cuda;
    if (cuda == NULL && usual != NULL)
        cuda = usual->cuda;
    return cuda == NULL ? version
                        : af_arena_format(decider->project->arena, "%s+%s", version, cuda);
}

enum anyflash_status af_config_torch_state(struct af_config_decider *decider,
                                           const char *version)
{
    const char *unused;
    const char *word =
        af_arena_format(decider->project->arena, "torch=%s", with_build(decider, version));
    return af_machine_given_strictly(decider->machine, word, &unused, decider->err);
}

enum anyflash_status af_config_torch_has_wheel(struct af_config_decider *decider, bool *has_out)
{
    const struct af_machine *machines[] = {decider->machine};
    return af_fit_has_wheel(decider->catalog, machines, 1, &decider->options, has_out,
                            decider->err);
}

/* The newest patch of the release that the project allows; NULL: none. */
static const char *allowed_patch(const struct af_config_decider *decider,
                                 const struct af_catalog_torch_release *release)
{
    struct af_version latest;
    if (!af_version_parse(release->latest, strlen(release->latest), &latest))
        return NULL;
    for (int64_t patch = latest.release_count > 2 ? latest.release[2] : 0; patch >= 0;
         patch--) {
        const char *version =
            af_arena_format(decider->project->arena, "%d.%d.%d", release->torch_major,
                            release->torch_minor, (int)patch);
        if (excluding_version(decider, version) == NULL)
            return version;
    }
    return NULL;
}

/*
 * States the newest release that is allowed and has a wheel; *has_out: whether there is one.
 * *newest_out: the newest that is allowed; NULL: none is.
 */
static enum anyflash_status try_releases(struct af_config_decider *decider, bool *has_out,
                                         const char **newest_out)
{
    enum anyflash_status status = ANYFLASH_OK;
    *newest_out = NULL;
    *has_out = false;
    for (size_t i = af_tables.torch_count; i-- > 0 && status == ANYFLASH_OK && !*has_out;) {
        const char *version = allowed_patch(decider, &af_tables.torch[i]);
        if (version == NULL)
            continue;
        *newest_out = *newest_out == NULL ? version : *newest_out;
        status = af_config_torch_state(decider, version);
        if (status == ANYFLASH_OK)
            status = af_config_torch_has_wheel(decider, has_out);
    }
    return status;
}

/*
 * States the newest release that is allowed and has an official wheel, else one that has any
 * wheel, else the newest.
 */
static enum anyflash_status state_newest(struct af_config_decider *decider,
                                         const struct af_project_requirement *limit)
{
    const char *newest = NULL;
    bool has = false, official_only = decider->options.official_only;
    decider->options.official_only = true;
    enum anyflash_status status = try_releases(decider, &has, &newest);
    decider->options.official_only = official_only;
    if (status == ANYFLASH_OK && !has)
        status = try_releases(decider, &has, &newest);
    if (status != ANYFLASH_OK || has)
        return status;
    if (newest == NULL)
        return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                       "no known release of torch satisfies %s",
                       af_config_project_place(decider->project, limit));
    return af_config_torch_state(decider, newest);
}

/* Gives the machine the torch that the project will have, if its own is excluded. */
enum anyflash_status af_config_torch_settle(struct af_config_decider *decider)
{
    struct af_config_project *project = decider->project;
    struct af_arena *arena = project->arena;
    const char *had = af_fact_text_or(&decider->machine->torch.version, NULL);
    const struct af_project_requirement *pin = pinning(decider);
    const struct af_project_requirement *cause = af_config_torch_limit(decider);
    const struct af_project_requirement *unknown = pin == NULL ? unknown_pin(decider) : NULL;
    if (unknown != NULL)
        return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                       "%s decides which torch there will be, and nothing says which: pin "
                       "torch, too",
                       af_config_project_place(project, unknown));
    if (had != NULL)
        cause = excluding_version(decider, had);
    if (cause == NULL)
        return ANYFLASH_OK;
    const char *version = pin == NULL ? NULL : af_project_pinned_version(arena, pin->specifier);
    const struct af_project_requirement *other =
        version == NULL ? NULL : excluding_version(decider, version);
    if (other != NULL)
        return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED, "%s and %s exclude each other",
                       af_config_project_place(project, pin),
                       af_config_project_place(project, other));
    enum anyflash_status status = version != NULL ? af_config_torch_state(decider, version)
                                                  : state_newest(decider, cause);
    project->replaces_torch = true;
    if (status == ANYFLASH_OK && decider->note_count < AF_CONFIG_NOTES_MAX)
        decider->notes[decider->note_count++] =
            af_arena_format(arena, "chosen for torch %s because of %s; %s has %s",
                            af_fact_text_or(&decider->machine->torch.version, ""),
                            af_config_project_place(project, pin != NULL ? pin : cause),
                            decider->machine->name, had == NULL ? "none" : had);
    return status;
}
