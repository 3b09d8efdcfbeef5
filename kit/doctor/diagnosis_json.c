/*
 * diagnosis_json.c: the JSON answer of the log doctor.
 */
#include "kit/doctor/diagnosis_json.h"

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
            json_pack("{s:s, s:s, s:i, s:s, s:o, s:s, s:s, s:s, s:o, s:o}", "id",
                      found->cause->id, "confidence",
                      af_diagnosis_confidence_text(found->confidence), "score", found->score,
                      "title", found->title, "detail", af_json_text(found->detail), "why",
                      found->why, "next", found->next, "fix", found->fix, "avoid",
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
    return json_pack("{s:s, s:o, s:I, s:s, s:o, s:o, s:o}", "schema", "anyflash-diagnosis/1",
                     "files", files, "lines", (json_int_t)evidence->line_count, "facts", facts,
                     "causes", causes_json(diagnosis), "open", questions_json(diagnosis),
                     "harmless", harmless_json(diagnosis));
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
