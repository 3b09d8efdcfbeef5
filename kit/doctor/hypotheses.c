/*
 * hypotheses.c: which causes the hits of a log suggest, and how strongly. A row of the
 * signatures counts if the log has its neighbours and its conditions hold.
 */
#include "kit/doctor/hypotheses.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "kit/base/sort.h"

#define PROOF_SCORE 40
#define FIRST_SCORE 20 /* for causes of the first fault */
#define HINT_SCORE 38  /* a cause with at most this score is a guess from a few words */
#define TITLE_LINES 2u /* a text is about what its first lines name */
#define ASIDE_LINES 2u

static bool neighbour_occurs(const struct af_log_evidence *evidence,
                             const struct af_signature_neighbour *neighbour, uint64_t line)
{
    const struct af_log_ranges *ranges = neighbour->signature == SIZE_MAX
                                             ? &evidence->patterns[neighbour->pattern]
                                             : &evidence->signatures[neighbour->signature];
    return af_log_ranges_near(ranges, line);
}

static bool surroundings_hold(const struct af_log_evidence *evidence,
                              const struct af_surroundings *around, uint64_t line)
{
    for (size_t i = 0; i < around->near_count; i++) {
        if (!neighbour_occurs(evidence, &around->near[i], line))
            return false;
    }
    for (size_t i = 0; i < around->not_near_count; i++) {
        if (neighbour_occurs(evidence, &around->not_near[i], line))
            return false;
    }
    return true;
}

/* NO if one is false, UNKNOWN if one is unknown, else YES. */
static enum af_answer all_hold(struct af_diagnosis_ranking *ranking,
                               const struct af_conditions *conditions,
                               const struct af_log_hit *hit, const char **missing_out)
{
    enum af_answer all = AF_YES;
    for (size_t i = 0; i < conditions->count; i++) {
        const char *missing = NULL;
        enum af_answer one = af_condition_holds(&conditions->rows[i], &ranking->lookup,
                                                hit->captures, hit->capture_count, &missing);
        if (one == AF_NO)
            return AF_NO;
        if (one == AF_UNKNOWN && all == AF_YES) {
            *missing_out = missing;
            all = AF_UNKNOWN;
        }
    }
    return all;
}

const struct af_cause *af_diagnosis_cause_of(const struct af_diagnosis_ranking *ranking,
                                             const struct af_signature_cause *row)
{
    return &ranking->evidence->table->causes->rows[row->index];
}

/* Whether a symptom's cause comes after the last phase that failed. */
static bool is_out_of_phase(const struct af_diagnosis_ranking *ranking,
                            const struct af_signature_cause *row)
{
    return row->kind != AF_SIGNATURE_FAULT && ranking->reached != 0 &&
           (af_diagnosis_cause_of(ranking, row)->phases & ranking->reached) == 0;
}

/* Whether a stated fact contradicts the cause. */
static bool is_contradicted(struct af_diagnosis_ranking *ranking, const struct af_cause *cause,
                            const struct af_log_hit *hit)
{
    struct af_condition condition;
    const char *missing;
    for (const char *at = cause->unless; at != NULL; at = strchr(at, '|')) {
        at += strspn(at, "| ");
        size_t len = strcspn(at, "|");
        const char *source = af_arena_text_n(ranking->arena, at, len);
        if (source != NULL &&
            af_condition_parse(source, ranking->arena, &condition, NULL) == ANYFLASH_OK &&
            af_condition_holds(&condition, &ranking->lookup, hit->captures, hit->capture_count,
                               &missing) == AF_YES)
            return true;
    }
    return false;
}

/* Whether facts prove it without people's sentences, which may be about another machine. */
static bool is_without_sentences(struct af_diagnosis_ranking *ranking,
                                 const struct af_signature_cause *row,
                                 const struct af_log_hit *hit)
{
    const char *missing = NULL;
    ranking->lookup.without_prose = true;
    enum af_answer answer = all_hold(ranking, &row->proves, hit, &missing);
    ranking->lookup.without_prose = false;
    return answer == AF_YES;
}

static bool has_any(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasestr(text, parts[i]) != NULL)
            return true;
    return false;
}

/*
 * Whether a program only warned that it runs without something, with no error of its own, and
 * stopped with an exception that does not come of that.
 */
static bool is_warned(const struct af_diagnosis_ranking *ranking, const struct af_log_hit *hit,
                      const struct af_cause *cause)
{
    static const char *const notices[] = {"ignore this if", "arning: import", "falling back"};
    static const char *const errors[] = {"error", "undefined symbol", "not found"};
    static const char *const follow[] = {
        "flash",        "NoneType", "not defined", "referenced before", "Failed to import",
        "cannot import"};
    const unsigned later = 1u << AF_CAUSE_IMPORT | 1u << AF_CAUSE_RUN;
    const struct af_log_end *end = &ranking->evidence->end;
    return (cause->phases & later) != 0 && end->is_exception && end->error_line != hit->line &&
           has_any(hit->text, notices, AF_COUNT(notices)) &&
           !has_any(hit->text, errors, AF_COUNT(errors)) &&
           !has_any(end->error, follow, AF_COUNT(follow));
}

