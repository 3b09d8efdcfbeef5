/*
 * log_machine.c: copies what a log says of its machine into a machine's record.
 */
#include "kit/doctor/log/log_evidence.h"

#include <string.h>

/* Whether one value is a prefix of the other, as "3.11" is of "3.11.4". */
static bool agrees(const struct af_fact *known, const struct af_fact *said)
{
    const char *one = af_fact_text_or(known, NULL);
    const char *other = af_fact_text_or(said, NULL);
    if (one == NULL || other == NULL)
        return known->state == said->state;
    size_t len = strlen(one) < strlen(other) ? strlen(one) : strlen(other);
    return strncmp(one, other, len) == 0;
}

/*
 * Overwrites facts with those that the log states. If the log states another version of
 * Python or torch, the other facts about the old version are dropped, too.
 */
static void merge_record(struct af_fact *facts, const struct af_fact *said, size_t count,
                         const struct af_fact *version, const struct af_fact *version_said)
{
    bool differs = version != NULL && version->state != AF_FACT_UNKNOWN &&
                   version_said->state != AF_FACT_UNKNOWN && !agrees(version, version_said);
    for (size_t i = 0; i < count; i++) {
        bool says = said[i].state != AF_FACT_UNKNOWN;
        bool says_less = says && facts[i].state == AF_FACT_KNOWN && agrees(&facts[i], &said[i]);
        if (differs || (says && !says_less))
            facts[i] = said[i];
    }
}

/* Replaces packages of the same name and adds the others. */
static void merge_packages(struct af_machine *machine, const struct af_package_rows *said)
{
    for (size_t i = 0; i < said->count; i++) {
        const char *name = af_fact_text_or(&said->rows[i].name, "");
        struct af_package *row = NULL;
        for (size_t p = 0; p < machine->packages.count && row == NULL; p++) {
            if (af_fact_is(&machine->packages.rows[p].name, name))
                row = &machine->packages.rows[p];
        }
        if (row == NULL)
            row = af_machine_row_add(machine, offsetof(struct af_machine, packages),
                                     "not stated in the log");
        if (row != NULL)
            *row = said->rows[i];
    }
}

static void merge(struct af_machine *machine, struct af_machine *said)
{
    size_t count;
    const struct af_group *groups = af_machine_groups(&count);
    for (size_t g = 0; g < count; g++) {
        const struct af_group *group = &groups[g];
        const struct af_fact *version = NULL;
        const struct af_fact *version_said = NULL;
        if (group->offset == offsetof(struct af_machine, packages)) {
            merge_packages(machine, &said->packages);
            continue;
        }
        if (group->is_list) {
            const struct af_rows *list = af_machine_rows(said, group);
            if (list->state == AF_FACT_KNOWN)
                *af_machine_rows(machine, group) = *list;
            continue;
        }
        if (group->offset == offsetof(struct af_machine, torch)) {
            version = &machine->torch.version;
            version_said = &said->torch.version;
        } else if (group->offset == offsetof(struct af_machine, python)) {
            version = &machine->python.version;
            version_said = &said->python.version;
        }
        merge_record(af_machine_facts(machine, group, 0), af_machine_facts(said, group, 0),
                     group->field_count, version, version_said);
    }
}

void af_log_evidence_apply(struct af_log_evidence *evidence, struct af_machine *machine)
{
    merge(machine, &evidence->machine);
}
