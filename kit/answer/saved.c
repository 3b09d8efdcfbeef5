/*
 * saved.c: writes a plan as JSON and reads it back: the facts that it depends
 * on as one flat object (texts; null: absent or unknown), and its steps, which
 * are rebuilt by the builder. Paths are not among the facts, so the same plan
 * can be used on another node of a cluster.
 */
#include "kit/answer/saved.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "kit/answer/builder.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/catalog/publisher.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"

#define NAME_BYTES 200

static bool set(json_t *facts, const char *name, json_t *value)
{
    return facts != NULL && value != NULL && json_object_set_new(facts, name, value) == 0;
}

static json_t *value_of(const struct af_fact *fact, enum af_fact_type type)
{
    if (fact->state != AF_FACT_KNOWN)
        return json_null();
    if (type == AF_FACT_BOOL)
        return json_string(fact->value.truth ? "true" : "false");
    return json_string(fact->value.text);
}

/* "8.9 9.0": those of the GPUs that a program would see. */
static json_t *gpus_of(const struct af_machine *machine)
{
    struct af_text text = {0};
    if (machine->gpus.state != AF_FACT_KNOWN)
        return json_null();
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct af_gpu *gpu = &machine->gpus.rows[i];
        if (af_fact_truth(&gpu->visible) != AF_NO)
            af_text_format(&text, "%s%s", text.len > 0 ? " " : "",
                           af_fact_text_or(&gpu->sm, "unknown"));
    }
    json_t *value = text.failed ? NULL : json_string(af_text_get(&text));
    af_text_release(&text);
    return value;
}

static bool set_packages(json_t *facts, const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->packages.count; i++) {
        const struct af_package *package = &machine->packages.rows[i];
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "package %s", af_fact_text_or(&package->name, ""));
        if (!set(facts, name, value_of(&package->version, AF_FACT_TEXT)))
            return false;
    }
    return true;
}

json_t *af_plan_facts_json(const struct af_machine *machine)
{
    const struct {
        const char *name;
        const struct af_fact *fact;
        enum af_fact_type type;
    } rows[] = {
        {"platform.os", &machine->platform.os, AF_FACT_TEXT},
        {"platform.arch", &machine->platform.arch, AF_FACT_TEXT},
        {"platform.libc", &machine->platform.libc, AF_FACT_TEXT},
        {"platform.libc_version", &machine->platform.libc_version, AF_FACT_TEXT},
        {"python.implementation", &machine->python.implementation, AF_FACT_TEXT},
        {"python.version", &machine->python.version, AF_FACT_TEXT},
        {"python.abi_flags", &machine->python.abi_flags, AF_FACT_TEXT},
        {"torch.version", &machine->torch.version, AF_FACT_TEXT},
        {"torch.cuda", &machine->torch.cuda, AF_FACT_TEXT},
        {"torch.cxx11abi", &machine->torch.cxx11abi, AF_FACT_BOOL},
        {"torch.cudart_soname", &machine->torch.cudart_soname, AF_FACT_TEXT},
        {"driver.cuda_api", &machine->driver.cuda_api, AF_FACT_TEXT},
    };
    json_t *facts = json_object();
    bool good = facts != NULL;
    for (size_t i = 0; good && i < AF_COUNT(rows); i++)
        good = set(facts, rows[i].name, value_of(rows[i].fact, rows[i].type));
    good = good && set(facts, "gpus", gpus_of(machine)) && set_packages(facts, machine);
    if (good)
        return facts;
    json_decref(facts);
    return NULL;
}

static const char *shown(const json_t *value)
{
    const char *text = json_string_value(value);
    return text == NULL ? "unknown or absent" : text[0] == '\0' ? "none" : text;
}

/* A sentence on the first fact of `from` that differs in `to`, or is missing; or NULL. */
static const char *difference(const json_t *from, const json_t *to, bool from_is_saved,
                              struct af_arena *arena)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, name, value)
    {
        const json_t *other = json_object_get(to, name);
        const char *a = json_string_value(value);
        const char *b = json_string_value(other);
        if (af_equal(a, b) || (a == NULL && b == NULL))
            continue;
        const char *text = af_arena_format(
            arena, "'%s' is %s on this machine, but the plan was made for %s", name,
            shown(from_is_saved ? other : value), shown(from_is_saved ? value : other));
        return text == NULL ? NULL : af_text_scrub(arena, text, 300);
    }
    return NULL;
}

static const char *fact_changed(const json_t *saved, const struct af_machine *machine,
                                struct af_arena *arena)
{
    json_t *now = af_plan_facts_json(machine);
    if (now == NULL) {
        arena->failed = true;
        return NULL;
    }
    const char *text = difference(saved, now, true, arena);
    if (text == NULL)
        text = difference(now, saved, false, arena);
    json_decref(now);
    return text;
}

