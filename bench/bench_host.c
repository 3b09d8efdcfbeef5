/*
 * bench_host.c: reads machine and compiler from /proc, /sys and the compiler's
 * macros.
 */
#include "bench/bench_host.h"

#include <string.h>
#include <sys/utsname.h>

#include "bench/roof/roof.h"
#include "engine/base/cores.h"
#include "engine/base/cpu.h"
#include "kit/base/text.h"
#include "kit/system/file.h"

#define FILE_BYTES_MAX 65536u
#define SHOWN_BYTES 120

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char *cpu_name(struct af_arena *arena)
{
    struct af_span content, line;
    if (af_file_read_start(arena, "/proc/cpuinfo", FILE_BYTES_MAX, &content, NULL) !=
        ANYFLASH_OK)
        return "unknown";
    while (af_text_line(&content, &line)) {
        const char *colon = memchr(line.data, ':', line.len);
        if (colon == NULL || line.len < 10 || memcmp(line.data, "model name", 10) != 0)
            continue;
        size_t skip = (size_t)(colon - line.data) + 1;
        struct af_span name = af_text_trim((struct af_span){colon + 1, line.len - skip});
        return af_text_scrub(arena, af_arena_text_n(arena, name.data, name.len), SHOWN_BYTES);
    }
    return "unknown";
}

/* Reads one file of the first core's cache `index`, without its newline, or "". */
static const char *cache_file(struct af_arena *arena, int index, const char *name)
{
    struct af_span content;
    const char *path =
        af_arena_format(arena, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    if (path == NULL ||
        af_file_read_start(arena, path, SHOWN_BYTES, &content, NULL) != ANYFLASH_OK)
        return "";
    content = af_text_trim(content);
    const char *text = af_arena_text_n(arena, content.data, content.len);
    return text != NULL ? af_text_scrub(arena, text, SHOWN_BYTES) : "";
}

static const char *cache_sizes(struct af_arena *arena)
{
    const char *list = "";
    for (int index = 0; index < 8; index++) {
        const char *level = cache_file(arena, index, "level");
        const char *size = cache_file(arena, index, "size");
        if (level == NULL || size == NULL || list == NULL)
            return "";
        if (size[0] != '\0' && !af_equal(cache_file(arena, index, "type"), "Instruction"))
            list = af_arena_format(arena, "%s%sL%s %s", list, list[0] != '\0' ? ", " : "",
                                   level, size);
    }
    return list;
}

void af_bench_facts_read(struct af_arena *arena, int threads, struct af_bench_facts *facts_out)
{
    char features[128];
    struct utsname names;
    af_roof_features(features, sizeof features);
    facts_out->cores = af_usable_cores();
    facts_out->threads = threads > 0 ? threads : facts_out->cores;
    facts_out->cpu = cpu_name(arena);
    facts_out->features = af_arena_text(arena, features);
    facts_out->caches = cache_sizes(arena);
    facts_out->compiler = COMPILER;
    facts_out->roof_f32 = af_roof_name(AF_ROOF_F32, af_cpu_features());
    facts_out->roof_bf16 = af_roof_name(AF_ROOF_BF16, af_cpu_features());
    facts_out->os = uname(&names) == 0 ? af_arena_format(arena, "%s %s %s", names.sysname,
                                                         names.release, names.machine)
                                       : "unknown";
}
