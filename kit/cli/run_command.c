/*
 * run_command.c: what the command of `anyflash run` asks for, and the environment in which it
 * installs.
 */
#include "kit/cli/run_choice.h"

#include <stdlib.h>
#include <string.h>

#include "kit/system/file.h"
#include "kit/system/process.h"

#define PACKAGE AF_CLI_RUN_PACKAGE
#define INTERPRETER_LIMIT_MS 60000
#define PREFIX_WORDS_MAX 16

static enum anyflash_status read_file(void *context, struct af_arena *arena, const char *path,
                                      struct af_span *text_out, struct anyflash_error *err)
{
    (void)context;
    return af_file_read(arena, path, AF_PROJECT_FILE_BYTES_MAX, text_out, err);
}

/* Whether a list of packages that are to be compiled has flash-attn. */
static bool names_flash(const char *list)
{
    static const char separators[] = " ,";
    static const char *const all[] = {":all:", "1", "true"}; /* UV_NO_BINARY is yes or no */
    while (*list != '\0') {
        struct af_span name = {list, strcspn(list, separators)};
        if (af_name_is(name, PACKAGE))
            return true;
        for (size_t i = 0; i < AF_COUNT(all); i++)
            if (af_text_span_equal(name, all[i]))
                return true;
        list += name.len + (list[name.len] != '\0');
    }
    return false;
}

/* A user who wants flash-attn from source wants no wheel. `what` says so by this list. */
static enum anyflash_status check_source(struct af_cli_wanted *wanted, const char *what,
                                         const char *list, struct anyflash_error *err)
{
    if (list == NULL || !names_flash(list))
        return ANYFLASH_OK;
    wanted->cli->hint =
        af_arena_format(&wanted->cli->arena, "without %s a wheel that fits is installed", what);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s asks for flash-attn from source", what);
}

enum anyflash_status af_cli_wanted_read(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err)
{
    struct af_cli *cli = wanted->cli;
    const struct af_word_list *words = &cli->options.words;
    if (words->count == 0) {
        cli->hint = "for example: anyflash run -- pip install -r requirements.txt";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'run' needs a command after --");
    }
    wanted->project = (struct af_project){.arena = &cli->arena, .read = read_file};
    enum anyflash_status status = af_project_command_read(&wanted->project, words->items,
                                                          words->count, &wanted->command, err);
    const struct af_project_option *option = NULL;
    while (status == ANYFLASH_OK &&
           (option = af_project_next_option(&wanted->project, option,
                                            AF_PROJECT_MEANS_NO_BINARY)) != NULL)
        status = check_source(wanted, "--no-binary", option->value, err);
    if (status == ANYFLASH_OK && wanted->command.refusal != NULL)
        af_cli_wanted_refuse(wanted, wanted->command.refusal, wanted->command.hint);
    return status;
}

/* The folder of the program `word`, as PATH finds it; NULL: there is none. */
static const char *program_folder(struct af_arena *arena, const char *word)
{
    const char *rest = getenv("PATH");
    if (strchr(word, '/') != NULL)
        return af_path_folder(arena, word);
    while (rest != NULL && *rest != '\0') {
        size_t len = strcspn(rest, ":");
        const char *folder = len == 0 ? "." : af_arena_text_n(arena, rest, len);
        if (af_file_is_executable(af_path_join(arena, folder, word)))
            return folder;
        rest += len + (rest[len] == ':');
    }
    return NULL;
}

/* The interpreter beside pip: scripts are installed into the folder of theirs. */
static const char *python_beside(struct af_cli_wanted *wanted)
{
    static const char *const names[] = {"python", "python3"};
    struct af_arena *arena = &wanted->cli->arena;
    const char *pip = wanted->command.pip;
    const char *folder = program_folder(arena, pip);
    const char *digits = af_path_name(pip) + strlen("pip");
    if (folder == NULL)
        return NULL;
    if (digits[0] != '\0')
        return af_path_join(arena, folder, af_arena_format(arena, "python%s", digits));
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        const char *path = af_path_join(arena, folder, names[i]);
        if (af_file_is_executable(path))
            return path;
    }
    return NULL;
}

/* The command's environment: asks its interpreter, in the way that the command starts it. */
static enum anyflash_status find_python(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err)
{
    const struct af_project_command *command = &wanted->command;
    struct af_arena *arena = &wanted->cli->arena;
    const char *argv[PREFIX_WORDS_MAX + 4] = {NULL};
    struct af_program_result result;
    size_t count = command->prefix_count;
    const char *python = command->python != NULL              ? command->python
                         : command->pip != NULL && count == 0 ? python_beside(wanted)
                         : count > 0                          ? "python"
                                                              : NULL;
    if (python == NULL && command->pip == NULL)
        return ANYFLASH_OK; /* uv chooses as anyflash does */
    if (python == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "no interpreter was found beside '%s'",
                       af_text_scrub(arena, command->pip, 200));
    wanted->cli->options.values[AF_OPTION_PYTHON] = python;
    if (count > PREFIX_WORDS_MAX || (count == 0 && af_file_is_folder(python)))
        return ANYFLASH_OK; /* a path may be a script, such as pyenv's */
    memcpy(argv, command->words, count * sizeof *argv);
    argv[count++] = python;
    argv[count++] = "-c";
    argv[count++] = "import sys; print(sys.executable)";
    const struct af_program program = {.argv = argv, .limit_ms = INTERPRETER_LIMIT_MS};
    enum anyflash_status status = af_program_run(&program, arena, &result, err);
    struct af_span line = {"", 0};
    if (status == ANYFLASH_OK && result.exit_code == 0)
        line = af_text_trim(result.output);
    if (status == ANYFLASH_OK && line.len > 0)
        wanted->cli->options.values[AF_OPTION_PYTHON] =
            af_arena_text_n(arena, line.data, line.len);
    return status;
}

/* Reads the environment, and finds out whether the command asks for flash-attn in it. */
enum anyflash_status af_cli_wanted_look(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = find_python(wanted, err);
    if (status == ANYFLASH_OK)
        status = af_change_begin(&wanted->change, wanted->cli, err);
    if (status != ANYFLASH_OK)
        return status;
    wanted->change.run.machine = &wanted->change.machine;
    wanted->here = af_machine_markers(&wanted->change.machine);
    const struct af_project_requirement *found = NULL;
    while ((found = af_project_next(&wanted->project, found, PACKAGE, &wanted->here)) != NULL)
        if (!found->constraint && wanted->flash == NULL)
            wanted->flash = found;
    static const char *const names[] = {"PIP_NO_BINARY", "UV_NO_BINARY",
                                        "UV_NO_BINARY_PACKAGE"};
    for (size_t i = 0; wanted->flash != NULL && status == ANYFLASH_OK && i < AF_COUNT(names);
         i++)
        if (af_starts_with(names[i], "UV") == wanted->command.uv)
            status = check_source(wanted, names[i], getenv(names[i]), err);
    return status;
}
