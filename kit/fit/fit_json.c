/*
 * fit_json.c: reasons, rungs, wheels and candidates as JSON.
 */
#include "kit/fit/fit.h"

#include "kit/base/sha256.h"
#include "kit/catalog/publisher.h"

json_t *af_fit_json_catalog(const struct af_catalog *catalog)
{
    return json_pack("{s:s, s:o, s:o}", "name", catalog->name, "date",
                     af_json_text(catalog->date), "count",
                     af_json_count((int64_t)catalog->count));
}

json_t *af_fit_json_machine(const struct af_machine *machine)
{
    return json_pack("{s:s, s:o}", "name", machine->name, "remark",
                     af_json_text(machine->remark));
}

json_t *af_fit_json_publishers(const struct af_fit_options *options)
{
    json_t *list = json_array();
    for (size_t i = 0; i < options->publisher_list_count; i++) {
        const struct af_publishers *one = &options->publishers[i];
        list = af_json_append(list, json_pack("{s:s, s:o}", "from", one->from, "names",
                                              af_json_texts(one->names, one->count)));
    }
    return list;
}

/* `machine` only where it is one of several. */
static json_t *reason_json(const struct af_reason *reason)
{
    static const char *const effects[] = {"blocks", "open", "note"};
    enum af_reason_id id = reason->id;
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s*}", "id", af_reasons[id].text_id, "effect",
                     effects[af_reasons[id].effect], "message", af_reasons[id].message,
                     "detail", af_json_text(reason->detail), "hint",
                     af_json_text(af_reasons[id].hint), "machine",
                     reason->machine != NULL ? reason->machine->name : NULL);
}

/* true, false or null */
static json_t *truth(enum af_answer answer)
{
    return answer == AF_UNKNOWN ? json_null() : json_boolean(answer == AF_YES);
}

/* The hash as digits, or null. */
static json_t *hash(const struct af_catalog_wheel *wheel)
{
    char hex[AF_SHA256_HEX_BYTES];
    if (wheel->sha256 == NULL)
        return json_null();
    af_sha256_to_hex(wheel->sha256, hex);
    return json_string(hex);
}

json_t *af_fit_json_wheel(const struct af_catalog_wheel *wheel)
{
    return json_pack("{s:s, s:o, s:o, s:s, s:o, s:b, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:s, "
                     "s:o, s:o, s:o, s:o, s:o, s:b}",
                     "filename", wheel->filename, "url", af_json_text(wheel->url), "sha256",
                     hash(wheel), "source", wheel->source, "publisher",
                     json_stringn(wheel->source, af_publisher_len(wheel->source)), "official",
                     wheel->official, "package", wheel->package, "version", wheel->version,
                     "local", af_json_text(wheel->local), "python", wheel->python, "abi",
                     wheel->abi, "platform", wheel->platform, "torch",
                     af_json_text(wheel->torch), "gpu", wheel->rocm ? "rocm" : "cuda", "cuda",
                     af_json_text(wheel->cuda), "cxx11abi", truth(wheel->cxx11abi),
                     "cxx11abi_effective", truth(wheel->cxx11abi_effective), "sm",
                     af_json_text(wheel->sm), "glibc_min", af_json_text(wheel->glibc_min),
                     "seen", wheel->listed);
}

json_t *af_fit_json_reasons(const struct af_reason *reasons, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = af_json_append(list, reason_json(&reasons[i]));
    return list;
}

static json_t *price(const struct af_rung_cost *of)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "download_bytes",
                     af_json_count(of->download_bytes), "minutes", af_json_count(of->minutes),
                     "memory_bytes", af_json_count(of->memory_bytes), "disk_bytes",
                     af_json_count(of->disk_bytes));
}

static json_t *moves(const struct af_rung *rung)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rung->move_count; i++) {
        const struct af_fit_package_change *move = &rung->moves[i];
        list = af_json_append(list,
                              json_pack("{s:s, s:o, s:o, s:o}", "name", move->name, "from",
                                        af_json_text(move->from), "to", af_json_text(move->to),
                                        "why", af_json_text(move->why)));
    }
    return list;
}

