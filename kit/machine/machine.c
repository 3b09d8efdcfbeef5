/*
 * machine.c: facts and their setters, the table of groups, and creating and
 * releasing a machine. Probing is in kit/probe, the JSON record in
 * machine_record.c, key=value words in given.c.
 */
#include "kit/machine/machine.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

#define SHOWN_BYTES 4096u

static void publish(struct af_arena *arena, struct af_fact *fact, struct af_fact made,
                    const char *source)
{
    made.source = af_text_scrub(arena, source, SHOWN_BYTES);
    made.origin.kind = made.state == AF_FACT_UNKNOWN ? AF_ORIGIN_NONE : AF_ORIGIN_READ;
    *fact = made;
}

void af_fact_text(struct af_arena *arena, struct af_fact *fact, const char *text,
                  const char *source)
{
    if (text == NULL)
        return;
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.text = af_text_scrub(arena, text, SHOWN_BYTES);
    publish(arena, fact, made, source);
}

void af_fact_int(struct af_arena *arena, struct af_fact *fact, int64_t number,
                 const char *source)
{
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.number = number;
    publish(arena, fact, made, source);
}

void af_fact_bool(struct af_arena *arena, struct af_fact *fact, bool truth, const char *source)
{
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.truth = truth;
    publish(arena, fact, made, source);
}

void af_fact_list(struct af_arena *arena, struct af_fact *fact, const char *const *items,
                  size_t count, const char *source)
{
    if (items == NULL)
        return;
    const char **copies = af_arena_array(arena, count + 1, sizeof *copies);
    for (size_t i = 0; i < count; i++)
        copies[i] = af_text_scrub(arena, items[i], SHOWN_BYTES);
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.list.items = copies;
    made.value.list.count = count;
    publish(arena, fact, made, source);
}

void af_fact_absent(struct af_arena *arena, struct af_fact *fact, const char *source)
{
    publish(arena, fact, (struct af_fact){.state = AF_FACT_ABSENT}, source);
}

void af_fact_unknown(struct af_arena *arena, struct af_fact *fact, const char *format, ...)
{
    char reason[600];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    publish(arena, fact, (struct af_fact){.state = AF_FACT_UNKNOWN}, reason);
}

void af_machine_set_all(struct af_arena *arena, struct af_fact *facts, size_t bytes,
                        enum af_fact_state state, const char *why)
{
    for (size_t i = 0; i < bytes / sizeof *facts; i++)
        publish(arena, &facts[i], (struct af_fact){.state = state}, why);
}

const char *af_fact_text_or(const struct af_fact *fact, const char *fallback)
{
    return fact->state == AF_FACT_KNOWN ? fact->value.text : fallback;
}

int64_t af_fact_int_or(const struct af_fact *fact, int64_t fallback)
{
    return fact->state == AF_FACT_KNOWN ? fact->value.number : fallback;
}

enum af_answer af_fact_truth(const struct af_fact *fact)
{
    if (fact->state == AF_FACT_UNKNOWN)
        return AF_UNKNOWN;
    return fact->state == AF_FACT_KNOWN && fact->value.truth ? AF_YES : AF_NO;
}

bool af_fact_is(const struct af_fact *fact, const char *text)
{
    return fact->state == AF_FACT_KNOWN && strcmp(fact->value.text, text) == 0;
}

bool af_fact_is_assumed(const struct af_fact *fact)
{
    return fact->origin.kind == AF_ORIGIN_ASSUMED;
}

