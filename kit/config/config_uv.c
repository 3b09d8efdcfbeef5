/*
 * config_uv.c: pyproject.toml for uv: sources with disjoint markers, a
 * dependency with a marker no wider than theirs, the torch that the wheel was
 * built for, and no build.
 *
 * Each step below is one edit of the file. docs/reference/config.md has the
 * reasons, each observed with real uv.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/config/config.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/uv_settings.h"

#define ERROR_NAME_BYTES 160

struct writer {
    struct af_config_lock *lock;
    const struct af_config_options *options;
    struct af_toml toml;
    enum anyflash_status status; /* why dependency() failed; else OK */
    struct anyflash_error *err;
};

#define EXTRA "flash" /* for flash-attn in a library that does not name it */

/* Whether the requirement `text` is for `package` (normalised). */
static bool is_for(const char *text, const char *package)
{
    struct af_requirement requirement;
    return text != NULL &&
           af_requirement_parse((struct af_span){text, strlen(text)}, &requirement) &&
           af_name_is(requirement.name, package);
}

/* "torch==2.8.*"; NULL: the wheel works with any. */
static const char *torch_requirement(struct af_config_lock *lock, const struct af_pin *pin)
{
    return pin->torch == NULL ? NULL : af_arena_format(lock->arena, "torch==%s.*", pin->torch);
}

/*
 * The specifier of the package that the file has, if all pins satisfy it: for those that it
 * applies to they do, but it may be for other machines. Without it uv would choose something
 * that the project excludes. NULL after a failure.
 */
static const char *kept_specifier(struct writer *writer, struct af_span specifier)
{
    char shown[ERROR_NAME_BYTES];
    struct af_config_lock *lock = writer->lock;
    const char *text =
        specifier.len == 0 ? "" : af_arena_text_n(lock->arena, specifier.data, specifier.len);
    for (size_t i = 0; i < lock->pin_count; i++) {
        struct af_version version;
        const char *own = lock->pins[i].version;
        if (af_version_parse(own, strlen(own), &version) &&
            af_specifier_contains(text, &version) == AF_YES)
            continue;
        writer->status = af_fail(writer->err, ANYFLASH_E_UNSUPPORTED,
                                 "'%s%s' excludes version %s, which was chosen", lock->package,
                                 af_text_quote(shown, sizeof shown, text, strlen(text)), own);
        return NULL;
    }
    return text;
}

/* Adds `requirement`, with the pin's marker if other pins need something else. */
static void add_requirement(struct af_config_lock *lock, const char **list, size_t *count,
                            const char *requirement, const char *marker)
{
    if (requirement != NULL && marker != NULL)
        requirement = af_arena_format(lock->arena, "%s ; %s", requirement, marker);
    for (size_t i = 0; i < *count; i++)
        if (af_equal(list[i], requirement))
            return;
    if (requirement != NULL)
        list[(*count)++] = requirement;
}

static bool torch_differs(const struct af_config_lock *lock)
{
    for (size_t i = 1; i < lock->pin_count; i++) {
        const char *a = lock->pins[0].torch;
        const char *b = lock->pins[i].torch;
        if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0))
            return true;
    }
    return false;
}

/* The wheel's own requirements except torch; if unknown, those of flash-attn. */
static void add_own(struct af_config_lock *lock, const struct af_pin *pin, const char **list,
                    size_t *count)
{
    if (pin->facts.requires_dist == NULL) {
        const char *own[AF_PROJECT_UV_REQUIREMENTS];
        const size_t own_count = af_project_uv_flash_requirements(pin->version, own);
        for (size_t i = 0; i < own_count; i++)
            add_requirement(lock, list, count, own[i], NULL);
        return;
    }
    for (size_t i = 0; i < pin->facts.requires_count; i++)
        if (!is_for(pin->facts.requires_dist[i], "torch") || pin->torch == NULL)
            add_requirement(lock, list, count, pin->facts.requires_dist[i], NULL);
}

/*
 * Whether the requirements are known: they are for flash-attn itself, and for files that
 * were read.
 */
static bool knows_requirements(const struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        if (pin->facts.requires_dist == NULL && strcmp(pin->wheel->package, "flash_attn") != 0)
            return false;
    }
    return true;
}

