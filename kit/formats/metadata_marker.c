/*
 * metadata_marker.c: whether the environment marker of a requirement holds. Markers are
 * evaluated with unknown as a third value, and without recursion: the state before an open
 * parenthesis is kept on a stack.
 */
#include "kit/formats/metadata.h"

#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16
#define VALUE_BYTES 256

/* One side of a comparison. */
struct operand {
    char text[VALUE_BYTES];
    bool known;
    bool is_version;
    bool is_name; /* of an extra */
};

struct reader {
    struct af_span rest;
    const struct af_marker_environment *environment;
    bool malformed;
};

/* The state of "a and b or c": the finished terms and the current one. */
struct level {
    enum af_answer any;
    enum af_answer all;
};

static enum af_answer both(enum af_answer a, enum af_answer b)
{
    if (a == AF_NO || b == AF_NO)
        return AF_NO;
    return a == AF_YES && b == AF_YES ? AF_YES : AF_UNKNOWN;
}

static enum af_answer either(enum af_answer a, enum af_answer b)
{
    if (a == AF_YES || b == AF_YES)
        return AF_YES;
    return a == AF_NO && b == AF_NO ? AF_NO : AF_UNKNOWN;
}

static void skip_blanks(struct reader *reader)
{
    while (reader->rest.len > 0 && strchr(" \t\r\n", reader->rest.data[0]) != NULL &&
           reader->rest.data[0] != '\0') {
        reader->rest.data++;
        reader->rest.len--;
    }
}

static bool is_word_letter(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '.';
}

static struct af_span take(struct reader *reader, size_t len)
{
    struct af_span taken = {reader->rest.data, len};
    reader->rest.data += len;
    reader->rest.len -= len;
    return taken;
}

/* Returns the next word, which may be empty, without consuming it. */
static struct af_span next_word(struct reader *reader)
{
    size_t len = 0;
    skip_blanks(reader);
    while (len < reader->rest.len && is_word_letter(reader->rest.data[len]))
        len++;
    return (struct af_span){reader->rest.data, len};
}

static bool take_word(struct reader *reader, const char *word)
{
    if (!af_text_span_equal(next_word(reader), word))
        return false;
    take(reader, strlen(word));
    return true;
}

static bool take_letter(struct reader *reader, char letter)
{
    skip_blanks(reader);
    if (reader->rest.len == 0 || reader->rest.data[0] != letter)
        return false;
    take(reader, 1);
    return true;
}

static void set(struct reader *reader, struct operand *operand, struct af_span text)
{
    if (text.len >= sizeof operand->text) {
        reader->malformed = true;
        return;
    }
    memcpy(operand->text, text.data, text.len);
    operand->text[text.len] = '\0';
    operand->known = true;
}

static void read_text(struct reader *reader, struct operand *operand)
{
    char quote = take(reader, 1).data[0];
    const char *end =
        reader->rest.len == 0 ? NULL : memchr(reader->rest.data, quote, reader->rest.len);
    if (end == NULL) {
        reader->malformed = true;
        return;
    }
    set(reader, operand, take(reader, (size_t)(end - reader->rest.data)));
    take(reader, 1);
}

/* "3.12" of "3.12.4" */
static size_t minor_len(const char *version)
{
    size_t major = strcspn(version, ".");
    return version[major] == '\0' ? major : major + 1 + strcspn(version + major + 1, ".");
}

static void read_variable(struct reader *reader, struct operand *operand)
{
    const struct af_marker_environment *here = reader->environment;
    const struct {
        const char *name;
        const char *value;
    } rows[] = {
        {"python_version", here->python_full_version},
        {"python_full_version", here->python_full_version},
        {"os_name", here->os_name},
        {"os.name", here->os_name},
        {"sys_platform", here->sys_platform},
        {"sys.platform", here->sys_platform},
        {"platform_system", here->platform_system},
        {"platform_machine", here->platform_machine},
        {"platform.machine", here->platform_machine},
        {"implementation_name", here->implementation_name},
        {"platform_python_implementation", here->platform_python_implementation},
        {"extra", here->extra},
        {"implementation_version", NULL},
        {"platform_release", NULL},
        {"platform_version", NULL},
    };
    struct af_span word = next_word(reader);
    take(reader, word.len);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (!af_text_span_equal(word, rows[i].name))
            continue;
        const char *value = rows[i].value;
        if (value == NULL)
            return;
        operand->is_version = i < 2;
        operand->is_name = af_text_span_equal(word, "extra");
        set(reader, operand,
            (struct af_span){value, i == 0 ? minor_len(value) : strlen(value)});
        return;
    }
    reader->malformed = true;
}