/* Whether the author says that flash-attn works, so that what failed at run time is not it. */
static bool is_said_to_work(const struct af_diagnosis_ranking *ranking,
                            const struct af_cause *cause)
{
    const struct af_log_hits *works =
        af_log_evidence_hits(ranking->evidence, AF_SIGNATURE_WORKS);
    return works != NULL && works->count > 0 && (cause->phases & 1u << AF_CAUSE_RUN) != 0;
}

/* `other`: the package that the message is about; NULL for flash-attn, or if unknown. */
static void suppose(struct af_diagnosis_ranking *ranking, const struct af_signature *signature,
                    const struct af_signature_cause *row, const struct af_log_hit *hit,
                    const char *other)
{
    struct af_diagnosis_hypothesis made = {
        .signature = signature, .row = row, .hit = hit, .other = other};
    const char *missing = NULL;
    if (ranking->count == AF_DIAGNOSIS_HYPOTHESES_MAX || is_out_of_phase(ranking, row) ||
        (other != NULL && af_diagnosis_cause_of(ranking, row)->of_others == NULL) ||
        (other == NULL && is_said_to_work(ranking, af_diagnosis_cause_of(ranking, row))) ||
        is_contradicted(ranking, af_diagnosis_cause_of(ranking, row), hit) ||
        is_warned(ranking, hit, af_diagnosis_cause_of(ranking, row)) ||
        !surroundings_hold(ranking->evidence, &row->around, hit->line) ||
        all_hold(ranking, &row->only_if, hit, &made.missing) == AF_NO)
        return;
    enum af_answer by_facts =
        row->proves.count == 0 ? AF_NO : all_hold(ranking, &row->proves, hit, &missing);
    bool by_message = row->proof != NULL && made.missing == NULL;
    bool is_certain = by_facts == AF_YES && is_without_sentences(ranking, row, hit);
    made.is_proved = is_certain || by_message;
    made.is_open = made.missing != NULL && !made.is_proved;
    if (by_facts == AF_UNKNOWN && made.missing == NULL)
        made.missing = missing;
    if (made.is_proved)
        made.missing = NULL;
    made.by_message = by_message && !is_certain;
    made.score = row->score + (by_facts == AF_YES ? PROOF_SCORE : 0);
    ranking->hypotheses[ranking->count++] = made;
}

/*
 * Whether the message itself names flash-attn, so that the lines above do not matter:
 * "flash_attn_2_cuda",
 * "FlashAttention 2", but not "FlashAttentionKwargs" or "modeling_flash_attention_utils".
 */
static bool names_flash_attn(const struct af_log_hit *hit)
{
    for (const char *at = hit->text; (at = strcasestr(at, "flash")) != NULL; at++) {
        bool is_inner = at > hit->text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        const char *rest = at + strlen("flash");
        rest += *rest != '\0' && strchr("-_ ", *rest) != NULL;
        size_t len = strncasecmp(rest, "attention", 9) == 0 ? 9
                     : strncasecmp(rest, "attn", 4) == 0    ? 4
                                                            : 0;
        if (!is_inner && len > 0 && !isalpha((unsigned char)rest[len]))
            return true;
    }
    return false;
}

/* Whether an earlier occurrence with a part of the same class has made hypotheses. */
static bool is_supposed(const struct af_diagnosis_ranking *ranking, size_t first,
                        const struct af_log_hit *hit)
{
    const char *class = af_capture_class(hit->captures, hit->capture_count);
    for (size_t i = first; i < ranking->count; i++) {
        const struct af_log_hit *other = ranking->hypotheses[i].hit;
        if (strcmp(af_capture_class(other->captures, other->capture_count), class) == 0)
            return true;
    }
    return false;
}

/*
 * Whether a person's sentence is not about flash-attn: the text names it, but neither in its
 * first lines nor near the sentence.
 */
static bool is_aside(const struct af_diagnosis_ranking *ranking, const struct af_log_hit *hit)
{
    const struct af_log_hits *named =
        af_log_evidence_hits(ranking->evidence, AF_SIGNATURE_SUBJECT);
    if (!hit->is_said || named == NULL || named->count == 0)
        return false;
    for (size_t i = 0; i < named->count; i++)
        if (named->rows[i].line <= TITLE_LINES ||
            (named->rows[i].line <= hit->line + ASIDE_LINES &&
             named->rows[i].line + ASIDE_LINES >= hit->line))
            return false;
    return true;
}

/* Whether a person speaks: no program calls itself so. */
static bool is_of_person(const char *text)
{
    static const char *const words[] = {" I ", " my ", " I'm ", " I've "};
    return has_any(text, words, AF_COUNT(words));
}

/*
 * Whether a person only tells the story of an exception that a program printed, or quotes
 * another message: then the exception counts. A title says what the text is about, unless it
 * is the exception itself.
 */
static bool is_told(const struct af_diagnosis_ranking *ranking, const struct af_log_hit *hit)
{
    const struct af_log_end *end = &ranking->evidence->end;
    if (!end->is_exception)
        return false;
    if (hit->is_said)
        return hit->line > TITLE_LINES || hit->line == end->error_line;
    return is_of_person(hit->text) && hit->line > TITLE_LINES && hit->line != end->error_line;
}