static const char *const kind_names[] = {
    [AF_STEP_ADVICE] = "advice",     [AF_STEP_ENVIRONMENT] = "environment",
    [AF_STEP_TOOL] = "tool",         [AF_STEP_WHEEL] = "wheel",
    [AF_STEP_PACKAGES] = "packages", [AF_STEP_TORCH] = "torch",
    [AF_STEP_NEEDS] = "needs",       [AF_STEP_OWN] = "own",
    [AF_STEP_BUILD] = "build",       [AF_STEP_TRY] = "try"};

static json_t *text_json(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static json_t *list_json(const char *const *items, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (json_array_append_new(list, json_string(items[i])) == 0)
            continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *wheel_json(const struct af_step_wheel *wheel, struct af_arena *arena)
{
    if (wheel == NULL)
        return json_null();
    const char *publisher = wheel->url == NULL ? NULL : af_publisher_of_url(arena, wheel->url);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "package", wheel->package,
                     "filename", wheel->filename, "url", text_json(wheel->url), "publisher",
                     text_json(publisher), "path", text_json(wheel->path), "sha256",
                     text_json(wheel->sha256), "version", text_json(wheel->version));
}

static json_t *step_json(const struct af_step *step, struct af_arena *arena)
{
    const char *commands[] = {[AF_SHELL_POSIX] = NULL, [AF_SHELL_CMD] = NULL};
    for (int shell = AF_SHELL_POSIX; step->argc > 0 && shell <= AF_SHELL_CMD; shell++)
        commands[shell] = af_step_command(step, (enum af_shell)shell, arena);
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "title",
                     text_json(step->title), "kind", kind_names[step->kind], "argv",
                     list_json(step->argv, step->argc), "environment",
                     list_json(step->environment, step->environment_count), "command",
                     text_json(commands[AF_SHELL_POSIX]), "powershell",
                     text_json(commands[AF_SHELL_POWERSHELL]), "cmd",
                     text_json(commands[AF_SHELL_CMD]), "wheel", wheel_json(step->wheel, arena),
                     "requirements", list_json(step->requirements, step->requirement_count),
                     "torch_backend", text_json(step->torch_backend));
}

json_t *af_plan_steps_json(const struct af_plan *plan, struct af_arena *arena)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < plan->step_count; i++) {
        if (json_array_append_new(list, step_json(&plan->steps[i], arena)) == 0)
            continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

struct reading {
    const char *name;
    struct af_builder *builder;
    struct anyflash_error *err;
};

static enum anyflash_status bad(const struct reading *reading, const char *what)
{
    return af_fail(reading->err, ANYFLASH_E_DATA, "'%s' is not a plan of anyflash: %s",
                   reading->name, what);
}

/*
 * Accepts "einops" and "torch==2.9.1+cu128", but nothing that an installer
 * would read as an option, an address or a file.
 */
static bool is_requirement(const char *text)
{
    struct af_requirement parsed;
    size_t len = text == NULL ? 0 : strlen(text);
    if (len > 200 || !af_requirement_parse((struct af_span){text, len}, &parsed) ||
        parsed.url.len > 0 || parsed.has_marker)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("-_.+=!<>~,[]", text[i]) == NULL)
            return false;
    return true;
}

static bool is_hash(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64;
}

static enum anyflash_status read_wheel(struct reading *reading, const json_t *json)
{
    struct af_wheel_name parts;
    struct af_arena *arena = reading->builder->arena;
    const json_t *row = json_object_get(json, "wheel");
    const char *filename = json_string_value(json_object_get(row, "filename"));
    const char *url = json_string_value(json_object_get(row, "url"));
    const char *sha256 = json_string_value(json_object_get(row, "sha256"));
    const char *package = json_string_value(json_object_get(row, "package"));
    if (filename == NULL || !is_requirement(package) || strchr(filename, '/') != NULL ||
        af_wheel_name_parse(filename, strlen(filename), &parts) != AF_WHEEL_NAME_VALID)
        return bad(reading, "a step has no wheel with a valid name");
    if (url == NULL && json_is_string(json_object_get(row, "path")))
        return bad(reading, "it installs a file of the machine that it was made on; "
                            "`anyflash install` without --plan does that there");
    if (url == NULL || !af_url_is_http(url))
        return bad(reading, "a wheel has no URL");
    if (sha256 != NULL && !is_hash(sha256))
        return bad(reading, "a SHA-256 does not have 64 hexadecimal digits");
    const struct af_step_wheel wheel = {
        .package = af_arena_text(arena, package),
        .filename = af_arena_text(arena, filename),
        .url = af_arena_text(arena, url),
        .sha256 = af_arena_text(arena, sha256),
        .version = af_arena_text(arena, parts.version_text),
    };
    af_plan_file(reading->builder, &wheel);
    return ANYFLASH_OK;
}