static void read_operand(struct reader *reader, struct operand *operand)
{
    *operand = (struct operand){.known = false};
    skip_blanks(reader);
    if (reader->rest.len > 0 && (reader->rest.data[0] == '"' || reader->rest.data[0] == '\''))
        read_text(reader, operand);
    else
        read_variable(reader, operand);
}

static const char *read_operator(struct reader *reader)
{
    static const char *const operators[] = {"===", "==", "!=", "<=", ">=", "~=", "<", ">"};
    skip_blanks(reader);
    for (size_t i = 0; i < AF_COUNT(operators); i++) {
        size_t len = strlen(operators[i]);
        if (reader->rest.len < len || memcmp(reader->rest.data, operators[i], len) != 0)
            continue;
        take(reader, len);
        return operators[i];
    }
    if (take_word(reader, "in"))
        return "in";
    if (take_word(reader, "not") && take_word(reader, "in"))
        return "not in";
    reader->malformed = true;
    return "";
}

/* "3.8" <= python_version means python_version >= "3.8" */
static const char *turned(const char *relation)
{
    static const char *const pairs[][2] = {{"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}};
    for (size_t i = 0; i < AF_COUNT(pairs); i++)
        if (strcmp(relation, pairs[i][0]) == 0)
            return pairs[i][1];
    return relation;
}

static enum af_answer compare_versions(const struct operand *left, const char *relation,
                                       const struct operand *right)
{
    struct af_version version;
    char specifier[VALUE_BYTES + 8];
    const struct operand *value = left->is_version ? left : right;
    const struct operand *bound = left->is_version ? right : left;
    if (!af_version_parse(value->text, strlen(value->text), &version))
        return AF_UNKNOWN;
    snprintf(specifier, sizeof specifier, "%s%s", value == left ? relation : turned(relation),
             bound->text);
    return af_specifier_contains(specifier, &version);
}

static enum af_answer compare_texts(const char *left, const char *relation, const char *right)
{
    int order = strcmp(left, right);
    bool holds = strcmp(relation, "!=") == 0   ? order != 0
                 : strcmp(relation, "<") == 0  ? order < 0
                 : strcmp(relation, "<=") == 0 ? order <= 0
                 : strcmp(relation, ">") == 0  ? order > 0
                 : strcmp(relation, ">=") == 0 ? order >= 0
                                               : order == 0;
    return holds ? AF_YES : AF_NO;
}

static void normalise(struct operand *operand)
{
    char normal[VALUE_BYTES];
    struct af_span text = {operand->text, strlen(operand->text)};
    if (af_name_normalise(text, normal, sizeof normal))
        memcpy(operand->text, normal, sizeof normal);
}

static enum af_answer compare(struct operand *left, const char *relation, struct operand *right)
{
    if (!left->known || !right->known)
        return AF_UNKNOWN;
    if (left->is_name || right->is_name) {
        normalise(left);
        normalise(right);
    }
    bool is_in = strcmp(relation, "in") == 0;
    if (is_in || strcmp(relation, "not in") == 0)
        return (strstr(right->text, left->text) != NULL) == is_in ? AF_YES : AF_NO;
    if (left->is_version != right->is_version)
        return compare_versions(left, relation, right);
    return compare_texts(left->text, relation, right->text);
}

static enum af_answer read_comparison(struct reader *reader)
{
    struct operand left;
    struct operand right;
    read_operand(reader, &left);
    const char *relation = read_operator(reader);
    read_operand(reader, &right);
    return reader->malformed ? AF_UNKNOWN : compare(&left, relation, &right);
}

enum af_answer af_marker_holds(struct af_span marker,
                               const struct af_marker_environment *environment)
{
    struct reader reader = {.rest = af_text_trim(marker), .environment = environment};
    struct level levels[DEPTH_MAX] = {{AF_NO, AF_YES}};
    size_t depth = 0;
    bool wants_operand = true;
    if (reader.rest.len == 0)
        return AF_YES;
    while (!reader.malformed && (skip_blanks(&reader), reader.rest.len > 0)) {
        struct level *level = &levels[depth];
        if (wants_operand && take_letter(&reader, '(')) {
            if (++depth == DEPTH_MAX)
                return AF_UNKNOWN;
            levels[depth] = (struct level){AF_NO, AF_YES};
        } else if (wants_operand) {
            level->all = both(level->all, read_comparison(&reader));
            wants_operand = false;
        } else if (depth > 0 && take_letter(&reader, ')')) {
            depth--;
            levels[depth].all = both(levels[depth].all, either(level->any, level->all));
        } else if (take_word(&reader, "or")) {
            *level = (struct level){either(level->any, level->all), AF_YES};
            wants_operand = true;
        } else {
            reader.malformed = !take_word(&reader, "and");
            wants_operand = true;
        }
    }
    return reader.malformed || depth > 0 || wants_operand
               ? AF_UNKNOWN
               : either(levels[0].any, levels[0].all);
}
