/*
 * module.c: the deciding commands as a WebAssembly module: JSON in, JSON out.
 *
 * A caller writes a request (UTF-8) into memory from anyflash_alloc(), calls
 * anyflash_answer(), and reads the NUL-terminated text that it points to, which
 * stays until the next call. The module imports nothing. A request:
 *
 *   {"command": "plan",           or "find", "machine", "doctor" (module_log.h),
 *                                  "candidates" (as plan --all), "choices"
 *                                  (module_choices.h), "cell" (grid.h), "cause"
 *    "machines": [{"name": "a.json", "record": "TEXT", "given": ["sm=8.9"]}],
 *                                  a value that cannot be read fails, as in the
 *                                  program; "choices" says so of its fact instead;
 *                                  TEXT is a record or pasted output; "log": true
 *                                  instead: what the logs say of the machine;
 *                                  "assume": true: assumes what is usual, as plan does
 *                                  for a machine described with --given
 *    "options": {"package": "flash_attn", "full": true, ...},   names as of the program
 *    "words": ["torch=2.9"], "limit": 20,                       of find, candidates
 *    "torch": "2.9.1", "build": "cu128",                        of cell
 *    "cause": "glibc-too-old"}                                  of cause
 *
 * The answer is what the program prints with --json, byte for byte ("choices", "cell" and
 * "cause" are the page's own), or {"error": {"message": ..., "hint": ...}}.
 */
#include <string.h>

#include "kit/answer/find_answer.h"
#include "kit/answer/grid.h"
#include "kit/base/json.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"
#include "kit/doctor/diagnosis.h"
#include "kit/fit/fit.h"
#include "kit/machine/given.h"
#include "kit/machine/pasted.h"
#include "page/module_choices.h"
#include "page/module_log.h"

#define REQUEST_BYTES_MAX (64u << 20)
#define MACHINES_MAX 16u
#define WORDS_MAX 64u

/* Everything that is allocated for one request. */
struct session {
    struct af_arena arena;
    json_t *request;
    struct af_machine machines[MACHINES_MAX];
    const struct af_machine *pointers[MACHINES_MAX];
    size_t machine_count;
    struct af_catalog catalog;
    bool has_catalog;
    bool keeps_unread; /* facts of "given" that cannot be read become unknown; else they fail */
    struct af_publishers publishers;
    struct af_plan_find_request find; /* its plan options are used by every command */
    struct af_plan_read_notes notes;
    const char *words[WORDS_MAX];
    json_t *answer;
};

#ifdef __wasm__
/* jansson's variable: its own seeding reads a clock. Objects keep the order of their keys. */
volatile uint32_t hashtable_seed = 1;
void json_object_seed(size_t seed);

void json_object_seed(size_t seed)
{
    (void)seed;
}
#endif

static enum anyflash_status fail_request(struct anyflash_error *err, const char *what)
{
    return af_fail(err, ANYFLASH_E_ARGUMENT, "the request is not valid: %s", what);
}

static enum anyflash_status read_machine(struct session *session, const json_t *entry,
                                         struct anyflash_error *err)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *record = json_object_get(entry, "record");
    const json_t *given = json_object_get(entry, "given");
    struct af_machine *machine = &session->machines[session->machine_count];
    const char *remark;
    if (name == NULL)
        return fail_request(err, "a machine without a name");
    af_machine_init(machine, name, record != NULL ? "not in the record" : "not given");
    session->pointers[session->machine_count++] = machine;
    enum anyflash_status status = ANYFLASH_OK;
    if (record != NULL)
        status = af_machine_read(
            machine, (struct af_span){json_string_value(record), json_string_length(record)},
            name, err);
    else if (json_is_true(json_object_get(entry, "log")))
        status = af_module_log_apply(machine, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < json_array_size(given); i++) {
        const char *word = json_string_value(json_array_get(given, i));
        if (word == NULL)
            status = fail_request(err, "\"given\" holds texts");
        else if (session->keeps_unread)
            status = af_machine_given(machine, word, &remark, err);
        else
            status = af_module_given(machine, word, err);
    }
    if (status == ANYFLASH_OK && json_is_true(json_object_get(entry, "assume")))
        status = af_fit_assume(machine, err);
    return status;
}

