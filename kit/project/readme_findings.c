/*
 * readme_findings.c: the section of a README that says what a build of flash-attn needs. Its
 * sources are the pinned versions, the tables of releases, and measured costs of a full build.
 */
#include "kit/project/findings_checker.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/compile/offer/offer.h"
#include "kit/project/project_wheels.h"

#define TITLE "Installing flash-attn"
#define JOBS 4 /* what the section proposes: compilers at once, each on a core */
#define GIB 1073741824.0
#define BLACKWELL_CUDA 13 /* the first CUDA of which every toolkit compiles for 10.0 and 12.0 */

/* What the project pins of torch or flash-attn; NULL: nothing. */
static const struct af_project_ask *pinned(const struct af_project_checker *checker,
                                           bool is_torch)
{
    const struct af_project_ask *ask = checker->asks.first;
    while (ask != NULL && (ask->is_torch != is_torch || ask->pinned == NULL))
        ask = ask->next;
    return ask;
}

const char *af_project_torch_word(struct af_project_checker *checker)
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

bool af_project_section(struct af_project_checker *checker,
                        const struct af_project_source *source, size_t after, const char *flash,
                        struct af_project_edit *edit_out)
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
                   af_ends_with(source->path, ".rst") ? "::" : ":",
                   af_project_torch_word(checker), JOBS, flash == NULL ? "" : flash,
                   at < source->text.len ? "\n" : "");
    *edit_out = (struct af_project_edit){at, at, af_project_take(checker, &out)};
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
            if (af_project_is_package(command.words[i], "flash-attn"))
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
        if (af_project_section(checker, page, place == 0 ? page->text.len : place, "flash-attn",
                               &checker->findings->section))
            checker->findings->page = page;
        return;
    }
}
