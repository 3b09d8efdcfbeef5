/*
 * signature_rows.c: reads and checks data/signatures.jsonl. Ids of
 * other signatures are resolved in a second pass, so rows may stand in any order.
 */
#include "kit/doctor/rows/signature_rows.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/doctor/rows/jsonl.h"

#define ROW_KEYS "id any says phase kind near not_near causes source note why"
#define CAUSE_KEYS "cause kind score near not_near if proves proof detail"
#define KINDS "fault symptom context failed harmless"

struct reader {
    struct af_jsonl rows;
    const struct af_cause_table *causes;
    struct af_signature *signatures;
    struct af_signature_cause **cause_rows; /* those of the signatures, to be completed */
    size_t count;
    struct af_pattern *patterns;
    size_t pattern_count;
    size_t pattern_room;
    size_t neighbour_first; /* the patterns of near and not_near begin here */
};

/* Adds a pattern; returns its index. */
static size_t add_pattern(struct reader *reader, const char *source)
{
    struct af_arena *arena = reader->rows.arena;
    struct anyflash_error why = {0};
    if (reader->pattern_count == reader->pattern_room) {
        size_t room = reader->pattern_room == 0 ? 256 : 2 * reader->pattern_room;
        struct af_pattern *patterns = af_arena_array(arena, room, sizeof *patterns);
        if (reader->pattern_count > 0)
            memcpy(patterns, reader->patterns, reader->pattern_count * sizeof *patterns);
        reader->patterns = patterns;
        reader->pattern_room = room;
    }
    enum anyflash_status status =
        af_pattern_compile(source, arena, &reader->patterns[reader->pattern_count], &why);
    af_jsonl_fail_with(&reader->rows, status, &why);
    return status == ANYFLASH_OK ? reader->pattern_count++ : 0;
}

/* The index of the word; `missing` if there is none. */
static int take_word(struct reader *reader, json_t *object, const char *key, const char *words,
                     int missing)
{
    const char *word = af_jsonl_text(&reader->rows, object, key, missing < 0);
    int index = word == NULL ? missing : af_text_word_index(words, word);
    if (word != NULL && index < 0)
        af_jsonl_fail(&reader->rows, "'%s' must be one of: %s", key, words);
    return index < 0 ? 0 : index;
}

static void take_patterns(struct reader *reader, struct af_signature *signature)
{
    size_t count;
    const char **texts = af_jsonl_texts(&reader->rows, reader->rows.row, "any", false, &count);
    signature->pattern_first = reader->pattern_count;
    for (size_t i = 0; i < count && reader->rows.status == ANYFLASH_OK; i++)
        add_pattern(reader, texts[i]);
    signature->pattern_count = reader->pattern_count - signature->pattern_first;
}

/* What people's sentences say; a row has these, patterns, or both. */
static void take_sayings(struct reader *reader, struct af_signature *signature)
{
    struct af_jsonl *rows = &reader->rows;
    size_t count;
    const char **texts =
        af_jsonl_texts(rows, rows->row, "says", signature->pattern_count == 0, &count);
    struct af_sentence_rule *says = af_arena_array(rows->arena, count + 1, sizeof *says);
    for (size_t i = 0; i < count && rows->status == ANYFLASH_OK; i++) {
        if (!af_sentence_rule_parse(texts[i], &says[i]))
            af_jsonl_fail(rows, "'%s' is not a list of concepts", texts[i]);
    }
    signature->says = says;
    signature->says_count = count;
}

