/*
 * log_evidence.c: one pass over the lines of a log. A table finds the words
 * that patterns need; only those patterns are tried, and a cache remembers which
 * they were for recent lines.
 */
#include "kit/doctor/log/log_evidence.h"

#include <string.h>

#define RANGE_GAP 20u   /* lines between two occurrences of one range */
#define HITS_ENOUGH 64u /* of a signature, for its captures */
#define ROW_NONE SIZE_MAX

#define PROSE_LINES_MAX 20000u /* people write at the top of what they paste, or below */

/* Patterns after those of the table: what was asked for, wheel names, the needle. */
static const char *const asked_patterns[] = {"flash_attn-{v:version}.tar.gz",
                                             "flash-attn=={v:version}"};

static size_t asked_first(const struct af_log_matcher *matcher)
{
    return matcher->table->pattern_count;
}

static size_t wheel_pattern(const struct af_log_matcher *matcher)
{
    return asked_first(matcher) + AF_COUNT(asked_patterns);
}

static size_t needle_pattern(const struct af_log_matcher *matcher)
{
    return wheel_pattern(matcher) + 1;
}

/* The needle as a pattern: a literal. */
static struct af_pattern literal_pattern(const char *text, struct af_arena *arena)
{
    struct af_pattern pattern = {.source = text};
    size_t len = strlen(text);
    char *folded = af_arena_text(arena, text);
    struct af_pattern_part *part = af_arena_alloc(arena, sizeof *part);
    af_pattern_fold_text(text, len, folded);
    part->text = (struct af_span){folded, len};
    pattern.parts = part;
    pattern.part_count = 1;
    pattern.literal = part->text;
    return pattern;
}

static enum anyflash_status collect_patterns(struct af_log_matcher *matcher, const char *needle,
                                             struct af_arena *arena, struct anyflash_error *err)
{
    const struct af_signature_table *table = matcher->table;
    enum anyflash_status status = ANYFLASH_OK;
    matcher->count = needle_pattern(matcher) + 1;
    matcher->patterns = af_arena_array(arena, matcher->count, sizeof *matcher->patterns);
    if (table->pattern_count > 0)
        memcpy(matcher->patterns, table->patterns,
               table->pattern_count * sizeof *matcher->patterns);
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(asked_patterns); i++)
        status = af_pattern_compile(asked_patterns[i], arena,
                                    &matcher->patterns[asked_first(matcher) + i], err);
    if (status == ANYFLASH_OK)
        status = af_pattern_compile("flash_attn-{rest}.whl", arena,
                                    &matcher->patterns[wheel_pattern(matcher)], err);
    matcher->patterns[needle_pattern(matcher)] =
        literal_pattern(needle == NULL ? "" : needle, arena);
    return status;
}

static void build_keywords(struct af_log_matcher *matcher, struct af_arena *arena)
{
    struct af_span *words = af_arena_array(arena, matcher->count, sizeof *words);
    for (size_t i = 0; i < matcher->count; i++)
        words[i] = matcher->patterns[i].literal;
    af_keyword_table_build(words, matcher->count, arena, &matcher->keywords);
}

static void take_rows(struct af_log_matcher *matcher)
{
    const struct af_signature *owner = af_signature_find(matcher->table, AF_SIGNATURE_OWNER);
    matcher->owner_row = owner == NULL ? ROW_NONE : (size_t)(owner - matcher->table->rows);
    for (size_t i = 0; i < matcher->count; i++)
        matcher->rows[i] = ROW_NONE;
    for (size_t i = 0; i < matcher->table->count; i++) {
        const struct af_signature *signature = &matcher->table->rows[i];
        for (size_t p = 0; p < signature->pattern_count; p++)
            matcher->rows[signature->pattern_first + p] = i;
    }
}

enum anyflash_status af_log_matcher_build(const struct af_signature_table *table,
                                          const char *needle, struct af_arena *arena,
                                          struct af_log_matcher *out,
                                          struct anyflash_error *err)
{
    struct af_log_matcher matcher = {.table = table};
    enum anyflash_status status = collect_patterns(&matcher, needle, arena, err);
    build_keywords(&matcher, arena);
    struct af_sentence_rule flash = {0};
    af_sentence_rule_parse("flash", &flash);
    matcher.flash = flash.needed;
    if (status == ANYFLASH_OK)
        status = af_sentence_words_build(arena, &matcher.words, err);
    if (status != ANYFLASH_OK)
        return status;
    matcher.rows = af_arena_array(arena, matcher.count, sizeof *matcher.rows);
    take_rows(&matcher);
    *out = matcher;
    return ANYFLASH_OK;
}

