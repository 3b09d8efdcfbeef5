/*
 * version.c: versions and specifiers of PEP 440: reading, order, normal form,
 * and whether a version is in a set.
 *
 * The grammar of versions is that of the packaging library (packaging.version,
 * appendix B of PEP 440), parsed from left to right without backtracking.
 * Specifiers are read as packaging.specifiers does: a comma-separated set of
 * clauses that must all hold. Pre-releases are never excluded; that choice is
 * the caller's.
 */
#include "kit/formats/version.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

#define NUMBER_MAX INT64_C(999999999999999999) /* any date or build number fits */

/* The unparsed rest of a version. */
struct cursor {
    const char *at;
    const char *end;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_separator(char c)
{
    return c == '.' || c == '-' || c == '_';
}

static bool take_char(struct cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || lower(*cursor->at) != wanted)
        return false;
    cursor->at++;
    return true;
}

static void take_separator(struct cursor *cursor)
{
    if (cursor->at < cursor->end && is_separator(*cursor->at))
        cursor->at++;
}

/* Parses digits as a number; false without digits or beyond NUMBER_MAX. */
static bool take_number(struct cursor *cursor, int64_t *number_out)
{
    int64_t number = 0;
    const char *start = cursor->at;
    for (; cursor->at < cursor->end && is_digit(*cursor->at); cursor->at++) {
        if (number > NUMBER_MAX / 10)
            return false;
        number = number * 10 + (*cursor->at - '0');
    }
    *number_out = number;
    return cursor->at > start;
}

/*
 * Reads one of `words`, after an optional separator; returns its index, or -1 if
 * none matches.
 */
static int take_word(struct cursor *cursor, const char *const *words, int word_count)
{
    struct cursor start = *cursor;
    take_separator(&start);
    for (int i = 0; i < word_count; i++) {
        struct cursor rest = start;
        const char *letter = words[i];
        while (*letter != '\0' && take_char(&rest, *letter))
            letter++;
        if (*letter == '\0') {
            *cursor = rest;
            return i;
        }
    }
    return -1;
}

/* Reads the number after a word: an optional separator and digits; 0 without digits. */
static bool take_suffix_number(struct cursor *cursor, int64_t *number_out)
{
    take_separator(cursor);
    if (cursor->at < cursor->end && is_digit(*cursor->at))
        return take_number(cursor, number_out);
    *number_out = 0;
    return true;
}

static bool take_release(struct cursor *cursor, struct af_version *version)
{
    int64_t number;
    if (!take_number(cursor, &number))
        return false;
    if (take_char(cursor, '!')) {
        version->epoch = number;
        if (!take_number(cursor, &number))
            return false;
    }
    version->release[0] = number;
    version->release_count = 1;
    while (cursor->end - cursor->at >= 2 && cursor->at[0] == '.' && is_digit(cursor->at[1])) {
        cursor->at++;
        if (version->release_count == AF_VERSION_RELEASE_MAX ||
            !take_number(cursor, &version->release[version->release_count++]))
            return false;
    }
    return true;
}

static bool take_pre(struct cursor *cursor, struct af_version *version)
{
    static const char *const words[] = {"alpha", "a", "beta", "b", "preview", "pre", "c", "rc"};
    static const char kinds[] = {'a', 'a', 'b', 'b', 'r', 'r', 'r', 'r'};
    int word = take_word(cursor, words, (int)AF_COUNT(words));
    if (word < 0)
        return true;
    version->pre_kind = kinds[word];
    return take_suffix_number(cursor, &version->pre);
}

static bool take_post(struct cursor *cursor, struct af_version *version)
{
    static const char *const words[] = {"post", "rev", "r"};
    if (cursor->end - cursor->at >= 2 && cursor->at[0] == '-' && is_digit(cursor->at[1])) {
        cursor->at++;
        return take_number(cursor, &version->post);
    }
    if (take_word(cursor, words, (int)AF_COUNT(words)) < 0)
        return true;
    return take_suffix_number(cursor, &version->post);
}

static bool take_dev(struct cursor *cursor, struct af_version *version)
{
    static const char *const words[] = {"dev"};
    if (take_word(cursor, words, (int)AF_COUNT(words)) < 0)
        return true;
    return take_suffix_number(cursor, &version->dev);
}

