/*
 * machine_record.c: reads a machine from a JSON record, which may be partial, written by hand
 * or hostile. Every error names the file and the position in it, such as 'machine.json'
 * gpus[2].sm. base/json.h checks syntax, size and depth; machine.h describes the form of a
 * fact; machine_write.c writes such records.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/machine/machine.h"

#define TEXT_BYTES 4096u

struct reading {
    struct af_machine *machine;
    const char *name;   /* scrubbed name of the document */
    const char *unsaid; /* reason for facts missing from a named group */
    char where[160];    /* "gpus[2].sm" */
    struct anyflash_error *err;
};

static const char *json_kind(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return json_integer_value(json) < 0 ? "a negative number" : "a number";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a truth";
    default:
        return "null";
    }
}

static enum anyflash_status refuse(const struct reading *reading, const char *expected,
                                   const json_t *found)
{
    return af_fail(reading->err, ANYFLASH_E_DATA, "'%s' %s: expected %s, found %s",
                   reading->name, reading->where, expected, json_kind(found));
}

static enum anyflash_status refuse_key(const struct reading *reading, const char *key,
                                       const char *known_keys)
{
    char shown[80];
    af_text_quote(shown, sizeof shown, key, strlen(key));
    const char *dot = reading->where[0] == '\0' ? "" : ".";
    return af_fail(reading->err, ANYFLASH_E_DATA, "'%s' %s%s%s: unknown key; there are: %s",
                   reading->name, reading->where, dot, shown, known_keys);
}

/* Lists "os, arch, ..." for an error; `known` gets as much as fits. */
static void list_fields(const struct af_group *group, char *known, size_t size_bytes)
{
    size_t used = 0;
    known[0] = '\0';
    for (size_t f = 0; f < group->field_count && used < size_bytes; f++)
        used += (size_t)snprintf(known + used, size_bytes - used, "%s%s", f == 0 ? "" : ", ",
                                 group->fields[f].name);
}

static enum anyflash_status read_list(struct reading *reading, const json_t *json,
                                      struct af_fact *fact, const char *source)
{
    struct af_arena *arena = &reading->machine->arena;
    size_t count = json_array_size(json);
    if (count > AF_MACHINE_ROWS_MAX)
        return af_fail(reading->err, ANYFLASH_E_LIMIT, "'%s' %s: more than %u items",
                       reading->name, reading->where, AF_MACHINE_ROWS_MAX);
    const char **items = af_arena_array(arena, count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(json, i);
        if (!json_is_string(item))
            return refuse(reading, "a list of texts", item);
        items[i] = json_string_value(item);
    }
    af_fact_list(arena, fact, items, count, source);
    return ANYFLASH_OK;
}

static enum anyflash_status read_value(struct reading *reading, const json_t *json,
                                       enum af_fact_type type, struct af_fact *fact,
                                       const char *source)
{
    struct af_arena *arena = &reading->machine->arena;
    if (json_is_null(json)) {
        af_fact_absent(arena, fact, source);
        return ANYFLASH_OK;
    }
    switch (type) {
    case AF_FACT_TEXT:
        if (!json_is_string(json))
            return refuse(reading, "text", json);
        af_fact_text(arena, fact, json_string_value(json), source);
        return ANYFLASH_OK;
    case AF_FACT_INT:
        if (!json_is_integer(json) || json_integer_value(json) < 0)
            return refuse(reading, "a whole number of at least 0", json);
        af_fact_int(arena, fact, json_integer_value(json), source);
        return ANYFLASH_OK;
    case AF_FACT_BOOL:
        if (!json_is_boolean(json))
            return refuse(reading, "true or false", json);
        af_fact_bool(arena, fact, json_is_true(json), source);
        return ANYFLASH_OK;
    case AF_FACT_LIST:
        if (!json_is_array(json))
            return refuse(reading, "a list of texts", json);
        return read_list(reading, json, fact, source);
    }
    return ANYFLASH_OK;
}

/*
 * Splits {"value": V, "source": S} or {"unknown": WHY}; for the latter,
 * *value_out is NULL and *text_out the reason.
 */