static void note_range(struct af_log_ranges *ranges, uint64_t line)
{
    size_t last = ranges->count - 1; /* not used when there are none */
    if (ranges->count > 0 &&
        (line <= ranges->rows[last].last + RANGE_GAP || ranges->count == AF_LOG_RANGES_MAX)) {
        if (line > ranges->rows[last].last)
            ranges->rows[last].last = line;
        return;
    }
    ranges->rows[ranges->count].first = line;
    ranges->rows[ranges->count++].last = line;
}

/* Copies the part of the line around the match, with its captures. */
static void fill_hit(struct af_log_hit *hit, const struct af_log_line *line,
                     const struct af_pattern_match *match, uint64_t number)
{
    size_t from = 0;
    if (line->len >= AF_LOG_TEXT_BYTES && match->end >= AF_LOG_TEXT_BYTES)
        from = match->start > 60 ? match->start - 60 : 0;
    size_t len =
        line->len - from < AF_LOG_TEXT_BYTES - 1 ? line->len - from : AF_LOG_TEXT_BYTES - 1;
    hit->line = number;
    hit->capture_count = 0;
    memcpy(hit->text, line->text + from, len);
    hit->text[len] = '\0';
    for (size_t i = 0; i < match->capture_count; i++) {
        const struct af_span *value = &match->captures[i].value;
        size_t at = (size_t)(value->data - line->text);
        if (at >= from && at + value->len <= from + len)
            hit->captures[hit->capture_count++] = (struct af_capture){
                match->captures[i].name, {hit->text + (at - from), value->len}};
    }
}

static void note_hit(struct af_log_evidence *evidence, size_t signature,
                     const struct af_pattern_match *match, uint64_t number, bool is_said)
{
    struct af_log_hits *hits = &evidence->hits[signature];
    if (hits->rows == NULL)
        hits->rows = af_arena_array(evidence->arena, AF_LOG_HITS_MAX, sizeof *hits->rows);
    uint64_t index = hits->total++;
    /* the first half stays; the last ones take turns in the second half */
    size_t half = AF_LOG_HITS_MAX / 2;
    size_t place =
        index < AF_LOG_HITS_MAX ? (size_t)index : half + (size_t)((index - half) % half);
    fill_hit(&hits->rows[place], evidence->line, match, number);
    hits->rows[place].is_said = is_said;
    if (hits->count <= place)
        hits->count = place + 1;
}

/* The first version that was asked for. */
static void note_asked(struct af_log_evidence *evidence, const struct af_pattern_match *match,
                       uint64_t number)
{
    const struct af_span *value = &match->captures[0].value;
    if (match->capture_count == 0 || value->len >= AF_LOG_ASKED_BYTES)
        return;
    memcpy(evidence->asked, value->data, value->len);
    evidence->asked_line = number;
}

static void note_wheel(struct af_log_evidence *evidence, const struct af_pattern_match *match,
                       uint64_t number)
{
    struct af_wheel_name wheel;
    const struct af_log_line *line = evidence->line;
    const char *name = line->text + match->start;
    size_t len = match->end - match->start;
    bool guess = memmem(line->folded, line->len, "guessing wheel", 14) != NULL;
    if ((guess && evidence->wheel_line != 0) ||
        af_wheel_name_parse(name, len, &wheel) != AF_WHEEL_NAME_VALID)
        return;
    af_wheel_name_parse(name, len, &evidence->wheel); /* it has pointers into itself */
    evidence->wheel_line = number;
    evidence->wheel_is_guess = guess;
}

/* Whether it has just occurred, and often before. Logs may repeat one line endlessly. */
static bool has_just_occurred(const struct af_log_evidence *evidence, size_t index,
                              uint64_t number)
{
    const struct af_log_ranges *ranges = &evidence->patterns[index];
    size_t row = evidence->matcher->rows[index];
    return ranges->count > 0 &&
           number <= ranges->rows[ranges->count - 1].last + RANGE_GAP / 2 &&
           (row == ROW_NONE || evidence->hits[row].total >= HITS_ENOUGH);
}

/* Whether a match would say nothing new: most lines of a build name a path. */
static bool is_known_already(const struct af_log_evidence *evidence, size_t index,
                             uint64_t number)
{
    if (index == needle_pattern(evidence->matcher))
        return evidence->needle_line != 0;
    if (index == wheel_pattern(evidence->matcher))
        return evidence->wheel_line != 0 && !evidence->wheel_is_guess;
    if (index < asked_first(evidence->matcher))
        return has_just_occurred(evidence, index, number);
    return evidence->asked_line != 0;
}

