/*
 * command_findings.c: commands in Dockerfiles, scripts and pages that build flash-attn, and the
 * section of a README that says what a build needs. Its sources are the pinned versions, the
 * tables of releases, and measured costs of a full build.
 */
#include "kit/project/findings.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/compile/offer/offer.h"
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
static void add_costs(struct af_text *out, struct af_arena *arena, int cuda)
{
    static const int archs[] = {80, 90, 100, 120};
    struct af_selection selection = {0};
    size_t count = cuda >= BLACKWELL_CUDA ? AF_COUNT(archs) : 2;
    af_selection_all(&selection);
    for (size_t i = 0; i < count; i++)
        af_selection_add_arch(&selection, archs[i]);
    struct af_offer_build_needs needs = af_offer_build_needs_of(&selection, JOBS, 0, false);
    af_text_format(
        out,
        "- %.0f GiB of memory: %d compilers at once need up to %.0f GiB each; %.0f GiB "
        "of disk\n",
        (double)needs.memory_bytes / GIB + 0.5, JOBS, (double)needs.peak_bytes / GIB + 0.5,
        (double)needs.disk_bytes / GIB + 1);
    af_text_format(out, "- %s with %d cores\n", af_offer_build_time_text(arena, &needs), JOBS);
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
    add_costs(&out, checker->arena, cuda);
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
    struct af_project_shell_command command;
    size_t at = 0, found = 0;
    while (af_project_shell_next(checker->arena, page, &at, &command)) {
        found = found == 0 ? command.words_at : found;
        for (size_t i = 0; command.words[i] != NULL; i++)
            if (is_package(command.words[i], "flash-attn"))
                return command.words_at;
    }
    return found;
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
    bool has_torch;
    enum af_answer has_nvcc; /* of a Dockerfile's image */
    size_t from_line;        /* of the image */
};

static bool text_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
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
                                                torch_word(checker)));
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
            else if (is_package(command.words[i], "flash-attn") && !has_wheels(&command))
                check_build(checker, source, &command, command.words[i], &progress);
        }
        progress.has_torch |= brings_torch(checker, &command);
    }
}
