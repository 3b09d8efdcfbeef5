/*
 * stage.c: runs the commands that unpack; stage_check.c checks their result.
 *
 * `--prefix` creates the layout of an environment (scripts with the right first line, RECORD
 * with the right paths) below a folder of ours.
 */
#include "kit/install/stage.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/process.h"
#include "kit/system/progress.h"

#define WORDS_MAX 512
#define SAID_LINES_MAX 12
#define SAID_BYTES 300
#define FREE_BYTES_MIN (4u << 20)
#define REPORT_BYTES_MAX (64u << 20)

/* The words of one command; they end in NULL as long as they fit. */
struct words {
    const char *items[WORDS_MAX + 1];
    size_t count;
};

static void word(struct words *words, const char *text)
{
    if (words->count < WORDS_MAX)
        words->items[words->count++] = text;
}

static void start(const struct af_stage *stage, struct words *words)
{
    if (stage->uv) {
        word(words, "uv");
        word(words, "pip");
        word(words, "install");
        word(words, "--python");
        word(words, stage->python);
        return;
    }
    word(words, stage->python);
    word(words, "-I"); /* no module of the current folder, of PYTHONPATH or of the user */
    word(words, "-m");
    word(words, "pip");
    word(words, "install");
    word(words, "--disable-pip-version-check");
    word(words, "--no-input");
}

static void into_root(const struct af_stage *stage, struct words *words)
{
    word(words, "--no-deps");
    word(words, "--prefix");
    word(words, stage->root);
    if (stage->uv)
        return;
    /* Installed packages must be neither removed nor used to satisfy the requirements. */
    word(words, "--ignore-installed");
    word(words, "--no-compile");
    word(words, "--no-warn-script-location");
}

static bool go_on(void *context)
{
    (void)context;
    return !af_interrupted();
}

/*
 * Reports a line, shortened in its middle: the reason is at its end, long paths are in its
 * middle.
 */
static void tell_line(const struct af_stage *stage, struct af_span line)
{
    char start[400];
    char end[400];
    size_t start_len = line.len > SAID_BYTES ? SAID_BYTES / 3 : line.len;
    size_t end_len = line.len > SAID_BYTES ? SAID_BYTES / 2 : 0;
    af_text_quote(start, sizeof start, line.data, start_len);
    af_text_quote(end, sizeof end, line.data + line.len - end_len, end_len);
    af_progress_message(&stage->run->progress, "  %s: %s%s%s", stage->uv ? "uv" : "pip", start,
                        end_len > 0 ? " ... " : "", end);
}

/* Reports the last lines that a program printed. */
static void tell(const struct af_stage *stage, struct af_span text)
{
    struct af_span lines[SAID_LINES_MAX];
    struct af_span line;
    size_t count = 0;
    while (af_text_line(&text, &line)) {
        line = af_text_trim(line);
        if (line.len > 0)
            lines[count++ % SAID_LINES_MAX] = line;
    }
    for (size_t i = count > SAID_LINES_MAX ? count - SAID_LINES_MAX : 0; i < count; i++) {
        line = lines[i % SAID_LINES_MAX];
        tell_line(stage, line);
    }
}

/*
 * Free bytes in the file system where we unpack; installers report a full disk in many ways, or
 * not at all.
 */
static uint64_t free_bytes(const struct af_stage *stage)
{
    struct statvfs facts;
    if (statvfs(stage->root, &facts) != 0)
        return UINT64_MAX;
    return (uint64_t)facts.f_bavail * facts.f_frsize;
}

static enum anyflash_status run(struct af_stage *stage, struct words *words,
                                const char *const *environment, const char *what,
                                struct af_program_result *result_out,
                                struct anyflash_error *err)
{
    char shown[200];
    const char *name = stage->uv ? "uv" : "pip";
    /*
     * Not pip in the current folder, whose files may be anybody's. uv runs none of them; there
     * it takes the settings of the project, as everybody expects.
     */
    struct af_program program = {.argv = words->items,
                                 .environment = environment,
                                 .folder = stage->uv ? NULL : "/",
                                 .go_on = go_on};
    if (words->count == WORDS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "too many packages for one command");
    words->items[words->count] = NULL;
    af_text_quote(shown, sizeof shown, what, strlen(what));
    enum anyflash_status status = af_program_run(&program, stage->run->arena, result_out, err);
    if (status == ANYFLASH_E_TIMEOUT)
        return af_fail(err, status, "interrupted while %s unpacked '%s'", name, shown);
    if (status != ANYFLASH_OK)
        return status;
    if (result_out->exit_code == 127)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "cannot start '%s'", words->items[0]);
    if (result_out->exit_code == 0)
        return ANYFLASH_OK;
    tell(stage, result_out->errors);
    if (free_bytes(stage) < FREE_BYTES_MIN)
        return af_fail(err, ANYFLASH_E_IO, "no space left in '%s' to unpack '%s'",
                       stage->run->site, shown);
    return af_fail(err, ANYFLASH_E_DATA, "%s cannot unpack '%s' (exit code %d)", name, shown,
                   result_out->exit_code);
}

