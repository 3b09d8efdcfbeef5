/*
 * govern_real.c: runs real compilers on flash-attn's files under the governor,
 * each predicted as by `anyflash build`. For bench/governor_real.py.
 *
 *   govern_real MEMORY_MIB OUTPUT COMMAND...
 *
 * The command of each file says which features it is compiled with, so files of
 * different builds can be mixed. Events go to stdout, one per line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/compile/build_steps.h"

struct macro {
    const char *word;
    unsigned feature;
};

static void predict(void *context, const char *const *argv, struct af_prediction *out)
{
    static const struct macro macros[] = {
        {"-DFLASHATTENTION_DISABLE_DROPOUT", AF_FLASH_DROPOUT},
        {"-DFLASHATTENTION_DISABLE_LOCAL", AF_FLASH_LOCAL},
        {"-DFLASHATTENTION_DISABLE_ALIBI", AF_FLASH_ALIBI},
        {"-DFLASHATTENTION_DISABLE_SOFTCAP", AF_FLASH_SOFTCAP},
    };
    struct af_build build = {0};
    (void)context;
    af_selection_all(&build.selection);
    build.selection.archs[build.selection.arch_count++] = 90;
    for (const char *const *word = argv; *word != NULL; word++) {
        for (size_t i = 0; i < AF_COUNT(macros); i++) {
            if (strcmp(*word, macros[i].word) == 0)
                build.selection.features &= ~macros[i].feature;
        }
    }
    af_build_predict(&build, argv, out);
}

static void event(void *context, const struct af_govern_event *event)
{
    static const char *const words[] = {"started",    "ended",   "failed", "killed",
                                        "standstill", "crashed", "hung",   "remark"};
    (void)context;
    if (event->kind == AF_GOVERN_TICK)
        return;
    printf("%s %s predicted %.2f GiB %.0f s, took %.2f GiB %.0f s\n", words[event->kind],
           event->file == NULL ? event->remark : event->file->file,
           event->file == NULL ? 0 : (double)event->file->bytes / (1 << 30),
           event->file == NULL ? 0 : event->file->seconds,
           (double)event->peak_bytes / (1 << 30), event->seconds);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct af_govern_result result;
    struct anyflash_error err;
    if (argc < 4)
        return 2;
    const struct af_govern_options options = {
        .argv = (const char *const *)(argv + 3),
        .output = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
        .memory_bytes = strtoull(argv[1], NULL, 10) << 20,
        .slots = (unsigned)sysconf(_SC_NPROCESSORS_ONLN), /* whatever else uses the cores */
        .predict = predict,
        .event = event,
    };
    if (options.output < 0 || af_govern_run(&options, NULL, &result, &err) != ANYFLASH_OK)
        return 3;
    printf("result exit %d ended %zu failed %zu killed %zu crashed %zu\n", result.exit_code,
           result.ended_count, result.failed_count, result.killed_count, result.crashed_count);
    return result.exit_code;
}
