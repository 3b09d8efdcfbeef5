/*
 * reason.c: the table of reasons, made from reasons.inc.
 */
#include "kit/fit/reason.h"

#include "kit/base/text.h"

struct row {
    const char *text_id;
    enum af_reason_group group;
    enum af_reason_effect effect;
    const char *message;
    const char *hint;
    const char *page_hint; /* NULL: `hint` names no option */
    enum af_severity severity;
    const char *finding; /* NULL: `message` and `hint` are used */
    const char *finding_hint;
    bool settled_by_bytes;
    enum af_reason_id if_all; /* 0: the reason itself */
    const char *missing_fact;
    bool comes_first;
    bool asks_to_replace;
};

#define AF_REASON(id, text, in_group, has_effect, ...)                                         \
    {.text_id = text,                                                                          \
     .group = AF_REASON_GROUP_##in_group,                                                      \
     .effect = AF_REASON_##has_effect,                                                         \
     __VA_ARGS__},
static const struct row rows[] = {
#include "kit/fit/reasons.inc"
};
#undef AF_REASON

/* An enumerator without a value is one more than the one before: BEFORE_id is the group of the
   row above, plus one. */
enum {
#define AF_REASON(id, text, group, effect, ...)                                                \
    BEFORE_##id, GROUP_OF_##id = (int)AF_REASON_GROUP_##group,
#include "kit/fit/reasons.inc"
};
#undef AF_REASON

#define AF_REASON(id, text, group, effect, ...)                                                \
    _Static_assert((int)GROUP_OF_##id + 1 >= (int)BEFORE_##id,                                 \
                   text ": reasons.inc is not sorted by group");                               \
    _Static_assert((int)AF_REASON_GROUP_##group > (int)AF_REASON_GROUP_REMARK ||               \
                       (int)AF_REASON_##id < AF_REASON_BITS,                                   \
                   text ": too many reasons against wheels for the bits of a number");
#include "kit/fit/reasons.inc"
#undef AF_REASON

const char *af_reason_text_id(enum af_reason_id id)
{
    return rows[id].text_id;
}

enum af_reason_group af_reason_group(enum af_reason_id id)
{
    return rows[id].group;
}

enum af_reason_effect af_reason_effect(enum af_reason_id id)
{
    return rows[id].effect;
}

const char *af_reason_message(enum af_reason_id id)
{
    return rows[id].message;
}

const char *af_reason_hint(enum af_reason_id id)
{
    return rows[id].hint;
}

const char *af_reason_advice(const struct af_reason *reason)
{
    return reason->hint != NULL ? reason->hint : af_reason_hint(reason->id);
}

const char *af_reason_page_hint(enum af_reason_id id)
{
    return rows[id].page_hint;
}

bool af_reason_is_settled_by_bytes(enum af_reason_id id)
{
    return rows[id].settled_by_bytes;
}

enum af_reason_id af_reason_if_all(enum af_reason_id id)
{
    return rows[id].if_all != 0 ? rows[id].if_all : id;
}

const char *af_reason_missing_fact(enum af_reason_id id)
{
    return rows[id].missing_fact;
}

bool af_reason_lacks_fact(enum af_reason_id id)
{
    return rows[id].effect == AF_REASON_OPEN && af_starts_with(rows[id].text_id, "unknown-");
}

enum af_severity af_reason_severity(enum af_reason_id id)
{
    return rows[id].severity;
}

const char *af_reason_finding(enum af_reason_id id)
{
    return rows[id].finding != NULL ? rows[id].finding : rows[id].message;
}

const char *af_reason_finding_hint(enum af_reason_id id)
{
    return rows[id].finding != NULL ? rows[id].finding_hint : rows[id].hint;
}

bool af_reason_comes_first(enum af_reason_id id)
{
    return rows[id].comes_first;
}

bool af_reason_asks_to_replace(enum af_reason_id id)
{
    return rows[id].asks_to_replace || rows[id].severity == AF_SEVERITY_BROKEN;
}

const char *af_severity_text(enum af_severity severity)
{
    static const char *const texts[] = {"none", "broken", "risk", "note"};
    return texts[severity];
}

bool af_reason_parse(const char *text_id, enum af_reason_id *id_out)
{
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (af_equal(text_id, rows[i].text_id)) {
            *id_out = (enum af_reason_id)i;
            return true;
        }
    }
    return false;
}