static enum anyflash_status open_wrapper(struct reading *reading, json_t *json,
                                         const json_t **value_out, const char **text_out)
{
    const char *key;
    json_t *member;
    json_object_foreach(json, key, member)
    {
        bool is_value = strcmp(key, "value") == 0;
        if (!is_value && strcmp(key, "source") != 0 && strcmp(key, "unknown") != 0)
            return refuse_key(reading, key, "value, source; or unknown");
        if (!is_value && !json_is_string(member))
            return refuse(reading, "text as source or reason", member);
    }
    const json_t *value = json_object_get(json, "value");
    const json_t *unknown = json_object_get(json, "unknown");
    const json_t *source = json_object_get(json, "source");
    if ((value == NULL) == (unknown == NULL) || (unknown != NULL && source != NULL))
        return af_fail(reading->err, ANYFLASH_E_DATA,
                       "'%s' %s: expected either \"value\" (and \"source\") or \"unknown\"",
                       reading->name, reading->where);
    *value_out = value;
    const json_t *text = unknown != NULL ? unknown : source;
    *text_out = text == NULL ? reading->name : json_string_value(text);
    return ANYFLASH_OK;
}

static enum anyflash_status read_fact(struct reading *reading, json_t *json,
                                      enum af_fact_type type, struct af_fact *fact)
{
    const json_t *value = json;
    const char *source = reading->name;
    if (json_is_object(json)) {
        enum anyflash_status status = open_wrapper(reading, json, &value, &source);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (value == NULL) {
        const char *why = af_text_scrub(&reading->machine->arena, source, TEXT_BYTES);
        *fact = (struct af_fact){.state = AF_FACT_UNKNOWN, .source = why};
        return ANYFLASH_OK;
    }
    return read_value(reading, value, type, fact, source);
}

/* Reads the facts of a record or of one row; `place` is "torch" or "gpus[2]". */
static enum anyflash_status read_facts(struct reading *reading, json_t *json,
                                       const struct af_group *group, const char *place,
                                       struct af_fact *facts)
{
    const char *key;
    json_t *member;
    snprintf(reading->where, sizeof reading->where, "%s", place);
    if (!json_is_object(json))
        return refuse(reading, "an object", json);
    json_object_foreach(json, key, member)
    {
        size_t f = 0;
        while (f < group->field_count && strcmp(key, group->fields[f].name) != 0)
            f++;
        if (f == group->field_count) {
            char known[260];
            list_fields(group, known, sizeof known);
            snprintf(reading->where, sizeof reading->where, "%s", place);
            return refuse_key(reading, key, known);
        }
        snprintf(reading->where, sizeof reading->where, "%s.%s", place, key);
        enum anyflash_status status =
            read_fact(reading, member, group->fields[f].type, &facts[f]);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

/* Whether `json` is {"unknown": "why"}; *why_out points into it. */
static bool is_unknown(const json_t *json, const char **why_out)
{
    const json_t *why = json_object_get(json, "unknown");
    *why_out = json_string_value(why);
    return json_object_size(json) == 1 && *why_out != NULL;
}

static enum anyflash_status read_record(struct reading *reading, json_t *json,
                                        const struct af_group *group)
{
    struct af_arena *arena = &reading->machine->arena;
    struct af_fact *facts = af_machine_facts(reading->machine, group, 0);
    const char *why;
    bool unknown = is_unknown(json, &why);
    for (size_t f = 0; f < group->field_count; f++) {
        if (json_is_null(json))
            af_fact_absent(arena, &facts[f], reading->name);
        else
            af_fact_unknown(arena, &facts[f], "%s", unknown ? why : reading->unsaid);
    }
    if (json_is_null(json) || unknown)
        return ANYFLASH_OK;
    return read_facts(reading, json, group, group->name, facts);
}

static enum anyflash_status read_rows(struct reading *reading, const json_t *json,
                                      const struct af_group *group)
{
    size_t count = json_array_size(json);
    if (count > AF_MACHINE_ROWS_MAX)
        return af_fail(reading->err, ANYFLASH_E_LIMIT, "'%s' %s: more than %u entries",
                       reading->name, reading->where, AF_MACHINE_ROWS_MAX);
    for (size_t i = 0; i < count; i++) {
        char place[80];
        snprintf(place, sizeof place, "%s[%zu]", group->name, i);
        struct af_fact *facts =
            af_machine_row_add(reading->machine, group->offset, reading->unsaid);
        enum anyflash_status status =
            read_facts(reading, json_array_get(json, i), group, place, facts);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status read_group(struct reading *reading, json_t *json,
                                       const struct af_group *group)
{
    const json_t *rows = json;
    const char *source = reading->name;
    snprintf(reading->where, sizeof reading->where, "%s", group->name);
    if (!group->is_list)
        return read_record(reading, json, group);
    if (json_is_object(json)) {
        enum anyflash_status status = open_wrapper(reading, json, &rows, &source);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (rows != NULL && !json_is_array(rows) && !json_is_null(rows))
        return refuse(reading, "an array of objects", rows);
    *af_machine_rows(reading->machine, group) =
        (struct af_rows){.state = rows == NULL ? AF_FACT_UNKNOWN : AF_FACT_KNOWN,
                         .source = af_text_scrub(&reading->machine->arena, source, TEXT_BYTES)};
    return rows == NULL ? ANYFLASH_OK : read_rows(reading, rows, group);
}

static enum anyflash_status read_schema(const struct reading *reading, const json_t *json)
{
    char shown[80];
    if (!json_is_string(json))
        return refuse(reading, "text", json);
    const char *schema = json_string_value(json);
    if (strcmp(schema, AF_MACHINE_SCHEMA) == 0)
        return ANYFLASH_OK;
    af_text_quote(shown, sizeof shown, schema, strlen(schema));
    return af_fail(reading->err, ANYFLASH_E_DATA,
                   "'%s' schema: '%s' is not one that this program reads; it reads '%s'",
                   reading->name, shown, AF_MACHINE_SCHEMA);
}

static enum anyflash_status read_member(struct reading *reading, const char *key, json_t *json)
{
    size_t group_count;
    const struct af_group *groups = af_machine_groups(&group_count);
    snprintf(reading->where, sizeof reading->where, "%s", key);
    if (strcmp(key, "schema") == 0)
        return read_schema(reading, json);
    if (strcmp(key, "remark") == 0) {
        if (!json_is_string(json))
            return refuse(reading, "text", json);
        reading->machine->remark =
            af_text_scrub(&reading->machine->arena, json_string_value(json), TEXT_BYTES);
        return ANYFLASH_OK;
    }
    if (strcmp(key, "network") == 0) /* of earlier records; nothing uses it now */
        return ANYFLASH_OK;
    char known[260] = "schema, remark";
    for (size_t g = 0; g < group_count; g++) {
        if (strcmp(key, groups[g].name) == 0)
            return read_group(reading, json, &groups[g]);
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, ", %s", groups[g].name);
    }
    reading->where[0] = '\0';
    return refuse_key(reading, key, known);
}

static enum anyflash_status read_document(struct reading *reading, json_t *json)
{
    const char *key;
    json_t *member;
    if (!json_is_object(json))
        return af_fail(reading->err, ANYFLASH_E_DATA, "'%s': expected an object, found %s",
                       reading->name, json_kind(json));
    json_object_foreach(json, key, member)
    {
        enum anyflash_status status = read_member(reading, key, member);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

/*
 * Reads into a copy that shares the machine's arena; on failure the old facts
 * remain (new allocations stay in the arena, unused).
 */
static enum anyflash_status take_document(struct af_machine *machine, json_t *json,
                                          const char *name, struct anyflash_error *err)
{
    struct af_machine made = *machine;
    char shown[120];
    af_text_quote(shown, sizeof shown, name, strlen(name));
    const char *unsaid = af_arena_format(&made.arena, "not said in '%s'", shown);
    struct reading reading = {.machine = &made, .name = shown, .unsaid = unsaid, .err = err};
    enum anyflash_status status = read_document(&reading, json);
    if (status == ANYFLASH_OK)
        *machine = made;
    machine->arena.newest = made.arena.newest;
    return status;
}

enum anyflash_status af_machine_parse(struct af_machine *machine, struct af_span bytes,
                                      const char *name, struct anyflash_error *err)
{
    json_t *json;
    enum anyflash_status status = af_json_parse(bytes, AF_MACHINE_BYTES_MAX, name, &json, err);
    if (status != ANYFLASH_OK)
        return status;
    status = take_document(machine, json, name, err);
    json_decref(json);
    return status;
}
