/*
 * reason.c: the table of reasons, made from reasons.inc.
 */
#include "kit/fit/reason.h"

#include "kit/base/text.h"

#define AF_REASON(id, text, in_group, has_effect, ...)                                         \
    {.text_id = text,                                                                          \
     .group = AF_REASON_GROUP_##in_group,                                                      \
     .effect = AF_REASON_##has_effect,                                                         \
     __VA_ARGS__},
const struct af_reason_row af_reasons[AF_REASON_COUNT] = {
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

const char *af_reason_advice(const struct af_reason *reason)
{
    return reason->hint != NULL ? reason->hint : af_reasons[reason->id].hint;
}

enum af_reason_id af_reason_if_all(enum af_reason_id id)
{
    return af_reasons[id].if_all != 0 ? af_reasons[id].if_all : id;
}

bool af_reason_lacks_fact(enum af_reason_id id)
{
    return af_reasons[id].effect == AF_REASON_OPEN &&
           af_starts_with(af_reasons[id].text_id, "unknown-");
}

const char *af_reason_finding(enum af_reason_id id)
{
    return af_reasons[id].finding != NULL ? af_reasons[id].finding : af_reasons[id].message;
}

const char *af_reason_finding_hint(enum af_reason_id id)
{
    return af_reasons[id].finding != NULL ? af_reasons[id].finding_hint : af_reasons[id].hint;
}

bool af_reason_asks_to_replace(enum af_reason_id id)
{
    return af_reasons[id].asks_to_replace || af_reasons[id].severity == AF_SEVERITY_BROKEN;
}

const char *af_severity_text(enum af_severity severity)
{
    static const char *const texts[] = {"none", "broken", "risk", "note"};
    return texts[severity];
}

bool af_reason_parse(const char *text_id, enum af_reason_id *id_out)
{
    for (size_t i = 0; i < AF_COUNT(af_reasons); i++) {
        if (af_equal(text_id, af_reasons[i].text_id)) {
            *id_out = (enum af_reason_id)i;
            return true;
        }
    }
    return false;
}