/*
 * What the wheel needs, with torch pinned: Requires-Dist values, in *list_out. Where pins
 * differ, each requirement has its pin's marker.
 */
static size_t requirements_of(struct af_config_lock *lock, const char ***list_out)
{
    size_t capacity = 2 * AF_PINS_MAX;
    size_t count = 0;
    bool differs = torch_differs(lock);
    for (size_t i = 0; i < lock->pin_count; i++)
        capacity += lock->pins[i].facts.requires_count;
    const char **list = af_arena_array(lock->arena, capacity, sizeof *list);
    *list_out = list;
    for (size_t i = 0; i < lock->pin_count; i++)
        add_requirement(lock, list, &count, torch_requirement(lock, &lock->pins[i]),
                        differs ? lock->pins[i].marker : NULL);
    for (size_t i = 0; i < lock->pin_count; i++)
        add_own(lock, &lock->pins[i], list, &count);
    return count;
}

/* uv refuses a file that has dependencies and no project.name, so none may come from here. */
static enum anyflash_status check_project(struct writer *writer, bool is_new)
{
    if (af_toml_text(&writer->toml, AF_TOML_PATH("project", "name")) != NULL)
        return ANYFLASH_OK;
    if (!is_new)
        return af_fail(writer->err, ANYFLASH_E_UNSUPPORTED,
                       "%s has no project.name, without which uv accepts no dependencies",
                       writer->toml.name);
    if (writer->options->is_written)
        return af_fail(writer->err, ANYFLASH_E_UNSUPPORTED,
                       "no pyproject.toml here: run `uv init --bare` first");
    af_config_lock_note(writer->lock, "no pyproject.toml here: these lines are no complete "
                                      "file; `uv init --bare` creates one");
    return ANYFLASH_OK;
}

/* `"flash-attn>=2.7 ; MARKER"`, quoted. */
static const char *dependency(struct writer *writer, const char *old)
{
    struct af_config_lock *lock = writer->lock;
    struct af_requirement requirement = {.has_marker = false};
    const char *specifier = "";
    if (old != NULL && af_requirement_parse((struct af_span){old, strlen(old)}, &requirement))
        specifier = kept_specifier(writer, requirement.specifier);
    if (specifier == NULL)
        return NULL;
    return af_toml_quote(lock->arena, af_arena_format(lock->arena, "%s%s ; %s", lock->package,
                                                      specifier, lock->marker));
}

/* The element of the array that is about the package, or NULL. */
static const struct af_toml_item *listed(const struct af_toml_item *array, const char *package)
{
    if (array == NULL || array->kind != AF_TOML_ARRAY)
        return NULL;
    for (const struct af_toml_item *item = array->first; item != NULL; item = item->next)
        if (is_for(item->text, package))
            return item;
    return NULL;
}

/* Replaces the package's line in the array at `path`; *found_out: whether there was one. */
static enum anyflash_status settle_list(struct writer *writer, struct af_toml_path path,
                                        bool *found_out)
{
    const struct af_toml_item *item =
        listed(af_toml_find(&writer->toml, path), writer->lock->package);
    if (item == NULL)
        return ANYFLASH_OK;
    *found_out = true;
    const char *text = dependency(writer, item->text);
    if (text == NULL)
        return writer->status;
    return af_toml_replace(&writer->toml, item, text, writer->err);
}

/* The same in every array of a table: extras, groups. */
static enum anyflash_status settle_table(struct writer *writer, const char *first,
                                         const char *second, bool *found_out)
{
    struct af_toml_path path =
        second == NULL ? AF_TOML_PATH(first) : AF_TOML_PATH(first, second);
    const char *keys[3] = {first, second};
    size_t depth = path.count;
    const struct af_toml_item *table = af_toml_find(&writer->toml, path);
    for (size_t i = 0; table != NULL && i < table->child_count; i++) {
        const struct af_toml_item *child = table->first;
        for (size_t skip = 0; skip < i; skip++)
            child = child->next;
        keys[depth] = child->key;
        enum anyflash_status status =
            settle_list(writer, (struct af_toml_path){keys, depth + 1}, found_out);
        if (status != ANYFLASH_OK)
            return status;
        table = af_toml_find(&writer->toml, (struct af_toml_path){keys, depth});
    }
    return ANYFLASH_OK;
}

