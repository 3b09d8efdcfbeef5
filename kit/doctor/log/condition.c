/*
 * condition.c: parses conditions and decides whether they hold.
 */
#include "kit/doctor/log/condition.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"

#define OPS "< <= > >= = != ~ is"
#define STATES "known unknown absent true false"

/* "{name}" is a capture, "@name" a fact; `bare` says what a bare word is. */
static bool read_side(struct af_span word, struct af_arena *arena, bool is_left,
                      struct af_condition_side *out)
{
    const char *text = af_arena_text_n(arena, word.data, word.len);
    out->text = text;
    out->kind = is_left ? AF_CONDITION_FACT : AF_CONDITION_LITERAL;
    if (word.len > 2 && text[0] == '{' && text[word.len - 1] == '}') {
        out->text = af_arena_text_n(arena, text + 1, word.len - 2);
        out->kind = AF_CONDITION_CAPTURE;
    } else if (!is_left && text[0] == '@') {
        out->text = text + 1;
        out->kind = AF_CONDITION_FACT;
    }
    return out->kind != AF_CONDITION_FACT || af_lookup_is_name(out->text);
}

/* The next word before a blank, taken from *rest. */
static struct af_span take_word(struct af_span *rest)
{
    *rest = af_text_trim(*rest);
    const char *blank = rest->len == 0 ? NULL : memchr(rest->data, ' ', rest->len);
    struct af_span word = {rest->data,
                           blank == NULL ? rest->len : (size_t)(blank - rest->data)};
    rest->data += word.len;
    rest->len -= word.len;
    return word;
}

enum anyflash_status af_condition_parse(const char *source, struct af_arena *arena,
                                        struct af_condition *out, struct anyflash_error *err)
{
    struct af_span rest = {source, strlen(source)};
    struct af_condition condition = {.source = af_arena_text(arena, source)};
    struct af_span left = take_word(&rest);
    struct af_span op = take_word(&rest);
    const char *op_text = af_arena_text_n(arena, op.data, op.len);
    struct af_span right = af_text_trim(rest);
    int index = af_text_word_index(OPS, op_text);
    bool good = left.len > 0 && right.len > 0 && index >= 0;
    good = good && read_side(left, arena, true, &condition.left);
    good = good && read_side(right, arena, false, &condition.right);
    condition.op = (enum af_condition_op)index;
    if (good && condition.op == AF_CONDITION_IS)
        good = condition.right.kind == AF_CONDITION_LITERAL &&
               af_text_word_index(STATES, condition.right.text) >= 0;
    if (!good) {
        char shown[160];
        af_text_quote(shown, sizeof shown, source, strlen(source));
        return af_fail(
            err, ANYFLASH_E_DATA,
            "the condition '%s' is not FACT OP VALUE with a known fact and one of: " OPS,
            shown);
    }
    *out = condition;
    return ANYFLASH_OK;
}

static unsigned char fold(char letter)
{
    return af_pattern_fold[(unsigned char)letter];
}

/* Glob over the whole text, in either case. */
static bool is_like(const char *glob, struct af_span text)
{
    const char *star = NULL;
    const char *at = text.data;
    const char *again = at;
    while (at < text.data + text.len) {
        if (*glob == '*') {
            star = glob++;
            again = at;
        } else if (*glob != '\0' && (*glob == '?' || fold(*glob) == fold(*at))) {
            glob++;
            at++;
        } else if (star != NULL) {
            glob = star + 1;
            at = ++again;
        } else {
            return false;
        }
    }
    return glob[strspn(glob, "*")] == '\0';
}

/* Names of kinds are in capitals. */
static bool is_kind(const struct af_capture *capture)
{
    return capture->name[0] >= 'A' && capture->name[0] <= 'Z';
}

/* The first row for a capture of a kind; {NULL} at the end of the table: none. */
static const char *const *find_part(const struct af_capture *capture)
{
    const char *const(*row)[4] = af_embedded_log_parts;
    while ((*row)[0] != NULL &&
           (strcmp((*row)[0], capture->name) != 0 || !is_like((*row)[1], capture->value)))
        row++;
    return *row;
}

const char *af_capture_class(const struct af_capture *captures, size_t count)
{
    const char *class = "";
    for (size_t i = 0; i < count; i++) {
        if (!is_kind(&captures[i]))
            continue;
        const char *const *row = find_part(&captures[i]);
        if (row[0] == NULL)
            return NULL;
        if (class[0] == '\0')
            class = row[2];
    }
    return class;
}