/* Field tables, one per record or row: system_fields, gpu_fields, ... */
#define AF_MACHINE_RECORD(name, doc) static const struct af_field name##_fields[] = {
#define AF_MACHINE_ROW(list, row, doc) static const struct af_field row##_fields[] = {
#define AF_MACHINE_END(name)                                                                   \
    }                                                                                          \
    ;                                                                                          \
    static_assert(sizeof(struct af_##name) ==                                                  \
                      AF_COUNT(name##_fields) * sizeof(struct af_fact),                        \
                  "a record holds facts only");
#define AF_FACT(member, type, doc) {#member, AF_FACT_##type, doc},
#include "kit/machine/fields.inc"

#define GROUP(member, row, is_list, doc)                                                       \
    {#member,                                                                                  \
     doc,                                                                                      \
     row##_fields,                                                                             \
     AF_COUNT(row##_fields),                                                                   \
     offsetof(struct af_machine, member),                                                      \
     is_list,                                                                                  \
     sizeof(struct af_##row)},
#define AF_MACHINE_RECORD(name, doc) GROUP(name, name, false, doc)
#define AF_MACHINE_ROW(list, row, doc) GROUP(list, row, true, doc)
#define AF_MACHINE_END(name)
#define AF_FACT(member, type, doc)
static const struct af_group groups[] = {
#include "kit/machine/fields.inc"
};

const struct af_group *af_machine_groups(size_t *count_out)
{
    *count_out = AF_COUNT(groups);
    return groups;
}

struct af_rows *af_machine_rows(struct af_machine *machine, const struct af_group *group)
{
    return (struct af_rows *)(void *)((char *)machine + group->offset);
}

struct af_fact *af_machine_facts(struct af_machine *machine, const struct af_group *group,
                                 size_t index)
{
    if (!group->is_list)
        return (struct af_fact *)(void *)((char *)machine + group->offset);
    char *rows = af_machine_rows(machine, group)->rows;
    return (struct af_fact *)(void *)(rows + index * group->row_bytes);
}

void af_machine_init(struct af_machine *machine, const char *name, const char *why)
{
    *machine = (struct af_machine){.name = name};
    af_arena_init(&machine->arena);
    for (size_t g = 0; g < AF_COUNT(groups); g++) {
        if (groups[g].is_list) {
            af_machine_rows(machine, &groups[g])->source = why;
            continue;
        }
        struct af_fact *facts = af_machine_facts(machine, &groups[g], 0);
        for (size_t f = 0; f < groups[g].field_count; f++)
            facts[f].source = why;
    }
}

static const struct af_group *group_of(size_t list_offset)
{
    const struct af_group *group = groups;
    while (group->offset != list_offset)
        group++;
    assert(group->is_list);
    return group;
}

void *af_machine_row_add(struct af_machine *machine, size_t list_offset, const char *why)
{
    const struct af_group *group = group_of(list_offset);
    struct af_rows *list = af_machine_rows(machine, group);
    size_t count = list->count;
    if (count >= AF_MACHINE_ROWS_MAX)
        return NULL;
    if ((count & (count - 1)) == 0) { /* the array is full at every power of two */
        void *rows =
            af_arena_array(&machine->arena, count == 0 ? 1 : 2 * count, group->row_bytes);
        if (count != 0)
            memcpy(rows, list->rows, count * group->row_bytes);
        list->rows = rows;
    }
    list->count = count + 1;
    list->state = AF_FACT_KNOWN;
    struct af_fact *facts = af_machine_facts(machine, group, count);
    for (size_t f = 0; f < group->field_count; f++)
        facts[f].source = why;
    return facts;
}

void af_machine_release(struct af_machine *machine)
{
    af_arena_release(&machine->arena);
}

void *af_machine_row(const struct af_machine *machine, size_t list_offset, const char *name)
{
    const struct af_rows *list = (const void *)((const char *)machine + list_offset);
    size_t row_bytes = group_of(list_offset)->row_bytes;
    for (size_t i = 0; i < list->count; i++) {
        void *row = (char *)list->rows + i * row_bytes;
        if (af_fact_is(row, name))
            return row;
    }
    return NULL;
}

const struct af_package *af_machine_package(const struct af_machine *machine, const char *name)
{
    return af_machine_row(machine, offsetof(struct af_machine, packages), name);
}

const char *af_machine_variable(const struct af_machine *machine, const char *name)
{
    const struct af_variable *found =
        af_machine_row(machine, offsetof(struct af_machine, variables), name);
    return found == NULL ? NULL : af_fact_text_or(&found->value, NULL);
}

bool af_machine_has_tool(const struct af_machine *machine, const char *name)
{
    return af_machine_row(machine, offsetof(struct af_machine, tools), name) != NULL;
}

bool af_machine_lacks_installer(const struct af_machine *machine)
{
    return machine->tools.state == AF_FACT_KNOWN && !af_machine_has_tool(machine, "uv") &&
           !af_machine_has_tool(machine, "pip");
}

bool af_machine_uses_uv(const struct af_machine *machine)
{
    bool has_pip = af_machine_has_tool(machine, "pip") ||
                   (machine->tools.state == AF_FACT_UNKNOWN &&
                    af_fact_is(&machine->platform.os, "windows")); /* with every Python there */
    return !af_machine_lacks_installer(machine) &&
           (af_machine_has_tool(machine, "uv") || !has_pip);
}

const struct af_package *af_machine_shim(const struct af_machine *machine)
{
    const struct af_package *package = af_machine_package(machine, "flash-attn");
    return package != NULL && af_fact_is(&package->installer, "anyflash") ? package : NULL;
}

bool af_machine_shim_is_complete(const struct af_machine *machine)
{
    const struct af_package *shim = af_machine_shim(machine);
    const struct af_fact *list = shim == NULL ? NULL : &shim->extensions;
    for (size_t i = 0;
         list != NULL && list->state == AF_FACT_KNOWN && i < list->value.list.count; i++)
        if (strncmp(list->value.list.items[i], "anyflash/", strlen("anyflash/")) == 0)
            return true;
    return false;
}

const struct af_package *af_machine_flash_attn(const struct af_machine *machine)
{
    return af_machine_shim(machine) == NULL ? af_machine_package(machine, "flash-attn") : NULL;
}

const struct af_toolkit *af_machine_toolkit(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->toolkits.count; i++) {
        if (af_fact_truth(&machine->toolkits.rows[i].torch_takes_it) == AF_YES)
            return &machine->toolkits.rows[i];
    }
    return NULL;
}

/* Python's names for operating systems. */
static const struct {
    const char *os;
    const char *os_name;
    const char *sys_platform;
    const char *platform_system;
} systems[] = {
    {"linux", "posix", "linux", "Linux"},
    {"macos", "posix", "darwin", "Darwin"},
    {"windows", "nt", "win32", "Windows"},
};

struct af_marker_environment af_machine_markers(const struct af_machine *machine)
{
    const char *implementation = af_fact_text_or(&machine->python.implementation, NULL);
    struct af_marker_environment here = {
        .python_full_version = af_fact_text_or(&machine->python.version, NULL),
        .platform_machine = af_fact_text_or(&machine->platform.arch, NULL),
        .implementation_name = implementation,
        .platform_python_implementation = af_equal(implementation, "cpython") ? "CPython"
                                          : af_equal(implementation, "pypy")  ? "PyPy"
                                                                              : NULL,
        .extra = "",
    };
    for (size_t i = 0; i < AF_COUNT(systems); i++) {
        if (!af_fact_is(&machine->platform.os, systems[i].os))
            continue;
        here.os_name = systems[i].os_name;
        here.sys_platform = systems[i].sys_platform;
        here.platform_system = systems[i].platform_system;
    }
    /* platform.machine() of Windows writes it so */
    if (af_equal(here.sys_platform, "win32") && af_equal(here.platform_machine, "x86_64"))
        here.platform_machine = "AMD64";
    return here;
}