/* Whether others may depend on the project: then they must be able to do so without a GPU. */
static bool is_package(const struct writer *writer)
{
    const struct af_toml *toml = &writer->toml;
    const struct af_toml_item *flag = af_toml_find(toml, AF_TOML_PATH("tool", "uv", "package"));
    return af_toml_text(toml, AF_TOML_PATH("project", "name")) != NULL &&
           (flag == NULL || flag->kind != AF_TOML_BOOL || toml->text.data[flag->start] != 'f');
}

/* Adds the requirement to an extra, or to the dependencies (NULL). */
static enum anyflash_status add_dependency(struct writer *writer, const char *extra)
{
    struct af_toml_path target = extra == NULL
                                     ? AF_TOML_PATH("project", "dependencies")
                                     : AF_TOML_PATH("project", "optional-dependencies", extra);
    const char *key = target.keys[1];
    const struct af_toml_item *dynamic =
        af_toml_find(&writer->toml, AF_TOML_PATH("project", "dynamic"));
    const struct af_toml_item *item = dynamic == NULL ? NULL : dynamic->first;
    for (; item != NULL; item = item->next)
        if (af_equal(item->text, key))
            return af_fail(writer->err, ANYFLASH_E_UNSUPPORTED,
                           "project.%s is dynamic, and a build fails if it is in %s, too", key,
                           writer->toml.name);
    const char *text = dependency(writer, NULL);
    return af_toml_append(&writer->toml, target, text, writer->err);
}

/*
 * Sets the requirement wherever the file has one; if it has none, adds it: to an extra, unless
 * nobody can depend on the project.
 */
static enum anyflash_status set_dependency(struct writer *writer)
{
    const char *extra = writer->options->extra;
    const char *package = writer->lock->package;
    bool in_extra =
        extra != NULL &&
        listed(af_toml_find(&writer->toml,
                            AF_TOML_PATH("project", "optional-dependencies", extra)),
               package) != NULL;
    bool found = false;
    enum anyflash_status status =
        settle_list(writer, AF_TOML_PATH("project", "dependencies"), &found);
    if (extra != NULL && found)
        af_config_lock_note(writer->lock,
                            "%s stays in the dependencies of the project, too: remove it there "
                            "to install it with the extra '%s' only",
                            package, extra);
    if (status == ANYFLASH_OK)
        status = settle_table(writer, "project", "optional-dependencies", &found);
    if (status == ANYFLASH_OK)
        status = settle_table(writer, "dependency-groups", NULL, &found);
    if (status == ANYFLASH_OK)
        status = settle_list(writer, AF_TOML_PATH("tool", "uv", "dev-dependencies"), &found);
    if (status != ANYFLASH_OK || (extra == NULL ? found : in_extra))
        return status;
    if (extra == NULL && is_package(writer)) {
        extra = EXTRA;
        af_config_lock_note(writer->lock,
                            "%s became the extra '" EXTRA "', so that the project installs "
                            "without it: `uv sync --extra " EXTRA "` takes it along; a project "
                            "that has %s in its dependencies keeps it there",
                            package, package);
    }
    return add_dependency(writer, extra);
}

/* Adds the package to the array [tool.uv] `key`, or removes it. */
static enum anyflash_status set_listed(struct writer *writer, const char *key, bool wanted)
{
    struct af_toml_path path = AF_TOML_PATH("tool", "uv", key);
    const struct af_toml_item *array = af_toml_find(&writer->toml, path);
    const struct af_toml_item *item = listed(array, writer->lock->package);
    const char *name = af_toml_quote(writer->lock->arena, writer->lock->package);
    if (wanted && item == NULL)
        return af_toml_append(&writer->toml, path, name, writer->err);
    if (wanted || item == NULL)
        return ANYFLASH_OK;
    return af_toml_remove(&writer->toml, array->child_count == 1 ? array : item, writer->err);
}

/* Sets [tool.uv.sources] package = value. */
static enum anyflash_status set_sources(struct writer *writer, const char *value)
{
    const struct af_toml_item *item =
        af_project_uv_child(af_toml_find(&writer->toml, AF_TOML_PATH("tool", "uv", "sources")),
                            writer->lock->package);
    enum anyflash_status status = ANYFLASH_OK;
    if (item != NULL && item->origin != AF_TOML_HEADER)
        return af_toml_replace(&writer->toml, item, value, writer->err);
    if (item != NULL) /* [tool.uv.sources.flash-attn] */
        status = af_toml_remove(&writer->toml, item, writer->err);
    return status != ANYFLASH_OK
               ? status
               : af_toml_set(&writer->toml,
                             AF_TOML_PATH("tool", "uv", "sources", writer->lock->package),
                             value, writer->err);
}

