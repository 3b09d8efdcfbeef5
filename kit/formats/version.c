/*
 * version.c: versions of PEP 440: reading, order, normal form. Specifiers are in
 * version_specifier.c.
 *
 * The grammar of versions is that of the packaging library (packaging.version,
 * appendix B of PEP 440), parsed from left to right without backtracking.
 */
#include "kit/formats/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