static enum anyflash_status read_requirements(struct reading *reading, const json_t *json,
                                              enum af_step_kind kind)
{
    struct af_builder *builder = reading->builder;
    const json_t *list = json_object_get(json, "requirements");
    const char *backend = json_string_value(json_object_get(json, "torch_backend"));
    size_t count = json_array_size(list);
    if (count == 0 || count > AF_STEP_WORDS_MAX / 2 ||
        (backend != NULL && !is_requirement(backend)))
        return bad(reading, "a step has no valid requirements");
    for (size_t i = 0; i < count; i++)
        if (!is_requirement(json_string_value(json_array_get(list, i))))
            return bad(reading, "a requirement is not a name with a version");
    af_builder_install(builder);
    if (backend != NULL && builder->target.uv) {
        af_builder_word(builder, "--torch-backend");
        af_builder_word(builder, backend);
    }
    for (size_t i = 0; i < count; i++)
        af_builder_word(builder, json_string_value(json_array_get(list, i)));
    af_builder_end(builder, kind,
                   kind == AF_STEP_TORCH ? "install the torch that the wheel was built for"
                                         : "install its other requirements");
    for (size_t i = 0; i < count; i++)
        af_builder_require(builder, json_string_value(json_array_get(list, i)));
    if (af_builder_last(builder) != NULL)
        af_builder_last(builder)->torch_backend = af_arena_text(builder->arena, backend);
    return ANYFLASH_OK;
}

/* Advice and tests are derived from the wheel, not read from the file. */
static enum anyflash_status read_step(struct reading *reading, const json_t *json)
{
    const char *kind = json_string_value(json_object_get(json, "kind"));
    if (af_equal(kind, "wheel"))
        return read_wheel(reading, json);
    if (af_equal(kind, "packages"))
        return read_requirements(reading, json, AF_STEP_PACKAGES);
    if (af_equal(kind, "torch"))
        return read_requirements(reading, json, AF_STEP_TORCH);
    if (af_equal(kind, "needs"))
        return read_requirements(reading, json, AF_STEP_NEEDS);
    if (af_equal(kind, "own")) {
        af_plan_package(reading->builder);
        af_plan_try_package(reading->builder);
        return ANYFLASH_OK;
    }
    if (af_equal(kind, "advice") || af_equal(kind, "try"))
        return ANYFLASH_OK;
    if (af_equal(kind, "environment") || af_equal(kind, "tool") || af_equal(kind, "build"))
        return bad(reading, "it has steps that you must do yourself, such as creating an "
                            "environment or building a wheel");
    return bad(reading, "a step has an unknown kind");
}

static enum anyflash_status read_steps(struct reading *reading, const json_t *json)
{
    const json_t *steps = json_object_get(json, "steps");
    enum anyflash_status status = ANYFLASH_OK;
    size_t count = json_array_size(steps);
    if (!json_is_array(steps) || count >= AF_STEPS_MAX)
        return bad(reading, "it has no list of steps");
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = read_step(reading, json_array_get(steps, i));
    for (size_t i = 0; status == ANYFLASH_OK && i < reading->builder->step_count; i++)
        if (reading->builder->steps[i].wheel != NULL)
            af_plan_check(reading->builder, reading->builder->steps[i].wheel->package);
    return status;
}

enum anyflash_status af_plan_read(const json_t *json, const char *name,
                                  const struct af_machine *machine, struct af_arena *arena,
                                  struct af_plan *plan, const char **changed_out,
                                  struct anyflash_error *err)
{
    struct af_builder builder;
    struct reading reading = {.name = name, .builder = &builder, .err = err};
    *changed_out = NULL;
    if (!af_equal(json_string_value(json_object_get(json, "schema")), AF_PLAN_SCHEMA) ||
        !json_is_object(json_object_get(json, "facts")))
        return bad(&reading, "`anyflash plan --json` writes one");
    *changed_out = fact_changed(json_object_get(json, "facts"), machine, arena);
    if (arena->failed)
        return af_fail_memory(err);
    if (*changed_out != NULL)
        return ANYFLASH_OK;
    struct af_plan made = {.rung = AF_RUNG_WHEEL};
    const char *decision = json_string_value(json_object_get(json, "decision"));
    if (decision != NULL && !af_rung_parse(decision, &made.rung))
        return bad(&reading, "its decision is unknown");
    af_builder_begin(&builder, &made, machine);
    af_plan_prepare(&builder);
    enum anyflash_status status = read_steps(&reading, json);
    if (status != ANYFLASH_OK) {
        af_arena_release(&made.arena);
        return status;
    }
    return af_builder_finish(&builder, &made, plan, err);
}
