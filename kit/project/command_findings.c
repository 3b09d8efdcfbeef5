/*
 * command_findings.c: commands in Dockerfiles, scripts and pages that build flash-attn, and the
 * section of a README that says what a build needs. Its sources are the pinned versions, the
 * tables of releases, and measured costs of a full build.
 */
#include "kit/project/findings.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/fit/rung.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/project_wheels.h"

#define TITLE "Installing flash-attn"
#define JOBS 4 /* what the section proposes: compilers at once, each on a core */
#define GIB 1073741824.0
#define BLACKWELL_CUDA 13 /* the first CUDA of which every toolkit compiles for 10.0 and 12.0 */

/* ---- the section ---- */

/* Whether the word of a command names the package (normalised): "flash_attn==2.8.3". */
static bool is_package(const char *word, const char *name)
{
    size_t len = strcspn(word, "=<>!~[ ;@");
    return af_name_is((struct af_span){word, len}, name);
}

/* What the project pins of torch or flash-attn; NULL: nothing. */
static const struct af_project_ask *pinned(const struct af_project_checker *checker,
                                           bool is_torch)
{
    const struct af_project_ask *ask = checker->asks.first;
    while (ask != NULL && (ask->is_torch != is_torch || ask->pinned == NULL))
        ask = ask->next;
    return ask;
}

/* "torch==2.6.0", or "torch" if the project does not pin it. */
static const char *torch_word(struct af_project_checker *checker)
{
    const struct af_project_ask *torch = pinned(checker, true);
    if (torch == NULL)
        return "torch";
    /* "+cu124" is in no index that pip asks without being told. */
    return af_arena_format(checker->arena, "torch==%.*s", (int)strcspn(torch->pinned, "+"),
                           torch->pinned);
}

/* "the CUDA toolkit 12.4 with nvcc, and gcc up to version 13", for that torch. */
static void add_toolkit(struct af_text *out, const char *torch, int *cuda_out)
{
    const struct af_catalog_torch_variant *variant = af_project_usual_build(torch);
    const struct af_cuda_toolkit *toolkit =
        variant == NULL ? NULL : af_tables_cuda(variant->cuda_major, variant->cuda_minor);
    if (toolkit == NULL) {
        af_text_add(out, "- the CUDA toolkit with ``nvcc``, of the version that "
                         "``torch.version.cuda`` has, and a C++ compiler\n");
        return;
    }
    *cuda_out = toolkit->cuda_major;
    af_text_format(out, "- the CUDA toolkit %s with ``nvcc``", toolkit->cuda);
    if (toolkit->gcc_max > 0)
        af_text_format(out, ", and gcc up to version %d", toolkit->gcc_max);
    af_text_add(out, "\n");
}

/* What compiling all kernels costs for the GPUs that the toolkit knows. */
static void add_costs(struct af_text *out, int cuda)
{
    int targets = cuda >= BLACKWELL_CUDA ? 4 : 2; /* 8.0, 9.0, 10.0 and 12.0 */
    double each = (double)AF_RUNG_UPSTREAM_JOB_BYTES / GIB;
    af_text_format(
        out,
        "- %.0f GiB of memory: %d compilers at once need up to %.0f GiB each; %.0f GiB "
        "of disk\n",
        JOBS * each + 1, JOBS, each + 0.5, (double)AF_RUNG_UPSTREAM_DISK_BYTES / GIB * targets);
    af_text_format(out, "- about %.1f hours with %d cores\n",
                   AF_RUNG_UPSTREAM_CPU_SECONDS * targets / JOBS / 3600, JOBS);
}

/* Whether a heading starts at `at`: of Markdown, or underlined, as in both formats. */
static bool is_heading(struct af_span text, size_t at)
{
    struct af_span rest = {text.data + at, text.len - at}, line, below;
    if (!af_text_line(&rest, &line) || line.len == 0)
        return false;
    if (line.data[0] == '#')
        return true;
    bool has_below = af_text_line(&rest, &below) && below.len >= 3 &&
                     strchr("=-~^*", below.data[0]) != NULL && line.data[0] != below.data[0];
    for (size_t i = 1; has_below && i < below.len && below.data[i] != '\r'; i++)
        has_below = below.data[i] == below.data[0];
    return has_below;
}

/* The end of the section of the page that has the byte `at`; what is in a code block counts. */
static size_t section_end(struct af_span text, size_t at)
{
    bool in_code = false;
    for (size_t i = 0; i < text.len;) {
        struct af_span line =
            af_text_trim((struct af_span){text.data + i, strcspn(text.data + i, "\n")});
        bool is_fence = line.len >= 3 &&
                        (memcmp(line.data, "```", 3) == 0 || memcmp(line.data, "~~~", 3) == 0);
        if (i > at && !in_code && is_heading(text, i))
            return i;
        in_code ^= is_fence;
        i += strcspn(text.data + i, "\n") + 1;
    }
    return text.len;
}

