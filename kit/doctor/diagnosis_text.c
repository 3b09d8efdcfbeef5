/*
 * diagnosis_text.c: a diagnosis as text, and all diagnoses as JSON. The words of a cause have
 * names in braces, such as {torch.version}, which are replaced by facts of the log.
 */
#include <string.h>

#include "kit/doctor/hypotheses.h"
#include "kit/formats/symbol_name.h"

#define EVIDENCE_TEXT_MAX 400u

static const char *capture_text(const struct af_log_hit *hit, const char *name,
                                struct af_arena *arena)
{
    const char *text = af_capture_text(hit->captures, hit->capture_count, name, arena);
    return text == NULL ? NULL : af_text_scrub(arena, text, AF_LOG_TEXT_BYTES);
}

/* The symbol that the line of this hit names, or NULL. */
static const char *symbol_of(const struct af_diagnosis_ranking *ranking,
                             const struct af_log_hit *hit)
{
    const struct af_log_hits *named =
        af_log_evidence_hits(ranking->evidence, AF_SIGNATURE_SYMBOL);
    for (size_t i = 0; named != NULL && i < named->count; i++) {
        const char *symbol = named->rows[i].line != hit->line
                                 ? NULL
                                 : capture_text(&named->rows[i], "symbol", ranking->arena);
        if (symbol != NULL && !af_ends_with(symbol, ".."))
            return symbol;
    }
    return NULL;
}

void af_diagnosis_look_from(struct af_diagnosis_ranking *ranking, const struct af_log_hit *hit)
{
    struct af_lookup *lookup = &ranking->lookup;
    if (lookup->symbols == NULL)
        return; /* no line names a symbol */
    lookup->symbol = symbol_of(ranking, hit);
    lookup->symbol_source =
        lookup->symbol == NULL
            ? NULL
            : af_log_evidence_place(ranking->evidence, hit->line, ranking->arena);
}

const char *af_diagnosis_describe_extension(struct af_diagnosis_ranking *ranking)
{
    struct af_lookup *lookup = &ranking->lookup;
    const char *built_for = af_lookup_find(lookup, "symbol.built_for").text;
    const char *torch = af_lookup_find(lookup, "torch.version").text;
    const char *abi = af_lookup_find(lookup, "symbol.cxx11abi").text;
    if (built_for == NULL || !af_symbol_is_torch(lookup->symbol))
        return NULL;
    const char *with = abi == NULL                ? ""
                       : strcmp(abi, "true") == 0 ? " with the new C++ ABI"
                                                  : " with the old C++ ABI";
    return af_arena_format(lookup->arena, "this extension was built for %s%s (it needs %s)%s%s",
                           built_for, with, af_symbol_readable(lookup->arena, lookup->symbol),
                           torch == NULL ? "" : "; you run ", torch == NULL ? "" : torch);
}

/* The value of a placeholder: of a capture, else of a fact; NULL if unknown. */
static const char *placeholder(struct af_diagnosis_ranking *ranking,
                               const struct af_log_hit *hit, const char *name)
{
    const char *text =
        strcmp(name, "who") == 0 ? ranking->who : capture_text(hit, name, ranking->arena);
    if (text != NULL)
        return text;
    return af_lookup_find(&ranking->lookup, name).text;
}

const char *af_diagnosis_fill(struct af_diagnosis_ranking *ranking,
                              const struct af_log_hit *hit, const char *source)
{
    struct af_text text = {0};
    if (source == NULL)
        return NULL;
    for (const char *at = source; *at != '\0';) {
        size_t plain = strcspn(at, "{");
        af_text_add_n(&text, at, plain);
        at += plain;
        size_t len = *at == '\0' ? 0 : strspn(at + 1, AF_PATTERN_NAME_LETTERS ".-");
        if (*at == '\0')
            break;
        if (len == 0 || at[len + 1] != '}') {
            af_text_add_n(&text, at++, 1);
            continue;
        }
        char *name = af_arena_text_n(ranking->arena, at + 1, len);
        const char *value = name == NULL ? NULL : placeholder(ranking, hit, name);
        for (char *letter = name; value == NULL && letter != NULL && *letter != '\0'; letter++)
            *letter = *letter == '.' || *letter == '-'   ? '_'
                      : *letter >= 'a' && *letter <= 'z' ? (char)(*letter - 32)
                                                         : *letter;
        af_text_add(&text, value != NULL ? value : name != NULL ? name : "");
        at += len + 2;
    }
    return af_text_take(&text, ranking->arena);
}

struct af_diagnosis_evidence af_diagnosis_line(struct af_diagnosis_ranking *ranking,
                                               const struct af_log_hit *hit)
{
    uint64_t line;
    const struct af_log_file *file = af_log_evidence_file(ranking->evidence, hit->line, &line);
    return (struct af_diagnosis_evidence){
        .file = file->name,
        .line = line,
        .text = af_text_scrub(ranking->arena, hit->text, EVIDENCE_TEXT_MAX)};
}

static void add_line(struct af_diagnosis_ranking *ranking, struct af_diagnosed *found,
                     const struct af_log_hit *hit)
{
    struct af_diagnosis_evidence row = af_diagnosis_line(ranking, hit);
    for (size_t i = 0; i < found->evidence_count; i++) {
        if (found->evidence[i].line == row.line && found->evidence[i].file == row.file)
            return;
    }
    if (found->evidence_count < AF_DIAGNOSIS_EVIDENCE_MAX)
        found->evidence[found->evidence_count++] = row;
}

