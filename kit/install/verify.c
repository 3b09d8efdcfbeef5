/*
 * verify.c: runs known_answer.py in the environment's interpreter and compares its results
 * with the engine's for the same inputs; then loads compiled parts of a package one by one
 * (load_extensions.py).
 */
#include "kit/install/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "anyflash/anyflash.h"
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/process.h"

/* Python finds modules in the current folder, whose files may be anybody's. */
#define CHILD_FOLDER "/"
#define FAULTS_SHOWN_MAX 8
#define TEXT_SHOWN 300
#define MARK "anyflash-verify " /* before each line that the scripts print for us */

extern const char af_load_extensions_script[];

struct loading {
    const char *const *words;
    size_t count;
    struct af_arena *arena;
    struct af_verify_report *report;
    size_t fault_count;
    size_t begun; /* number of the part that was started last; initially the count */
    bool done;
};

/* "xformers._C" of "module:xformers._C", "xformers/_C.so" of a library. */
static const char *part_name(const char *word)
{
    static const char site[] = "-packages/";
    const char *below = strstr(word, site);
    return below != NULL ? below + strlen(site) : strchr(word, ':') + 1;
}

static void take_fault(struct loading *loading, size_t number, const char *why)
{
    if (loading->fault_count++ < FAULTS_SHOWN_MAX)
        af_verify_row_add(
            loading->report, "extension", AF_NO,
            af_arena_format(loading->arena, "%s: %s", part_name(loading->words[number]), why));
}

/*
 * Reads the number after `word` in the line, which must be a valid index; *rest_out is the text
 * after it.
 */
static bool read_number(const struct loading *loading, const char *line, const char *word,
                        size_t *number_out, const char **rest_out)
{
    char digits[8];
    int64_t number;
    if (!af_starts_with(line, word))
        return false;
    line += strlen(word);
    snprintf(digits, sizeof digits, "%.*s", (int)strcspn(line, " "), line);
    if (!af_parse_i64(digits, 0, (int64_t)loading->count - 1, &number))
        return false;
    *number_out = (size_t)number;
    *rest_out = line + strcspn(line, " ") + strspn(line + strcspn(line, " "), " ");
    return true;
}

static void read_answer(struct loading *loading, struct af_span output)
{
    struct af_span span;
    while (af_text_line(&output, &span)) {
        const char *line = af_arena_text_n(loading->arena, span.data, span.len);
        const char *rest;
        size_t number;
        if (line == NULL || !af_starts_with(line, MARK))
            continue;
        line += strlen(MARK);
        if (read_number(loading, line, "begin ", &number, &rest))
            loading->begun = number;
        else if (read_number(loading, line, "fault ", &number, &rest))
            take_fault(loading, number, af_text_scrub(loading->arena, rest, TEXT_SHOWN));
        loading->done = loading->done || strcmp(line, "done") == 0;
    }
}

static const char *names_text(const struct loading *loading)
{
    const char *text = "";
    for (size_t i = 0; i < loading->count && i < FAULTS_SHOWN_MAX && text != NULL; i++)
        text = af_arena_format(loading->arena, "%s%s%s", text, i > 0 ? ", " : "",
                               part_name(loading->words[i]));
    return text;
}

