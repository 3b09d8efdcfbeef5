/*
 * reason.c: the table of reasons, made from reasons.inc.
 */
#include "kit/fit/reason.h"

#include "kit/base/text.h"

struct row {
    const char *text_id;
    enum af_reason_effect effect;
    const char *message;
    const char *hint;
    const char *page_hint; /* NULL: `hint` names no option */
    enum af_severity severity;
    const char *finding; /* NULL: `message` and `hint` are used */
    const char *finding_hint;
};

#define AF_REASON(id, text, effect_of, ...) {.text_id = text, .effect = effect_of, __VA_ARGS__},
static const struct row rows[] = {
#include "kit/fit/reasons.inc"
};
#undef AF_REASON

/* A wheel's reasons are bits of one number. */
_Static_assert(AF_REASON_NO_WHEEL_PACKAGE <= 64, "the wheel part of reasons.inc is full");

const char *af_reason_text_id(enum af_reason_id id)
{
    return rows[id].text_id;
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
