/*
 * log_facts.c: the table of log_facts.inc, and how its facts become those of a
 * machine: through the words of --given, whose sources are then the log's lines.
 */
#include "kit/doctor/log_facts.h"

#include <string.h>

#include "kit/doctor/fact_lookup.h"
#include "kit/doctor/log_evidence.h"

/* The order in which facts are applied: later ones refine what earlier ones imply. */
enum slot {
    SLOT_os,
    SLOT_arch,
    SLOT_python,
    SLOT_torch,
    SLOT_torch_cuda,
    SLOT_cuda_toolkit,
    SLOT_flash_attn,
    SLOT_sm,
    SLOT_installer,
    SLOT_COUNT
};
_Static_assert((size_t)SLOT_COUNT <= AF_LOG_FACTS_MAX, "a slot for each key");

static const char *const slot_keys[SLOT_COUNT] = {
    "os", "arch", "python", "torch", "torch_cuda", "cuda_toolkit", "flash_attn", "sm",
    "installer"};

static const char *const given_start = "--given ";

#define AF_LOG_FACT(strength, key, fact, value, pattern)                                            \
    {strength, #key, fact, value, pattern, SLOT_##key},
static const struct af_log_fact_row rows[] = {
#include "kit/doctor/log_facts.inc"
};
#undef AF_LOG_FACT

size_t af_log_fact_row_count(void)
{
    return AF_COUNT(rows);
}

size_t af_log_fact_slot(const char *key)
{
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        if (strcmp(slot_keys[i], key) == 0)
            return i;
    }
    return SLOT_COUNT;
}

const struct af_log_fact_row *af_log_fact_row(size_t index)
{
    return &rows[index];
}

/* "3.11" and "3.11.4", "cp311" and "3.11": the one says more than the other, or the same. */
static bool agrees(const char *known, const char *said)
{
    size_t known_len = strlen(known);
    size_t said_len = strlen(said);
    if (af_starts_with(said, "cp") || af_starts_with(said, "sm_"))
        return false; /* let the key's own handler normalise it */
    return strncmp(known, said, known_len < said_len ? known_len : said_len) == 0;
}

static bool is_wanted(const struct af_log_fact *fact, const struct af_lookup *lookup)
{
    const char *equals = strchr(fact->word, '=');
    if (fact->strength == 0 || equals == NULL)
        return false;
    struct af_lookup_value now = af_lookup_find(lookup, fact->fact);
    if (now.state == AF_FACT_UNKNOWN)
        return true;
    return fact->strength >= 2 &&
           !(now.state == AF_FACT_KNOWN && agrees(now.text, equals + 1));
}

/* The log's line in place of "--given torch=2.4.0", and what follows that. */
static void rename_source(const struct af_log_evidence *evidence, struct af_fact *fact,
                          struct af_arena *arena)
{
    if (fact->source == NULL || !af_starts_with(fact->source, given_start))
        return;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        const struct af_log_fact *said = &evidence->facts[i];
        const char *word = fact->source + strlen(given_start);
        if (said->strength == 0 || !af_starts_with(word, said->word))
            continue;
        const char *place = af_log_evidence_place(evidence, said->line, arena);
        const char *source =
            place == NULL ? NULL
                          : af_arena_format(arena, "%s%s", place, word + strlen(said->word));
        if (source != NULL)
            fact->source = source;
        return;
    }
}

static void rename_sources(const struct af_log_evidence *evidence, struct af_machine *machine)
{
    size_t count;
    const struct af_group *groups = af_machine_groups(&count);
    for (size_t g = 0; g < count; g++) {
        size_t row_count = groups[g].is_list ? af_machine_rows(machine, &groups[g])->count : 1;
        for (size_t r = 0; r < row_count; r++) {
            struct af_fact *facts = af_machine_facts(machine, &groups[g], r);
            for (size_t f = 0; f < groups[g].field_count; f++)
                rename_source(evidence, &facts[f], &machine->arena);
        }
    }
}

enum anyflash_status af_log_evidence_apply(const struct af_log_evidence *evidence,
                                           struct af_machine *machine,
                                           struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < SLOT_COUNT; i++) {
        const struct af_log_fact *fact = &evidence->facts[i];
        struct af_lookup lookup = {.machine = machine, .arena = evidence->arena};
        const char *remark;
        if (is_wanted(fact, &lookup))
            status = af_machine_given(machine, fact->word, &remark, err);
    }
    if (status == ANYFLASH_OK)
        rename_sources(evidence, machine);
    if (status == ANYFLASH_OK && (machine->arena.failed || evidence->arena->failed))
        status = af_fail_memory(err);
    return status;
}
