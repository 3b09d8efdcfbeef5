/*
 * cause.c: reads and checks data/causes.jsonl.
 */
#include "kit/doctor/log/cause.h"

#include <string.h>

#include "kit/doctor/log/jsonl.h"

static const char keys[] = "id phases title why next fix avoid";

const struct af_cause *af_cause_find(const struct af_cause_table *table, const char *id)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].id, id) == 0)
            return &table->rows[i];
    }
    return NULL;
}

static unsigned take_phases(struct af_jsonl *rows)
{
    size_t count;
    unsigned phases = 0;
    const char **words = af_jsonl_texts(rows, rows->row, "phases", true, &count);
    for (size_t i = 0; i < count; i++) {
        int phase = af_jsonl_word(AF_CAUSE_PHASES, words[i]);
        if (phase < 0)
            af_jsonl_fail(rows, "unknown phase '%s'; there are: %s", words[i], AF_CAUSE_PHASES);
        else
            phases |= 1u << phase;
    }
    return phases;
}

static void check_title(struct af_jsonl *rows, const char *title)
{
    size_t len = title == NULL ? 0 : strlen(title);
    if (len > 0 && (title[len - 1] == '.' || strchr(title, '\n') != NULL))
        af_jsonl_fail(rows, "'title' must be one line without a full stop");
}

static void take_row(struct af_jsonl *rows, struct af_cause *cause)
{
    af_jsonl_check_keys(rows, rows->row, keys);
    *cause = (struct af_cause){
        .id = af_jsonl_text(rows, rows->row, "id", true),
        .phases = take_phases(rows),
        .title = af_jsonl_text(rows, rows->row, "title", true),
        .why = af_jsonl_text(rows, rows->row, "why", true),
        .next = af_jsonl_text(rows, rows->row, "next", true),
        .fix = af_jsonl_text(rows, rows->row, "fix", true),
        .avoid = af_jsonl_text(rows, rows->row, "avoid", false),
    };
    check_title(rows, cause->title);
}

enum anyflash_status af_cause_table_read(struct af_span bytes, const char *name,
                                         struct af_arena *arena, struct af_cause_table *out,
                                         struct anyflash_error *err)
{
    struct af_jsonl rows = {.rest = bytes, .name = name, .arena = arena, .err = err};
    struct af_cause *causes = af_arena_array(arena, af_jsonl_line_count(bytes), sizeof *causes);
    struct af_cause_table table = {causes, 0};
    if (causes == NULL)
        return af_fail_memory(err);
    while (af_jsonl_next(&rows)) {
        struct af_cause *cause = &causes[table.count];
        take_row(&rows, cause);
        if (rows.status != ANYFLASH_OK)
            break;
        if (af_cause_find(&table, cause->id) != NULL)
            af_jsonl_fail(&rows, "the id '%s' occurs twice", cause->id);
        table.count++;
    }
    json_decref(rows.row);
    if (rows.status == ANYFLASH_OK)
        *out = table;
    return rows.status;
}
