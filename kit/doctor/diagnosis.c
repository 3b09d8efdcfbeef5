/*
 * diagnosis.c: turns hits into hypotheses, scores them, merges those of one
 * cause, and says how sure the result is and which facts would settle it.
 */
#include "kit/doctor/diagnosis.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "kit/base/sort.h"
#include "kit/fit/view.h"

#define PROOF_SCORE 40
#define FIRST_SCORE 20 /* for causes of the first fault */
#define AGAIN_SCORE 3  /* for each further signature of the same cause */
#define AHEAD_SCORE 10 /* the best cause must lead the next by this much to be likely */
#define WEAK_SCORE 50  /* a cause with a lower score is only possible, unless facts prove it */
#define HINT_SCORE 38  /* a cause with at most this score is a guess from a few words */
#define HYPOTHESES_MAX 256u
#define TITLE_LINES 2u /* what is named there, the whole text is about */
#define ASIDE_LINES 2u

const char *af_diagnosis_confidence_text(enum af_diagnosis_confidence confidence)
{
    static const char *const texts[] = {"proved", "likely", "possible"};
    return texts[confidence];
}

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

static const struct af_cause *cause_of(const struct af_diagnosis_ranking *ranking,
                                       const struct af_signature_cause *row)
{
    return &ranking->evidence->table->causes->rows[row->index];
}