/*
 * The section of a page that says what a build of `flash` ("flash-attn==2.8.3") needs, behind
 * the section with the byte `after`. False if the page has it.
 */
static bool make_section(struct af_project_checker *checker,
                         const struct af_project_source *source, size_t after,
                         const char *flash, struct af_project_edit *edit_out)
{
    const struct af_project_ask *torch = pinned(checker, true), *ask = pinned(checker, false);
    const char *page = af_project_text(checker->arena, source->text);
    struct af_text out = {0};
    int cuda = 0;
    if (strstr(page, TITLE) != NULL)
        return false;
    if (ask != NULL && flash[strcspn(flash, "=<>!~ @")] == '\0')
        flash = af_arena_format(checker->arena, "%s==%s", flash, ask->pinned);
    size_t at = section_end((struct af_span){page, strlen(page)}, after);
    bool ends = at > 0 && page[at - 1] == '\n';
    bool has_gap = at > 1 && ends && page[at - 2] == '\n';
    af_text_format(&out, "%s%s%s\n%.*s\n\n", ends ? "" : "\n", has_gap ? "" : "\n", TITLE,
                   (int)strlen(TITLE), "------------------------");
    af_text_add(&out, "If no wheel fits, flash-attn is compiled. That needs:\n\n"
                      "- Linux, and an NVIDIA GPU of compute capability 8.0 or newer, from the "
                      "A100 and\n  the RTX 30 series on\n");
    af_text_format(&out, "- torch%s%s, installed before flash-attn\n", torch == NULL ? "" : " ",
                   torch == NULL ? "" : torch->pinned);
    add_toolkit(&out, torch == NULL ? NULL : torch->pinned, &cuda);
    add_costs(&out, cuda);
    af_text_format(&out,
                   "\nIn this order%s\n\n"
                   "    pip install %s\n"
                   "    pip install setuptools wheel packaging psutil ninja\n"
                   "    MAX_JOBS=%d pip install %s --no-build-isolation\n%s",
                   af_ends_with(source->path, ".rst") ? "::" : ":", torch_word(checker), JOBS,
                   flash == NULL ? "" : flash, at < source->text.len ? "\n" : "");
    *edit_out = (struct af_project_edit){at, at, af_text_take(&out, checker->arena)};
    return true;
}

/* Where the page installs flash-attn, or anything; 0: nowhere. */
static size_t install_place(struct af_project_checker *checker,
                            const struct af_project_source *page)
{
    struct af_project_shell shell;
    struct af_project_shell_command command;
    size_t first = 0, found = 0;
    af_project_shell_init(&shell, page);
    while (found == 0 && af_project_shell_next(&shell, &command)) {
        first = first == 0 ? command.words_at : first;
        for (size_t i = 0; command.words[i] != NULL; i++)
            if (is_package(command.words[i], "flash-attn"))
                found = command.words_at;
    }
    af_project_shell_release(&shell, checker->arena);
    return found == 0 ? first : found;
}

void af_project_explain_build(struct af_project_checker *checker)
{
    for (size_t i = 0; i < checker->count; i++) {
        const struct af_project_source *page = &checker->sources[i];
        if (page->kind != AF_PROJECT_README ||
            strncasecmp(af_path_name(page->path), "readme", strlen("readme")) != 0)
            continue;
        size_t place = install_place(checker, page);
        if (make_section(checker, page, place == 0 ? page->text.len : place, "flash-attn",
                         &checker->findings->section))
            checker->findings->page = page;
        return;
    }
}

/* ---- commands ---- */

/* What came before a command in its file. */
struct progress {
    size_t at;          /* the bytes before it were looked at */
    bool names_pytorch; /* "conda install pytorch" */
    bool names_torch;
    bool helps_nvcc;     /* it installs nvcc, or flash-attn without its CUDA code */
    bool has_torch;      /* a command installs it, or the image has it */
    struct af_span from; /* the last "FROM image" of a Dockerfile */
    enum af_answer image_has_nvcc;
    size_t torch_at; /* the last command of the file that installs torch */
    size_t line_end; /* of the last line that got a finding */
};