/* What a match of a pattern means. */
static void note_match(struct af_log_evidence *evidence, size_t index,
                       const struct af_pattern_match *match, uint64_t number)
{
    if (index < asked_first(evidence->matcher)) {
        note_range(&evidence->patterns[index], number);
        if (evidence->matcher->rows[index] == ROW_NONE)
            return;
        if (evidence->matcher->rows[index] == evidence->matcher->owner_row) {
            if (match->capture_count > 0)
                af_log_owners_note(&evidence->owners,
                                   &match->captures[match->capture_count - 1], number);
            return;
        }
        note_range(&evidence->signatures[evidence->matcher->rows[index]], number);
        note_hit(evidence, evidence->matcher->rows[index], match, number, false);
        if (evidence->table->rows[evidence->matcher->rows[index]].kind == AF_SIGNATURE_HARMLESS)
            evidence->harmless = *match;
    } else if (index < wheel_pattern(evidence->matcher)) {
        note_asked(evidence, match, number);
    } else if (index == wheel_pattern(evidence->matcher)) {
        note_wheel(evidence, match, number);
    } else {
        evidence->needle_line = number;
    }
}

/* Tries a pattern on the current line; false: it will never match a line like this. */
static bool try_pattern(struct af_log_evidence *evidence, size_t index)
{
    const struct af_log_line *line = evidence->line;
    struct af_pattern_match match;
    uint64_t number = evidence->files[evidence->file_count - 1].before + line->number;
    if (is_known_already(evidence, index, number))
        return true;
    if (!af_pattern_find(&evidence->matcher->patterns[index], line->text, line->folded,
                         line->len, line->begins, &match))
        return false;
    if (line->joint > 0 && (match.start + 1 >= line->joint || match.end <= line->joint))
        return false; /* the match lies within one of the joined lines */
    if (af_capture_class(match.captures, match.capture_count) == NULL)
        return true;
    note_match(evidence, index, &match, number);
    return true;
}

/* Tries the candidates, and leaves only those that may match an equal line. */
static void try_candidates(struct af_log_evidence *evidence,
                           struct af_log_candidates *candidates)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < candidates->count; i++) {
        if (try_pattern(evidence, candidates->rows[i]))
            candidates->rows[kept++] = candidates->rows[i];
    }
    candidates->count = kept;
}

/* A pattern whose word occurs in the current line is a candidate; each only once. */
static void add_candidate(void *context, size_t index)
{
    struct af_log_evidence *evidence = context;
    if (evidence->stamps[index] == evidence->stamp)
        return;
    evidence->stamps[index] = evidence->stamp;
    evidence->candidates->rows[evidence->candidates->count++] = (uint32_t)index;
}

/* The patterns whose words occur in the line, remembered for lines like it. */
static struct af_log_candidates *find_candidates(struct af_log_evidence *evidence,
                                                 const struct af_log_line *line)
{
    struct af_log_candidates *found = af_log_cache_find(&evidence->cache, line);
    if (found != NULL)
        return found;
    evidence->stamp++;
    evidence->candidates->count = 0;
    af_keyword_search(&evidence->matcher->keywords, line->folded, line->len, add_candidate,
                      evidence);
    if (evidence->candidates->count > 0) /* else there is little to save */
        found = af_log_cache_add(&evidence->cache, line, evidence->candidates, evidence->arena);
    return found != NULL ? found : evidence->candidates;
}

/* What the log says of its machine is read as from any text: with its layout. */
static void take_raw(void *context, struct af_span raw, uint64_t number)
{
    struct af_log_evidence *evidence = context;
    const bool is_short = raw.len > 0 && raw.len <= AF_LOG_RAW_BYTES;
    if (is_short && raw.len == evidence->raw_len &&
        memcmp(raw.data, evidence->raw, raw.len) == 0) {
        if (evidence->raw_repeats++ >= AF_LOG_REPEATS_MAX)
            return;
    } else {
        evidence->raw_repeats = 0;
        evidence->raw_len = is_short ? raw.len : 0;
        memcpy(evidence->raw, raw.data, evidence->raw_len);
    }
    af_pasted_line(&evidence->pasted, raw, number);
}

