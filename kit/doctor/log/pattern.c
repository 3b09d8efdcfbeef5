/*
 * pattern.c: compiles patterns into parts, and matches them by trying each part
 * at each position at most once: failures are remembered in one bit per part
 * and position. Most lines lack one of the pattern's literals, so these are
 * searched for first.
 */
#include "kit/doctor/log/pattern.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"

#define CAPTURE_BYTES_MAX 600u
#define REST_BYTES_MAX 200u
#define NAME_BYTES_MAX 32u
#define FOLD_BLOCK 32u

#define LOWER(c)                                                                               \
    ((c) == '"' || (c) == '`' ? '\'' : (c) | (((c) >= 'A' && (c) <= 'Z') ? 0x20 : 0))
#define FOUR(c) LOWER(c), LOWER((c) + 1), LOWER((c) + 2), LOWER((c) + 3)
#define SIXTEEN(c) FOUR(c), FOUR((c) + 4), FOUR((c) + 8), FOUR((c) + 12)
#define SIXTY_FOUR(c) SIXTEEN(c), SIXTEEN((c) + 16), SIXTEEN((c) + 32), SIXTEEN((c) + 48)

const unsigned char af_pattern_fold[256] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128),
                                            SIXTY_FOUR(192)};

void af_pattern_fold_text(const char *restrict text, size_t len, char *restrict folded)
{
    size_t at = 0;
    for (; len - at >= FOLD_BLOCK; at += FOLD_BLOCK) {
        for (size_t i = at; i < at + FOLD_BLOCK; i++) { /* compilers vectorise this loop */
            unsigned char byte = (unsigned char)text[i];
            byte = (unsigned char)(byte | ((unsigned char)(byte - 'A') < 26 ? 0x20 : 0));
            folded[i] = (char)(byte == '"' || byte == '`' ? '\'' : byte);
        }
    }
    for (; at < len; at++)
        folded[at] = (char)af_pattern_fold[(unsigned char)text[at]];
}

struct compiler {
    struct af_arena *arena;
    struct af_pattern_part parts[AF_PATTERN_PARTS_MAX];
    size_t count;
    size_t captures;
    struct af_text literal; /* under construction */
    const char *problem;    /* NULL: none so far */
};

static void add_part(struct compiler *compiler, enum af_pattern_kind kind, struct af_span text)
{
    if (compiler->count == AF_PATTERN_PARTS_MAX)
        compiler->problem = "has too many parts";
    else
        compiler->parts[compiler->count++] = (struct af_pattern_part){kind, text};
}

static void end_literal(struct compiler *compiler)
{
    struct af_text *literal = &compiler->literal;
    if (literal->len == 0)
        return;
    const char *text = af_arena_text_n(compiler->arena, literal->data, literal->len);
    add_part(compiler, AF_PATTERN_LITERAL, (struct af_span){text, literal->len});
    literal->len = 0;
}

static void add_letter(struct compiler *compiler, char letter)
{
    char folded = (char)af_pattern_fold[(unsigned char)letter];
    bool repeats = folded == ' ' && compiler->literal.len > 0 &&
                   compiler->literal.data[compiler->literal.len - 1] == ' ';
    if (!repeats)
        af_text_add_n(&compiler->literal, &folded, 1);
}

/* Reads "name}", "name:version}" or "name:rest}"; returns the place after it, or NULL. */
static const char *take_capture(struct compiler *compiler, const char *at)
{
    size_t len = strspn(at, AF_PATTERN_NAME_LETTERS);
    const char *end = at + len;
    enum af_pattern_kind kind = AF_PATTERN_CAPTURE;
    if (af_starts_with(end, ":version")) {
        kind = AF_PATTERN_VERSION;
        end += strlen(":version");
    } else if (af_starts_with(end, ":rest")) {
        kind = AF_PATTERN_REST;
        end += strlen(":rest");
    }
    if (len == 0 || len > NAME_BYTES_MAX || *end != '}' ||
        ++compiler->captures > AF_PATTERN_CAPTURES_MAX) {
        compiler->problem = "has a malformed {capture}, or too many";
        return NULL;
    }
    end_literal(compiler);
    const char *name = af_arena_text_n(compiler->arena, at, len);
    add_part(compiler, kind, (struct af_span){name, len});
    return end + 1;
}

