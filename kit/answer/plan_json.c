/*
 * plan_json.c: a plan as JSON: its steps, and the facts that it depends on as one flat object
 * (texts; null: absent or unknown).
 */
#include "kit/answer/plan_json.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/catalog/publisher.h"

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

static const char *const kind_names[] = {[AF_STEP_ADVICE] = "advice",
                                         [AF_STEP_ENVIRONMENT] = "environment",
                                         [AF_STEP_TOOL] = "tool",
                                         [AF_STEP_WHEEL] = "wheel",
                                         [AF_STEP_PACKAGES] = "packages",
                                         [AF_STEP_TORCH] = "torch",
                                         [AF_STEP_NEEDS] = "needs",
                                         [AF_STEP_BUILD] = "build",
                                         [AF_STEP_TRY] = "try"};

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