const char *af_capture_text(const struct af_capture *captures, size_t count, const char *name,
                            struct af_arena *arena)
{
    size_t len = strcspn(name, ".");
    for (size_t i = 0; i < count; i++) {
        const struct af_capture *capture = &captures[i];
        if (strlen(capture->name) != len || memcmp(capture->name, name, len) != 0)
            continue;
        if (name[len] == '\0')
            return af_arena_text_n(arena, capture->value.data, capture->value.len);
        const char *const *row = find_part(capture);
        return row[0] == NULL ? NULL : row[strcmp(name + len, ".class") == 0 ? 2 : 3];
    }
    return NULL;
}

static struct af_lookup_value side_value(const struct af_condition_side *side,
                                         const struct af_lookup *lookup,
                                         const struct af_capture *captures,
                                         size_t capture_count)
{
    if (side->kind == AF_CONDITION_LITERAL)
        return (struct af_lookup_value){AF_FACT_KNOWN, side->text, NULL};
    if (side->kind == AF_CONDITION_FACT)
        return af_lookup_find(lookup, side->text);
    const char *text = af_capture_text(captures, capture_count, side->text, lookup->arena);
    return (struct af_lookup_value){text == NULL ? AF_FACT_UNKNOWN : AF_FACT_KNOWN, text, NULL};
}

static enum af_answer answer(bool truth)
{
    return truth ? AF_YES : AF_NO;
}

static enum af_answer is_state(const char *word, const struct af_lookup_value *value)
{
    if (strcmp(word, "known") == 0)
        return answer(value->state == AF_FACT_KNOWN);
    if (strcmp(word, "unknown") == 0)
        return answer(value->state == AF_FACT_UNKNOWN);
    if (value->state == AF_FACT_UNKNOWN)
        return AF_UNKNOWN;
    if (strcmp(word, "absent") == 0)
        return answer(value->state == AF_FACT_ABSENT);
    return answer(value->state == AF_FACT_KNOWN && strcmp(word, value->text) == 0);
}

static enum af_answer compare(enum af_condition_op op, const char *left, const char *right)
{
    struct af_version a;
    struct af_version b;
    bool versions =
        af_version_parse(left, strlen(left), &a) && af_version_parse(right, strlen(right), &b);
    int order = versions ? af_version_compare_public(&a, &b) : 0;
    bool same = versions ? order == 0 : af_equal_fold(left, right);
    switch (op) {
    case AF_CONDITION_EQUAL:
        return answer(same);
    case AF_CONDITION_NOT_EQUAL:
        return answer(!same);
    case AF_CONDITION_LIKE:
        return answer(is_like(right, (struct af_span){left, strlen(left)}));
    case AF_CONDITION_LESS:
        return versions ? answer(order < 0) : AF_UNKNOWN;
    case AF_CONDITION_LESS_EQUAL:
        return versions ? answer(order <= 0) : AF_UNKNOWN;
    case AF_CONDITION_MORE:
        return versions ? answer(order > 0) : AF_UNKNOWN;
    default:
        return versions ? answer(order >= 0) : AF_UNKNOWN;
    }
}

/* An absent side equals nothing and cannot be ordered. */
static enum af_answer compare_absent(enum af_condition_op op)
{
    if (op == AF_CONDITION_EQUAL || op == AF_CONDITION_LIKE)
        return AF_NO;
    return op == AF_CONDITION_NOT_EQUAL ? AF_YES : AF_UNKNOWN;
}

enum af_answer af_condition_holds(const struct af_condition *condition,
                                  const struct af_lookup *lookup,
                                  const struct af_capture *captures, size_t capture_count,
                                  const char **missing_out)
{
    struct af_lookup_value left = side_value(&condition->left, lookup, captures, capture_count);
    enum af_answer held;
    if (condition->op == AF_CONDITION_IS) {
        held = is_state(condition->right.text, &left);
        if (held == AF_UNKNOWN)
            *missing_out = condition->left.text;
        return held;
    }
    struct af_lookup_value right =
        side_value(&condition->right, lookup, captures, capture_count);
    if (left.state == AF_FACT_UNKNOWN || right.state == AF_FACT_UNKNOWN) {
        *missing_out =
            left.state == AF_FACT_UNKNOWN ? condition->left.text : condition->right.text;
        return AF_UNKNOWN;
    }
    if (left.state == AF_FACT_ABSENT || right.state == AF_FACT_ABSENT)
        return compare_absent(condition->op);
    return compare(condition->op, left.text, right.text);
}