static void compile_parts(struct compiler *compiler, const char *at)
{
    while (at != NULL && *at != '\0' && compiler->problem == NULL) {
        char letter = *at++;
        if (letter == '{') {
            at = take_capture(compiler, at);
        } else if (letter == '*' || letter == '?') {
            end_literal(compiler);
            add_part(compiler, letter == '*' ? AF_PATTERN_ANY : AF_PATTERN_ONE,
                     (struct af_span){NULL, 0});
        } else if (letter == '\\' && *at == '\0') {
            compiler->problem = "ends with a backslash";
        } else {
            add_letter(compiler, letter == '\\' ? *at++ : letter);
        }
    }
    end_literal(compiler);
}

static struct af_span longest_literal(const struct af_pattern *pattern)
{
    struct af_span longest = {NULL, 0};
    for (size_t i = 0; i < pattern->part_count; i++) {
        const struct af_pattern_part *part = &pattern->parts[i];
        if (part->kind == AF_PATTERN_LITERAL && part->text.len > longest.len)
            longest = part->text;
    }
    return longest;
}

/* Whether the last character is a '$' that no backslash precedes. */
static bool ends_at_end(const char *source, size_t len)
{
    return len > 0 && source[len - 1] == '$' && (len == 1 || source[len - 2] != '\\');
}

enum anyflash_status af_pattern_compile(const char *source, struct af_arena *arena,
                                        struct af_pattern *out, struct anyflash_error *err)
{
    struct compiler compiler = {.arena = arena};
    size_t len = strlen(source);
    struct af_pattern pattern = {.source = af_arena_text(arena, source),
                                 .at_start = source[0] == '^',
                                 .at_end = ends_at_end(source, len)};
    size_t start = pattern.at_start ? 1 : 0;
    size_t end = len - (pattern.at_end ? 1 : 0);
    const char *body = af_arena_text_n(arena, source + start, end > start ? end - start : 0);
    compile_parts(&compiler, body);
    pattern.part_count = compiler.count;
    struct af_pattern_part *parts = af_arena_array(arena, compiler.count + 1, sizeof *parts);
    pattern.parts = parts;
    af_text_release(&compiler.literal);
    memcpy(parts, compiler.parts, compiler.count * sizeof *parts);
    pattern.literal = longest_literal(&pattern);
    if (compiler.problem == NULL && pattern.literal.len < AF_PATTERN_LITERAL_MIN)
        compiler.problem = "needs a piece of literal text of at least 4 characters";
    if (compiler.problem != NULL) {
        char shown[120];
        af_text_quote(shown, sizeof shown, source, len);
        return af_fail(err, ANYFLASH_E_DATA, "the pattern '%s' %s", shown, compiler.problem);
    }
    *out = pattern;
    return ANYFLASH_OK;
}

struct search {
    const struct af_pattern *pattern;
    const char *text;
    const char *folded;
    size_t len;
    size_t ends[AF_PATTERN_PARTS_MAX];       /* where each part of the current attempt ended */
    size_t any_failed[AF_PATTERN_PARTS_MAX]; /* a '*' that begins here or later fails */
    /* a bit per part and place; only those of the pattern's parts are cleared */
    unsigned char failed[AF_PATTERN_PARTS_MAX][AF_PATTERN_LINE_MAX / 8 + 1];
};

static bool is_captured(char letter)
{
    return letter != ' ' && letter != '\'' && letter != '(' && letter != ')' && letter != ',';
}

