/*
 * command_findings.c: commands in Dockerfiles, scripts, notebooks and pages that build
 * flash-attn, or pin versions for which there is no wheel.
 */
#include "kit/project/checker.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/project_wheels.h"
#include "kit/project/requirements.h"

/* Whether the word of a command names the package (normalised): "flash_attn==2.8.3". */
static bool is_package(const char *word, const char *name)
{
    size_t len = strcspn(word, "=<>!~[ ;@");
    return af_name_is((struct af_span){word, len}, name);
}

/* What came before a command in its file. */
struct progress {
    size_t at;          /* the bytes before it were looked at */
    bool names_pytorch; /* "conda install pytorch" */
    bool names_torch;
    bool helps_nvcc;    /* it installs nvcc, or flash-attn without its CUDA code */
    bool has_torch;     /* a command installs it, or the image has it */
    struct af_span tag; /* ":24.01-py3" of the last "FROM image" of a Dockerfile */
    bool is_unisolated; /* a variable turns build isolation off */
    enum af_answer image_has_nvcc;
    size_t torch_at;   /* the last command of the file that installs torch */
    const char *torch; /* what the last command that pins it asks for: "==2.6.0"; NULL */
};

static bool text_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static bool span_has(struct af_span text, const char *part)
{
    return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

/* The image of a line "FROM [--platform=...] image [AS stage]", and its tag behind the ':'. */
static struct af_span image_of(struct af_span line, struct af_span *tag_out)
{
    size_t start = 5;
    while (start < line.len && (line.data[start] == ' ' || line.data[start] == '-')) {
        if (line.data[start] == '-')
            while (start < line.len && line.data[start] != ' ')
                start++;
        else
            start++;
    }
    size_t end = start, colon = 0;
    for (; end < line.len && strchr(" \t\r\n", line.data[end]) == NULL; end++)
        colon = line.data[end] == ':' ? end : line.data[end] == '/' ? 0 : colon;
    *tag_out =
        (struct af_span){line.data + (colon == 0 ? end : colon), colon == 0 ? 0 : end - colon};
    return (struct af_span){line.data + start, end - start};
}

/* Takes the last line "FROM image" of `text`, whole lines of a Dockerfile. */
static void read_image(struct af_span text, struct progress *progress)
{
    static const char *const without[] = {"python:", "ubuntu:", "debian:"};
    struct af_span line, from = {0};
    while (af_text_line(&text, &line))
        if (line.len > 5 && memcmp(line.data, "FROM ", 5) == 0)
            from = line;
    if (from.len == 0)
        return;
    struct af_span image = image_of(from, &progress->tag);
    progress->has_torch |= span_has(image, "pytorch");
    progress->image_has_nvcc =
        span_has(progress->tag, "-runtime") || span_has(progress->tag, "-base") ? AF_NO
                                                                                : AF_UNKNOWN;
    for (size_t i = 0; i < AF_COUNT(without); i++)
        if (image.len > strlen(without[i]) &&
            memcmp(image.data, without[i], strlen(without[i])) == 0)
            progress->image_has_nvcc = AF_NO;
    if (span_has(progress->tag, "-devel"))
        progress->image_has_nvcc = AF_YES;
}

/* Looks at the text up to byte `end`, which is behind the last call's. */
static void go_on(const struct af_project_source *source, size_t end, struct progress *progress)
{
    static const size_t word_bytes_max = 32;
    struct af_span text = source->text;
    size_t start = progress->at > word_bytes_max ? progress->at - word_bytes_max : 0;
    struct af_span made = {text.data + start, end - start};
    progress->names_pytorch |= span_has(made, "pytorch") || span_has(made, "PyTorch");
    progress->names_torch |= span_has(made, "torch");
    progress->helps_nvcc |= span_has(made, "FLASH_ATTENTION_SKIP_CUDA_BUILD") ||
                            span_has(made, "cuda-toolkit") || span_has(made, "nvcc");
    progress->is_unisolated |= span_has(made, "NO_BUILD_ISOLATION");
    const char *newline = memrchr(text.data + progress->at, '\n', end - progress->at);
    if (newline != NULL && source->kind == AF_PROJECT_DOCKERFILE) {
        struct af_span line = af_project_line(text, progress->at);
        read_image((struct af_span){line.data, (size_t)(newline - line.data)}, progress);
    }
    progress->at = end;
}

/* What was written before the command says that torch is there. */
static bool speaks_of_torch(const struct af_project_source *source,
                            const struct progress *progress)
{
    return progress->names_pytorch ||
           (source->kind == AF_PROJECT_README && progress->names_torch);
}

/* ".", ".[flash]": the project itself. */
static bool is_project(const char *word)
{
    return word[0] == '.' && (word[1] == '\0' || word[1] == '[' || word[1] == '/');
}

static bool brings_torch(struct af_project_checker *checker,
                         const struct af_project_shell_command *command)
{
    for (size_t i = 0; command->words[i] != NULL; i++) {
        const char *word = command->words[i];
        const size_t len = strcspn(word, "=<>!~[ ;@");
        if (is_package(word, "torch") || af_project_needs_torch((struct af_span){word, len}))
            return true;
        if (strcmp(word, "-r") == 0 && command->words[i + 1] != NULL &&
            af_project_brings_torch(&checker->asks, command->words[i + 1]))
            return true;
        if (is_project(word))
            return true;
    }
    return false;
}

/* The place of the file's last command that installs torch; 0: none does. */
static size_t last_torch(struct af_project_checker *checker,
                         const struct af_project_source *source)
{
    struct af_project_shell shell;
    struct af_project_shell_command command;
    size_t last = 0;
    af_project_shell_init(&shell, source);
    while (af_project_shell_next(&shell, &command))
        if (brings_torch(checker, &command))
            last = command.words_at;
    af_project_shell_release(&shell);
    return last;
}

static void add_no_nvcc(struct af_project_checker *checker,
                        const struct af_project_source *source, size_t at, struct af_span image)
{
    struct af_project_finding *finding =
        af_project_finding_add(checker, AF_PROJECT_FINDING_NO_NVCC, source, at);
    const char *runtime = memmem(image.data, image.len, "-runtime", strlen("-runtime"));
    const char *tag = runtime != NULL ? runtime : memmem(image.data, image.len, "-base", 5);
    if (tag == NULL)
        return;
    size_t start = (size_t)(tag - source->text.data);
    size_t len = runtime != NULL ? strlen("-runtime") : strlen("-base");
    af_project_finding_edit(checker, finding, start, start + len, "-devel");
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

/* The command builds flash-attn without torch. */
static void add_bare(struct af_project_checker *checker, const struct af_project_source *source,
                     const struct af_project_shell_command *command,
                     const struct progress *progress)
{
    struct af_project_finding *finding = af_project_finding_add(
        checker, AF_PROJECT_FINDING_BARE_COMMAND, source, command->words_at);
    /* If the command itself brings torch, it is not there yet. */
    if (!brings_torch(checker, command) && source->kind != AF_PROJECT_PYTHON)
        af_project_finding_edit(checker, finding, command->words_at, command->words_at,
                                " --no-build-isolation");
    if (progress->has_torch || speaks_of_torch(source, progress))
        finding->advice = "Build it with the torch that is installed.";
}

/* A command that builds flash-attn from source. */
static void check_build(struct af_project_checker *checker,
                        const struct af_project_source *source,
                        const struct af_project_shell_command *command,
                        const struct progress *progress)
{
    if (progress->image_has_nvcc == AF_NO && !progress->helps_nvcc) {
        add_no_nvcc(checker, source, command->words_at, progress->tag);
        return;
    }
    if (command->is_isolated && !progress->is_unisolated) {
        add_bare(checker, source, command, progress);
        return;
    }
    bool is_early = !progress->has_torch && !speaks_of_torch(source, progress);
    if (is_early &&
        (source->kind == AF_PROJECT_DOCKERFILE || progress->torch_at > command->words_at)) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_TORCH_AFTER, source,
                               command->words_at);
    }
}