enum anyflash_status af_verify_extensions(const char *python, const char *const *words,
                                          size_t count, struct af_arena *arena,
                                          struct af_verify_report *report,
                                          struct anyflash_error *err)
{
    struct loading loading = {
        .words = words, .count = count, .arena = arena, .report = report, .begun = count};
    struct af_child child = {0};
    struct af_span output = {0};
    struct anyflash_error problem = {.message = "it ended early"};
    int code = 0;
    const char **argv = af_arena_array(arena, count + 4, sizeof *argv);
    if (argv == NULL)
        return af_fail_memory(err);
    argv[0] = python;
    argv[1] = "-c";
    argv[2] = af_load_extensions_script;
    memcpy(argv + 3, words, count * sizeof *words);
    argv[count + 3] = NULL;
    enum anyflash_status status = af_child_start_program(argv, CHILD_FOLDER, &child, &problem);
    if (status == ANYFLASH_OK)
        status = af_child_collect(&child, AF_VERIFY_LIMIT_MS, arena, &output, &code, &problem);
    read_answer(&loading, output);
    if (!loading.done && loading.begun < count)
        take_fault(&loading, loading.begun, af_arena_text(arena, problem.message));
    else if (!loading.done)
        af_verify_row_add(report, "extensions", AF_UNKNOWN,
                          af_arena_text(arena, problem.message));
    else if (loading.fault_count == 0)
        af_verify_row_add(report, "extensions", AF_YES,
                          af_arena_format(arena, "%zu loaded beside torch: %s%s", count,
                                          names_text(&loading),
                                          count > FAULTS_SHOWN_MAX ? ", ..." : ""));
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* The same values as pattern() in known_answer.py. */
static float *pattern(struct af_arena *arena, size_t count, uint64_t seed)
{
    float *values = af_arena_array(arena, count, sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++) {
        uint64_t word = (i + seed * 1000003u) * UINT64_C(2654435761) & UINT32_MAX;
        values[i] = ((float)(word >> 24) - 128.0f) / 64.0f;
    }
    return values;
}

static size_t values_of(int64_t heads, int64_t head_dim)
{
    return (size_t)(AF_KNOWN_ROWS * heads * head_dim);
}

static struct anyflash_tensor view(float *data, int64_t heads, int64_t head_dim)
{
    return anyflash_bshd(data, ANYFLASH_F32, heads, AF_KNOWN_ROWS, head_dim);
}

static enum anyflash_status compute(struct af_known_answer *answer, float *const inputs[3],
                                    float *dout, float *lse, struct anyflash_error *err)
{
    int64_t head_dim = answer->head_dim;
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    args.batch = 1;
    args.heads = AF_KNOWN_HEADS;
    args.kv_heads = AF_KNOWN_KV_HEADS;
    args.q_len = args.k_len = AF_KNOWN_ROWS;
    args.head_dim = args.value_dim = head_dim;
    args.causal = 1;
    args.q = view(inputs[0], AF_KNOWN_HEADS, head_dim);
    args.k = view(inputs[1], AF_KNOWN_KV_HEADS, head_dim);
    args.v = view(inputs[2], AF_KNOWN_KV_HEADS, head_dim);
    args.o = view(answer->o, AF_KNOWN_HEADS, head_dim);
    args.lse = lse;
    args.lse_head_stride = AF_KNOWN_ROWS;
    args.lse_batch_stride = AF_KNOWN_HEADS * AF_KNOWN_ROWS;
    enum anyflash_status status = anyflash_attend(NULL, &args, err);
    if (status != ANYFLASH_OK)
        return status;
    struct anyflash_attend_backward_args back = {.struct_size = sizeof back, .forward = &args};
    back.dout = view(dout, AF_KNOWN_HEADS, head_dim);
    back.dq = view(answer->dq, AF_KNOWN_HEADS, head_dim);
    back.dk = view(answer->dk, AF_KNOWN_KV_HEADS, head_dim);
    back.dv = view(answer->dv, AF_KNOWN_KV_HEADS, head_dim);
    return anyflash_attend_backward(NULL, &back, err);
}

enum anyflash_status af_known_answer_make(int64_t head_dim, struct af_arena *arena,
                                          struct af_known_answer *answer_out,
                                          struct anyflash_error *err)
{
    size_t q_count = values_of(AF_KNOWN_HEADS, head_dim);
    size_t k_count = values_of(AF_KNOWN_KV_HEADS, head_dim);
    float *const inputs[3] = {pattern(arena, q_count, 0), pattern(arena, k_count, 1),
                              pattern(arena, k_count, 2)};
    float *dout = pattern(arena, q_count, 3);
    float *lse = af_arena_array(arena, AF_KNOWN_HEADS * AF_KNOWN_ROWS, sizeof *lse);
    struct af_known_answer answer = {
        .head_dim = head_dim,
        .o = af_arena_array(arena, q_count, sizeof(float)),
        .dq = af_arena_array(arena, q_count, sizeof(float)),
        .dk = af_arena_array(arena, k_count, sizeof(float)),
        .dv = af_arena_array(arena, k_count, sizeof(float)),
    };
    if (arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status = compute(&answer, inputs, dout, lse, err);
    if (status == ANYFLASH_OK)
        *answer_out = answer;
    return status;
}

static float from_bf16(const uint8_t *bytes)
{
    uint32_t bits = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[0] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Decodes padded base64 (RFC 4648, section 4) of exactly `len` bytes; else false. */
static bool decode(const char *base64, uint8_t *bytes, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t text_len = strlen(base64);
    size_t letter_count = (len * 4 + 2) / 3;
    uint32_t bits = 0;
    if (text_len != (len + 2) / 3 * 4 ||
        strspn(base64 + letter_count, "=") != text_len - letter_count)
        return false;
    for (size_t i = 0, done = 0; i < letter_count; i++) {
        const char *letter = strchr(letters, base64[i]);
        if (letter == NULL || base64[i] == '\0')
            return false;
        bits = bits << 6 | (uint32_t)(letter - letters);
        if (i % 4 != 0)
            bytes[done++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return true;
}

static double distance_of(const uint8_t *bytes, const float *expected, size_t count)
{
    double largest = 0.0;
    double apart = 0.0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)from_bf16(bytes + 2 * i) - (double)expected[i]);
        apart = difference <= apart ? apart : isnan(difference) ? INFINITY : difference;
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return apart / largest;
}

bool af_known_answer_distance(const char *base64, const float *expected, size_t count,
                              double *distance_out)
{
    uint8_t *bytes = af_mem_alloc(2 * count);
    bool is_whole = bytes != NULL && decode(base64, bytes, 2 * count);
    if (is_whole)
        *distance_out = distance_of(bytes, expected, count);
    af_mem_free(bytes);
    return is_whole;
}

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

bool af_verify_row_add(struct af_verify_report *report, const char *name, enum af_answer answer,
                       const char *evidence)
{
    if (report->row_count == AF_VERIFY_ROWS_MAX || name == NULL || evidence == NULL)
        return false;
    report->rows[report->row_count++] = (struct af_verify_row){name, answer, evidence};
    return true;
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
    return text == NULL ? NULL : af_text_scrub(verify->arena, text, TEXT_SHOWN);
}

static json_t *collect_lines(struct af_span output)
{
    json_t *said = json_object();
    struct af_span line;
    while (said != NULL && af_text_line(&output, &line)) {
        json_t *one = NULL;
        size_t mark = strlen(MARK);
        if (line.len <= mark || memcmp(line.data, MARK, mark) != 0)
            continue;
        struct af_span text = {line.data + mark, line.len - mark};
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
    const char *argv[] = {options->python, "-c", af_known_answer_script, options->module, mode,
                          device,          NULL};
    struct af_child child = {0};
    struct af_span output = {0};
    int code = 0;
    struct answer answer = {0};
    answer.status = af_child_start_program(argv, CHILD_FOLDER, &child, &answer.problem);
    if (answer.status == ANYFLASH_OK)
        answer.status = af_child_collect(&child, AF_VERIFY_LIMIT_MS, verify->arena, &output,
                                         &code, &answer.problem);
    if (answer.status == ANYFLASH_OK && code == 127)
        answer.status =
            af_fail(&answer.problem, ANYFLASH_E_NOT_FOUND, "the interpreter does not start");
    answer.said = collect_lines(output);
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
    const char *broken = broke_off(verify, &answer);
    if (module == NULL) {
        row(verify, "import", AF_NO, broken != NULL ? broken : "the module has no file");
    } else {
        row(verify, "import", AF_YES,
            af_arena_format(verify->arena, "%s, with torch %s", module,
                            said_text(verify, &answer, "torch")));
        take_version(verify, &answer);
        if (broken != NULL)
            row(verify, "call", AF_NO, broken);
        else
            take_call(verify, &answer);
        take_devices(verify, &answer);
    }
    json_decref(answer.said);
}

/* Compares one of o, dq, dk, dv with the engine's result; keeps the largest difference. */
static bool compare(const char *text, const float *expected, int64_t heads, int64_t head_dim,
                    double *worst)
{
    double distance = 0.0;
    size_t count = (size_t)(AF_KNOWN_ROWS * heads * head_dim);
    if (text == NULL || !af_known_answer_distance(text, expected, count, &distance))
        return false;
    *worst = distance > *worst ? distance : *worst;
    return true;
}

static void fit(struct verify *verify, const char *what, const char *device, bool is_whole,
                double distance, double bound)
{
    const char *name = af_arena_format(verify->arena, "%s on %s", what, device);
    if (!is_whole)
        row(verify, name, AF_NO, "the result has the wrong shape");
    else
        row(verify, name, distance <= bound ? AF_YES : AF_NO,
            af_arena_format(
                verify->arena,
                "differs from the engine by %.2g of the largest value (at most %.2g)", distance,
                bound));
}

static void take_gradients(struct verify *verify, const struct answer *answer,
                           const struct af_known_answer *known, const char *device)
{
    const float *const expected[3] = {known->dq, known->dk, known->dv};
    const int64_t heads[3] = {AF_KNOWN_HEADS, AF_KNOWN_KV_HEADS, AF_KNOWN_KV_HEADS};
    json_t *texts = json_object_get(answer->said, "backward");
    const char *error = said_text(verify, answer, "error");
    double worst = 0.0;
    bool is_whole = true;
    if (error != NULL) {
        row(verify, af_arena_format(verify->arena, "backward on %s", device), AF_NO, error);
        return;
    }
    for (size_t i = 0; i < 3; i++)
        is_whole = is_whole && compare(json_string_value(json_array_get(texts, i)), expected[i],
                                       heads[i], known->head_dim, &worst);
    fit(verify, "backward", device, is_whole, worst, AF_VERIFY_BOUND_BACKWARD);
}

static enum anyflash_status take_results(struct verify *verify, const struct answer *answer,
                                         const char *device, struct anyflash_error *err)
{
    struct af_known_answer known;
    int64_t head_dim = json_integer_value(json_object_get(answer->said, "head_dim"));
    const char *text = json_string_value(json_object_get(answer->said, "forward"));
    const char *broken = broke_off(verify, answer);
    if (text == NULL || head_dim < 1 || head_dim > 512) {
        const char *error = said_text(verify, answer, "error");
        row(verify, af_arena_format(verify->arena, "forward on %s", device), AF_NO,
            broken != NULL  ? broken
            : error != NULL ? error
                            : "no answer came");
        return ANYFLASH_OK;
    }
    enum anyflash_status status = af_known_answer_make(head_dim, verify->arena, &known, err);
    if (status != ANYFLASH_OK)
        return status;
    double distance = 0.0;
    bool is_whole = compare(text, known.o, AF_KNOWN_HEADS, head_dim, &distance);
    fit(verify, "forward", device, is_whole, distance, AF_VERIFY_BOUND_FORWARD);
    if (broken != NULL)
        row(verify, af_arena_format(verify->arena, "backward on %s", device), AF_NO, broken);
    else
        take_gradients(verify, answer, &known, device);
    return ANYFLASH_OK;
}

static enum anyflash_status verify_device(struct verify *verify, const char *device,
                                          struct anyflash_error *err)
{
    struct answer answer = ask(verify, "attend", device);
    enum anyflash_status status = take_results(verify, &answer, device, err);
    json_decref(answer.said);
    return status;
}

enum anyflash_status af_verify_calls(const struct af_verify_options *options,
                                     struct af_arena *arena, struct af_verify_report *report,
                                     struct anyflash_error *err)
{
    struct verify verify = {.options = options, .arena = arena, .report = report};
    enum anyflash_status status = ANYFLASH_OK;
    verify_import(&verify);
    for (size_t i = 0; i < verify.device_count && status == ANYFLASH_OK; i++)
        status = verify_device(&verify, verify.devices[i], err);
    if (status == ANYFLASH_OK && arena->failed)
        return af_fail_memory(err);
    return status;
}
