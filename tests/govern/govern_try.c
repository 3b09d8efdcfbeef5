/*
 * govern_try.c: runs any build under the governor, for tests.
 *
 *   govern_try run MEMORY_MIB SLOTS FACTOR OUTPUT COMMAND...   governs COMMAND
 *   govern_try compiler-wrapper COMPILER ARGUMENTS...          the compiler wrapper
 *
 * A source "m120-s0.5-x.src" is predicted to take 120 MiB times FACTOR for half a
 * second. Events go to stdout, one per line. $ANYFLASH_STATE is used.
 * $GOVERN_HANG and $GOVERN_STILL are the seconds until a compiler counts as
 * hanging, or the build as stalled; $GOVERN_ROOT is put before /proc and /sys.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/compile/governor/compiler_wrapper.h"
#include "kit/compile/governor/govern.h"

struct tried {
    double factor;
    uint64_t most; /* bytes that were in use at once */
};

static void predict(void *context, const char *const *argv, struct af_prediction *out)
{
    const struct tried *tried = context;
    unsigned long mib = 0;
    double seconds = 0;
    *out = (struct af_prediction){.key = "other", .file = "other", .bytes = 1 << 20};
    for (; *argv != NULL; argv++) {
        const char *name = strrchr(*argv, '/');
        if (name == NULL || sscanf(name, "/m%lu-s%lf", &mib, &seconds) != 2 ||
            strstr(name, ".src") == NULL)
            continue;
        out->bytes = (uint64_t)((double)(mib << 20) * tried->factor);
        out->seconds = seconds;
        out->rises = strstr(name, "-grow") != NULL;
        snprintf(out->key, sizeof out->key, "m%lu", mib);
        snprintf(out->file, sizeof out->file, "%s", name + 1);
    }
}

static void event(void *context, const struct af_govern_event *event)
{
    static const char *const words[] = {"started",    "ended",   "failed", "killed",
                                        "standstill", "crashed", "hung",   "remark"};
    struct tried *tried = context;
    if (event->used_bytes > tried->most)
        tried->most = event->used_bytes;
    if (event->kind == AF_GOVERN_TICK)
        return;
    printf("%s %s %llu\n", words[event->kind],
           event->file == NULL ? event->remark : event->file->file,
           (unsigned long long)(event->peak_bytes >> 20));
    fflush(stdout);
}

static double variable(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : strtod(text, NULL);
}

static int run(int argc, char **argv)
{
    struct tried tried = {.factor = strtod(argv[4], NULL)};
    struct af_govern_result result;
    struct anyflash_error err;
    struct af_arena arena;
    struct af_state *state;
    const char *remark;
    struct af_govern_options options = {
        .argv = (const char *const *)(argv + 6),
        .output = open(argv[5], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
        .memory_bytes = strtoull(argv[2], NULL, 10) << 20,
        .slots = (unsigned)strtoul(argv[3], NULL, 10),
        .hang_seconds = variable("GOVERN_HANG"),
        .stall_seconds = variable("GOVERN_STILL"),
        .root = getenv("GOVERN_ROOT"),
        .predict = predict,
        .event = event,
        .context = &tried,
        .event_context = &tried,
    };
    (void)argc;
    af_arena_init(&arena);
    if (options.output < 0 ||
        af_state_open(AF_STATE_WRITE, &arena, &state, &remark, &err) != ANYFLASH_OK)
        return 3;
    enum anyflash_status status = af_govern_run(&options, state, &result, &err);
    af_state_close(state);
    af_arena_release(&arena);
    if (status != ANYFLASH_OK) {
        printf("error %s\n", err.message);
        return 3;
    }
    printf("result exit %d interrupted %d ended %zu failed %zu killed %zu crashed %zu most "
           "%llu\n",
           result.exit_code, result.interrupted, result.ended_count, result.failed_count,
           result.killed_count, result.crashed_count, (unsigned long long)(tried.most >> 20));
    return result.exit_code;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "compiler-wrapper") == 0)
        return af_wrapper_run((const char *const *)(argv + 2));
    if (argc > 6 && strcmp(argv[1], "run") == 0)
        return run(argc, argv);
    return 2;
}
