/*
 * module_log.c: reads logs once into evidence, and makes a diagnosis from it for
 * each request.
 */
#include "page/module_log.h"

#include "kit/answer/plan_of_log.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/doctor/diagnosis.h"
#include "kit/machine/given.h"

#define NAME_BYTES_MAX 200u

static struct {
    bool is_open;
    bool in_file; /* begun and not yet ended */
    struct af_arena arena;
    struct af_log_matcher matcher;
    struct af_log_evidence *evidence;
} logs;

AF_MODULE_EXPORT("anyflash_log_clear") void anyflash_log_clear(void);
AF_MODULE_EXPORT("anyflash_log_begin") int anyflash_log_begin(const char *name, size_t len);
AF_MODULE_EXPORT("anyflash_log_feed") int anyflash_log_feed(const char *bytes, size_t len);

void anyflash_log_clear(void)
{
    if (!logs.is_open)
        return;
    if (logs.evidence != NULL)
        af_log_evidence_release(logs.evidence);
    af_arena_release(&logs.arena);
    logs.evidence = NULL;
    logs.is_open = logs.in_file = false;
}

enum anyflash_status af_module_given(struct af_machine *machine, const char *word,
                                     struct anyflash_error *err)
{
    const char *remark;
    const char *value = strchr(word, '=');
    return value != NULL && af_equal(value, "=unknown")
               ? af_machine_given(machine, word, &remark, err)
               : af_machine_given_strictly(machine, word, &remark, err);
}

static enum anyflash_status open_logs(struct anyflash_error *err)
{
    if (logs.is_open)
        return ANYFLASH_OK;
    af_json_start();
    af_arena_init(&logs.arena);
    logs.is_open = true;
    enum anyflash_status status =
        af_log_matcher_build(&af_signatures, NULL, &logs.arena, &logs.matcher, err);
    if (status == ANYFLASH_OK)
        logs.evidence = af_log_evidence_new(&logs.matcher, &logs.arena);
    else
        anyflash_log_clear();
    return status;
}

static void end_file(void)
{
    if (logs.in_file)
        af_log_evidence_end(logs.evidence);
    logs.in_file = false;
}

int anyflash_log_begin(const char *name, size_t len)
{
    enum anyflash_status status = open_logs(NULL);
    if (status != ANYFLASH_OK)
        return (int)status;
    end_file();
    const char *kept = af_arena_text_n(&logs.arena, name, len);
    af_log_evidence_begin(logs.evidence, af_text_scrub(&logs.arena, kept, NAME_BYTES_MAX));
    logs.in_file = true;
    return ANYFLASH_OK;
}

int anyflash_log_feed(const char *bytes, size_t len)
{
    if (!logs.in_file)
        return ANYFLASH_E_ARGUMENT;
    af_log_evidence_feed(logs.evidence, bytes, len);
    return ANYFLASH_OK;
}

enum anyflash_status af_module_log_apply(struct af_machine *machine, struct anyflash_error *err)
{
    if (logs.evidence == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "there is no log");
    end_file();
    af_log_evidence_apply(logs.evidence, machine);
    return ANYFLASH_OK;
}

enum anyflash_status af_module_log_diagnose(struct af_machine *machine, bool has_record,
                                            const json_t *given,
                                            const struct af_catalog *catalog,
                                            struct af_arena *arena, json_t **answer_out,
                                            struct anyflash_error *err)
{
    struct af_diagnosis diagnosis;
    struct af_plan_of_log plan = {.has_answer = false};
    const char *facts = has_record ? "the log, then the machine given by --machine"
                        : json_array_size(given) > 0 ? "the log, then --given"
                                                     : "the log";
    if (logs.evidence == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "\"doctor\" needs a log");
    enum anyflash_status status = af_module_log_apply(machine, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < json_array_size(given); i++)
        status = af_module_given(machine, json_string_value(json_array_get(given, i)), err);
    if (status == ANYFLASH_OK)
        status = af_diagnosis_make(logs.evidence, machine, catalog, arena, &diagnosis, err);
    if (status == ANYFLASH_OK)
        status = af_plan_of_log_make(&plan, catalog, machine,
                                     af_diagnosis_shows_installed(&diagnosis), arena, err);
    if (status == ANYFLASH_OK)
        *answer_out =
            af_plan_of_log_add(&plan, af_diagnosis_json(&diagnosis, logs.evidence, facts));
    af_plan_of_log_release(&plan);
    return status;
}