static enum anyflash_status read_machines(struct session *session, struct anyflash_error *err)
{
    const json_t *machines = json_object_get(session->request, "machines");
    enum anyflash_status status = ANYFLASH_OK;
    if (json_array_size(machines) > MACHINES_MAX)
        return fail_request(err, "too many machines");
    for (size_t i = 0; status == ANYFLASH_OK && i < json_array_size(machines); i++)
        status = read_machine(session, json_array_get(machines, i), err);
    session->find.plan.machines = session->pointers;
    session->find.plan.machine_count = session->machine_count;
    session->find.plan.elsewhere = true;
    return status;
}

static enum anyflash_status read_options(struct session *session, struct anyflash_error *err)
{
    const json_t *options = json_object_get(session->request, "options");
    const json_t *words = json_object_get(session->request, "words");
    const char *publishers = json_string_value(json_object_get(options, "publishers"));
#define TEXT(key) json_string_value(json_object_get(options, key))
#define FLAG(key) json_is_true(json_object_get(options, key))
    const struct af_plan_request_texts asked = {
        .package = TEXT("package"),
        .version = TEXT("version"),
        .arch = TEXT("arch"),
        .prefer = TEXT("prefer"),
        .official_only = FLAG("official"),
        .publishers = &session->publishers,
        .publisher_list_count = publishers != NULL,
        .build = {
            .model_path = TEXT("model_name"),
            .model = {TEXT("model"), json_string_length(json_object_get(options, "model"))},
            .head_dims = TEXT("head_dim"),
            .dtypes = TEXT("dtype"),
            .features = TEXT("features"),
            .inference = FLAG("inference"),
            .full = FLAG("full")}};
#undef TEXT
#undef FLAG
    if (json_array_size(words) > WORDS_MAX)
        return fail_request(err, "too many words");
    for (size_t i = 0; i < json_array_size(words); i++) {
        session->words[i] = json_string_value(json_array_get(words, i));
        if (session->words[i] == NULL)
            return fail_request(err, "\"words\" holds texts");
    }
    session->find.words = session->words;
    session->find.word_count = json_array_size(words);
    session->find.limit =
        (size_t)json_integer_value(json_object_get(session->request, "limit"));
    enum anyflash_status status = ANYFLASH_OK;
    if (publishers != NULL)
        status =
            af_publishers_read(&session->catalog, publishers, "--publishers", &session->arena,
                               &session->publishers, &session->notes.hint, err);
    if (status == ANYFLASH_OK)
        status = af_plan_request_read(&asked, &session->arena, &session->find.plan,
                                      &session->notes, err);
    return status;
}

/* The decision, or (`all`) every wheel and its verdict. */
static enum anyflash_status answer_plan(struct session *session, bool all,
                                        struct anyflash_error *err)
{
    struct af_plan_answer answer = {0};
    size_t count = session->find.limit > 0 ? session->find.limit : SIZE_MAX;
    enum anyflash_status status = af_plan_answer_make(&session->find.plan, &answer, err);
    if (status == ANYFLASH_OK)
        session->answer =
            all ? af_plan_candidates_json(&answer, count) : af_plan_answer_json(&answer);
    af_plan_answer_release(&answer);
    return status;
}

static enum anyflash_status answer_find(struct session *session, struct anyflash_error *err)
{
    struct af_plan_find_answer answer = {0};
    enum anyflash_status status = af_plan_find_make(&session->find, &answer, err);
    if (status == ANYFLASH_OK)
        session->answer = af_plan_find_json(&answer);
    af_plan_find_release(&answer);
    return status;
}

static enum anyflash_status answer_cell(struct session *session, struct anyflash_error *err)
{
    struct af_plan_grid_cell cell = {
        .torch = json_string_value(json_object_get(session->request, "torch")),
        .build = json_string_value(json_object_get(session->request, "build"))};
    if (cell.torch == NULL || cell.build == NULL)
        return fail_request(err, "a cell has \"torch\" and \"build\"");
    enum anyflash_status status =
        af_plan_grid_decide(&session->find.plan, &session->arena, &cell, err);
    if (status == ANYFLASH_OK)
        session->answer = af_plan_grid_cell_json(&cell);
    return status;
}

static enum anyflash_status answer_choices(struct session *session, struct anyflash_error *err)
{
    if (session->machine_count > 1)
        return fail_request(err, "\"choices\" takes one machine");
    if (session->machine_count == 0) {
        af_machine_init(&session->machines[0], "no machine", "not given");
        session->machine_count = 1;
    }
    session->answer =
        af_module_choices(&session->machines[0], &session->catalog, &session->arena);
    return ANYFLASH_OK;
}

