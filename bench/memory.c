/*
 * memory.c: one call between two looks at /proc/self/status.
 */
#include "bench/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/inputs.h"
#include "kit/base/text.h"
#include "kit/system/file.h"

#define STATUS_BYTES_MAX 16384u

/* Bytes of a line of /proc/self/status, as "VmRSS:   123 kB"; below 0: not there. */
static double status_bytes(struct af_arena *arena, const char *name)
{
    struct af_span content, line;
    size_t len = strlen(name);
    if (af_file_read_start(arena, "/proc/self/status", STATUS_BYTES_MAX, &content, NULL) !=
        ANYFLASH_OK)
        return -1;
    while (af_text_line(&content, &line)) {
        if (line.len <= len || memcmp(line.data, name, len) != 0)
            continue;
        const char *text = af_arena_text_n(arena, line.data + len, line.len - len);
        return text != NULL ? 1024 * strtod(text, NULL) : -1;
    }
    return -1;
}

/* Lets the peak of resident memory start anew (proc(5), clear_refs). */
static bool reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0)
        close(fd);
    return done;
}

static enum anyflash_status run(struct af_arena *arena, struct anyflash_context *context,
                                const struct anyflash_attend_args *args, int threads,
                                struct af_bench_memory *memory, struct anyflash_error *err)
{
    size_t scratch = 0;
    enum anyflash_status status = anyflash_workspace_bytes(context, args, &scratch, err);
    if (status != ANYFLASH_OK)
        return status;
    double before = reset_peak() ? status_bytes(arena, "VmRSS:") : -1;
    status = anyflash_attend(context, args, err);
    double after = status_bytes(arena, "VmHWM:");
    memory->scratch_bytes = (double)scratch / threads;
    memory->peak_bytes = before < 0 || after < 0 ? -1 : (after - before) / threads;
    return status;
}

enum anyflash_status af_bench_measure_memory(struct af_arena *arena,
                                             const struct af_bench_case *row, int threads,
                                             struct af_bench_memory *memory_out,
                                             struct anyflash_error *err)
{
    struct af_bench_inputs inputs;
    struct anyflash_context *context = NULL;
    struct anyflash_context_args args = {
        .struct_size = sizeof args, .threads = threads, .cpu_level = (int32_t)row->level};
    enum anyflash_status status = af_bench_inputs_make(row, &inputs, err);
    if (status == ANYFLASH_OK)
        status = anyflash_context_new(&args, &context, err);
    if (status == ANYFLASH_OK)
        status = run(arena, context, &inputs.args, threads, memory_out, err);
    anyflash_context_free(context);
    af_bench_inputs_release(&inputs);
    return status;
}
