/*
 * proof_view.c: a proof as lines for people and as JSON.
 */
#include "kit/cli/proof_view.h"

#include <stdio.h>

#include "kit/cli/json_parts.h"

#define CHECK_COLUMNS 10
#define MISSING_SHOWN 3

const char *af_cli_proof_headline(const struct af_proof *proof)
{
    if (proof->imports == AF_NO)
        return "does not load";
    if (proof->loads == AF_NO)
        return "must not be used here";
    if (proof->runs == AF_NO)
        return "loads, but does not run on this GPU";
    if (proof->loads == AF_UNKNOWN)
        return "not proven";
    return "loads";
}

static enum af_tone tone_of(enum af_answer answer)
{
    return answer == AF_YES ? AF_TONE_GOOD : answer == AF_NO ? AF_TONE_BAD : AF_TONE_PLAIN;
}

static void view_check(struct af_page *page, const struct af_proof_check *check)
{
    char lead[16];
    snprintf(lead, sizeof lead, "  %s", af_answer_text(check->answer));
    af_page_format(page, CHECK_COLUMNS, lead, tone_of(check->answer), "%s: %s",
                   af_proof_check_title(check->id), check->evidence);
}

static void view_missing(struct af_page *page, const struct af_proof *proof, bool all)
{
    size_t shown =
        all || proof->missing.count < MISSING_SHOWN ? proof->missing.count : MISSING_SHOWN;
    for (size_t i = 0; i < shown; i++)
        af_page_format(page, CHECK_COLUMNS, "", AF_TONE_DIM, "%s", proof->missing.items[i]);
    if (shown < proof->missing.count)
        af_page_format(page, CHECK_COLUMNS, "", AF_TONE_DIM, "and %zu more (-v shows them)",
                       proof->missing.count - shown);
}

/* What is worth a line: where it does not load, nobody asks about its GPU code. */
static bool is_shown(const struct af_proof *proof, const struct af_proof_check *check, bool all)
{
    if (check->answer == AF_YES)
        return false;
    return all || proof->loads != AF_NO || af_proof_check_is_about_loading(check->id);
}

void af_cli_proof_view(struct af_page *page, const char *name, const struct af_proof *proof,
                       bool alone, bool all)
{
    if (proof->answer == AF_YES && !alone && !all) {
        af_page_format(page, 2, "", AF_TONE_PLAIN, "%s: %s", name,
                       af_cli_proof_headline(proof));
        return;
    }
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, name);
    af_page_format(page, 2, "  ", tone_of(proof->answer), "%s", af_cli_proof_headline(proof));
    if (proof->built_for != NULL)
        af_page_format(page, 2, "  ", AF_TONE_PLAIN, "built for %s (%s)", proof->built_for,
                       proof->built_for_source);
    if (proof->stated_torch_is_wrong)
        af_page_add(page, 2, "  ", AF_TONE_BAD, "the name is wrong: it states another torch");
    for (size_t i = 0; i < proof->check_count; i++) {
        const struct af_proof_check *check = &proof->checks[i];
        if (all || (alone && check->answer == AF_YES) || is_shown(proof, check, all))
            view_check(page, check);
        if (check->id == AF_CHECK_SYMBOLS)
            view_missing(page, proof, all);
    }
}

static json_t *texts_json(struct af_texts texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts.count; i++)
        list = af_cli_json_append(list, json_string(texts.items[i]));
    return list;
}

static json_t *checks_json(const struct af_proof *proof)
{
    json_t *list = json_array();
    for (size_t i = 0; i < proof->check_count; i++) {
        const struct af_proof_check *check = &proof->checks[i];
        list = af_cli_json_append(
            list, json_pack("{s:s, s:o, s:s, s:s}", "id", af_proof_check_name(check->id),
                            "answer", af_cli_json_answer(check->answer), "title",
                            af_proof_check_title(check->id), "evidence", check->evidence));
    }
    return list;
}

json_t *af_cli_proof_json(const char *name, const struct af_proof *proof, json_t *gpu_code)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     name, "verdict", af_cli_json_answer(proof->answer), "imports",
                     af_cli_json_answer(proof->imports), "loads",
                     af_cli_json_answer(proof->loads), "runs", af_cli_json_answer(proof->runs),
                     "headline", af_cli_proof_headline(proof), "built_for",
                     af_cli_json_text(proof->built_for), "built_for_source",
                     af_cli_json_text(proof->built_for_source), "checks", checks_json(proof),
                     "missing", texts_json(proof->missing), "missing_libraries",
                     texts_json(proof->missing_libraries), "gpu_code", gpu_code);
}