static bool is_local_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z');
}

/* Copies one segment of a local version, numbers without leading zeros. */
static bool take_local_segment(struct cursor *cursor, char *local, size_t *used)
{
    const char *start = cursor->at;
    bool numeric = true;
    while (cursor->at < cursor->end && is_local_char(lower(*cursor->at)))
        numeric = is_digit(*cursor->at++) && numeric;
    if (cursor->at == start)
        return false;
    while (numeric && cursor->at - start > 1 && *start == '0')
        start++;
    for (; start < cursor->at; start++) {
        if (*used + 1 >= AF_VERSION_LOCAL_BYTES)
            return false;
        local[(*used)++] = lower(*start);
    }
    return true;
}

static bool take_local(struct cursor *cursor, struct af_version *version)
{
    size_t used = 0;
    if (!take_char(cursor, '+'))
        return true;
    while (take_local_segment(cursor, version->local, &used)) {
        if (cursor->at == cursor->end || !is_separator(*cursor->at))
            return true;
        cursor->at++;
        if (used + 1 >= AF_VERSION_LOCAL_BYTES)
            return false;
        version->local[used++] = '.';
    }
    return false;
}

bool af_version_parse(const char *text, size_t len, struct af_version *version_out)
{
    struct cursor cursor = {text, text + len};
    struct af_version version = {.pre = -1, .post = -1, .dev = -1};
    while (cursor.at < cursor.end && is_blank(*cursor.at))
        cursor.at++;
    while (cursor.end > cursor.at && is_blank(cursor.end[-1]))
        cursor.end--;
    take_char(&cursor, 'v');
    if (!take_release(&cursor, &version) || !take_pre(&cursor, &version) ||
        !take_post(&cursor, &version) || !take_dev(&cursor, &version) ||
        !take_local(&cursor, &version) || cursor.at != cursor.end)
        return false;
    *version_out = version;
    return true;
}

static int compare_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int64_t release_part(const struct af_version *version, int place)
{
    return place < version->release_count ? version->release[place] : 0;
}

/* Rank among pre-releases: a dev release without pre part first, a final release last. */
static int pre_place(const struct af_version *version)
{
    if (version->pre_kind != 0)
        return version->pre_kind;
    return version->post < 0 && version->dev >= 0 ? 0 : 'z';
}

int af_version_compare_public(const struct af_version *a, const struct af_version *b)
{
    int order = compare_number(a->epoch, b->epoch);
    for (int i = 0; order == 0 && i < AF_VERSION_RELEASE_MAX; i++)
        order = compare_number(release_part(a, i), release_part(b, i));
    if (order == 0)
        order = compare_number(pre_place(a), pre_place(b));
    if (order == 0)
        order = compare_number(a->pre, b->pre);
    if (order == 0)
        order = compare_number(a->post, b->post);
    if (order == 0) /* no dev part comes after every dev part */
        order =
            compare_number(a->dev < 0 ? INT64_MAX : a->dev, b->dev < 0 ? INT64_MAX : b->dev);
    return order;
}

/* The segment at *rest up to the next '.', which is skipped. */
static struct af_span next_segment(const char **rest)
{
    struct af_span segment = {*rest, strcspn(*rest, ".")};
    *rest += segment.len;
    if (**rest == '.')
        (*rest)++;
    return segment;
}

static bool is_numeric(struct af_span segment)
{
    return strspn(segment.data, "0123456789") >= segment.len;
}

/* Numbers of any length (no leading zeros) sort after words. */
static int compare_segment(struct af_span a, struct af_span b)
{
    bool a_numeric = is_numeric(a);
    if (a_numeric != is_numeric(b))
        return a_numeric ? 1 : -1;
    if (a_numeric && a.len != b.len)
        return a.len > b.len ? 1 : -1;
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_local(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        int order = compare_segment(next_segment(&a), next_segment(&b));
        if (order != 0)
            return order;
    }
    return (*a != '\0') - (*b != '\0');
}

int af_version_compare(const struct af_version *a, const struct af_version *b)
{
    int order = af_version_compare_public(a, b);
    return order != 0 ? order : compare_local(a->local, b->local);
}

