/*
 * json_decision.c: reasons and rungs as JSON.
 */
#include "kit/cli/json_parts.h"

json_t *af_cli_json_reasons(const struct af_reason *reasons, size_t count)
{
    static const char *const effects[] = {"blocks", "open", "note"};
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        enum af_reason_id id = reasons[i].id;
        list = af_cli_json_append(
            list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", af_reason_text_id(id), "effect",
                            effects[af_reason_effect(id)], "message", af_reason_message(id),
                            "detail", af_cli_json_text(reasons[i].detail), "hint",
                            af_cli_json_text(af_reason_hint(id))));
    }
    return list;
}

static json_t *price(const struct af_rung_cost *of)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o}", "download_bytes", af_cli_json_count(of->download_bytes),
        "minutes", af_cli_json_count(of->minutes), "memory_bytes",
        af_cli_json_count(of->memory_bytes), "disk_bytes", af_cli_json_count(of->disk_bytes));
}

static json_t *moves(const struct af_rung *rung)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rung->move_count; i++) {
        const struct af_fit_package_change *move = &rung->moves[i];
        list = af_cli_json_append(list, json_pack("{s:s, s:o, s:o, s:o}", "name", move->name,
                                                  "from", af_cli_json_text(move->from), "to",
                                                  af_cli_json_text(move->to), "why",
                                                  af_cli_json_text(move->why)));
    }
    return list;
}

static json_t *prerequisites(const struct af_rung *rung)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rung->prerequisite_count; i++) {
        const struct af_prerequisite *need = &rung->prerequisites[i];
        list = af_cli_json_append(list, json_pack("{s:s, s:o, s:o, s:o}", "name", need->name,
                                                  "verdict", af_cli_json_answer(need->answer),
                                                  "evidence", af_cli_json_text(need->evidence),
                                                  "fix", af_cli_json_text(need->fix)));
    }
    return list;
}

/* What only a source build has. */
static json_t *build(const struct af_rung *rung)
{
    if (rung->kind != AF_RUNG_BUILD)
        return json_null();
    return json_pack("{s:i, s:o, s:o}", "jobs", rung->jobs, "arch_list",
                     af_cli_json_text(rung->arch_list), "flash_attn",
                     af_cli_json_text(rung->flash_attn));
}

json_t *af_cli_json_rung(const struct af_rung *rung)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     af_rung_name(rung->kind), "verdict", af_cli_json_answer(rung->answer),
                     "summary", af_cli_json_text(rung->summary), "reasons",
                     af_cli_json_reasons(rung->reasons, rung->reason_count), "price",
                     price(&rung->price), "wheel",
                     rung->wheel != NULL ? af_cli_json_wheel(rung->wheel) : json_null(),
                     "torch_version", af_cli_json_text(rung->torch_version), "torch_cuda",
                     af_cli_json_text(rung->torch_cuda), "moves", moves(rung), "prerequisites",
                     prerequisites(rung), "build", build(rung));
}

json_t *af_cli_json_decision(const struct af_decision *decision)
{
    return af_cli_json_text(decision->possible ? af_rung_name(decision->recommended) : NULL);
}
