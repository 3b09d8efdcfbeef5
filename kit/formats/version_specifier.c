/*
 * version_specifier.c: specifiers of PEP 440: whether a version is in a set.
 *
 * Specifiers are read as packaging.specifiers does: a comma-separated set of
 * clauses that must all hold. Pre-releases are never excluded; that choice is
 * the caller's.
 */
#include "kit/formats/version.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"

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
