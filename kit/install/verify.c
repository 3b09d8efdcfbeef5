/*
 * verify.c: runs known_answer.py in the environment's interpreter, which compares what the
 * package computes with torch's own operations.
 */
#include "kit/install/verify.h"

#include <string.h>
#include <sys/random.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/process.h"

extern const char af_known_answer_script[];

/* Data of one verification. */
struct verify {
    const struct af_verify_options *options;
    struct af_arena *arena;
    struct af_verify_report *report;
    size_t device_count;
    const char *devices[AF_VERIFY_DEVICES_MAX];
};

/* The output of a child as one object: keys of later lines replace earlier ones. */
struct answer {
    json_t *said;
    enum anyflash_status status; /* of the child */
    struct anyflash_error problem;
};

void af_verify_row_add(struct af_verify_report *report, const char *name, enum af_answer answer,
                       const char *evidence)
{
    if (report->row_count < AF_VERIFY_ROWS_MAX)
        report->rows[report->row_count++] = (struct af_verify_row){name, answer, evidence};
}

enum af_answer af_verify_answer(const struct af_verify_report *report)
{
    enum af_answer answer = AF_YES;
    for (size_t i = 0; i < report->row_count; i++) {
        if (report->rows[i].answer == AF_NO)
            return AF_NO;
        if (report->rows[i].answer == AF_UNKNOWN)
            answer = AF_UNKNOWN;
    }
    return answer;
}

static void row(struct verify *verify, const char *name, enum af_answer answer,
                const char *evidence)
{
    af_verify_row_add(verify->report, name, answer, evidence);
}

/* The text that the child printed under `key`, scrubbed; NULL if it did not. */
static const char *said_text(const struct verify *verify, const struct answer *answer,
                             const char *key)
{
    const char *text = json_string_value(json_object_get(answer->said, key));
    return text == NULL ? NULL : af_text_scrub(verify->arena, text, AF_VERIFY_TEXT_BYTES);
}

/* Of the lines that begin with `mark`. */
static json_t *collect_lines(struct af_span output, const char *mark)
{
    json_t *said = json_object();
    struct af_span line;
    const size_t len = strlen(mark);
    while (af_text_line(&output, &line)) {
        json_t *one = NULL;
        if (line.len <= len || memcmp(line.data, mark, len) != 0)
            continue;
        struct af_span text = {line.data + len, line.len - len};
        if (af_json_parse(text, text.len, "verify", &one, NULL) != ANYFLASH_OK)
            continue;
        json_object_update(said, one);
        json_decref(one);
    }
    return said;
}

static struct answer ask(struct verify *verify, const char *mode, const char *device)
{
    const struct af_verify_options *options = verify->options;
    uint64_t number = 0; /* what a package prints has another mark */
    (void)!getrandom(&number, sizeof number, 0);
    const char *run = af_arena_format(verify->arena, "%016llx", (unsigned long long)number);
    const char *argv[] = {options->python,
                          "-c",
                          af_known_answer_script,
                          options->module,
                          mode,
                          device != NULL ? device : run,
                          device != NULL ? run : NULL,
                          NULL};
    struct af_child child = {0};
    struct af_span output = {0};
    int code = 0;
    struct answer answer = {0};
    answer.status = af_child_start_program(argv, AF_VERIFY_FOLDER, &child, &answer.problem);
    if (answer.status == ANYFLASH_OK)
        answer.status = af_child_collect(&child, AF_VERIFY_LIMIT_MS, verify->arena, &output,
                                         &code, &answer.problem);
    if (answer.status == ANYFLASH_OK && code == 127)
        answer.status =
            af_fail(&answer.problem, ANYFLASH_E_NOT_FOUND, "the interpreter does not start");
    answer.said =
        collect_lines(output, af_arena_format(verify->arena, AF_VERIFY_MARK "%s ", run));
    return answer;
}

/* Why a child did not finish: "import of flash_attn: killed by signal 11"; NULL if it did. */
static const char *broke_off(const struct verify *verify, const struct answer *answer)
{
    if (json_is_true(json_object_get(answer->said, "done")))
        return NULL;
    const char *error = said_text(verify, answer, "error");
    const char *stage = said_text(verify, answer, "begin");
    if (error == NULL || answer->status != ANYFLASH_OK)
        error = answer->status != ANYFLASH_OK ? answer->problem.message : "it ended early";
    return af_arena_format(verify->arena, "%s: %s", stage != NULL ? stage : "start", error);
}

static void take_version(struct verify *verify, const struct answer *answer)
{
    const char *recorded = verify->options->version;
    const char *found = said_text(verify, answer, "version");
    if (recorded == NULL)
        return;
    if (found == NULL || found[0] == '\0') {
        row(verify, "version", AF_UNKNOWN, "the module states no version");
        return;
    }
    /* Official wheels report 2.8.3, whatever local version their names have. */
    size_t public_len = strcspn(recorded, "+");
    bool same = strcspn(found, "+") == public_len && memcmp(found, recorded, public_len) == 0;
    row(verify, "version", same ? AF_YES : AF_NO,
        af_arena_format(verify->arena, "the module says %s, its metadata %s", found, recorded));
}