/* The repository of flash-attn, from which an installer builds it. */
static bool is_repository(const char *word)
{
    return text_has(word, "git+") &&
           (text_has(word, "/flash-attention.git") || af_ends_with(word, "/flash-attention") ||
            text_has(word, "/flash-attention@"));
}

/* "flash-attn==2.3.6" of a command, as a requirement without a place in its file. */
static struct af_project_ask ask_of(struct af_project_checker *checker,
                                    const struct af_project_source *source, size_t at,
                                    const char *name, const char *specifier)
{
    return (struct af_project_ask){.root = source,
                                   .source = source,
                                   .at = at,
                                   .name = name,
                                   .specifier = specifier,
                                   .marker = "",
                                   .url = "",
                                   .is_torch = strcmp(name, "torch") == 0,
                                   .pinned =
                                       af_project_pinned_version(checker->arena, specifier)};
}

/* Whether the pins of the commands have no wheel: then nothing else is said of this one. */
static bool check_versions(struct af_project_checker *checker,
                           const struct af_project_source *source,
                           const struct af_project_shell_command *command, const char *word,
                           const struct progress *progress)
{
    const size_t len = strcspn(word, "=<>!~[ ;@");
    struct af_project_ask flash =
        ask_of(checker, source, command->words_at, "flash-attn",
               word[len] == '=' ? af_arena_text(checker->arena, word + len) : "");
    if (flash.pinned == NULL)
        return false;
    const struct af_project_ask *torch = af_project_torch_for(&checker->asks, &flash);
    struct af_project_ask here = ask_of(checker, source, command->words_at, "torch",
                                        progress->torch == NULL ? "" : progress->torch);
    if (progress->torch != NULL)
        torch = &here;
    return torch != NULL && af_project_check_pins(checker, &flash, torch);
}

