/*
 * systemd_scope.c: systemd-run(1) as a prefix of the build's command. Sources:
 * systemd-run(1), systemd.resource-control(5), systemd.scope(5).
 */
#include "kit/build/governor/systemd_scope.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/process.h"

#define LIMIT_MS 5000
#define PREFIX_MAX 12
#define FILE_BYTES 4096u
#define PROBLEM_BYTES 160
#define NOT_FOUND 127
#define NAME "anyflash-build-"

/* What is asked for: the older systemd, the less. --collect and MemoryMax need 236. */
enum level { PLAIN, KILLS_ONE, LITERAL };

enum tried { MADE, REFUSED, NO_USE /* to ask for less: it is not here or hangs */ };

/* What a scope's memory is limited to, whichever version its groups have. */
#define TELL_LIMIT                                                                             \
    "cat \"/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max\" "                  \
    "\"/sys/fs/cgroup/memory$(sed -n s/^.*:memory://p /proc/self/cgroup)"                      \
    "/memory.limit_in_bytes\" 2>/dev/null; :"

/* The words before the command. */
static size_t prefix(struct af_arena *arena, uint64_t limit_bytes, const char *unit,
                     enum level level, const char *words[PREFIX_MAX])
{
    size_t count = 0;
    words[count++] = "systemd-run";
    if (geteuid() != 0)
        words[count++] = "--user";
    words[count++] = "--scope";
    words[count++] = "--quiet";
    words[count++] = "--collect";
    words[count++] = "--description=anyflash build";
    words[count++] = unit;
    if (limit_bytes > 0)
        words[count++] = af_arena_format(arena, "--property=MemoryMax=%" PRIu64, limit_bytes);
    if (limit_bytes > 0)
        words[count++] = "--property=MemorySwapMax=0";
    if (level >= KILLS_ONE) /* since 253: else one killed compiler would end the whole scope */
        words[count++] = "--property=OOMPolicy=continue";
    if (level >= LITERAL) /* since 254: later ones would expand a "$" of the command */
        words[count++] = "--expand-environment=no";
    words[count++] = "--";
    return count;
}

/* Whether one of the lines is a number no larger than the limit (0: none is asked). */
static bool is_limited(struct af_arena *arena, struct af_span lines, uint64_t limit_bytes)
{
    struct af_span line;
    while (limit_bytes > 0 && af_text_line(&lines, &line)) {
        int64_t number;
        const char *text = af_arena_text_n(arena, line.data, line.len);
        if (text != NULL && af_parse_i64(text, 0, INT64_MAX, &number) &&
            (uint64_t)number <= limit_bytes)
            return true;
    }
    return false;
}

/* The last line that says something, made fit to print; NULL without. */
static const char *last_line(struct af_arena *arena, struct af_span lines)
{
    struct af_span line;
    struct af_span last = {NULL, 0};
    while (af_text_line(&lines, &line)) {
        if (af_text_trim(line).len > 0)
            last = af_text_trim(line);
    }
    const char *text = last.len == 0 ? NULL : af_arena_text_n(arena, last.data, last.len);
    return text == NULL ? NULL : af_text_scrub(arena, text, PROBLEM_BYTES);
}

/* Tries a scope like this. */
static enum tried try_it(struct af_arena *arena, uint64_t limit_bytes, enum level level,
                         struct af_systemd_scope *out)
{
    const char *words[PREFIX_MAX + 4];
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld-try", (long)getpid());
    struct af_program_result result;
    struct anyflash_error err;
    size_t count = prefix(arena, limit_bytes, unit, level, words);
    words[count++] = "sh";
    words[count++] = "-c";
    words[count++] = TELL_LIMIT;
    words[count] = NULL;
    const struct af_program program = {.argv = words, .limit_ms = LIMIT_MS};
    out->problem = NULL;
    if (arena->failed)
        return NO_USE;
    if (af_program_run(&program, arena, &result, &err) != ANYFLASH_OK) {
        out->problem = af_arena_text(arena, err.message);
        return NO_USE;
    }
    if (result.exit_code == NOT_FOUND)
        return NO_USE;
    if (result.exit_code != 0) {
        out->problem = last_line(arena, result.errors);
        return REFUSED;
    }
    out->limits = is_limited(arena, result.output, limit_bytes);
    return MADE;
}

void af_systemd_scope(struct af_arena *arena, const char *const *argv, uint64_t limit_bytes,
                      struct af_systemd_scope *out)
{
    size_t argc = 0;
    int level = LITERAL;
    *out = (struct af_systemd_scope){.argv = NULL};
    if (geteuid() != 0 && getenv("XDG_RUNTIME_DIR") == NULL &&
        getenv("DBUS_SESSION_BUS_ADDRESS") == NULL)
        return;
    enum tried tried = try_it(arena, limit_bytes, (enum level)level, out);
    while (tried == REFUSED && level > PLAIN)
        tried = try_it(arena, limit_bytes, (enum level)-- level, out);
    if (tried != MADE)
        return;
    while (argv[argc] != NULL)
        argc++;
    const char **words = af_arena_alloc(arena, (argc + PREFIX_MAX + 1) * sizeof *words);
    const char *unit = af_arena_format(arena, "--unit=" NAME "%ld", (long)getpid());
    if (words == NULL || unit == NULL)
        return;
    size_t count = prefix(arena, limit_bytes, unit, (enum level)level, words);
    memcpy(words + count, argv, (argc + 1) * sizeof *words);
    out->argv = arena->failed ? NULL : words;
}

/* The path of a scope of ours in a line of /proc/PID/cgroup, else NULL. */
static const char *scope_path(const char *path)
{
    const char *name = strrchr(path, '/');
    bool ours = name != NULL && af_starts_with(name, "/" NAME) && af_ends_with(name, ".scope");
    return ours ? path : NULL;
}

const char *af_systemd_scope_folder(struct af_arena *arena, const char *root, pid_t pid)
{
    struct af_span text;
    struct af_span line;
    const char *unified = NULL;
    const char *before = root == NULL ? "" : root;
    const char *file = af_arena_format(arena, "%s/proc/%ld/cgroup", before, (long)pid);
    if (file == NULL || af_file_read(arena, file, FILE_BYTES, &text, NULL) != ANYFLASH_OK)
        return NULL;
    while (af_text_line(&text, &line)) {
        const char *group = af_arena_text_n(arena, line.data, line.len);
        const char *rest = group == NULL ? NULL : strchr(group, ':');
        if (rest != NULL && af_starts_with(rest, ":memory:")) { /* then version 2 has it not */
            const char *path = scope_path(rest + strlen(":memory:"));
            return path == NULL
                       ? NULL
                       : af_arena_format(arena, "%s/sys/fs/cgroup/memory%s", before, path);
        }
        if (rest != NULL && af_starts_with(rest, "::"))
            unified = scope_path(rest + strlen("::"));
    }
    return unified == NULL ? NULL
                           : af_arena_format(arena, "%s/sys/fs/cgroup%s", before, unified);
}
