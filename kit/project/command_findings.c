/*
 * command_findings.c: commands in Dockerfiles, scripts and pages that build flash-attn.
 */
#include "kit/project/findings_checker.h"

#include <string.h>

#include "kit/formats/wheel_name.h"

/* What came before a command in its file. */
struct progress {
    bool has_torch;
    enum af_answer has_nvcc; /* of a Dockerfile's image */
    size_t from_line;        /* of the image */
};

static bool text_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

bool af_project_is_package(const char *word, const char *name)
{
    size_t len = strcspn(word, "=<>!~[ ;@");
    return af_name_is((struct af_span){word, len}, name);
}

/* The image of the last FROM before byte `end`. */
static void read_image(struct af_project_checker *checker,
                       const struct af_project_source *source, size_t end,
                       struct progress *progress)
{
    const char *text =
        af_project_text(checker->arena, (struct af_span){source->text.data, end});
    const char *from = NULL;
    for (const char *at = text; (at = strstr(at, "FROM ")) != NULL; at++)
        if (at == text || at[-1] == '\n')
            from = at;
    if (from == NULL)
        return;
    const char *image =
        af_project_text(checker->arena, (struct af_span){from, strcspn(from, "\n")});
    progress->from_line = af_project_line_of(source->text, (size_t)(from - text));
    progress->has_torch |= text_has(image, "pytorch");
    bool lacks = text_has(image, "-runtime") || text_has(image, "-base") ||
                 text_has(image, " python:") || text_has(image, " ubuntu:") ||
                 text_has(image, " debian:");
    bool helps = text_has(text, "FLASH_ATTENTION_SKIP_CUDA_BUILD") ||
                 text_has(text, "cuda-toolkit") || text_has(text, "nvcc") ||
                 text_has(image, "-devel");
    progress->has_nvcc = helps ? AF_YES : lacks ? AF_NO : AF_UNKNOWN;
}

/* What was written before the command says that torch is there: "conda install pytorch". */
static bool speaks_of_torch(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t end)
{
    const char *text =
        af_project_text(checker->arena, (struct af_span){source->text.data, end});
    return text_has(text, "pytorch") || text_has(text, "PyTorch") ||
           (source->kind == AF_PROJECT_README && text_has(text, "torch"));
}

static bool brings_torch(struct af_project_checker *checker,
                         const struct af_project_shell_command *command)
{
    for (size_t i = 0; command->words[i] != NULL; i++) {
        const char *word = command->words[i];
        if (af_project_is_package(word, "torch"))
            return true;
        if (strcmp(word, "-r") == 0 && command->words[i + 1] != NULL &&
            af_project_brings_torch(&checker->asks, command->words[i + 1]))
            return true;
        if (word[0] == '.' && (word[1] == '\0' || word[1] == '[' || word[1] == '/'))
            return true; /* the project itself */
    }
    return false;
}

/* Whether a later command of the file installs torch. */
static bool torch_comes_later(struct af_project_checker *checker,
                              const struct af_project_source *source, size_t at)
{
    struct af_project_shell_command command;
    while (af_project_shell_next(checker->arena, source, &at, &command))
        if (brings_torch(checker, &command))
            return true;
    return false;
}

static void add_no_nvcc(struct af_project_checker *checker,
                        const struct af_project_source *source, size_t line, size_t from_line)
{
    struct af_project_finding *finding =
        af_project_finding_add(checker, AF_PROJECT_FINDING_NO_NVCC, source, line);
    checker->needs_build = true;
    struct af_span from = af_project_line(source->text, from_line);
    const char *text = af_project_text(checker->arena, from);
    const char *runtime = strstr(text, "-runtime");
    const char *tag = runtime != NULL ? runtime : strstr(text, "-base");
    if (tag == NULL)
        return;
    size_t at = (size_t)(from.data - source->text.data) + (size_t)(tag - text);
    size_t len = runtime != NULL ? strlen("-runtime") : strlen("-base");
    af_project_finding_edit(checker, finding, at, at + len, "-devel");
}

/* Whether the command takes wheels from elsewhere than an index, and so need not build. */
static bool has_wheels(const struct af_project_shell_command *command)
{
    static const char *const options[] = {"-f", "--find-links", "--no-index", "--only-binary"};
    for (size_t i = 0; command->words[i] != NULL; i++)
        for (size_t row = 0; row < AF_COUNT(options); row++)
            if (af_starts_with(command->words[i], options[row]))
                return true;
    return false;
}

/* The command builds `flash` without torch. A page also says what the build needs. */
static void add_bare(struct af_project_checker *checker, const struct af_project_source *source,
                     const struct af_project_shell_command *command, const char *flash,
                     bool has_torch)
{
    struct af_span line = af_project_line(source->text, command->line);
    size_t start = (size_t)(line.data - source->text.data);
    struct af_project_finding *finding =
        af_project_finding_add(checker, AF_PROJECT_FINDING_BARE_COMMAND, source, command->line);
    af_project_finding_edit(checker, finding, command->words_at, command->words_at,
                            " --no-build-isolation");
    checker->needs_build = true;
    if (source->kind != AF_PROJECT_README)
        return;
    if (!has_torch && !speaks_of_torch(checker, source, command->words_at))
        af_project_finding_edit(checker, finding, start, start,
                                af_arena_format(checker->arena, "%.*s %s\n",
                                                (int)(command->words_at - start), line.data,
                                                af_project_torch_word(checker)));
    struct af_project_edit section;
    if (source != checker->explained &&
        af_project_section(checker, source, command->words_at, flash, &section))
        af_project_finding_edit(checker, finding, section.start, section.end, section.text);
    checker->explained = source;
}

/* A command that builds flash-attn from source. */
static void check_build(struct af_project_checker *checker,
                        const struct af_project_source *source,
                        const struct af_project_shell_command *command, const char *flash,
                        const struct progress *progress)
{
    if (progress->has_nvcc == AF_NO) {
        add_no_nvcc(checker, source, command->line, progress->from_line);
        return;
    }
    if (command->is_isolated) {
        add_bare(checker, source, command, flash, progress->has_torch);
        return;
    }
    bool is_early =
        !progress->has_torch && !speaks_of_torch(checker, source, command->words_at);
    if (is_early && (source->kind == AF_PROJECT_DOCKERFILE ||
                     torch_comes_later(checker, source, command->words_at))) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_TORCH_AFTER, source, command->line);
        checker->needs_build = true;
    }
}

void af_project_check_commands(struct af_project_checker *checker,
                               const struct af_project_source *source)
{
    struct progress progress = {.has_nvcc = AF_UNKNOWN};
    struct af_project_shell_command command;
    size_t at = 0;
    while (af_project_shell_next(checker->arena, source, &at, &command)) {
        if (source->kind == AF_PROJECT_DOCKERFILE)
            read_image(checker, source, command.words_at, &progress);
        for (size_t i = 0; command.words[i] != NULL; i++) {
            if (text_has(command.words[i], "flash_attn-") && text_has(command.words[i], ".whl"))
                af_project_check_wheel(checker, source, command.line, command.words[i], NULL,
                                       NULL);
            else if (af_project_is_package(command.words[i], "flash-attn") &&
                     !has_wheels(&command))
                check_build(checker, source, &command, command.words[i], &progress);
        }
        progress.has_torch |= brings_torch(checker, &command);
    }
}