/* "+cu118" of an index of torch's builds among the words, or "". */
static const char *build_of(struct af_project_checker *checker,
                            const struct af_project_shell_command *command)
{
    for (size_t i = 0; command->words[i] != NULL; i++) {
        const char *index = strstr(command->words[i], "/whl/cu");
        if (index != NULL)
            return af_arena_format(checker->arena, "+cu%.*s",
                                   (int)strspn(index + 7, "0123456789"), index + 7);
    }
    return "";
}

/* Notes the torch that the command pins, or that the project does which it installs. */
static void note_torch(struct af_project_checker *checker,
                       const struct af_project_source *source,
                       const struct af_project_shell_command *command,
                       struct progress *progress)
{
    const struct af_project_ask project = ask_of(checker, source, 0, "flash-attn", "");
    for (size_t i = 0; command->words[i] != NULL; i++) {
        const char *word = command->words[i];
        const size_t len = strcspn(word, "=<>!~[ ;@");
        if (is_package(word, "torch") && word[len] == '=') {
            const char *build = strchr(word, '+') == NULL ? build_of(checker, command) : "";
            progress->torch = af_arena_format(checker->arena, "%s%s", word + len, build);
        } else if (is_package(word, "torch")) {
            progress->torch = NULL;
        } else if (is_project(word)) {
            const struct af_project_ask *torch = af_project_torch_for(&checker->asks, &project);
            if (torch != NULL && torch->specifier[0] != '\0')
                progress->torch = torch->specifier;
        }
    }
}

/* One word of a command: a wheel, or flash-attn by its name or repository. True: it builds. */
static bool check_word(struct af_project_checker *checker,
                       const struct af_project_source *source,
                       const struct af_project_shell_command *command, const char *word,
                       const struct progress *progress)
{
    const bool is_wheel = text_has(word, "flash_attn-") && text_has(word, ".whl");
    if (is_wheel) {
        struct af_project_ask torch = ask_of(checker, source, command->words_at, "torch",
                                             progress->torch == NULL ? "" : progress->torch);
        af_project_check_wheel(checker, source, command->words_at, word, NULL,
                               torch.pinned == NULL ? NULL : &torch);
    } else if ((is_package(word, "flash-attn") || is_repository(word)) &&
               !has_wheels(command) &&
               !check_versions(checker, source, command, word, progress)) {
        check_build(checker, source, command, progress);
        return true;
    }
    return false;
}

void af_project_check_commands(struct af_project_checker *checker,
                               const struct af_project_source *source)
{
    struct progress progress = {.image_has_nvcc = AF_UNKNOWN,
                                .torch_at = last_torch(checker, source)};
    struct af_project_shell shell;
    struct af_project_shell_command command;
    af_project_shell_init(&shell, source);
    while (!af_project_is_stopped(checker) && af_project_shell_next(&shell, &command)) {
        go_on(source, command.words_at, &progress);
        note_torch(checker, source, &command, &progress);
        bool is_told = false; /* once a command */
        for (size_t i = 0;
             command.words[i] != NULL && !is_told && !af_project_is_stopped(checker); i++)
            is_told = check_word(checker, source, &command, command.words[i], &progress);
        progress.has_torch |= brings_torch(checker, &command);
    }
    af_project_shell_release(&shell);
}
