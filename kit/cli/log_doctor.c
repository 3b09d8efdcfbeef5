/*
 * log_doctor.c: reads logs, decides whose facts count, and makes the diagnosis. The log's own
 * facts always count. --machine and --given describe the machine that wrote the log. The facts
 * of this machine count with --here, or if the log names this environment's folder. For another
 * machine the next step is the first one of its plan.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/diagnosis_view.h"
#include "kit/cli/machine_inputs.h"
#include "kit/system/file.h"

#define CAUSE_COLUMNS 28 /* for the longest id */
#define COLUMNS_MAX 80
#define STREAM_BYTES_MAX (UINT64_C(1) << 30)
#define NEEDLE_BYTES_MIN 10u /* "/usr" and "/usr/local" are on every machine */

struct log_doctor {
    struct af_log_matcher matcher;
    struct af_catalog catalog;
    bool has_catalog;
    struct af_machines machines; /* this one, or those that the options name */
    struct af_machine empty;     /* when only the log's facts count */
    struct af_machine *machine;  /* whose facts are used */
    struct af_log_evidence *evidence;
    const char *facts; /* says whose */
    bool is_elsewhere; /* they are not those of this machine */
    struct af_diagnosis diagnosis;
    struct af_plan_of_log plan; /* of another machine */
};

static void feed(void *context, const char *bytes, size_t len)
{
    const struct log_doctor *doctor = context;
    af_log_evidence_feed(doctor->evidence, bytes, len);
}

static enum anyflash_status read_logs(struct af_cli *cli, struct log_doctor *doctor,
                                      struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < words->count; i++) {
        const char *name = strcmp(words->items[i], "-") == 0
                               ? "standard input"
                               : af_text_scrub(&cli->arena, af_path_name(words->items[i]), 200);
        af_log_evidence_begin(doctor->evidence, name);
        status =
            af_file_read_input_pieces(words->items[i], STREAM_BYTES_MAX, feed, doctor, err);
        af_log_evidence_end(doctor->evidence);
    }
    return status;
}

/*
 * Sets *needle_out to the folder of this machine's Python: a log that names it was written
 * here. NULL if many machines have such a folder.
 */
static enum anyflash_status find_needle(struct af_cli *cli, const char **needle_out,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = af_cli_python_prefix(cli, needle_out, err);
    if (*needle_out != NULL &&
        (strlen(*needle_out) < NEEDLE_BYTES_MIN || strcmp(*needle_out, "/usr/local") == 0))
        *needle_out = NULL;
    return status;
}

static void choose_facts(struct af_cli *cli, struct log_doctor *doctor, bool named)
{
    doctor->machine = doctor->machines.count > 0 ? &doctor->machines.items[0] : &doctor->empty;
    doctor->is_elsewhere = !af_option_given(&cli->options, AF_OPTION_HERE) &&
                           (named || doctor->evidence->needle_line == 0);
    if (af_option_given(&cli->options, AF_OPTION_HERE))
        doctor->facts = "the log, then this machine (--here)";
    else if (cli->options.machines.count > 0)
        doctor->facts = "the log, then the machine given by --machine";
    else if (named)
        doctor->facts = "the log, then --given";
    else if (doctor->evidence->needle_line != 0)
        doctor->facts = "the log, then this machine, because the log names its environment";
    else
        doctor->facts = "the log";
}

/* What the user states counts more than what the log says. */
static enum anyflash_status apply_given(const struct af_cli *cli, struct af_machine *machine,
                                        struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.givens;
    enum anyflash_status status = ANYFLASH_OK;
    const char *remark; /* was printed when the machine was made */
    for (size_t i = 0; status == ANYFLASH_OK && i < words->count; i++)
        status = af_machine_given(machine, words->items[i], &remark, err);
    return status;
}

