/*
 * diagnosis.c: merges the hypotheses of one cause, and says how sure the result is and which
 * facts would settle it.
 */
#include "kit/doctor/diagnosis.h"

#include <string.h>

#include "kit/base/sort.h"
#include "kit/doctor/hypotheses.h"
#include "kit/fit/rung.h"
#include "kit/fit/view.h"

#define AGAIN_SCORE 3  /* for each further signature of the same cause */
#define AHEAD_SCORE 10 /* the best cause must lead the next by this much to be likely */
#define WEAK_SCORE 50  /* a cause with a lower score is only possible, unless facts prove it */

const char *af_diagnosis_confidence_text(enum af_diagnosis_confidence confidence)
{
    static const char *const texts[] = {"proved", "likely", "possible"};
    return texts[confidence];
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

/* The package in a text that never names flash-attn, nor whose messages they are. */
static const char unnamed[] = "a package";

/* The package that failed, if it is not flash-attn; NULL: flash-attn. */
static const char *other_of(const struct af_diagnosis_ranking *ranking,
                            const struct af_diagnosis_hypothesis *from)
{
    if (from->other != NULL || af_diagnosis_cause_of(ranking, from->row)->of_others == NULL ||
        ranking->is_about_flash_attn)
        return from->other;
    return unnamed;
}

/* Whether a message names the fault, not only that something failed, or facts prove it. */
static bool is_named(const struct af_diagnosis_hypothesis *from)
{
    return from->is_proved || (!from->hit->is_said && (from->row->kind == AF_SIGNATURE_FAULT ||
                                                       from->row->score >= WEAK_SCORE));
}

static void add_cause(struct af_diagnosis_ranking *ranking,
                      const struct af_diagnosis_hypothesis *from)
{
    struct af_diagnosis *out = ranking->out;
    const struct af_cause *cause = af_diagnosis_cause_of(ranking, from->row);
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
        .is_named = is_named(from),
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
        struct af_diagnosed *found =
            find_cause(ranking->out, af_diagnosis_cause_of(ranking, from->row));
        if (found == NULL) {
            add_cause(ranking, from);
            continue;
        }
        if (from->signature->says_count == 0 && is_new_signature(ranking, i))
            found->score += AGAIN_SCORE;
        if (from->is_proved)
            found->confidence = AF_DIAGNOSIS_PROVED;
        found->is_named |= is_named(from);
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
static void sort_causes(struct af_diagnosis_ranking *ranking)
{
    struct af_diagnosis *out = ranking->out;
    int order[AF_DIAGNOSIS_CAUSES_MAX];
    struct af_diagnosed *sorted =
        af_arena_array(ranking->arena, AF_DIAGNOSIS_CAUSES_MAX, sizeof *sorted);
    for (size_t i = 0; i < out->count; i++)
        order[i] = (int)i;
    af_sort(order, out->count, sizeof *order, by_cause_score, out);
    for (size_t i = 0; i < out->count; i++)
        sorted[i] = out->causes[order[i]];
    memcpy(out->causes, sorted, out->count * sizeof *sorted);
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

/* A cause that no message names is a guess, unless the printed error is its evidence. */
static const char *doubt(const struct af_diagnosed *found,
                         const struct af_log_evidence *evidence)
{
    const struct af_log_file *file = NULL;
    uint64_t line = 0;
    bool is_guess = found->confidence == AF_DIAGNOSIS_POSSIBLE && !found->is_named;
    if (evidence->end.error_line != 0)
        file = af_log_evidence_file(evidence, evidence->end.error_line, &line);
    for (size_t i = 0; i < found->evidence_count && file != NULL; i++)
        is_guess = is_guess &&
                   (found->evidence[i].line != line || found->evidence[i].file != file->name);
    return is_guess ? "the text has no error message that says so: this is a guess" : NULL;
}

/* Nothing is guessed of a package that is named. */
static void drop_guesses_of_others(struct af_diagnosis *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->causes[i].package == NULL || out->causes[i].package == unnamed ||
            out->causes[i].doubt == NULL)
            out->causes[kept++] = out->causes[i];
    out->count = kept;
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
                                               af_diagnosis_cause_of(ranking, from->row)->id};
    }
}

/*
 * What is known of a torch that PyTorch published: its C++ ABI, where the machine's record does
 * not say it, and a GPU that it has no code for.
 */
static void derive_torch(struct af_lookup *lookup)
{
    const struct af_torch *torch = &lookup->machine->torch;
    struct af_view view;
    if (torch->version.state != AF_FACT_KNOWN)
        return;
    af_view_make(lookup->machine, NULL, lookup->arena, &view);
    if (torch->cxx11abi.state != AF_FACT_KNOWN && view.torch.abi != AF_UNKNOWN) {
        lookup->torch_cxx11abi = view.torch.abi == AF_YES;
        lookup->torch_cxx11abi_source = view.torch.abi_source;
    }
    const struct af_view_gpu *without = af_view_torch_lacks_all(&view);
    if (without != NULL)
        lookup->torch_lacks = af_arena_text(lookup->arena, without->text);
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
        const struct af_log_hit *hit = signature->kind == AF_SIGNATURE_HARMLESS
                                           ? af_diagnosis_first_hit(evidence, i)
                                           : NULL;
        if (hit == NULL || strstr(hit->text, "Error: ") != NULL || /* it ended the program */
            (ranking->out->harmless.why != NULL &&
             ranking->out->harmless.seen.line <= hit->line))
            continue;
        ranking->out->harmless.why = signature->why;
        ranking->out->harmless.seen = af_diagnosis_line(ranking, hit);
    }
}

static void rank(struct af_diagnosis_ranking *ranking)
{
    af_diagnosis_suppose(ranking);
    ranking->out->has_failure = ranking->reached != 0;
    merge(ranking);
    sort_causes(ranking);
    set_confidence(ranking->out, ranking->is_about_flash_attn);
    for (size_t i = 0; i < ranking->out->count; i++)
        ranking->out->causes[i].doubt = doubt(&ranking->out->causes[i], ranking->evidence);
    drop_guesses_of_others(ranking->out);
    prefer_proved(ranking->out);
    ask(ranking);
    if (ranking->out->count == 0) {
        note_harmless(ranking);
        note_other(ranking);
    }
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
        .hypotheses = af_arena_array(arena, AF_DIAGNOSIS_HYPOTHESES_MAX,
                                     sizeof(struct af_diagnosis_hypothesis)),
        .out = out,
    };
    *out = (struct af_diagnosis){.count = 0};
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
    derive_torch(&ranking.lookup);
    rank(&ranking);
    if (has_symbols)
        af_catalog_torch_symbols_release(&symbols);
    return ANYFLASH_OK;
}

bool af_diagnosis_shows_installed(const struct af_diagnosis *diagnosis)
{
    const unsigned later = 1u << AF_CAUSE_IMPORT | 1u << AF_CAUSE_RUN;
    const struct af_diagnosed *best = &diagnosis->causes[0];
    return diagnosis->count > 0 && best->package == NULL &&
           (best->cause->phases & later) == best->cause->phases &&
           strcmp(best->cause->id, "not-installed") != 0;
}
