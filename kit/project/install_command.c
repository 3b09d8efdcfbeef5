/*
 * install_command.c: the words of a command, from left to right: what runs the installer, the
 * installer, its subcommand, its options and requirements.
 */
#include "kit/project/requirements.h"

#include "kit/base/text.h"

#include <string.h>

/* Reads the words one by one. */
struct reader {
    struct af_project *project;
    struct af_project_command *command;
    size_t at;
    const char *extras; /* of --extra, comma-separated */
};

/* Programs with a "run" that starts another program in their environment. */
static const char runners[] = " conda mamba micromamba poetry pdm pipenv hatch pixi uv ";

/* Commands that install what a lock file says. */
static const struct {
    const char *program;
    const char *hint;
} lockers[] = {
    {"uv",
     "`anyflash config uv --write` puts the wheel into pyproject.toml; then run it alone"},
    {"poetry",
     "`anyflash config poetry` prints the lines for pyproject.toml; then run it alone"},
    {"pixi", "`anyflash config pixi` prints the lines for its manifest; then run it alone"},
    {"conda", "`anyflash config conda` prints the lines for environment.yml"},
    {"mamba", "`anyflash config conda` prints the lines for environment.yml"},
    {"micromamba", "`anyflash config conda` prints the lines for environment.yml"},
    {"pdm", "`anyflash config pylock` prints a lock file that pdm reads"},
};

static bool word_in(const char *list, const char *word)
{
    return af_project_words_have(list, (struct af_span){word, strlen(word)});
}

/* "pip", "pip3" or "pip3.11" for "pip". */
static bool is_program(const char *name, const char *program)
{
    size_t len = strlen(program);
    return strncmp(name, program, len) == 0 &&
           name[len + strspn(name + len, "0123456789.")] == '\0';
}

static const char *word_at(const struct reader *reader, size_t at)
{
    return at < reader->command->word_count ? reader->command->words[at] : "";
}

static const char *name_at(const struct reader *reader, size_t at)
{
    return af_path_name(word_at(reader, at));
}

static const char *shown(const struct reader *reader, const char *word)
{
    return af_text_scrub(reader->project->arena, word, 120);
}

/* Counts the words before the installer, as in `conda run -n x pip ...`. */
static void take_prefix(struct reader *reader)
{
    const char *runner = name_at(reader, 0);
    if (!word_in(runners, runner) || strcmp(word_at(reader, 1), "run") != 0)
        return;
    for (size_t i = 2; i < reader->command->word_count; i++) {
        const char *name = name_at(reader, i);
        if (!is_program(name, "pip") && !is_program(name, "python") && strcmp(name, "uv") != 0)
            continue;
        reader->at = reader->command->prefix_count = i;
        return;
    }
}

/* `uv run --with flash-attn` makes an environment of its own for each set of packages. */
static void refuse_uv_run(struct reader *reader)
{
    reader->command->refusal = "`uv run` installs what uv.lock and its options say, and takes "
                               "no wheel from outside";
    reader->command->hint = "first `anyflash run -- uv pip install flash-attn`, then `uv run "
                            "--no-sync` without --with";
}

/* Refuses what is neither pip nor uv pip. */
static void refuse_program(struct reader *reader)
{
    struct af_project_command *command = reader->command;
    const char *name = name_at(reader, reader->at);
    const char *next = word_at(reader, reader->at + 1);
    if (command->prefix_count > 0 && strcmp(name_at(reader, 0), "uv") == 0) {
        refuse_uv_run(reader);
        return;
    }
    for (size_t i = 0; i < AF_COUNT(lockers); i++) {
        if (strcmp(name, lockers[i].program) != 0)
            continue;
        command->refusal = af_arena_format(reader->project->arena,
                                           "`%s %s` takes no wheel from outside its own files",
                                           name, shown(reader, next));
        command->hint = lockers[i].hint;
        return;
    }
    command->refusal =
        af_arena_format(reader->project->arena, "'%s' is not an installer that this knows",
                        shown(reader, word_at(reader, reader->at)));
    command->hint = "it prepares `pip install`, `python -m pip install` and `uv pip install`";
}

/* Finds the installer; false if it is not one that takes a wheel. */
static bool take_installer(struct reader *reader)
{
    struct af_project_command *command = reader->command;
    const char *name = name_at(reader, reader->at);
    if (is_program(name, "python")) {
        command->python = word_at(reader, reader->at);
        size_t at = reader->at + 1;
        while (word_at(reader, at)[0] == '-' && strcmp(word_at(reader, at), "-m") != 0)
            at++;
        if (strcmp(word_at(reader, at), "-m") == 0)
            reader->at = at + 1;
        name = word_at(reader, reader->at);
    } else if (is_program(name, "pip")) {
        command->pip = word_at(reader, reader->at);
    }
    command->uv = strcmp(name, "uv") == 0;
    if (!is_program(name, "pip") && !command->uv) {
        refuse_program(reader);
        return false;
    }
    return true;
}

static enum anyflash_status add_file(struct reader *reader, const char *path, bool constraint,
                                     struct anyflash_error *err)
{
    struct af_arena *arena = reader->project->arena;
    if (strcmp(path, "-") == 0) {
        reader->command->refusal = "requirements from standard input can be read only once";
        reader->command->hint = "write them to a file";
        return ANYFLASH_OK;
    }
    if (strcmp(af_path_name(path), "pyproject.toml") == 0 && !constraint)
        return af_project_add_folder(reader->project, af_path_folder(arena, path),
                                     reader->extras, err);
    return af_project_add_file(reader->project, path, constraint, err);
}