enum anyflash_status af_stage_file(struct af_stage *stage, const char *package,
                                   const char *path, const char *sha256, const char *cache,
                                   struct anyflash_error *err)
{
    /* For one exact file: no configuration may change the result. */
    static const char *const uv_environment[] = {"UV_REQUIRE_HASHES",
                                                 "UV_NO_VERIFY_HASHES",
                                                 "UV_TARGET",
                                                 "UV_PREFIX",
                                                 "UV_CONSTRAINT",
                                                 "UV_OVERRIDE",
                                                 "UV_BUILD_CONSTRAINT",
                                                 "UV_NO_BINARY*",
                                                 "UV_EXCLUDE*",
                                                 "UV_DRY_RUN",
                                                 "UV_PYTHON*",
                                                 "UV_LINK_MODE",
                                                 "UV_NO_CACHE",
                                                 "UV_COMPILE_BYTECODE",
                                                 "UV_BREAK_SYSTEM_PACKAGES",
                                                 NULL};
    static const char *const pip_environment[] = {"PIP_*", "PIP_CONFIG_FILE=/dev/null", NULL};
    struct af_arena *arena = stage->run->arena;
    struct words words = {.count = 0};
    struct af_program_result result;
    /* In a URL no character of the path has a meaning, such as that of '$' to uv. */
    const char *url = af_url_with_sha256(
        arena,
        af_arena_format(arena, "%s @ file://%s", package, af_url_encode_path(arena, path)),
        sha256);
    start(stage, &words);
    into_root(stage, &words);
    if (stage->uv) {
        word(&words, "--no-config");
        word(&words, "--offline");
        word(&words, "--cache-dir");
        word(&words, cache);
    }
    word(&words, "--no-index");
    word(&words, url);
    return run(stage, &words, stage->uv ? uv_environment : pip_environment, af_path_name(path),
               &result, err);
}

/* Uses the user's index configuration, but not the user's installation folder. */
static const char *const own_target[] = {
    "UV_TARGET",  "UV_PREFIX",          "UV_DRY_RUN",  "UV_PYTHON",   "PIP_TARGET",
    "PIP_PREFIX", "PIP_USER",           "PIP_ROOT",    "PIP_DRY_RUN", "PIP_REPORT",
    "PIP_QUIET",  "PIP_REQUIRE_HASHES", "PIP_UPGRADE", NULL};

/* `from` as a URL, which is absolute and in which no character has a meaning. */
static const char *folder_url(struct af_arena *arena, const char *from)
{
    const char *path = af_file_real_path(arena, from);
    return af_arena_format(arena, "file://%s",
                           af_url_encode_path(arena, path == NULL ? from : path));
}

static void sources(const struct af_stage *stage, struct words *words,
                    const char *torch_backend, const char *from)
{
    if (stage->uv && torch_backend != NULL) {
        word(words, "--torch-backend");
        word(words, torch_backend);
    }
    if (from != NULL) {
        word(words, "--no-index");
        word(words, "--find-links");
        word(words, folder_url(stage->run->arena, from));
    }
    if (stage->uv && (stage->run->offline || from != NULL))
        word(words, "--offline");
    else if (!stage->uv && stage->run->offline && from == NULL)
        word(words, "--no-index");
}

enum anyflash_status af_stage_requirements(struct af_stage *stage,
                                           const char *const *requirements, size_t count,
                                           const char *torch_backend, const char *from,
                                           struct anyflash_error *err)
{
    struct words words = {.count = 0};
    struct af_program_result result;
    start(stage, &words);
    into_root(stage, &words);
    sources(stage, &words, torch_backend, from);
    for (size_t i = 0; i < count; i++)
        word(&words, requirements[i]);
    return run(stage, &words, own_target, requirements[0], &result, err);
}

/* Reads the lines " + name==version" of uv's dry run. */
static void read_additions(struct af_arena *arena, struct af_span text,
                           const char *const **found_out, size_t *count_out)
{
    const char **found = af_arena_array(arena, WORDS_MAX, sizeof *found);
    struct af_span line;
    size_t count = 0;
    while (count < WORDS_MAX && af_text_line(&text, &line)) {
        line = af_text_trim(line);
        if (line.len < 3 || line.data[0] != '+' || line.data[1] != ' ')
            continue;
        found[count++] = af_arena_text_n(arena, line.data + 2, line.len - 2);
    }
    *found_out = found;
    *count_out = count;
}