static json_t *prerequisites(const struct af_rung *rung)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rung->build.prerequisite_count; i++) {
        const struct af_prerequisite *need = &rung->build.prerequisites[i];
        list = af_json_append(list, json_pack("{s:s, s:o, s:o, s:o}", "name", need->name,
                                              "verdict", af_json_answer(need->answer),
                                              "evidence", af_json_text(need->evidence), "fix",
                                              af_json_text(need->fix)));
    }
    return list;
}

/* Members that only a source build has. */
static json_t *build(const struct af_rung *rung)
{
    if (rung->kind != AF_RUNG_BUILD)
        return json_null();
    return json_pack("{s:i, s:o, s:o}", "jobs", rung->build.jobs, "arch_list",
                     af_json_text(rung->build.arch_list), "flash_attn",
                     af_json_text(rung->build.flash_attn));
}

/* What a possible rung costs, in words. */
static json_t *cost(const struct af_rung *rung)
{
    struct af_arena arena;
    if (rung->answer == AF_NO)
        return json_null();
    af_arena_init(&arena);
    const char *text = af_rung_cost_text(&arena, &rung->price);
    json_t *json = json_string(text);
    af_arena_release(&arena);
    return json;
}

static json_t *rung_json(const struct af_rung *rung)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     af_rung_name(rung->kind), "verdict", af_json_answer(rung->answer),
                     "summary", af_json_text(rung->summary), "reasons",
                     af_fit_json_reasons(rung->reasons, rung->reason_count), "price",
                     price(&rung->price), "cost", cost(rung), "wheel",
                     rung->wheel != NULL ? af_fit_json_wheel(rung->wheel) : json_null(),
                     "torch_version", af_json_text(rung->torch_version), "torch_cuda",
                     af_json_text(rung->torch_cuda), "moves", moves(rung), "prerequisites",
                     prerequisites(rung), "build", build(rung));
}

json_t *af_fit_json_decision(const struct af_decision *decision)
{
    return af_json_text(decision->possible ? af_rung_name(decision->recommended) : NULL);
}

static bool has_reason(const struct af_candidate *candidate, int id)
{
    return (candidate->reason_bits >> id & 1u) != 0;
}

static json_t *reason_ids(const struct af_candidate *candidate)
{
    json_t *list = json_array();
    for (int id = 0; id < AF_REASON_BITS; id++)
        if (has_reason(candidate, id))
            list = af_json_append(list, json_string(af_reasons[id].text_id));
    return list;
}

json_t *af_fit_json_candidate(const struct af_catalog_wheel *wheel,
                              const struct af_candidate *candidate)
{
    json_t *json = af_fit_json_wheel(wheel);
    json_t *answer = candidate != NULL ? af_json_answer(candidate->answer) : json_null();
    json_t *reasons = candidate != NULL ? reason_ids(candidate) : json_null();
    json_object_set_new(json, "verdict", answer);
    json_object_set_new(json, "reasons", reasons);
    return json;
}

json_t *af_fit_json_rungs(const struct af_decision *decision)
{
    json_t *list = json_array();
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++)
        list = af_json_append(list, rung_json(&decision->rungs[kind]));
    return list;
}

json_t *af_fit_json_near_misses(const struct af_decision *decision)
{
    json_t *list = json_array();
    for (size_t i = 0; i < decision->near_miss_count; i++) {
        const struct af_near_miss *miss = &decision->near_misses[i];
        list = af_json_append(
            list, json_pack("{s:s, s:s, s:o, s:o}", "what", miss->what, "filename",
                            miss->filename, "wheel",
                            miss->wheel != NULL ? af_fit_json_wheel(miss->wheel) : json_null(),
                            "reasons", af_fit_json_reasons(miss->reasons, miss->reason_count)));
    }
    return list;
}

json_t *af_fit_json_filter_counts(const struct af_decision *decision)
{
    json_t *list = json_array();
    for (size_t i = 0; i < decision->filter_count; i++)
        list = af_json_append(list,
                              json_pack("{s:s, s:I}", "what", decision->filter_counts[i].what,
                                        "left", (json_int_t)decision->filter_counts[i].left));
    return list;
}

json_t *af_fit_json_candidate_counts(const struct af_decision *decision)
{
    return json_pack("{s:I, s:I, s:I}", "judged", (json_int_t)decision->candidate_count,
                     "fitting", (json_int_t)decision->fitting_count, "unknown",
                     (json_int_t)decision->unknown_count);
}