static size_t capture_run(const struct search *search, size_t at)
{
    size_t end = at;
    while (end < search->len && end - at < CAPTURE_BYTES_MAX &&
           is_captured(search->folded[end]))
        end++;
    return end - at;
}

/* The longest text at `at` that may be a version. */
static size_t version_run(const struct search *search, size_t at)
{
    size_t end = at;
    bool local = false;
    if (at == search->len || !isdigit((unsigned char)search->folded[at]))
        return 0;
    while (end < search->len && end - at < CAPTURE_BYTES_MAX) {
        char letter = search->folded[end];
        if (letter == '+' && !local)
            local = true;
        else if (!isalnum((unsigned char)letter) && letter != '.' && !(letter == '_' && local))
            break;
        end++;
    }
    return end - at;
}

static bool match_parts(struct search *search, size_t part, size_t at);

/* The text may match as a whole: it ends as a version must end. */
static bool match_version(struct search *search, size_t part, size_t at)
{
    for (size_t run = version_run(search, at); run > 0; run--) {
        search->ends[part] = at + run;
        if (isalnum((unsigned char)search->folded[at + run - 1]) &&
            match_parts(search, part + 1, at + run))
            return true;
    }
    return false;
}

static bool match_capture(struct search *search, size_t part, size_t at)
{
    const struct af_pattern *pattern = search->pattern;
    size_t run = capture_run(search, at);
    bool is_last = part + 1 == pattern->part_count;
    bool longest = is_last || pattern->parts[part + 1].kind == AF_PATTERN_ANY;
    /* the letter that must follow, if it is known */
    char next = !is_last && pattern->parts[part + 1].kind == AF_PATTERN_LITERAL
                    ? pattern->parts[part + 1].text.data[0]
                    : '\0';
    for (size_t i = 1; i <= run; i++) {
        size_t len = longest ? run + 1 - i : i;
        if (next != '\0' && (at + len == search->len || search->folded[at + len] != next))
            continue;
        search->ends[part] = at + len;
        if (match_parts(search, part + 1, at + len))
            return true;
    }
    return false;
}

static bool take_failed_bit(struct search *search, size_t part, size_t at)
{
    unsigned char bit = (unsigned char)(1u << at % 8);
    bool was = (search->failed[part][at / 8] & bit) != 0;
    search->failed[part][at / 8] |= bit;
    return was;
}

/* The first place from `at` where the literal stands; SIZE_MAX: none. */
static size_t find_text(const struct search *search, struct af_span literal, size_t at)
{
    const char *found =
        memmem(search->folded + at, search->len - at, literal.data, literal.len);
    return found == NULL ? SIZE_MAX : (size_t)(found - search->folded);
}

/* A '*' ends where the literal after it begins, if there is one. */
static bool match_any(struct search *search, size_t part, size_t at)
{
    const struct af_pattern *pattern = search->pattern;
    const struct af_pattern_part *next =
        part + 1 < pattern->part_count ? &pattern->parts[part + 1] : NULL;
    size_t limit = search->any_failed[part]; /* what ends there or later was tried */
    for (size_t end = at; end < limit; end++) {
        if (next != NULL && next->kind == AF_PATTERN_LITERAL)
            end = find_text(search, next->text, end);
        if (end >= limit)
            break;
        search->ends[part] = end;
        if (match_parts(search, part + 1, end))
            return true;
    }
    if (at < limit)
        search->any_failed[part] = at;
    return false;
}