/* Reads what pip would install from the report that it wrote, and removes the report. */
static enum anyflash_status read_report(struct af_arena *arena, const char *path,
                                        const char *const **found_out, size_t *count_out,
                                        struct anyflash_error *err)
{
    json_t *report;
    enum anyflash_status status = af_file_read_json(path, REPORT_BYTES_MAX, &report, err);
    unlink(path);
    if (status != ANYFLASH_OK)
        return status;
    const json_t *rows = json_object_get(report, "install");
    const char **found = af_arena_array(arena, WORDS_MAX, sizeof *found);
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(rows) && count < WORDS_MAX; i++) {
        const json_t *metadata = json_object_get(json_array_get(rows, i), "metadata");
        const char *name = json_string_value(json_object_get(metadata, "name"));
        const char *version = json_string_value(json_object_get(metadata, "version"));
        if (name != NULL && version != NULL)
            found[count++] = af_arena_format(arena, "%s==%s", name, version);
    }
    json_decref(report);
    *found_out = found;
    *count_out = count;
    return ANYFLASH_OK;
}

enum anyflash_status af_stage_resolve(struct af_stage *stage, const char *const *requirements,
                                      size_t count, const char *torch_backend,
                                      const char *const **found_out, size_t *found_count_out,
                                      struct anyflash_error *err)
{
    struct words words = {.count = 0};
    struct af_program_result result;
    const char *report = af_path_join(stage->run->arena, stage->root, "report.json");
    start(stage, &words);
    word(&words, "--dry-run");
    if (stage->uv) {
        word(&words, "--color");
        word(&words, "never");
    } else {
        word(&words, "--report");
        word(&words, report);
    }
    sources(stage, &words, torch_backend, stage->run->from);
    for (size_t i = 0; i < count; i++)
        word(&words, requirements[i]);
    enum anyflash_status status = run(stage, &words, own_target, requirements[0], &result, err);
    if (status == ANYFLASH_OK && !stage->uv)
        return read_report(stage->run->arena, report, found_out, found_count_out, err);
    if (status == ANYFLASH_OK)
        read_additions(stage->run->arena, result.errors, found_out, found_count_out);
    return status;
}

/* The text between `start` and the next quote after it; searched from *text on. */
static const char *quoted_after(struct af_arena *arena, const char **text, const char *start)
{
    const char *at = *text == NULL ? NULL : strstr(*text, start);
    if (at == NULL)
        return NULL;
    at += strlen(start);
    *text = at;
    return af_arena_text_n(arena, at, strcspn(at, "\""));
}

/* Finds the first wheel for all platforms in uv's pylock.toml or pip's report. */
static bool read_location(struct af_arena *arena, bool uv, const char *text,
                          struct af_step_wheel *wheel)
{
    const char *at = text;
    while ((wheel->url = quoted_after(arena, &at, uv ? "url = \"" : "\"url\": \"")) != NULL) {
        const char *after = at;
        if (!af_ends_with(wheel->url, "-none-any.whl"))
            continue;
        wheel->filename = af_path_name(wheel->url);
        wheel->sha256 = quoted_after(arena, &after, uv ? "sha256 = \"" : "\"sha256\": \"");
        return wheel->sha256 != NULL && af_sha256_is_hex(wheel->sha256);
    }
    return false;
}

enum anyflash_status af_stage_locate(struct af_stage *stage, const char *requirement,
                                     struct af_step_wheel *wheel_out,
                                     struct anyflash_error *err)
{
    struct af_arena *arena = stage->run->arena;
    struct words words = {.count = 0};
    struct af_program_result result;
    struct af_step_wheel wheel = {.package = requirement};
    start(stage, &words);
    if (stage->uv) {
        words.items[2] = "compile";
        word(&words, "--format");
        word(&words, "pylock.toml");
        word(&words, "--quiet");
        word(&words, "--no-deps");
        word(&words, stage->root); /* a file with the requirement */
    } else {
        word(&words, "--dry-run");
        word(&words, "--quiet");
        word(&words, "--ignore-installed");
        word(&words, "--no-deps");
        word(&words, "--report");
        word(&words, "-");
        word(&words, requirement);
    }
    enum anyflash_status status = run(stage, &words, own_target, requirement, &result, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!read_location(arena, stage->uv, result.output.data, &wheel))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' has no platform-independent wheel: download the package yourself",
                       requirement);
    *wheel_out = wheel;
    return ANYFLASH_OK;
}