static enum anyflash_status answer(struct af_cli *cli, struct log_doctor *doctor,
                                   enum af_exit *exit_out, struct anyflash_error *err)
{
    struct af_diagnosis *diagnosis = &doctor->diagnosis;
    af_log_evidence_apply(doctor->evidence, doctor->machine);
    enum anyflash_status status = apply_given(cli, doctor->machine, err);
    if (status == ANYFLASH_OK)
        status = af_diagnosis_make(doctor->evidence, doctor->machine, &doctor->catalog,
                                   &cli->arena, diagnosis, err);
    if (status == ANYFLASH_OK && doctor->is_elsewhere)
        status = af_plan_of_log_make(&doctor->plan, &doctor->catalog, doctor->machine,
                                     af_diagnosis_shows_installed(diagnosis), &cli->arena, err);
    if (status != ANYFLASH_OK)
        return status;
    bool named =
        diagnosis->count > 0 && diagnosis->causes[0].confidence != AF_DIAGNOSIS_POSSIBLE;
    *exit_out = named ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli,
            af_plan_of_log_add(&doctor->plan,
                               af_diagnosis_json(diagnosis, doctor->evidence, doctor->facts)),
            err);
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    if (screen.columns > COLUMNS_MAX)
        screen.columns = COLUMNS_MAX;
    const struct af_cli_diagnosis shown = {doctor->evidence, diagnosis,
                                           &doctor->plan,    doctor->machine,
                                           doctor->facts,    doctor->is_elsewhere};
    af_cli_diagnosis_view(&screen, &shown, af_option_given(&cli->options, AF_OPTION_VERBOSE),
                          &cli->arena);
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_doctor_logs(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err)
{
    struct log_doctor doctor = {.evidence = NULL};
    bool named = af_machines_named(&cli->options);
    const char *needle = NULL;
    af_machine_init(&doctor.empty, "the log", "not stated in the log");
    enum anyflash_status status = af_cli_catalog_load(cli, &doctor.catalog, err);
    doctor.has_catalog = status == ANYFLASH_OK;
    if (status == ANYFLASH_OK && named)
        status = af_machines_load(cli, &doctor.machines, err);
    else if (status == ANYFLASH_OK)
        status = find_needle(cli, &needle, err);
    if (status == ANYFLASH_OK)
        status =
            af_log_matcher_build(&af_signatures, needle, &cli->arena, &doctor.matcher, err);
    if (status == ANYFLASH_OK) {
        doctor.evidence = af_log_evidence_new(&doctor.matcher, &cli->arena);
        status = read_logs(cli, &doctor, err);
    }
    /* this machine is looked at only if the log was written here */
    if (status == ANYFLASH_OK && !named && doctor.evidence->needle_line != 0)
        status = af_machines_load(cli, &doctor.machines, err);
    if (status == ANYFLASH_OK) {
        choose_facts(cli, &doctor, named);
        status = answer(cli, &doctor, exit_out, err);
    }
    af_plan_of_log_release(&doctor.plan);
    if (doctor.evidence != NULL)
        af_log_evidence_release(doctor.evidence);
    if (doctor.has_catalog)
        af_catalog_release(&doctor.catalog);
    af_machines_release(&doctor.machines);
    af_machine_release(&doctor.empty);
    return status;
}

static enum anyflash_status list_causes(struct af_cli *cli, struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON)) {
        json_t *list = json_array();
        for (size_t i = 0; i < af_causes.rows_count; i++)
            list = af_json_append(list, af_diagnosis_cause_json(&af_causes.rows[i]));
        return af_cli_json_take(
            cli, json_pack("{s:s, s:o}", "schema", "anyflash-causes/1", "causes", list), err);
    }
    struct af_screen screen = {&cli->out, COLUMNS_MAX, false};
    for (size_t i = 0; i < af_causes.rows_count; i++)
        af_screen_add(&screen, CAUSE_COLUMNS, af_causes.rows[i].id, AF_TONE_PLAIN,
                      af_causes.rows[i].title);
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_doctor_explain(struct af_cli *cli, const char *id,
                                           struct anyflash_error *err)
{
    struct af_screen screen = {&cli->out, COLUMNS_MAX, af_cli_color(cli)};
    if (strcmp(id, "all") == 0)
        return list_causes(cli, err);
    const struct af_cause *cause = af_cause_find(&af_causes, id);
    if (cause == NULL) {
        char shown[80];
        cli->hint = "`anyflash doctor --explain all` lists the causes";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--explain: there is no cause '%s'",
                       af_text_quote(shown, sizeof shown, id, strlen(id)));
    }
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli,
            json_pack("{s:s, s:o}", "schema", "anyflash-causes/1", "causes",
                      af_json_append(json_array(), af_diagnosis_cause_json(cause))),
            err);
    af_cli_cause_view(&screen, cause);
    return ANYFLASH_OK;
}