/* The hypotheses of one signature, from its first occurrence with a part of each class that
   satisfies `near` and `not_near`. */
static void suppose_all(struct af_diagnosis_ranking *ranking, size_t index)
{
    const struct af_signature *signature = &ranking->evidence->table->rows[index];
    const struct af_log_hits *hits = &ranking->evidence->hits[index];
    size_t first = ranking->count;
    for (size_t i = 0; i < hits->count; i++) {
        const struct af_log_hit *hit = &hits->rows[i];
        const char *other = NULL;
        if (!surroundings_hold(ranking->evidence, &signature->around, hit->line) ||
            is_supposed(ranking, first, hit) || is_aside(ranking, hit) || is_told(ranking, hit))
            continue;
        af_log_owners_subject(&ranking->evidence->owners, hit->line, names_flash_attn(hit),
                              &other);
        af_diagnosis_look_from(ranking, hit);
        for (size_t c = 0; c < signature->cause_count; c++)
            suppose(ranking, signature, &signature->causes[c], hit, other);
    }
}

static void drop_symptoms(struct af_diagnosis_ranking *ranking)
{
    size_t faults = 0;
    size_t kept = 0;
    for (size_t i = 0; i < ranking->count; i++)
        faults += ranking->hypotheses[i].row->kind == AF_SIGNATURE_FAULT ? 1 : 0;
    for (size_t i = 0; faults > 0 && i < ranking->count; i++) {
        if (ranking->hypotheses[i].row->kind == AF_SIGNATURE_FAULT)
            ranking->hypotheses[kept++] = ranking->hypotheses[i];
    }
    ranking->count = faults > 0 ? kept : ranking->count;
}

/* Whether it comes from a message, not from what somebody says of it, and is no mere hint. */
static bool is_of_message(const struct af_diagnosis_hypothesis *one)
{
    return one->row->score > HINT_SCORE && !one->hit->is_said;
}

/* The first message counts more; the first sentence only where there is no message. */
static void prefer_first(struct af_diagnosis_ranking *ranking)
{
    uint64_t first = UINT64_MAX;
    bool has_message = false;
    for (size_t i = 0; i < ranking->count; i++)
        has_message = has_message || is_of_message(&ranking->hypotheses[i]);
    for (size_t i = 0; i < ranking->count; i++) {
        const struct af_diagnosis_hypothesis *one = &ranking->hypotheses[i];
        if (one->row->score > HINT_SCORE && one->hit->line < first &&
            (!has_message || is_of_message(one)))
            first = one->hit->line;
    }
    for (size_t i = 0; i < ranking->count; i++) {
        struct af_diagnosis_hypothesis *one = &ranking->hypotheses[i];
        if (one->row->score > HINT_SCORE && one->hit->line == first)
            one->score += FIRST_SCORE + (one->by_message ? PROOF_SCORE : 0);
    }
}

/* Best first; of equal ones the earlier line. */
static int by_score(const void *a, const void *b, const void *context)
{
    const struct af_diagnosis_hypothesis *one = a;
    const struct af_diagnosis_hypothesis *other = b;
    (void)context;
    if (one->score != other->score)
        return one->score > other->score ? -1 : 1;
    if (one->hit->line != other->hit->line)
        return one->hit->line < other->hit->line ? -1 : 1;
    return 0;
}

const struct af_log_hit *af_diagnosis_first_hit(const struct af_log_evidence *evidence,
                                                size_t index)
{
    const struct af_log_hits *hits = &evidence->hits[index];
    for (size_t i = 0; i < hits->count; i++) {
        if (surroundings_hold(evidence, &evidence->table->rows[index].around,
                              hits->rows[i].line))
            return &hits->rows[i];
    }
    return NULL;
}

/* Sets `reached` to the phases up to the last one that failed; to 0 if the log reports none. */
static void find_phases(struct af_diagnosis_ranking *ranking)
{
    const struct af_log_evidence *evidence = ranking->evidence;
    for (size_t i = 0; i < evidence->table->count; i++) {
        const struct af_signature *signature = &evidence->table->rows[i];
        if (signature->kind == AF_SIGNATURE_FAILED &&
            af_diagnosis_first_hit(evidence, i) != NULL)
            ranking->reached |= (2u << signature->phase) - 1;
    }
}

void af_diagnosis_suppose(struct af_diagnosis_ranking *ranking)
{
    const struct af_log_evidence *evidence = ranking->evidence;
    const struct af_log_hits *subject = af_log_evidence_hits(evidence, AF_SIGNATURE_SUBJECT);
    /* a log that does not name flash-attn may be of any program */
    ranking->is_about_flash_attn = subject == NULL || subject->count > 0;
    find_phases(ranking);
    for (size_t i = 0; i < evidence->table->count; i++)
        suppose_all(ranking, i);
    drop_symptoms(ranking);
    prefer_first(ranking);
    af_sort(ranking->hypotheses, ranking->count, sizeof *ranking->hypotheses, by_score, NULL);
}