static void add_fact(struct af_diagnosis_ranking *ranking, struct af_diagnosed *found,
                     const struct af_condition_side *side)
{
    if (side->kind != AF_CONDITION_FACT || found->evidence_count == AF_DIAGNOSIS_EVIDENCE_MAX)
        return;
    struct af_lookup_value value = af_lookup_find(&ranking->lookup, side->text);
    for (size_t i = 0; i < found->evidence_count; i++) {
        if (found->evidence[i].fact != NULL && strcmp(found->evidence[i].fact, side->text) == 0)
            return;
    }
    if (value.state == AF_FACT_UNKNOWN)
        return;
    found->evidence[found->evidence_count++] = (struct af_diagnosis_evidence){
        .text = value.state == AF_FACT_ABSENT ? "none" : value.text,
        .fact = side->text,
        .source = value.source != NULL ? value.source : "derived"};
}

static void add_facts(struct af_diagnosis_ranking *ranking, struct af_diagnosed *found,
                      const struct af_conditions *conditions)
{
    for (size_t i = 0; i < conditions->count; i++) {
        add_fact(ranking, found, &conditions->rows[i].left);
        add_fact(ranking, found, &conditions->rows[i].right);
    }
}

void af_diagnosis_add_evidence(struct af_diagnosis_ranking *ranking, struct af_diagnosed *found,
                               const struct af_diagnosis_hypothesis *from)
{
    af_diagnosis_look_from(ranking, from->hit);
    add_line(ranking, found, from->hit);
    add_facts(ranking, found, &from->row->proves);
    add_facts(ranking, found, &from->row->only_if);
}

/* ---- JSON ---- */

static json_t *evidence_json(const struct af_diagnosed *found)
{
    json_t *list = json_array();
    for (size_t i = 0; i < found->evidence_count; i++) {
        const struct af_diagnosis_evidence *row = &found->evidence[i];
        list = af_json_append(
            list, row->fact != NULL ? json_pack("{s:s, s:s, s:s}", "fact", row->fact, "value",
                                                row->text, "source", row->source)
                                    : json_pack("{s:s, s:I, s:s}", "file", row->file, "line",
                                                (json_int_t)row->line, "text", row->text));
    }
    return list;
}

static json_t *causes_json(const struct af_diagnosis *diagnosis)
{
    json_t *list = json_array();
    for (size_t i = 0; i < diagnosis->count; i++) {
        const struct af_diagnosed *found = &diagnosis->causes[i];
        list = af_json_append(
            list,
            json_pack("{s:s, s:o, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "id",
                      found->cause->id, "package", af_json_text(found->package), "confidence",
                      af_diagnosis_confidence_text(found->confidence), "score", found->score,
                      "title", found->title, "detail", af_json_text(found->detail), "doubt",
                      af_json_text(found->doubt), "why", af_json_text(found->why), "next",
                      af_json_text(found->next), "fix", found->fix, "avoid",
                      af_json_text(found->avoid), "evidence", evidence_json(found)));
    }
    return list;
}

static json_t *questions_json(const struct af_diagnosis *diagnosis)
{
    json_t *list = json_array();
    for (size_t i = 0; i < diagnosis->question_count; i++) {
        const struct af_diagnosis_question *row = &diagnosis->questions[i];
        list =
            af_json_append(list, json_pack("{s:s, s:s, s:o}", "fact", row->fact, "decides",
                                           row->cause, "command", af_json_text(row->command)));
    }
    return list;
}

static json_t *other_json(const struct af_diagnosis *diagnosis)
{
    if (diagnosis->other.package == NULL)
        return json_null();
    return json_pack("{s:s, s:I}", "package", diagnosis->other.package, "line",
                     (json_int_t)diagnosis->other.line);
}

/* The error that a program printed last, for texts without a cause. */
static json_t *error_json(const struct af_log_evidence *evidence)
{
    uint64_t line;
    if (evidence->end.error_line == 0)
        return json_null();
    const struct af_log_file *file =
        af_log_evidence_file(evidence, evidence->end.error_line, &line);
    const char *text = af_text_scrub(evidence->arena, evidence->end.error, AF_LOG_END_BYTES);
    return json_pack("{s:s, s:I, s:s}", "file", file->name, "line", (json_int_t)line, "text",
                     text);
}

static json_t *harmless_json(const struct af_diagnosis *diagnosis)
{
    const struct af_diagnosis_evidence *seen = &diagnosis->harmless.seen;
    if (diagnosis->harmless.why == NULL)
        return json_null();
    return json_pack("{s:s, s:s, s:I, s:s}", "why", diagnosis->harmless.why, "file", seen->file,
                     "line", (json_int_t)seen->line, "text", seen->text);
}

json_t *af_diagnosis_json(const struct af_diagnosis *diagnosis,
                          const struct af_log_evidence *evidence, const char *facts)
{
    json_t *files = json_array();
    for (size_t i = 0; i < evidence->file_count; i++)
        files = af_json_append(files, json_string(evidence->files[i].name));
    return json_pack("{s:s, s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "schema",
                     "anyflash-diagnosis/1", "files", files, "lines",
                     (json_int_t)evidence->line_count, "facts", facts, "causes",
                     causes_json(diagnosis), "open", questions_json(diagnosis), "harmless",
                     harmless_json(diagnosis), "other", other_json(diagnosis), "error",
                     error_json(evidence));
}

json_t *af_diagnosis_cause_json(const struct af_cause *cause)
{
    static const char *const names[] = {"resolve", "build-deps", "build",
                                        "install", "import",     "run"};
    json_t *phases = json_array();
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if ((cause->phases >> i & 1) != 0)
            phases = af_json_append(phases, json_string(names[i]));
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:o}", "id", cause->id, "phases", phases,
                     "title", cause->title, "why", cause->why, "next", cause->next, "fix",
                     cause->fix, "avoid", af_json_text(cause->avoid));
}