bool af_version_is_prerelease(const struct af_version *version)
{
    return version->pre_kind != 0 || version->dev >= 0;
}

/* Appends to a buffer; what does not fit is left out. */
static size_t add(char *buffer, size_t size_bytes, size_t used, const char *text,
                  int64_t number)
{
    char part[AF_VERSION_LOCAL_BYTES + 2];
    int len = number < 0 ? snprintf(part, sizeof part, "%s", text)
                         : snprintf(part, sizeof part, "%s%" PRId64, text, number);
    size_t fits = size_bytes - 1 - used;
    size_t taken = (size_t)len < fits ? (size_t)len : fits;
    memcpy(buffer + used, part, taken);
    buffer[used + taken] = '\0';
    return used + taken;
}

char *af_version_format(const struct af_version *version, bool with_local, char *buffer,
                        size_t size_bytes)
{
    size_t used = 0;
    char pre_word[] = {version->pre_kind, version->pre_kind == 'r' ? 'c' : '\0', '\0'};
    if (size_bytes == 0)
        return buffer;
    if (version->epoch != 0) {
        used = add(buffer, size_bytes, used, "", version->epoch);
        used = add(buffer, size_bytes, used, "!", -1);
    }
    for (int i = 0; i < version->release_count; i++)
        used = add(buffer, size_bytes, used, i == 0 ? "" : ".", version->release[i]);
    if (version->pre_kind != 0)
        used = add(buffer, size_bytes, used, pre_word, version->pre);
    if (version->post >= 0)
        used = add(buffer, size_bytes, used, ".post", version->post);
    if (version->dev >= 0)
        used = add(buffer, size_bytes, used, ".dev", version->dev);
    if (with_local && version->local[0] != '\0') {
        used = add(buffer, size_bytes, used, "+", -1);
        add(buffer, size_bytes, used, version->local, -1);
    }
    return buffer;
}

enum operator{
    COMPATIBLE,
    EQUAL,
    NOT_EQUAL,
    AT_MOST,
    AT_LEAST,
    BELOW,
    ABOVE,
    IDENTICAL,
    OPERATOR_COUNT
};

/* Longer operators come before their prefixes. */
static const struct {
    const char *text;
    enum operator operator;
} operators[] = {{"===", IDENTICAL}, {"~=", COMPATIBLE}, {"==", EQUAL}, {"!=", NOT_EQUAL},
                 {"<=", AT_MOST},    {">=", AT_LEAST},   {"<", BELOW},  {">", ABOVE}};

/* One clause: operator, version, and whether it ends in ".*". */
struct clause {
    enum operator operator;
    struct af_version version;
    bool any_below;
};

static enum operator take_operator(struct af_span *clause)
{
    for (size_t i = 0; i < AF_COUNT(operators); i++) {
        size_t len = strlen(operators[i].text);
        if (clause->len >= len && memcmp(clause->data, operators[i].text, len) == 0) {
            *clause = af_text_trim((struct af_span){clause->data + len, clause->len - len});
            return operators[i].operator;
        }
    }
    return OPERATOR_COUNT;
}

static bool is_version_letter(char letter)
{
    return isalnum((unsigned char)letter) || strchr(".+!*-_", letter) != NULL;
}

bool af_specifier_is_set(struct af_span text)
{
    for (size_t at = 0; at < text.len;) {
        const char *comma = memchr(text.data + at, ',', text.len - at);
        size_t end = comma == NULL ? text.len : (size_t)(comma - text.data);
        struct af_span clause = af_text_trim((struct af_span){text.data + at, end - at});
        if (clause.len > 0 && (take_operator(&clause) == OPERATOR_COUNT || clause.len == 0))
            return false;
        for (size_t i = 0; i < clause.len; i++)
            if (clause.data[i] == '\0' || !is_version_letter(clause.data[i]))
                return false;
        at = end + 1;
    }
    return true;
}

static bool has_suffix(const struct af_version *version)
{
    return version->pre_kind != 0 || version->post >= 0 || version->dev >= 0;
}