static void take_call(struct verify *verify, const struct answer *answer)
{
    const char *outcome = said_text(verify, answer, "call");
    const char *error = said_text(verify, answer, "error");
    if (outcome == NULL)
        return;
    error = error != NULL ? error : "for no stated reason";
    if (strcmp(outcome, "alien") == 0)
        row(verify, "call", AF_NO,
            af_arena_format(verify->arena,
                            "its Python files and its extension do not match: %s", error));
    else if (strcmp(outcome, "stopped") == 0)
        row(verify, "call", AF_UNKNOWN,
            "torch's operator accepts CUDA tensors only and stopped the call before the "
            "extension was reached");
    else if (strcmp(outcome, "refused") == 0)
        row(verify, "call", AF_YES,
            af_arena_format(verify->arena,
                            "the call reached the extension, which refused CPU tensors: %s",
                            error));
    else
        row(verify, "call", AF_YES, "a call with CPU tensors succeeded");
}

static void take_devices(struct verify *verify, const struct answer *answer)
{
    json_t *devices = json_object_get(answer->said, "devices");
    size_t count = json_array_size(devices);
    if (verify->options->device != NULL) {
        verify->devices[verify->device_count++] = verify->options->device;
        return;
    }
    for (size_t i = 0; i < count && i < AF_VERIFY_DEVICES_MAX; i++)
        verify->devices[verify->device_count++] = af_arena_format(verify->arena, "cuda:%zu", i);
    if (count == 0)
        row(verify, "kernels", AF_UNKNOWN,
            "torch sees no GPU here: the kernels could not be run and compared");
}

static void verify_import(struct verify *verify)
{
    struct answer answer = ask(verify, "import", NULL);
    const char *module = said_text(verify, &answer, "file");
    const char *torch = said_text(verify, &answer, "torch");
    const char *broken = broke_off(verify, &answer);
    if (module == NULL) {
        row(verify, "import", AF_NO, broken != NULL ? broken : "the module has no file");
    } else {
        row(verify, "import", AF_YES,
            af_arena_format(verify->arena, "%s, with torch %s", module,
                            torch != NULL ? torch : "of an unknown version"));
        take_version(verify, &answer);
        if (broken != NULL)
            row(verify, "call", AF_NO, broken);
        else
            take_call(verify, &answer);
        take_devices(verify, &answer);
    }
    json_decref(answer.said);
}

static void fit(struct verify *verify, const char *what, const char *device,
                const json_t *distance, double bound)
{
    const char *name = af_arena_format(verify->arena, "%s on %s", what, device);
    const double apart = json_number_value(distance);
    const char *wrong = json_string_value(distance);
    if (!json_is_number(distance))
        row(verify, name, AF_NO,
            wrong == NULL ? "no answer came"
                          : af_text_scrub(verify->arena, wrong, AF_VERIFY_TEXT_BYTES));
    else
        row(verify, name, apart <= bound ? AF_YES : AF_NO,
            af_arena_format(verify->arena,
                            "differs from torch's result in f32 by %.2g of the largest "
                            "value (at most %.2g)",
                            apart, bound));
}

static void fail(struct verify *verify, const char *what, const char *device, const char *why)
{
    row(verify, af_arena_format(verify->arena, "%s on %s", what, device), AF_NO,
        why != NULL ? why : "no answer came");
}

static void take_results(struct verify *verify, const struct answer *answer, const char *device)
{
    const json_t *forward = json_object_get(answer->said, "forward");
    const json_t *backward = json_object_get(answer->said, "backward");
    const char *broken = broke_off(verify, answer);
    const char *why = broken != NULL ? broken : said_text(verify, answer, "error");
    if (forward == NULL) {
        fail(verify, "forward", device, why);
        return;
    }
    fit(verify, "forward", device, forward, AF_VERIFY_BOUND_FORWARD);
    if (backward == NULL)
        fail(verify, "backward", device, why);
    else
        fit(verify, "backward", device, backward, AF_VERIFY_BOUND_BACKWARD);
}

static void verify_device(struct verify *verify, const char *device)
{
    struct answer answer = ask(verify, "attend", device);
    take_results(verify, &answer, device);
    json_decref(answer.said);
}

void af_verify_calls(const struct af_verify_options *options, struct af_arena *arena,
                     struct af_verify_report *report)
{
    struct verify verify = {.options = options, .arena = arena, .report = report};
    verify_import(&verify);
    for (size_t i = 0; i < verify.device_count; i++)
        verify_device(&verify, verify.devices[i]);
}
