/*
 * saved_facts.c: the facts that a plan rests on, as one flat JSON object: texts,
 * or null for what is not there or not known. Paths are not among them: the same
 * plan may be done on another node of a cluster.
 */
#include "kit/plan/saved_facts.h"

#include <stdio.h>

#include "kit/base/text.h"

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

/* "8.9 9.0": of the GPUs that a program would see. */
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
    return text == NULL ? "not known or not there" : text[0] == '\0' ? "none" : text;
}

/* What `from` says and `to` says otherwise or not at all. */
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
        const char *text = af_arena_format(arena, "'%s' is %s here; the plan was made for %s",
                                           name, shown(from_is_saved ? other : value),
                                           shown(from_is_saved ? value : other));
        return text == NULL ? NULL : af_text_scrub(arena, text, 300);
    }
    return NULL;
}

const char *af_plan_fact_changed(const json_t *saved, const struct af_machine *machine,
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