static size_t find_signature(const struct reader *reader, const char *id)
{
    for (size_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->signatures[i].id, id) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* The pattern of a neighbour; many rows have the same. */
static size_t find_neighbour(struct reader *reader, const char *source)
{
    for (size_t i = reader->neighbour_first; i < reader->pattern_count; i++) {
        if (strcmp(reader->patterns[i].source, source) == 0)
            return i;
    }
    return add_pattern(reader, source);
}

static const struct af_signature_neighbour *take_neighbours(struct reader *reader,
                                                            json_t *object, const char *key,
                                                            size_t *count_out)
{
    struct af_signature_neighbour *list;
    const char **texts = af_jsonl_texts(&reader->rows, object, key, false, count_out);
    list = af_arena_array(reader->rows.arena, *count_out + 1, sizeof *list);
    for (size_t i = 0; i < *count_out && reader->rows.status == ANYFLASH_OK; i++) {
        list[i].signature = SIZE_MAX;
        if (texts[i][0] != '@') {
            list[i].pattern = find_neighbour(reader, texts[i]);
            continue;
        }
        list[i].signature = find_signature(reader, texts[i] + 1);
        if (list[i].signature == SIZE_MAX)
            af_jsonl_fail(&reader->rows, "'%s' names no signature", texts[i]);
    }
    return list;
}

static bool has_capture(const struct reader *reader, const struct af_signature *signature,
                        const char *name)
{
    size_t len = strcspn(name, "."); /* "module.class" is of the capture "module" */
    for (size_t i = 0; i < signature->pattern_count; i++) {
        const struct af_pattern *pattern = &reader->patterns[signature->pattern_first + i];
        for (size_t p = 0; p < pattern->part_count; p++) {
            const struct af_pattern_part *part = &pattern->parts[p];
            if (part->kind >= AF_PATTERN_CAPTURE && part->text.len == len &&
                memcmp(part->text.data, name, len) == 0)
                return true;
        }
    }
    return false;
}

static void check_side(struct reader *reader, const struct af_signature *signature,
                       const struct af_condition_side *side)
{
    if (side->kind == AF_CONDITION_CAPTURE && !has_capture(reader, signature, side->text))
        af_jsonl_fail(&reader->rows, "no pattern of the row captures {%s}", side->text);
}

static struct af_conditions take_conditions(struct reader *reader,
                                            const struct af_signature *signature,
                                            json_t *object, const char *key)
{
    struct anyflash_error why = {0};
    struct af_conditions list = {NULL, 0};
    size_t count;
    const char **texts = af_jsonl_texts(&reader->rows, object, key, false, &count);
    struct af_condition *made = af_arena_array(reader->rows.arena, count + 1, sizeof *made);
    list.rows = made;
    for (; list.count < count && reader->rows.status == ANYFLASH_OK; list.count++) {
        struct af_condition *condition = &made[list.count];
        af_jsonl_fail_with(
            &reader->rows,
            af_condition_parse(texts[list.count], reader->rows.arena, condition, &why), &why);
        if (reader->rows.status != ANYFLASH_OK)
            break;
        check_side(reader, signature, &condition->left);
        check_side(reader, signature, &condition->right);
    }
    return list;
}

static void take_cause(struct reader *reader, const struct af_signature *signature,
                       json_t *object, struct af_signature_cause *cause)
{
    struct af_jsonl *rows = &reader->rows;
    const json_t *score = json_object_get(object, "score");
    if (!json_is_object(object)) {
        af_jsonl_fail(rows, "'causes' must be a list of objects");
        return;
    }
    af_jsonl_check_keys(rows, object, CAUSE_KEYS);
    const char *id = af_jsonl_text(rows, object, "cause", true);
    const struct af_cause *found = id == NULL ? NULL : af_cause_find(reader->causes, id);
    if (id != NULL && found == NULL)
        af_jsonl_fail(rows, "unknown cause '%s'", id);
    cause->index = found == NULL ? 0 : (size_t)(found - reader->causes->rows);
    cause->kind =
        (enum af_signature_kind)take_word(reader, object, "kind", KINDS, (int)signature->kind);
    cause->score = (int)json_integer_value(score);
    if (!json_is_integer(score) || json_integer_value(score) < 1 ||
        json_integer_value(score) > 100)
        af_jsonl_fail(rows, "'score' must be a number from 1 to 100");
    cause->only_if = take_conditions(reader, signature, object, "if");
    cause->proves = take_conditions(reader, signature, object, "proves");
    cause->proof = af_jsonl_text(rows, object, "proof", false);
    cause->detail = af_jsonl_text(rows, object, "detail", false);
}

static void take_causes(struct reader *reader, struct af_signature *signature)
{
    struct af_jsonl *rows = &reader->rows;
    const json_t *list = json_object_get(rows->row, "causes");
    size_t count = json_array_size(list);
    struct af_signature_cause *causes = af_arena_array(rows->arena, count + 1, sizeof *causes);
    if ((signature->kind <= AF_SIGNATURE_SYMPTOM && count == 0) ||
        (list != NULL && !json_is_array(list)))
        af_jsonl_fail(rows, "'causes' must be a list of objects");
    for (size_t i = 0; i < count && rows->status == ANYFLASH_OK; i++)
        take_cause(reader, signature, json_array_get(list, i), &causes[i]);
    signature->causes = reader->cause_rows[reader->count] = causes;
    signature->cause_count = count;
}

static void take_row(struct reader *reader)
{
    struct af_jsonl *rows = &reader->rows;
    struct af_signature *signature = &reader->signatures[reader->count];
    af_jsonl_check_keys(rows, rows->row, ROW_KEYS);
    signature->id = af_jsonl_text(rows, rows->row, "id", true);
    signature->kind = (enum af_signature_kind)take_word(reader, rows->row, "kind", KINDS, -1);
    signature->phase =
        (enum af_cause_phase)take_word(reader, rows->row, "phase", AF_CAUSE_PHASES, -1);
    signature->why =
        af_jsonl_text(rows, rows->row, "why", signature->kind == AF_SIGNATURE_HARMLESS);
    af_jsonl_text(rows, rows->row, "source", true);
    if (signature->id != NULL && find_signature(reader, signature->id) != SIZE_MAX)
        af_jsonl_fail(rows, "the id '%s' occurs twice", signature->id);
    take_patterns(reader, signature);
    take_sayings(reader, signature);
    if (rows->status == ANYFLASH_OK)
        take_causes(reader, signature);
    reader->count++;
}

static void take_surroundings(struct reader *reader, json_t *object,
                              struct af_surroundings *around)
{
    around->near = take_neighbours(reader, object, "near", &around->near_count);
    around->not_near = take_neighbours(reader, object, "not_near", &around->not_near_count);
}

/* The second pass: every id is known now. */
static void take_all_neighbours(struct reader *reader, struct af_span bytes)
{
    reader->rows.rest = bytes;
    reader->rows.line = 0;
    reader->neighbour_first = reader->pattern_count;
    for (size_t i = 0; af_jsonl_next(&reader->rows); i++) {
        struct af_signature *signature = &reader->signatures[i];
        const json_t *causes = json_object_get(reader->rows.row, "causes");
        struct af_signature_cause *made = reader->cause_rows[i];
        take_surroundings(reader, reader->rows.row, &signature->around);
        for (size_t c = 0; c < signature->cause_count; c++)
            take_surroundings(reader, json_array_get(causes, c), &made[c].around);
    }
}

enum anyflash_status af_jsonl_read_signatures(struct af_span bytes, const char *name,
                                              const struct af_cause_table *causes,
                                              struct af_arena *arena,
                                              struct af_signature_table *out,
                                              struct anyflash_error *err)
{
    struct reader reader = {
        .rows = {.rest = bytes, .name = name, .arena = arena, .err = err},
        .causes = causes,
        .signatures =
            af_arena_array(arena, af_jsonl_line_count(bytes), sizeof(struct af_signature)),
        .cause_rows = af_arena_array(arena, af_jsonl_line_count(bytes), sizeof(void *)),
    };
    while (af_jsonl_next(&reader.rows))
        take_row(&reader);
    if (reader.rows.status == ANYFLASH_OK)
        take_all_neighbours(&reader, bytes);
    json_decref(reader.rows.row);
    if (reader.rows.status == ANYFLASH_OK)
        *out = (struct af_signature_table){causes, reader.signatures, reader.count,
                                           reader.patterns, reader.pattern_count};
    return reader.rows.status;
}
