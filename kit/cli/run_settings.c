/*
 * run_settings.c: the installer's own settings, from its files and variables. The installer
 * prints them: `pip config list`, `uv pip install --show-settings`. Those that install what the
 * command does not say, or install elsewhere, are refused.
 */
#include "kit/cli/run_settings.h"

#include <stdlib.h>
#include <string.h>

#include "kit/system/process.h"

#define LIMIT_MS 60000
#define WORDS_MAX 64

/* Options that say what is installed or where. */
static const char pip_names[] = " target prefix root user python requirement editable group ";
static const char uv_names[] = " target prefix ";

static bool has_word(const char *list, struct af_span word)
{
    return af_project_words_have(list, word);
}

static bool is_no(struct af_span value)
{
    static const char *const words[] = {"'false'", "'no'", "'off'", "'0'", "''"};
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (af_text_span_equal(value, words[i]))
            return true;
    return false;
}

static void refuse(struct af_cli_wanted *wanted, const char *installer, struct af_span name)
{
    struct af_arena *arena = &wanted->cli->arena;
    af_cli_wanted_refuse(
        wanted,
        af_arena_format(arena,
                        "the settings of %s have '%.*s', so the command does not say all",
                        installer, (int)name.len, name.data),
        af_arena_format(arena, "write it into the command, or unset it: %s shows where it is",
                        strcmp(installer, "pip") == 0 ? "`pip config debug`"
                                                      : "`uv pip install --show-settings`"));
}

/* A line "global.target='/t'" or ":env:.target='/t'" of `pip config list`. */
static void read_pip_line(struct af_cli_wanted *wanted, struct af_span line)
{
    const char *equal = memchr(line.data, '=', line.len);
    if (equal == NULL)
        return;
    struct af_span key = {line.data, (size_t)(equal - line.data)};
    struct af_span value = {equal + 1, line.len - key.len - 1};
    const char *dot = memrchr(key.data, '.', key.len);
    if (dot == NULL)
        return;
    struct af_span section = {key.data, (size_t)(dot - key.data)};
    struct af_span name = {dot + 1, key.len - section.len - 1};
    if (has_word(" global install :env: ", section) && has_word(pip_names, name) &&
        !is_no(value))
        refuse(wanted, "pip", name);
}

/* A line "target: Some(" of uv's settings. */
static void read_uv_line(struct af_cli_wanted *wanted, struct af_span line)
{
    line = af_text_trim(line);
    const char *colon = memchr(line.data, ':', line.len);
    if (colon == NULL)
        return;
    struct af_span name = {line.data, (size_t)(colon - line.data)};
    struct af_span value = af_text_trim((struct af_span){colon + 1, line.len - name.len - 1});
    bool set = value.len > 0 && strncmp(value.data, "Some(", strlen("Some(")) == 0;
    bool python = af_text_span_equal(name, "python") && wanted->command.python == NULL &&
                  getenv("UV_PYTHON") == NULL;
    if (set && (has_word(uv_names, name) || python))
        refuse(wanted, "uv", name);
}

void af_cli_settings_check(struct af_cli_wanted *wanted)
{
    static const char *const for_pip[] = {"config", "list"};
    static const char *const for_uv[] = {"--show-settings", "--dry-run", "anyflash"};
    const struct af_project_command *command = &wanted->command;
    const size_t own = command->option_place - (command->uv ? 0 : 1); /* uv: with "install" */
    const char *argv[WORDS_MAX + 4] = {NULL};
    struct af_program_result result;
    struct af_span line;
    if (own > WORDS_MAX)
        return;
    for (size_t i = 0; i < command->word_count; i++)
        if (strcmp(command->words[i], "--isolated") == 0)
            return; /* pip then has no settings */
    memcpy(argv, command->words, own * sizeof *argv);
    memcpy(argv + own, command->uv ? for_uv : for_pip,
           command->uv ? sizeof for_uv : sizeof for_pip);
    const struct af_program program = {.argv = argv, .limit_ms = LIMIT_MS};
    if (af_program_run(&program, &wanted->cli->arena, &result, NULL) != ANYFLASH_OK ||
        result.exit_code != 0)
        return; /* it will say itself what is wrong */
    struct af_span text = result.output;
    while (wanted->refusal == NULL && af_text_line(&text, &line)) {
        if (command->uv)
            read_uv_line(wanted, line);
        else
            read_pip_line(wanted, line);
    }
}
