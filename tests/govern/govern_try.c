/*
 * govern_try.c: runs synthetic compilers under the governor, for tests.
 *
 *   govern_try MEMORY_MIB SLOTS FACTOR LOG COMPILER SOURCE...
 *
 * Each SOURCE, DIR/src/NAME.src, becomes DIR/NAME.o unless that exists. A source
 * "m120-s0.5-x.src" is predicted to take 120 MiB times FACTOR for half a second. Events go to
 * stdout, one per line. $GOVERN_HANG and $GOVERN_STILL are the
 * seconds until a compiler counts as hanging, or the build as stalled; $GOVERN_ROOT is put
 * before /proc and /sys.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/compile/governor/govern.h"

static struct af_prediction predict(const char *name, double factor)
{
    unsigned long mib = 0;
    double seconds = 0;
    struct af_prediction prediction = {.bytes = 1 << 20};
    if (sscanf(name, "m%lu-s%lf", &mib, &seconds) == 2)
        prediction.bytes = (uint64_t)((double)(mib << 20) * factor);
    prediction.seconds = seconds;
    prediction.rises = strstr(name, "-grow") != NULL;
    snprintf(prediction.key, sizeof prediction.key, "m%lu", mib);
    snprintf(prediction.file, sizeof prediction.file, "%s", name);
    return prediction;
}

static void add_job(struct af_arena *arena, const char *compiler, const char *source,
                    double factor, struct af_govern_options *options)
{
    const char *name = af_path_name(source);
    struct af_govern_job *job =
        (struct af_govern_job *)(uintptr_t)&options->jobs[options->job_count];
    const char **argv = af_arena_array(arena, 6, sizeof *argv);
    const char *folder = af_path_folder(arena, af_path_folder(arena, source));
    job->object = af_arena_format(arena, "%s/%.*s.o", folder, (int)(strlen(name) - 4), name);
    if (access(job->object, F_OK) == 0)
        return;
    argv[0] = compiler;
    argv[1] = "-c";
    argv[2] = source;
    argv[3] = "-o";
    argv[4] = af_arena_format(arena, "%s" AF_GOVERN_NEW, job->object);
    job->argv = argv;
    job->prediction = predict(name, factor);
    options->job_count++;
}

static void event(void *context, const struct af_govern_event *event)
{
    static const char *const words[] = {"started",    "ended",   "failed", "killed",
                                        "standstill", "crashed", "hung",   "remark"};
    uint64_t *most = context;
    if (event->used_bytes > *most)
        *most = event->used_bytes;
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

int main(int argc, char **argv)
{
    struct af_govern_result result;
    struct anyflash_error err;
    struct af_arena arena;
    uint64_t most = 0;
    if (argc < 7)
        return 2;
    af_arena_init(&arena);
    struct af_govern_options options = {
        .jobs = af_arena_array(&arena, (size_t)argc, sizeof *options.jobs),
        .output = open(argv[4], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
        .memory_bytes = strtoull(argv[1], NULL, 10) << 20,
        .slots = (unsigned)strtoul(argv[2], NULL, 10),
        .hang_seconds = variable("GOVERN_HANG"),
        .stall_seconds = variable("GOVERN_STILL"),
        .root = getenv("GOVERN_ROOT"),
        .event = event,
        .event_context = &most,
    };
    af_govern_enter_scope(options.memory_bytes, options.root);
    for (int i = 6; i < argc; i++)
        add_job(&arena, argv[5], argv[i], strtod(argv[3], NULL), &options);
    if (options.output < 0)
        return 3;
    enum anyflash_status status = af_govern_run(&options, &result, &err);
    if (status != ANYFLASH_OK) {
        printf("error %s\n", err.message);
        return 3;
    }
    printf("result interrupted %d ended %zu failed %zu killed %zu crashed %zu most %llu\n",
           result.interrupted, result.ended_count, result.failed_count, result.killed_count,
           result.crashed_count, (unsigned long long)(most >> 20));
    af_arena_release(&arena);
    return result.interrupted != 0 || result.failed != NULL;
}
