/*
 * scope.c: systemd-run(1) as a prefix of the build's command. Sources:
 * systemd-run(1), systemd.resource-control(5), systemd.scope(5).
 */
#include "govern/scope.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"
#include "base/text.h"

#define LIMIT_MS 5000
#define PREFIX_MAX 10
#define FILE_BYTES 4096u
#define NAME "anyflash-build-"

/* The words before the command; `careful`: without what systemd before 253 refuses. */
static size_t prefix(struct af_arena *arena, uint64_t limit_bytes, const char *unit,
                     bool careful, const char *words[PREFIX_MAX])
{
    size_t count = 0;
    words[count++] = "systemd-run";
    words[count++] = "--user";
    words[count++] = "--scope";
    words[count++] = "--quiet";
    words[count++] = "--collect";
    words[count++] = unit;
    if (limit_bytes > 0)
        words[count++] = af_arena_format(arena, "--property=MemoryMax=%" PRIu64, limit_bytes);
    if (limit_bytes > 0)
        words[count++] = "--property=MemorySwapMax=0";
    if (!careful) /* else one killed compiler would end the whole scope */
        words[count++] = "--property=OOMPolicy=continue";
    words[count++] = "--";
    return count;
}

/* Whether a scope like this can be made. */
static bool try_it(struct af_arena *arena, uint64_t limit_bytes, bool careful)
{
    const char *words[PREFIX_MAX + 2];
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld-try", (long)getpid());
    struct af_program_result result;
    size_t count = prefix(arena, limit_bytes, unit, careful, words);
    words[count++] = "true";
    words[count] = NULL;
    const struct af_program program = {.argv = words, .limit_ms = LIMIT_MS};
    return !arena->failed && af_program_run(&program, arena, &result, NULL) == ANYFLASH_OK &&
           result.exit_code == 0;
}

const char *const *af_scope_words(struct af_arena *arena, const char *const *argv,
                                  uint64_t limit_bytes)
{
    size_t argc = 0;
    bool careful = false;
    if (getenv("XDG_RUNTIME_DIR") == NULL && getenv("DBUS_SESSION_BUS_ADDRESS") == NULL)
        return NULL;
    if (!try_it(arena, limit_bytes, false)) {
        careful = true;
        if (!try_it(arena, limit_bytes, true))
            return NULL;
    }
    while (argv[argc] != NULL)
        argc++;
    const char **words = af_arena_alloc(arena, (argc + PREFIX_MAX + 1) * sizeof *words);
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld", (long)getpid());
    if (words == NULL || unit == NULL)
        return NULL;
    size_t count = prefix(arena, limit_bytes, unit, careful, words);
    memcpy(words + count, argv, (argc + 1) * sizeof *words);
    return arena->failed ? NULL : words;
}

const char *af_scope_folder(struct af_arena *arena, const char *root, pid_t pid)
{
    struct af_span text;
    struct af_span line;
    const char *before = root == NULL ? "" : root;
    const char *path = af_arena_format(arena, "%s/proc/%ld/cgroup", before, (long)pid);
    if (path == NULL || af_file_read(arena, path, FILE_BYTES, &text, NULL) != ANYFLASH_OK)
        return NULL;
    while (af_span_line(&text, &line)) {
        const char *group = af_arena_text_n(arena, line.data, line.len);
        const char *name = group == NULL ? NULL : strrchr(group, '/');
        if (name == NULL || !af_starts_with(group, "0::/") || !af_starts_with(name, "/" NAME) ||
            !af_ends_with(name, ".scope"))
            continue;
        return af_arena_format(arena, "%s/sys/fs/cgroup%s", before, group + 3);
    }
    return NULL;
}
