/*
 * machine_write.c: writes a machine as a JSON record, which machine_record.c reads.
 */
#include <inttypes.h>

#include "kit/machine/machine.h"

static void add_quoted(struct af_text *out, const char *text)
{
    af_text_add(out, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            af_text_add(out, "\\");
        if ((unsigned char)*at < 0x20)
            af_text_format(out, "\\u%04x", (unsigned)*at);
        else
            af_text_add_n(out, at, 1);
    }
    af_text_add(out, "\"");
}

static void add_value(struct af_text *out, const struct af_fact *fact, enum af_fact_type type)
{
    if (fact->state == AF_FACT_ABSENT) {
        af_text_add(out, "null");
        return;
    }
    switch (type) {
    case AF_FACT_TEXT:
        add_quoted(out, fact->value.text);
        return;
    case AF_FACT_INT:
        af_text_format(out, "%" PRId64, fact->value.number);
        return;
    case AF_FACT_BOOL:
        af_text_add(out, fact->value.truth ? "true" : "false");
        return;
    case AF_FACT_LIST:
        af_text_add(out, "[");
        for (size_t i = 0; i < fact->value.list.count; i++) {
            af_text_add(out, i == 0 ? "" : ", ");
            add_quoted(out, fact->value.list.items[i]);
        }
        af_text_add(out, "]");
        return;
    }
}

static void add_fact(struct af_text *out, const struct af_fact *fact,
                     const struct af_field *field)
{
    const char *source = fact->source == NULL ? "" : fact->source;
    af_text_format(out, "\"%s\": {", field->name);
    if (fact->state == AF_FACT_UNKNOWN) {
        af_text_add(out, "\"unknown\": ");
    } else {
        af_text_add(out, "\"value\": ");
        add_value(out, fact, field->type);
        af_text_add(out, ", \"source\": ");
    }
    add_quoted(out, source);
    af_text_add(out, "}");
}

/* Writes the facts of a record or a row in braces; `indent` is that of "}". */
static void add_facts(struct af_text *out, const struct af_group *group,
                      const struct af_fact *facts, const char *indent)
{
    af_text_add(out, "{\n");
    for (size_t f = 0; f < group->field_count; f++) {
        af_text_format(out, "%s  ", indent);
        add_fact(out, &facts[f], &group->fields[f]);
        af_text_add(out, f + 1 < group->field_count ? ",\n" : "\n");
    }
    af_text_format(out, "%s}", indent);
}

static void add_list(struct af_text *out, struct af_machine *machine,
                     const struct af_group *group)
{
    const struct af_rows *list = af_machine_rows(machine, group);
    if (list->state != AF_FACT_KNOWN || list->count == 0) {
        bool known = list->state != AF_FACT_UNKNOWN;
        af_text_add(out, known ? "{\"value\": [], \"source\": " : "{\"unknown\": ");
        add_quoted(out, list->source == NULL ? "" : list->source);
        af_text_add(out, "}");
        return;
    }
    af_text_add(out, "[\n");
    for (size_t i = 0; i < list->count; i++) {
        af_text_add(out, "    ");
        add_facts(out, group, af_machine_facts(machine, group, i), "    ");
        af_text_add(out, i + 1 < list->count ? ",\n" : "\n");
    }
    af_text_add(out, "  ]");
}

void af_machine_write(struct af_machine *machine, struct af_text *out)
{
    size_t group_count;
    const struct af_group *groups = af_machine_groups(&group_count);
    af_text_add(out, "{\n  \"schema\": \"" AF_MACHINE_SCHEMA "\"");
    if (machine->remark != NULL) {
        af_text_add(out, ",\n  \"remark\": ");
        add_quoted(out, machine->remark);
    }
    for (size_t g = 0; g < group_count; g++) {
        af_text_format(out, ",\n  \"%s\": ", groups[g].name);
        if (groups[g].is_list)
            add_list(out, machine, &groups[g]);
        else
            add_facts(out, &groups[g], af_machine_facts(machine, &groups[g], 0), "  ");
    }
    af_text_add(out, "\n}\n");
}