/* "[PATH:]GROUP" of pip and uv. */
static enum anyflash_status add_group(struct reader *reader, const char *value,
                                      struct anyflash_error *err)
{
    const char *colon = strrchr(value, ':');
    if (colon == NULL)
        return af_project_add_group(reader->project, "pyproject.toml", value, err);
    const char *path = af_arena_text_n(reader->project->arena, value, (size_t)(colon - value));
    return af_project_add_group(reader->project, path, colon + 1, err);
}

/* Reads one option. Its value is in the same word ("--python=3.12", "-p3.12") or the next. */
static enum anyflash_status take_option(struct reader *reader, struct anyflash_error *err)
{
    struct af_project_command *command = reader->command;
    struct af_project_option_word option;
    if (af_project_option_parse(word_at(reader, reader->at), &option))
        option.value = word_at(reader, ++reader->at);
    if (!command->uv && af_project_option_is_cut(option.name)) {
        command->refusal =
            af_arena_format(reader->project->arena, "'%.*s' is the start of an option",
                            (int)option.name.len, option.name.data);
        command->hint = "write the option in full";
        return ANYFLASH_OK;
    }
    switch (option.meaning) {
    case AF_PROJECT_MEANS_FILE:
    case AF_PROJECT_MEANS_CONSTRAINT:
        return add_file(reader, option.value, option.meaning == AF_PROJECT_MEANS_CONSTRAINT,
                        err);
    case AF_PROJECT_MEANS_GROUP:
        return add_group(reader, option.value, err);
    case AF_PROJECT_MEANS_PYTHON:
        command->python = option.value;
        return ANYFLASH_OK;
    case AF_PROJECT_MEANS_ELSEWHERE:
        command->refusal =
            af_arena_format(reader->project->arena, "'%.*s' installs outside this environment",
                            (int)option.name.len, option.name.data);
        command->hint = "`anyflash plan` names the wheel: install it by its address";
        return ANYFLASH_OK;
    default:
        return af_project_add_option(reader->project, &option, err);
    }
}

/* --extra applies to every pyproject.toml of the command, wherever it stands. */
static void collect_extras(struct reader *reader)
{
    struct af_arena *arena = reader->project->arena;
    for (size_t i = reader->at; i < reader->command->word_count; i++) {
        const char *word = word_at(reader, i);
        const char *value = af_starts_with(word, "--extra=") ? word + 8
                            : strcmp(word, "--extra") == 0   ? word_at(reader, i + 1)
                                                             : NULL;
        if (value != NULL)
            reader->extras = af_arena_format(arena, "%s,%s", reader->extras, value);
    }
}

/* Options and words up to the subcommand; of uv's, "pip" comes first. */
static enum anyflash_status take_subcommand(struct reader *reader, struct anyflash_error *err)
{
    bool pip = !reader->command->uv;
    enum anyflash_status status = ANYFLASH_OK;
    for (reader->at++; status == ANYFLASH_OK && reader->at < reader->command->word_count;
         reader->at++) {
        const char *word = word_at(reader, reader->at);
        if (word[0] == '-') {
            status = take_option(reader, err);
        } else if (!pip && strcmp(word, "pip") != 0) {
            if (strcmp(word, "run") == 0)
                refuse_uv_run(reader);
            if (word_in(" sync add lock ", word)) {
                reader->command->refusal = af_arena_format(
                    reader->project->arena, "`uv %s` installs what uv.lock says", word);
                reader->command->hint = lockers[0].hint;
            }
            return ANYFLASH_OK;
        } else if (!pip) {
            pip = true;
        } else {
            reader->command->installs = strcmp(word, "install") == 0 ||
                                        (reader->command->uv && strcmp(word, "sync") == 0);
            reader->command->option_place = reader->at + 1;
            return ANYFLASH_OK;
        }
    }
    return status;
}

/* What follows the subcommand. The words of `uv pip sync` are files. */
static enum anyflash_status take_requirements(struct reader *reader, struct anyflash_error *err)
{
    bool files = strcmp(word_at(reader, reader->at), "sync") == 0;
    bool words_only = false;
    enum anyflash_status status = ANYFLASH_OK;
    for (reader->at++; status == ANYFLASH_OK && reader->at < reader->command->word_count;
         reader->at++) {
        const char *word = word_at(reader, reader->at);
        if (!words_only && strcmp(word, "--") == 0)
            words_only = true;
        else if (!words_only && word[0] == '-')
            status = take_option(reader, err);
        else if (files)
            status = add_file(reader, word, false, err);
        else
            status = af_project_add_word(reader->project, word, false, err);
    }
    return status;
}

enum anyflash_status af_project_command_read(struct af_project *project,
                                             const char *const *words, size_t word_count,
                                             struct af_project_command *command_out,
                                             struct anyflash_error *err)
{
    struct af_project_command command = {.words = words, .word_count = word_count};
    struct reader reader = {.project = project, .command = &command, .extras = ""};
    enum anyflash_status status = ANYFLASH_OK;
    take_prefix(&reader);
    if (take_installer(&reader)) {
        collect_extras(&reader);
        status = take_subcommand(&reader, err);
        if (status == ANYFLASH_OK && command.installs)
            status = take_requirements(&reader, err);
    }
    if (status == ANYFLASH_OK)
        *command_out = command;
    return status;
}
