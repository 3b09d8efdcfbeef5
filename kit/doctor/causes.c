/*
 * causes.c: the table of causes.inc.
 */
#include "kit/doctor/doctor.h"

#include "kit/base/text.h"

struct row {
    const char *text_id;
    enum af_severity severity;
    const char *message;
    const char *hint;
};

#define AF_CAUSE(id, text_id, severity, message, hint) {text_id, severity, message, hint},
static const struct row rows[] = {
#include "kit/doctor/causes.inc"
};
#undef AF_CAUSE

const char *af_cause_text_id(enum af_cause_id cause)
{
    return rows[cause].text_id;
}

enum af_severity af_cause_severity(enum af_cause_id cause)
{
    return rows[cause].severity;
}

const char *af_cause_message(enum af_cause_id cause)
{
    return rows[cause].message;
}

const char *af_cause_hint(enum af_cause_id cause)
{
    return rows[cause].hint;
}

bool af_cause_parse(const char *text_id, enum af_cause_id *cause_out)
{
    for (size_t i = 0; i < AF_CAUSE_COUNT; i++) {
        if (af_equal(text_id, rows[i].text_id)) {
            *cause_out = (enum af_cause_id)i;
            return true;
        }
    }
    return false;
}

const char *af_severity_text(enum af_severity severity)
{
    switch (severity) {
    case AF_SEVERITY_BROKEN:
        return "broken";
    case AF_SEVERITY_RISK:
        return "risk";
    default:
        return "note";
    }
}