static enum anyflash_status answer_cause(struct session *session, struct anyflash_error *err)
{
    const char *id = json_string_value(json_object_get(session->request, "cause"));
    const struct af_cause *cause = id == NULL ? NULL : af_cause_find(&af_causes, id);
    if (cause == NULL)
        return fail_request(err, "there is no such cause");
    session->answer = af_diagnosis_cause_json(cause);
    return ANYFLASH_OK;
}

/* The record is already text, as the program writes it. */
static enum anyflash_status answer_machine(struct session *session, struct af_text *text,
                                           struct anyflash_error *err)
{
    if (session->machine_count != 1)
        return fail_request(err, "\"machine\" takes one machine");
    af_machine_write(&session->machines[0], text);
    return ANYFLASH_OK;
}

/* Without a machine, only the facts in the logs are used. */
static enum anyflash_status answer_doctor(struct session *session, struct anyflash_error *err)
{
    const json_t *entry = json_array_get(json_object_get(session->request, "machines"), 0);
    if (session->machine_count > 1)
        return fail_request(err, "\"doctor\" takes one machine");
    if (session->machine_count == 0) {
        af_machine_init(&session->machines[0], "the log", "not stated in the log");
        session->machine_count = 1;
    }
    return af_module_log_diagnose(&session->machines[0],
                                  json_object_get(entry, "record") != NULL,
                                  json_object_get(entry, "given"), &session->catalog,
                                  &session->arena, &session->answer, err);
}

static enum anyflash_status answer(struct session *session, struct af_span bytes,
                                   struct af_text *text, struct anyflash_error *err)
{
    enum anyflash_status status =
        af_json_parse(bytes, REQUEST_BYTES_MAX, "request", &session->request, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *command = json_string_value(json_object_get(session->request, "command"));
    status = af_catalog_load_embedded(&session->catalog, err);
    session->has_catalog = status == ANYFLASH_OK;
    session->find.plan.catalog = &session->catalog;
    session->keeps_unread = af_equal(command, "choices");
    if (status == ANYFLASH_OK)
        status = read_machines(session, err);
    if (status == ANYFLASH_OK)
        status = read_options(session, err);
    if (status == ANYFLASH_OK && af_equal(command, "machine"))
        return answer_machine(session, text, err);
    if (status != ANYFLASH_OK)
        return status;
    if (af_equal(command, "plan") || af_equal(command, "candidates"))
        return answer_plan(session, af_equal(command, "candidates"), err);
    if (af_equal(command, "find"))
        return answer_find(session, err);
    if (af_equal(command, "doctor"))
        return answer_doctor(session, err);
    if (af_equal(command, "choices"))
        return answer_choices(session, err);
    if (af_equal(command, "cell"))
        return answer_cell(session, err);
    if (af_equal(command, "cause"))
        return answer_cause(session, err);
    return fail_request(err, "\"command\" is plan, candidates, find, machine, doctor, "
                             "choices, cell or cause");
}

static void release(struct session *session)
{
    for (size_t i = 0; i < session->machine_count; i++)
        af_machine_release(&session->machines[i]);
    if (session->has_catalog)
        af_catalog_release(&session->catalog);
    json_decref(session->request);
    af_arena_release(&session->arena);
    af_memory_free(session);
}

AF_MODULE_EXPORT("anyflash_alloc") void *anyflash_alloc(size_t len);
AF_MODULE_EXPORT("anyflash_free") void anyflash_free(void *memory);
AF_MODULE_EXPORT("anyflash_answer")
const char *anyflash_answer(const char *request, size_t len);

void *anyflash_alloc(size_t len)
{
    return af_memory_alloc(len);
}

void anyflash_free(void *memory)
{
    af_memory_free(memory);
}

const char *anyflash_answer(const char *request, size_t len)
{
    static struct af_text text;
    struct anyflash_error err = {0};
    struct session *session = af_memory_alloc(sizeof *session);
    af_text_release(&text);
    memset(session, 0, sizeof *session);
    af_json_start();
    af_arena_init(&session->arena);
    enum anyflash_status status = answer(session, (struct af_span){request, len}, &text, &err);
    if (status != ANYFLASH_OK)
        session->answer = json_pack("{s:{s:s, s:s?}}", "error", "message", err.message, "hint",
                                    session->notes.hint);
    if (text.len == 0 && af_json_write_take(session->answer, &text, &err) != ANYFLASH_OK)
        af_text_format(&text, "{\"error\": {\"message\": \"%s\", \"hint\": null}}\n",
                       err.message);
    release(session);
    return af_text_get(&text);
}