/* The sources, one line for each pin. */
static const char *sources_text(struct af_config_lock *lock)
{
    const char *text = "[\n";
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        const char *kind = pin->path != NULL ? "path" : "url";
        const char *quoted =
            af_toml_quote(lock->arena, pin->path != NULL ? pin->path : pin->url);
        const char *marker = af_toml_quote(lock->arena, pin->marker);
        text = af_arena_format(lock->arena, "%s    { %s = %s, marker = %s },\n", text, kind,
                               quoted, marker);
    }
    return af_arena_format(lock->arena, "%s]", text);
}

static enum anyflash_status set_metadata(struct writer *writer)
{
    const char **list = NULL;
    struct af_config_lock *lock = writer->lock;
    const size_t count = requirements_of(lock, &list);
    return af_project_uv_set_metadata(&writer->toml, lock->package, NULL, list, count,
                                      writer->err);
}

/* The user has to choose the index for torch, because many use a mirror. */
static void note_torch(struct writer *writer)
{
    const struct af_toml_item *sources =
        af_toml_find(&writer->toml, AF_TOML_PATH("tool", "uv", "sources"));
    if (af_project_uv_child(sources, "torch") == NULL)
        af_config_lock_note_torch(writer->lock,
                                  "as an explicit index in [tool.uv.sources] torch");
}

/* What uv 0.10 and newer does with a URL if the file's metadata says another version. */
static void note_sources(struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        if (pin->path == NULL && pin->metadata_has_local == AF_NO)
            af_config_lock_note(
                lock, "uv 0.10 and newer reinstalls this file at every `uv sync`: the "
                      "version in its metadata lacks the local part of its file name");
        if (pin->path == NULL && pin->metadata_has_local == AF_UNKNOWN)
            af_config_lock_note(
                lock, "unknown whether the wheel's metadata has the version of its file "
                      "name: check that a second `uv sync` changes nothing, or name the "
                      "folder of the file with --from");
    }
}

/* Markers cannot express the free-threaded build. */
static void note_threads(struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++)
        if (lock->pins[i].wheel->abi != NULL && af_ends_with(lock->pins[i].wheel->abi, "t"))
            af_config_lock_note(
                lock,
                "the wheel is for free-threaded Python 3.%d, which no marker can "
                "express: with the regular Python, `uv sync` fails",
                lock->pins[i].python_minor);
}

static enum anyflash_status write_wheels(struct writer *writer)
{
    note_threads(writer->lock);
    note_sources(writer->lock);
    note_torch(writer);
    const char *sources = sources_text(writer->lock);
    enum anyflash_status status = set_listed(writer, "no-build-package", true);
    if (status == ANYFLASH_OK)
        status = set_listed(writer, "no-build-isolation-package", false);
    if (status == ANYFLASH_OK)
        status = set_sources(writer, sources);
    return status;
}

enum anyflash_status af_config_uv(struct af_config_lock *lock,
                                  const struct af_config_options *options, struct af_span old,
                                  const char *name, struct af_span *new_out,
                                  struct anyflash_error *err)
{
    struct writer writer = {.lock = lock, .options = options, .err = err};
    enum anyflash_status status = af_toml_parse(&writer.toml, lock->arena, old, name, err);
    if (status == ANYFLASH_OK)
        status = check_project(&writer, old.len == 0);
    if (status == ANYFLASH_OK)
        status = set_dependency(&writer);
    if (status == ANYFLASH_OK)
        status = write_wheels(&writer);
    if (status == ANYFLASH_OK && knows_requirements(lock))
        status = set_metadata(&writer);
    else if (status == ANYFLASH_OK)
        af_config_lock_note(lock,
                            "the requirements of %s are unknown without its file, so torch is "
                            "not pinned: name the folder of the file with --from",
                            lock->package);
    if (status == ANYFLASH_OK)
        *new_out = writer.toml.text;
    return status;
}
