/*
 * peers.c: starts peers/main.py for one library and one case, reads its one line
 * of JSON, and compares the results.
 */
#include "bench/peers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/process.h"

#define FIND_LIMIT_MS 60000
#define CASE_LIMIT_MS 180000
#define REASON_BYTES 160
#define PATH_BYTES 4096
/* Relative to the largest result; allows for sums of rounded products in a different order. */
#define F32_TOLERANCE 1e-4
#define BF16_TOLERANCE 0.04

static const char *const peer_names[AF_BENCH_PEER_COUNT] = {"torch",    "flex",   "onnxruntime",
                                                            "openvino", "onednn", "openblas"};

/* Path of peers/main.py, in the folder of this program; NULL when memory runs out. */
static const char *script_path(struct af_arena *arena)
{
    char self[PATH_BYTES];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(self, '/');
    return af_arena_format(arena, "%.*speers/main.py",
                           slash != NULL ? (int)(slash - self) + 1 : 0, self);
}

/*
 * Runs the script with two arguments. Its answer is an object; else *json_out is
 * NULL and the reason is set.
 */
static enum anyflash_status ask(struct af_arena *arena, const char *python, const char *name,
                                const char *words, int limit_ms, json_t **json_out,
                                const char **why_out, struct anyflash_error *err)
{
    const char *script = script_path(arena);
    const char *argv[] = {python, "-B", script, name, words, NULL};
    struct anyflash_error problem = {0};
    struct af_child child;
    struct af_span output = {0};
    int code = 0;
    *json_out = NULL;
    if (script == NULL)
        return af_fail_memory(err);
    if (access(script, R_OK) != 0)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' is missing from the installation",
                       script);
    enum anyflash_status status = af_child_start_program(argv, &child, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_child_collect(&child, limit_ms, arena, &output, &code, &problem);
    if (status == ANYFLASH_OK && code != 0)
        status = af_fail(&problem, code == 127 ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_UNSUPPORTED,
                         "exit code %d", code);
    if (status == ANYFLASH_OK)
        status = af_json_parse(output, AF_CHILD_OUTPUT_BYTES, name, json_out, &problem);
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    if (status == ANYFLASH_E_NOT_FOUND) {
        char shown[REASON_BYTES];
        return af_fail(err, status, "'%s' is not a runnable Python interpreter",
                       af_text_quote(shown, sizeof shown, python, strlen(python)));
    }
    *why_out = af_arena_text(arena, problem.message);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* The text member `key` of a peer's answer, safe to print; NULL if there is none. */
static const char *text_of(struct af_arena *arena, json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? af_text_scrub(arena, text, REASON_BYTES) : NULL;
}

enum anyflash_status af_bench_peers_find(struct af_arena *arena, const char *python,
                                         struct af_bench_peer peers[AF_BENCH_PEER_COUNT],
                                         struct anyflash_error *err)
{
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT; i++) {
        json_t *json = NULL;
        peers[i] = (struct af_bench_peer){.name = peer_names[i]};
        enum anyflash_status status = ask(arena, python, peer_names[i], "{}", FIND_LIMIT_MS,
                                          &json, &peers[i].absence, err);
        if (status != ANYFLASH_OK)
            return status;
        peers[i].version = text_of(arena, json, "version");
        if (peers[i].version == NULL && json != NULL)
            peers[i].absence = text_of(arena, json, "decline");
        json_decref(json);
    }
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Compares the peer's numbers at the probed positions; false if they are missing. */
static bool compare(json_t *results, const struct af_bench_timing *timing, double *difference)
{
    *difference = 0;
    if (json_array_size(results) != timing->result_count)
        return false;
    for (size_t r = 0; r < timing->result_count; r++) {
        json_t *list = json_array_get(results, r);
        double distance = 0, size = 0;
        for (size_t i = 0; i < AF_BENCH_PROBES; i++) {
            json_t *item = json_array_get(list, i);
            double ours = timing->results[r][i];
            if (!json_is_number(item))
                return false;
            distance = fmax(distance, fabs(json_number_value(item) - ours));
            size = fmax(size, fabs(ours));
        }
        *difference = fmax(*difference, size > 0 ? distance / size : distance);
    }
    return true;
}

static void read_answer(struct af_arena *arena, json_t *json,
                        const struct af_bench_timing *timing,
                        struct af_bench_peer_timing *answer)
{
    json_t *times = json_object_get(json, "milliseconds");
    answer->decline = text_of(arena, json, "decline");
    answer->dtype = text_of(arena, json, "dtype");
    if (answer->decline != NULL)
        return;
    if (!compare(json_object_get(json, "results"), timing, &answer->difference)) {
        answer->decline = "its answer cannot be read";
        return;
    }
    for (size_t i = 0; i < json_array_size(times); i++)
        af_bench_samples_add(&answer->ms, json_number_value(json_array_get(times, i)));
}

enum anyflash_status af_bench_peer_measure(struct af_arena *arena, const char *python,
                                           const struct af_bench_peer *peer,
                                           const struct af_bench_case *row, int threads,
                                           double seconds, const struct af_bench_timing *timing,
                                           struct af_bench_peer_timing *answer_out,
                                           struct anyflash_error *err)
{
    json_t *json = NULL;
    *answer_out = (struct af_bench_peer_timing){0};
    const char *words = af_arena_format(
        arena,
        "{\"operation\": \"%s\", \"dtype\": \"%s\", \"heads\": %d, \"kv_heads\": %d, "
        "\"q_len\": %d, \"k_len\": %d, \"head_dim\": %d, \"causal\": %s, \"threads\": %d, "
        "\"seconds\": %.3f, \"probes\": %d}",
        row->operation == AF_BENCH_BACKWARD ? "backward" : "forward", af_bench_dtype_text(row),
        (int)row->heads, (int)row->kv_heads, (int)row->q_len, (int)row->k_len,
        (int)row->head_dim, row->causal ? "true" : "false", threads, seconds, AF_BENCH_PROBES);
    if (words == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        ask(arena, python, peer->name, words, CASE_LIMIT_MS, &json, &answer_out->decline, err);
    if (json != NULL)
        read_answer(arena, json, timing, answer_out);
    json_decref(json);
    return status;
}

bool af_bench_peer_agrees(const struct af_bench_case *row, double difference)
{
    return difference <= (row->dtype == ANYFLASH_F32 ? F32_TOLERANCE : BF16_TOLERANCE);
}