static bool parse_clause(struct af_span text, struct clause *clause)
{
    size_t len = text.len;
    bool exact = clause->operator== EQUAL || clause->operator== NOT_EQUAL;
    clause->any_below =
        exact && len > 2 && text.data[len - 2] == '.' && text.data[len - 1] == '*';
    if (!af_version_parse(text.data, clause->any_below ? len - 2 : len, &clause->version))
        return false;
    const struct af_version *version = &clause->version;
    if (version->local[0] != '\0' && (!exact || clause->any_below))
        return false;
    if (clause->any_below && has_suffix(version))
        return false;
    return clause->operator!= COMPATIBLE || version->release_count >= 2;
}

/* Whether the epoch and the first `count` release numbers are equal. */
static bool same_start(const struct af_version *a, const struct af_version *b, int count)
{
    for (int i = 0; i < count; i++) {
        if ((i < a->release_count ? a->release[i] : 0) !=
            (i < b->release_count ? b->release[i] : 0))
            return false;
    }
    return a->epoch == b->epoch;
}

static bool is_equal(const struct clause *clause, const struct af_version *version)
{
    if (clause->any_below)
        return same_start(version, &clause->version, clause->version.release_count);
    if (clause->version.local[0] == '\0')
        return af_version_compare_public(version, &clause->version) == 0;
    return af_version_compare(version, &clause->version) == 0;
}

/* "<2.8" excludes 2.8.dev0 and later, unless it names a pre-release. */
static bool is_below(const struct af_version *limit, const struct af_version *version)
{
    struct af_version bound = *limit;
    if (!af_version_is_prerelease(limit))
        bound.dev = 0;
    return af_version_compare_public(version, &bound) < 0;
}

/*
 * ">2.8" excludes 2.8+local and every 2.8.postN; ">2.8.post1" only its own local
 * versions.
 */
static bool is_above(const struct af_version *limit, const struct af_version *version)
{
    struct af_version bare = *version;
    if (limit->dev < 0 && limit->post < 0 && version->post >= 0) {
        bare.post = -1;
        bare.dev = -1;
    }
    return af_version_compare_public(&bare, limit) > 0;
}

static bool is_compatible(const struct af_version *limit, const struct af_version *version)
{
    return af_version_compare_public(version, limit) >= 0 &&
           same_start(version, limit, limit->release_count - 1);
}

static bool holds(const struct clause *clause, const struct af_version *version)
{
    switch (clause->operator) {
    case COMPATIBLE:
        return is_compatible(&clause->version, version);
    case EQUAL:
        return is_equal(clause, version);
    case NOT_EQUAL:
        return !is_equal(clause, version);
    case AT_MOST:
        return af_version_compare_public(version, &clause->version) <= 0;
    case AT_LEAST:
        return af_version_compare_public(version, &clause->version) >= 0;
    case BELOW:
        return is_below(&clause->version, version);
    case ABOVE:
        return is_above(&clause->version, version);
    default:
        return false;
    }
}

/* "===2.8.0" compares the normalised text, character by character. */
static bool is_identical(struct af_span text, const struct af_version *version)
{
    char shown[512];
    char wanted[512];
    af_version_format(version, true, shown, sizeof shown);
    if (text.len >= sizeof wanted)
        return false;
    memcpy(wanted, text.data, text.len);
    wanted[text.len] = '\0';
    return af_equal_fold(wanted, shown);
}

static enum af_answer clause_answer(struct af_span text, const struct af_version *version)
{
    struct clause clause = {.operator= take_operator(&text)};
    if (clause.operator== IDENTICAL)
        return is_identical(text, version) ? AF_YES : AF_NO;
    if (clause.operator== OPERATOR_COUNT || !parse_clause(text, &clause))
        return AF_UNKNOWN;
    return holds(&clause, version) ? AF_YES : AF_NO;
}

enum af_answer af_specifier_contains(const char *specifiers, const struct af_version *version)
{
    enum af_answer all = AF_YES;
    for (const char *at = specifiers; *at != '\0';) {
        size_t len = strcspn(at, ",");
        struct af_span clause = af_text_trim((struct af_span){at, len});
        enum af_answer answer = clause.len == 0 ? AF_YES : clause_answer(clause, version);
        if (answer == AF_UNKNOWN)
            return AF_UNKNOWN;
        if (answer == AF_NO)
            all = AF_NO;
        at += len + (at[len] == ',');
    }
    return all;
}