static void take_sentence(void *context, size_t start, size_t end, uint64_t said)
{
    struct af_log_evidence *evidence = context;
    const struct af_signature_table *table = evidence->table;
    struct af_pattern_match match = {.start = start, .end = end};
    uint64_t number = evidence->files[evidence->file_count - 1].before + evidence->line->number;
    if (evidence->harmless.start < end && evidence->harmless.end > start)
        return; /* a program printed it */
    if ((said & evidence->matcher->flash) != 0)
        evidence->said |= said;
    for (size_t i = 0; i < table->count; i++) {
        const struct af_signature *row = &table->rows[i];
        size_t rule = 0;
        while (rule < row->says_count && !af_sentence_rule_holds(&row->says[rule], said))
            rule++;
        if (rule == row->says_count)
            continue;
        note_range(&evidence->signatures[i], number);
        note_hit(evidence, i, &match, number, true);
    }
}

static void take_line(void *context, const struct af_log_line *line)
{
    struct af_log_evidence *evidence = context;
    evidence->line = line;
    if (line->joint == 0)
        af_log_end_note(&evidence->end, line,
                        evidence->files[evidence->file_count - 1].before + line->number);
    evidence->harmless = (struct af_pattern_match){0};
    try_candidates(evidence, find_candidates(evidence, line));
    if (line->number <= PROSE_LINES_MAX)
        af_sentence_read(&evidence->matcher->words, line, take_sentence, evidence);
}

struct af_log_evidence *af_log_evidence_new(const struct af_log_matcher *matcher,
                                            struct af_arena *arena)
{
    const struct af_signature_table *table = matcher->table;
    struct af_log_evidence *evidence = af_arena_alloc(arena, sizeof *evidence);
    evidence->arena = arena;
    evidence->matcher = matcher;
    evidence->table = table;
    evidence->hits = af_arena_array(arena, table->count + 1, sizeof *evidence->hits);
    evidence->signatures =
        af_arena_array(arena, table->count + 1, sizeof *evidence->signatures);
    evidence->patterns =
        af_arena_array(arena, table->pattern_count + 1, sizeof *evidence->patterns);
    evidence->stamps = af_arena_array(arena, matcher->count, sizeof *evidence->stamps);
    evidence->candidates =
        af_arena_alloc(arena, sizeof *evidence->candidates +
                                  matcher->count * sizeof *evidence->candidates->rows);
    af_machine_init(&evidence->machine, "the log", "not stated in the log");
    evidence->lines.take = take_line;
    evidence->lines.take_raw = take_raw;
    evidence->lines.context = evidence;
    return evidence;
}

void af_log_evidence_begin(struct af_log_evidence *evidence, const char *name)
{
    if (evidence->file_count < AF_LOG_FILES_MAX) {
        evidence->files[evidence->file_count++] =
            (struct af_log_file){name, evidence->line_count};
        evidence->lines.number = 0;
        evidence->raw_len = 0;
    }
    af_pasted_begin(&evidence->pasted, &evidence->machine, name);
}

void af_log_evidence_feed(struct af_log_evidence *evidence, const char *bytes, size_t len)
{
    af_log_lines_feed(&evidence->lines, bytes, len);
}

void af_log_evidence_end(struct af_log_evidence *evidence)
{
    af_log_lines_end(&evidence->lines);
    evidence->line_count =
        evidence->files[evidence->file_count - 1].before + evidence->lines.number;
    af_pasted_end(&evidence->pasted);
}

void af_log_evidence_release(struct af_log_evidence *evidence)
{
    af_machine_release(&evidence->machine);
}

const struct af_log_file *af_log_evidence_file(const struct af_log_evidence *evidence,
                                               uint64_t line, uint64_t *line_out)
{
    size_t index = evidence->file_count - 1;
    while (index > 0 && evidence->files[index].before >= line)
        index--;
    *line_out = line - evidence->files[index].before;
    return &evidence->files[index];
}

const char *af_log_evidence_place(const struct af_log_evidence *evidence, uint64_t line,
                                  struct af_arena *arena)
{
    uint64_t number;
    const struct af_log_file *file = af_log_evidence_file(evidence, line, &number);
    return af_arena_format(arena, "line %llu of %s", (unsigned long long)number, file->name);
}

bool af_log_ranges_near(const struct af_log_ranges *ranges, uint64_t line)
{
    for (size_t i = 0; i < ranges->count; i++) {
        if (ranges->rows[i].first <= line + AF_SIGNATURE_NEAR_LINES &&
            ranges->rows[i].last + AF_SIGNATURE_NEAR_LINES >= line)
            return true;
    }
    return false;
}

const struct af_log_hits *af_log_evidence_hits(const struct af_log_evidence *evidence,
                                               const char *id)
{
    const struct af_signature *signature = af_signature_find(evidence->table, id);
    return signature == NULL ? NULL : &evidence->hits[signature - evidence->table->rows];
}