static bool text_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static bool span_has(struct af_span text, const char *part)
{
    return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

/* Takes the last line "FROM image" of `text`, whole lines of a Dockerfile. */
static void read_image(struct af_span text, struct progress *progress)
{
    static const char *const without[] = {"-runtime", "-base",
                                          " python:", " ubuntu:", " debian:"};
    struct af_span line, from = {0};
    while (af_text_line(&text, &line))
        if (line.len >= 5 && memcmp(line.data, "FROM ", 5) == 0)
            from = line;
    if (from.len == 0)
        return;
    progress->from = from;
    progress->has_torch |= span_has(from, "pytorch");
    progress->image_has_nvcc = AF_UNKNOWN;
    for (size_t i = 0; i < AF_COUNT(without); i++)
        if (span_has(from, without[i]))
            progress->image_has_nvcc = AF_NO;
    if (span_has(from, "-devel"))
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

static bool brings_torch(struct af_project_checker *checker,
                         const struct af_project_shell_command *command)
{
    for (size_t i = 0; command->words[i] != NULL; i++) {
        const char *word = command->words[i];
        if (is_package(word, "torch"))
            return true;
        if (strcmp(word, "-r") == 0 && command->words[i + 1] != NULL &&
            af_project_brings_torch(&checker->asks, command->words[i + 1]))
            return true;
        if (word[0] == '.' && (word[1] == '\0' || word[1] == '[' || word[1] == '/'))
            return true; /* the project itself */
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
    af_project_shell_release(&shell, checker->arena);
    return last;
}

static void add_no_nvcc(struct af_project_checker *checker,
                        const struct af_project_source *source, size_t at, struct af_span from)
{
    struct af_project_finding *finding =
        af_project_finding_add(checker, AF_PROJECT_FINDING_NO_NVCC, source, at);
    checker->needs_build = true;
    const char *runtime = memmem(from.data, from.len, "-runtime", strlen("-runtime"));
    const char *tag = runtime != NULL ? runtime : memmem(from.data, from.len, "-base", 5);
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

/* The command builds `flash` without torch. A page also says what the build needs. */
static void add_bare(struct af_project_checker *checker, const struct af_project_source *source,
                     const struct af_project_shell_command *command, const char *flash,
                     struct progress *progress)
{
    struct af_span line = af_project_line(source->text, command->words_at);
    size_t start = (size_t)(line.data - source->text.data);
    struct af_project_finding *finding = af_project_finding_add(
        checker, AF_PROJECT_FINDING_BARE_COMMAND, source, command->words_at);
    af_project_finding_edit(checker, finding, command->words_at, command->words_at,
                            " --no-build-isolation");
    checker->needs_build = true;
    if (source->kind != AF_PROJECT_README)
        return;
    bool is_first = start >= progress->line_end; /* the line has no command before it */
    if (is_first && !progress->has_torch && !speaks_of_torch(source, progress))
        af_project_finding_edit(checker, finding, start, start,
                                af_arena_format(checker->arena, "%.*s %s\n",
                                                (int)(command->words_at - start), line.data,
                                                torch_word(checker)));
    progress->line_end = start + line.len;
    struct af_project_edit section;
    if (source != checker->explained &&
        make_section(checker, source, command->words_at, flash, &section))
        af_project_finding_edit(checker, finding, section.start, section.end, section.text);
    checker->explained = source;
}

/* A command that builds flash-attn from source. */
static void check_build(struct af_project_checker *checker,
                        const struct af_project_source *source,
                        const struct af_project_shell_command *command, const char *flash,
                        struct progress *progress)
{
    if (progress->image_has_nvcc == AF_NO && !progress->helps_nvcc) {
        add_no_nvcc(checker, source, command->words_at, progress->from);
        return;
    }
    if (command->is_isolated) {
        add_bare(checker, source, command, flash, progress);
        return;
    }
    bool is_early = !progress->has_torch && !speaks_of_torch(source, progress);
    if (is_early &&
        (source->kind == AF_PROJECT_DOCKERFILE || progress->torch_at > command->words_at)) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_TORCH_AFTER, source,
                               command->words_at);
        checker->needs_build = true;
    }
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
        bool builds = !has_wheels(&command);
        for (size_t i = 0; command.words[i] != NULL && !af_project_is_stopped(checker); i++) {
            if (text_has(command.words[i], "flash_attn-") && text_has(command.words[i], ".whl"))
                af_project_check_wheel(checker, source, command.words_at, command.words[i],
                                       NULL, NULL);
            else if (builds && is_package(command.words[i], "flash-attn"))
                check_build(checker, source, &command, command.words[i], &progress);
        }
        progress.has_torch |= brings_torch(checker, &command);
    }
    af_project_shell_release(&shell, checker->arena);
}