/* Whether a symptom's cause comes after the last phase that failed. */
static bool is_out_of_phase(const struct af_diagnosis_ranking *ranking,
                            const struct af_signature_cause *row)
{
    return row->kind != AF_SIGNATURE_FAULT && ranking->reached != 0 &&
           (cause_of(ranking, row)->phases & ranking->reached) == 0;
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

/* `other`: the message is about this package; NULL: about flash-attn, or it does not say. */
static void suppose(struct af_diagnosis_ranking *ranking, const struct af_signature *signature,
                    const struct af_signature_cause *row, const struct af_log_hit *hit,
                    const char *other)
{
    struct af_diagnosis_hypothesis made = {
        .signature = signature, .row = row, .hit = hit, .other = other};
    const char *missing = NULL;
    if (ranking->count == HYPOTHESES_MAX || is_out_of_phase(ranking, row) ||
        (other != NULL && cause_of(ranking, row)->of_others == NULL) ||
        is_contradicted(ranking, cause_of(ranking, row), hit) ||
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
 * Whether the message itself names flash-attn, whoever stands above it: "flash_attn_2_cuda",
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
 * Whether a person's sentence is about something else: flash-attn is named, but neither at the
 * top nor beside it.
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
            is_supposed(ranking, first, hit) || is_aside(ranking, hit))
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

static struct af_diagnosed *find_cause(struct af_diagnosis *diagnosis,
                                       const struct af_cause *cause)
{
    for (size_t i = 0; i < diagnosis->count; i++) {
        if (diagnosis->causes[i].cause == cause)
            return &diagnosis->causes[i];
    }
    return NULL;
}

/*
 * Whom the text says is concerned, if that is not flash-attn: the package that is named, or in
 * a text that never names flash-attn some package; NULL: flash-attn.
 */
static const char *other_of(const struct af_diagnosis_ranking *ranking,
                            const struct af_diagnosis_hypothesis *from)
{
    if (from->other != NULL || cause_of(ranking, from->row)->of_others == NULL ||
        ranking->is_about_flash_attn)
        return from->other;
    return "a package";
}

static void add_cause(struct af_diagnosis_ranking *ranking,
                      const struct af_diagnosis_hypothesis *from)
{
    struct af_diagnosis *out = ranking->out;
    const struct af_cause *cause = cause_of(ranking, from->row);
    if (out->count == AF_DIAGNOSIS_CAUSES_MAX)
        return;
    struct af_diagnosed *found = &out->causes[out->count++];
    const char *other = other_of(ranking, from);
    af_diagnosis_look_from(ranking, from->hit);
    ranking->who = other;
    *found = (struct af_diagnosed){
        .cause = cause,
        .package = other,
        .score = from->score,
        .confidence = from->is_proved ? AF_DIAGNOSIS_PROVED
                      : !from->is_open && from->row->score >= WEAK_SCORE
                          ? AF_DIAGNOSIS_LIKELY
                          : AF_DIAGNOSIS_POSSIBLE,
        .title = af_diagnosis_fill(ranking, from->hit,
                                   other == NULL ? cause->title : cause->of_others),
        .detail = from->row->detail != NULL
                      ? af_diagnosis_fill(ranking, from->hit, from->row->detail)
                      : af_diagnosis_describe_extension(ranking),
        .fix = af_diagnosis_fill(ranking, from->hit,
                                 other == NULL ? cause->fix : cause->fix_of_others),
    };
    if (other == NULL) {
        found->why = af_diagnosis_fill(ranking, from->hit, cause->why);
        found->next = af_diagnosis_fill(ranking, from->hit, cause->next);
        found->avoid = af_diagnosis_fill(ranking, from->hit, cause->avoid);
    }
    af_diagnosis_add_evidence(ranking, found, from);
}

/* Whether no better hypothesis for the same cause comes from the same signature. */
static bool is_new_signature(const struct af_diagnosis_ranking *ranking, size_t index)
{
    const struct af_diagnosis_hypothesis *one = &ranking->hypotheses[index];
    for (size_t i = 0; i < index; i++) {
        const struct af_diagnosis_hypothesis *other = &ranking->hypotheses[i];
        if (other->row->index == one->row->index && other->signature == one->signature)
            return false;
    }
    return true;
}

/* One entry per cause, in the order of the best hypothesis for each. */
static void merge(struct af_diagnosis_ranking *ranking)
{
    for (size_t i = 0; i < ranking->count; i++) {
        const struct af_diagnosis_hypothesis *from = &ranking->hypotheses[i];
        struct af_diagnosed *found = find_cause(ranking->out, cause_of(ranking, from->row));
        if (found == NULL) {
            add_cause(ranking, from);
            continue;
        }
        if (from->signature->says_count == 0 && is_new_signature(ranking, i))
            found->score += AGAIN_SCORE;
        if (from->is_proved)
            found->confidence = AF_DIAGNOSIS_PROVED;
        af_diagnosis_add_evidence(ranking, found, from);
    }
}

static int by_cause_score(const void *a, const void *b, const void *context)
{
    const int *one = a;
    const int *other = b;
    const struct af_diagnosis *diagnosis = context;
    return diagnosis->causes[*other].score - diagnosis->causes[*one].score;
}

/* Sorts again, because evidence from several signatures has raised some scores. */
static enum anyflash_status sort_causes(struct af_diagnosis_ranking *ranking)
{
    struct af_diagnosis *out = ranking->out;
    int order[AF_DIAGNOSIS_CAUSES_MAX];
    struct af_diagnosed *sorted =
        af_arena_array(ranking->arena, AF_DIAGNOSIS_CAUSES_MAX, sizeof *sorted);
    if (sorted == NULL)
        return ANYFLASH_E_NO_MEMORY;
    for (size_t i = 0; i < out->count; i++)
        order[i] = (int)i;
    af_sort(order, out->count, sizeof *order, by_cause_score, out);
    for (size_t i = 0; i < out->count; i++)
        sorted[i] = out->causes[order[i]];
    memcpy(out->causes, sorted, out->count * sizeof *sorted);
    return ANYFLASH_OK;
}

/* A cause without a proof is likely only if it is the best and clearly ahead. */
static void set_confidence(struct af_diagnosis *out, bool is_about_flash_attn)
{
    for (size_t i = 0; i < out->count; i++) {
        struct af_diagnosed *found = &out->causes[i];
        bool ahead =
            i == 0 && (out->count == 1 || found->score >= out->causes[1].score + AHEAD_SCORE);
        if (!is_about_flash_attn || (found->confidence == AF_DIAGNOSIS_LIKELY && !ahead))
            found->confidence = AF_DIAGNOSIS_POSSIBLE;
    }
}

/* Puts proved causes before those that are only possible. */
static void prefer_proved(struct af_diagnosis *out)
{
    size_t first = 0;
    while (first < out->count && out->causes[first].confidence != AF_DIAGNOSIS_POSSIBLE)
        first++;
    for (size_t i = first; i < out->count; i++) {
        struct af_diagnosed proved = out->causes[i];
        if (proved.confidence == AF_DIAGNOSIS_POSSIBLE)
            continue;
        memmove(&out->causes[first + 1], &out->causes[first],
                (i - first) * sizeof *out->causes);
        out->causes[first++] = proved;
    }
}

/* The facts that would settle which of the possible causes it is. */
static void ask(struct af_diagnosis_ranking *ranking)
{
    struct af_diagnosis *out = ranking->out;
    if (out->count == 0 || out->causes[0].confidence == AF_DIAGNOSIS_PROVED)
        return;
    for (size_t i = 0; i < ranking->count; i++) {
        const struct af_diagnosis_hypothesis *from = &ranking->hypotheses[i];
        bool asked = from->missing == NULL || !af_lookup_is_name(from->missing);
        for (size_t q = 0; q < out->question_count && !asked; q++)
            asked = strcmp(out->questions[q].fact, from->missing) == 0;
        if (!asked && out->question_count < AF_DIAGNOSIS_QUESTIONS_MAX)
            out->questions[out->question_count++] =
                (struct af_diagnosis_question){from->missing, af_lookup_command(from->missing),
                                               cause_of(ranking, from->row)->id};
    }
}

/* The C++ ABI of a torch that PyTorch published, where the machine's record does not say it. */
static enum anyflash_status derive_abi(struct af_lookup *lookup, struct anyflash_error *err)
{
    const struct af_torch *torch = &lookup->machine->torch;
    struct af_view view;
    if (torch->version.state != AF_FACT_KNOWN || torch->cxx11abi.state == AF_FACT_KNOWN)
        return ANYFLASH_OK;
    af_view_make(lookup->machine, NULL, lookup->arena, &view);
    if (view.torch.abi != AF_UNKNOWN) {
        lookup->torch_cxx11abi = view.torch.abi == AF_YES;
        lookup->torch_cxx11abi_source = view.torch.abi_source;
    }
    return lookup->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* The first hit of the signature that has the surroundings it needs, or NULL. */
static const struct af_log_hit *first_hit(const struct af_log_evidence *evidence, size_t index)
{
    const struct af_log_hits *hits = &evidence->hits[index];
    for (size_t i = 0; i < hits->count; i++) {
        if (surroundings_hold(evidence, &evidence->table->rows[index].around,
                              hits->rows[i].line))
            return &hits->rows[i];
    }
    return NULL;
}

/* Finds the phases up to the last one that failed; none if the log says so of none. */
static void find_phases(struct af_diagnosis_ranking *ranking)
{
    const struct af_log_evidence *evidence = ranking->evidence;
    for (size_t i = 0; i < evidence->table->count; i++) {
        const struct af_signature *signature = &evidence->table->rows[i];
        if (signature->kind == AF_SIGNATURE_FAILED && first_hit(evidence, i) != NULL)
            ranking->reached |= (2u << signature->phase) - 1;
    }
}

/* Without a cause, another package's failure is the answer. */
static void note_other(struct af_diagnosis_ranking *ranking)
{
    struct af_diagnosis *out = ranking->out;
    out->other.package = af_log_owners_failed(&ranking->evidence->owners, &out->other.line);
}

/* Without a cause, a harmless message is the answer. */
static void note_harmless(struct af_diagnosis_ranking *ranking)
{
    const struct af_log_evidence *evidence = ranking->evidence;
    for (size_t i = 0; i < evidence->table->count; i++) {
        const struct af_signature *signature = &evidence->table->rows[i];
        const struct af_log_hit *hit =
            signature->kind == AF_SIGNATURE_HARMLESS ? first_hit(evidence, i) : NULL;
        if (hit == NULL || strstr(hit->text, "Error: ") != NULL || /* it ended the program */
            (ranking->out->harmless.why != NULL &&
             ranking->out->harmless.seen.line <= hit->line))
            continue;
        ranking->out->harmless.why = signature->why;
        ranking->out->harmless.seen = af_diagnosis_line(ranking, hit);
    }
}

static enum anyflash_status rank(struct af_diagnosis_ranking *ranking,
                                 struct anyflash_error *err)
{
    const struct af_log_evidence *evidence = ranking->evidence;
    const struct af_log_hits *subject = af_log_evidence_hits(evidence, AF_SIGNATURE_SUBJECT);
    /* a log that does not name flash-attn may be of any program */
    ranking->is_about_flash_attn = subject == NULL || subject->count > 0;
    find_phases(ranking);
    ranking->out->has_failure = ranking->reached != 0;
    for (size_t i = 0; i < evidence->table->count; i++)
        suppose_all(ranking, i);
    drop_symptoms(ranking);
    prefer_first(ranking);
    af_sort(ranking->hypotheses, ranking->count, sizeof *ranking->hypotheses, by_score, NULL);
    merge(ranking);
    if (sort_causes(ranking) != ANYFLASH_OK || ranking->arena->failed)
        return af_fail_memory(err);
    set_confidence(ranking->out, ranking->is_about_flash_attn);
    prefer_proved(ranking->out);
    ask(ranking);
    if (ranking->out->count == 0) {
        note_harmless(ranking);
        note_other(ranking);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_diagnosis_make(const struct af_log_evidence *evidence,
                                       const struct af_machine *machine,
                                       const struct af_catalog *catalog, struct af_arena *arena,
                                       struct af_diagnosis *out, struct anyflash_error *err)
{
    struct af_catalog_torch_symbols symbols;
    const struct af_log_hits *named = af_log_evidence_hits(evidence, AF_SIGNATURE_SYMBOL);
    bool has_symbols = named != NULL && named->count > 0;
    struct af_diagnosis_ranking ranking = {
        .evidence = evidence,
        .lookup = {.machine = machine, .catalog = catalog, .arena = arena},
        .arena = arena,
        .hypotheses =
            af_arena_array(arena, HYPOTHESES_MAX, sizeof(struct af_diagnosis_hypothesis)),
        .out = out,
    };
    *out = (struct af_diagnosis){.count = 0};
    if (ranking.hypotheses == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        has_symbols ? af_catalog_torch_symbols_load(&symbols, err) : ANYFLASH_OK;
    if (status != ANYFLASH_OK)
        return status;
    ranking.lookup.symbols = has_symbols ? &symbols : NULL;
    if (evidence->wheel_line != 0) {
        ranking.lookup.wheel = &evidence->wheel;
        ranking.lookup.wheel_source =
            af_log_evidence_place(evidence, evidence->wheel_line, arena);
    }
    if (evidence->asked_line != 0) {
        ranking.lookup.asked = evidence->asked;
        ranking.lookup.asked_source =
            af_log_evidence_place(evidence, evidence->asked_line, arena);
    }
    status = derive_abi(&ranking.lookup, err);
    if (status == ANYFLASH_OK)
        status = rank(&ranking, err);
    if (has_symbols)
        af_catalog_torch_symbols_release(&symbols);
    return status;
}

bool af_diagnosis_shows_installed(const struct af_diagnosis *diagnosis)
{
    const unsigned later = 1u << AF_CAUSE_IMPORT | 1u << AF_CAUSE_RUN;
    const struct af_diagnosed *best = &diagnosis->causes[0];
    return diagnosis->count > 0 && best->package == NULL &&
           (best->cause->phases & later) == best->cause->phases &&
           strcmp(best->cause->id, "not-installed") != 0;
}