/* Recursion as deep as the pattern has parts. */
static bool match_parts(struct search *search, size_t part, size_t at)
{
    const struct af_pattern *pattern = search->pattern;
    if (part == pattern->part_count)
        return !pattern->at_end || at == search->len;
    const struct af_pattern_part *now = &pattern->parts[part];
    if (now->kind != AF_PATTERN_ANY && take_failed_bit(search, part, at))
        return false;
    switch (now->kind) {
    case AF_PATTERN_LITERAL:
        search->ends[part] = at + now->text.len;
        return search->len - at >= now->text.len &&
               memcmp(search->folded + at, now->text.data, now->text.len) == 0 &&
               match_parts(search, part + 1, at + now->text.len);
    case AF_PATTERN_ONE:
        search->ends[part] = at + 1;
        return at < search->len && match_parts(search, part + 1, at + 1);
    case AF_PATTERN_VERSION:
        return match_version(search, part, at);
    case AF_PATTERN_CAPTURE:
        return match_capture(search, part, at);
    case AF_PATTERN_REST:
        search->ends[part] =
            at + (search->len - at < REST_BYTES_MAX ? search->len - at : REST_BYTES_MAX);
        return match_parts(search, part + 1, search->len);
    default:
        return match_any(search, part, at);
    }
}

static void report(const struct search *search, size_t start, struct af_pattern_match *out)
{
    size_t at = start;
    *out = (struct af_pattern_match){.start = start};
    for (size_t i = 0; i < search->pattern->part_count; i++) {
        const struct af_pattern_part *part = &search->pattern->parts[i];
        if (part->kind >= AF_PATTERN_CAPTURE)
            out->captures[out->capture_count++] =
                (struct af_capture){part->text.data, {search->text + at, search->ends[i] - at}};
        at = search->ends[i];
    }
    out->end = at;
}

/* A pattern that is one literal. */
static bool find_literal(const struct af_pattern *pattern, const char *folded, size_t len,
                         struct af_pattern_match *match_out)
{
    const char *found = memmem(folded, len, pattern->literal.data, pattern->literal.len);
    if (found == NULL)
        return false;
    size_t start = (size_t)(found - folded);
    match_out->start = start;
    match_out->end = start + pattern->literal.len;
    match_out->capture_count = 0;
    return true;
}

/* Where the next match may start at the earliest; SIZE_MAX: nowhere. */
static size_t next_start(const struct search *search, size_t start)
{
    const struct af_pattern_part *first = &search->pattern->parts[0];
    if (search->pattern->at_start)
        return start == 0 ? 0 : SIZE_MAX;
    if (first->kind == AF_PATTERN_LITERAL)
        return find_text(search, first->text, start);
    /* a match that fails at the start of a run fails within it, too */
    while (first->kind == AF_PATTERN_CAPTURE && start > 0 && start < search->len &&
           is_captured(search->folded[start - 1]))
        start++;
    return start;
}

/* Whether the line contains all literals of the pattern, in order. */
static bool has_literals(const struct search *search)
{
    size_t at = 0;
    for (size_t i = 0; i < search->pattern->part_count && at != SIZE_MAX; i++) {
        const struct af_pattern_part *part = &search->pattern->parts[i];
        if (part->kind == AF_PATTERN_LITERAL) {
            at = find_text(search, part->text, at);
            at += at == SIZE_MAX ? 0 : part->text.len;
        }
    }
    return at != SIZE_MAX;
}

bool af_pattern_find(const struct af_pattern *pattern, const char *text, const char *folded,
                     size_t len, bool begins, struct af_pattern_match *match_out)
{
    struct search search;
    if (len > AF_PATTERN_LINE_MAX || pattern->part_count == 0 || (pattern->at_start && !begins))
        return false;
    if (pattern->part_count == 1 && !pattern->at_start && !pattern->at_end)
        return find_literal(pattern, folded, len, match_out);
    search.pattern = pattern;
    search.text = text;
    search.folded = folded;
    search.len = len;
    if (!has_literals(&search))
        return false;
    for (size_t i = 0; i < pattern->part_count; i++) {
        memset(search.failed[i], 0, len / 8 + 1);
        search.any_failed[i] = len + 1;
    }
    for (size_t start = 0; start <= len; start++) {
        start = next_start(&search, start);
        if (start == SIZE_MAX)
            return false;
        if (match_parts(&search, 0, start)) {
            report(&search, start, match_out);
            return true;
        }
    }
    return false;
}
