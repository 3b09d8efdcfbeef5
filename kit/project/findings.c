/*
 * findings.c: adds findings and their changes, and has each source checked.
 */
#include "kit/project/checker.h"

#include <string.h>

#define AF_PROJECT_FINDING(id, name, weight, title, why, fix) {name, weight, title, why, fix},
const struct af_project_finding_row af_project_finding_rows[] = {
#include "kit/project/findings.inc"
};
#undef AF_PROJECT_FINDING

#define SUBJECT_BYTES_MAX 512
#define IGNORED_BYTES_MAX 4096u /* of a line, in which "anyflash: ignore" is looked for */

/* The number of the line with byte `at`. Counts from the last finding on, if it can. */
static size_t number_line(struct af_project_checker *checker,
                          const struct af_project_source *source, size_t at)
{
    if (checker->counted != source || at < checker->counted_at) {
        checker->counted = source;
        checker->counted_at = 0;
        checker->counted_line = 1;
    }
    checker->counted_line += af_project_lines_between(source->text, checker->counted_at, at);
    checker->counted_at = at;
    return checker->counted_line;
}

bool af_project_is_stopped(const struct af_project_checker *checker)
{
    return checker->findings->limit != AF_PROJECT_LIMIT_NONE || checker->wheels->is_full;
}

struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t at)
{
    static const char ignore[] = "anyflash: ignore";
    struct af_project_finding *finding = NULL;
    struct af_span line = af_text_trim(af_project_line(source->text, at));
    bool is_ignored =
        memmem(line.data, line.len < IGNORED_BYTES_MAX ? line.len : IGNORED_BYTES_MAX, ignore,
               sizeof ignore - 1) != NULL;
    for (size_t i = 0; i < checker->options->ignored_count; i++)
        is_ignored |=
            strcmp(checker->options->ignored[i], af_project_finding_rows[id].name) == 0;
    checker->findings->ignored_count += is_ignored;
    if (checker->findings->count >= AF_PROJECT_FINDINGS_MAX)
        checker->findings->limit = AF_PROJECT_LIMIT_FINDINGS;
    else if (!is_ignored)
        finding = af_arena_alloc(checker->arena, sizeof *finding);
    if (finding == NULL) {
        checker->spare = (struct af_project_finding){.id = id, .source = source};
        return &checker->spare;
    }
    line.len = line.len < SUBJECT_BYTES_MAX ? line.len : SUBJECT_BYTES_MAX;
    *finding = (struct af_project_finding){.id = id,
                                           .source = source,
                                           .line = number_line(checker, source, at),
                                           .subject = af_project_text(checker->arena, line)};
    if (checker->listed != source)
        checker->start = checker->end;
    checker->listed = source;
    struct af_project_finding **place = checker->start;
    while (*place != NULL && (*place)->line <= finding->line)
        place = &(*place)->next;
    finding->next = *place;
    *place = finding;
    if (finding->next == NULL)
        checker->end = &finding->next;
    checker->findings->count++;
    checker->findings->error_count += af_project_finding_rows[id].weight > 1;
    return finding;
}

/* The text with the line ends that the first line of the file has. */
static const char *with_line_ends(struct af_project_checker *checker, struct af_span file,
                                  const char *text)
{
    const char *newline = file.len == 0 ? NULL : memchr(file.data, '\n', file.len);
    struct af_text made = {0};
    if (newline == NULL || newline == file.data || newline[-1] != '\r')
        return text;
    for (; *text != '\0'; text++) {
        af_text_add(&made, *text == '\n' ? "\r" : "");
        af_text_add_n(&made, text, 1);
    }
    return af_text_take(&made, checker->arena);
}

void af_project_finding_edit(struct af_project_checker *checker,
                             struct af_project_finding *finding, size_t start, size_t end,
                             const char *text)
{
    const char *path = finding->source->path;
    if (path[strcspn(path, "\n\r\t\"\\")] != '\0')
        return; /* no patch could name the file */
    if (finding->edits == NULL)
        finding->edits = af_arena_array(checker->arena, AF_PROJECT_FINDING_EDITS_MAX,
                                        sizeof *finding->edits);
    if (finding->edit_count < AF_PROJECT_FINDING_EDITS_MAX)
        finding->edits[finding->edit_count++] = (struct af_project_edit){
            start, end, with_line_ends(checker, finding->source->text, text)};
}

/* ---- all ---- */

/* Whether the source is of a package flash_attn, as flash-attn's own are. */
static bool is_own(const char *path)
{
    static const char own[] = "flash_attn/__init__.py";
    size_t len = strlen(path);
    return af_ends_with(path, own) && (len == sizeof own - 1 || path[len - sizeof own] == '/');
}

static void note_mentions(struct af_project_checker *checker)
{
    for (const struct af_project_ask *ask = checker->asks.first; ask != NULL; ask = ask->next)
        checker->has_torch |= ask->is_torch && ask->source->kind != AF_PROJECT_PYTHON;
    for (size_t i = 0; i < checker->count; i++) {
        checker->has_torch |= checker->asks.stated[i].brings_torch;
        bool is_python = checker->sources[i].kind == AF_PROJECT_PYTHON;
        checker->has_python |= is_python;
        checker->is_flash_attn |= is_own(checker->sources[i].path);
        checker->is_mentioned |= is_python && checker->asks.stated[i].python.mentions;
        struct af_span text = checker->sources[i].text;
        bool names = memmem(text.data, text.len, "flash_attn", 10) != NULL ||
                     memmem(text.data, text.len, "flash-attn", 10) != NULL;
        checker->findings->mention_count += names;
    }
}

static void check_source(struct af_project_checker *checker, size_t i)
{
    const struct af_project_source *source = &checker->sources[i];
    const struct af_project_ask *ask = checker->asks.first;
    for (; ask != NULL && !af_project_is_stopped(checker); ask = ask->next)
        if (ask->source == source && !ask->is_torch)
            af_project_check_requirement(checker, ask);
    if (source->kind == AF_PROJECT_PYTHON) {
        af_project_check_imports(checker, source, &checker->asks.stated[i].python);
        if (!af_project_is_aside(source->path))
            af_project_check_commands(checker, source);
    }
    if (source->kind == AF_PROJECT_DOCKERFILE || source->kind == AF_PROJECT_SCRIPT ||
        source->kind == AF_PROJECT_README || source->kind == AF_PROJECT_NOTEBOOK)
        af_project_check_commands(checker, source);
}

void af_project_find(struct af_arena *arena, const struct af_project_source *sources,
                     size_t count, struct af_project_wheels *wheels,
                     const struct af_project_options *options,
                     struct af_project_findings *findings_out, struct af_project_asks *asks_out)
{
    struct af_project_checker checker = {.arena = arena,
                                         .sources = sources,
                                         .count = count,
                                         .wheels = wheels,
                                         .options = options,
                                         .findings = findings_out,
                                         .end = &findings_out->first};
    *findings_out = (struct af_project_findings){0};
    af_project_asks_read(arena, sources, count, &checker.asks);
    note_mentions(&checker);
    checker.is_needed = af_project_code_needs(&checker);
    for (size_t i = 0; i < count && !af_project_is_stopped(&checker); i++)
        check_source(&checker, i);
    if (findings_out->limit == AF_PROJECT_LIMIT_NONE)
        findings_out->limit = wheels->is_full ? AF_PROJECT_LIMIT_LOOKUPS : checker.asks.limit;
    *asks_out = checker.asks;
}

static bool is_wanted(const struct af_project_options *options,
                      const struct af_project_source *source)
{
    for (size_t i = 0; i < options->only_count; i++)
        if (strcmp(options->only[i], source->path) == 0)
            return true;
    return options->only_count == 0;
}

/* Takes back the changes of other files than those that are wanted: they will not be made. */
static void drop_changes(struct af_project_findings *findings,
                         const struct af_project_options *options)
{
    for (struct af_project_finding *at = findings->first; at != NULL; at = at->next)
        if (!is_wanted(options, at->source))
            at->edit_count = 0;
}

/* Leaves out the findings in other files. */
static void drop_findings(struct af_project_findings *findings,
                          const struct af_project_options *options)
{
    struct af_project_finding **end = &findings->first;
    for (struct af_project_finding *at = findings->first; at != NULL; at = at->next) {
        if (is_wanted(options, at->source)) {
            *end = at;
            end = &at->next;
            continue;
        }
        findings->count--;
        findings->error_count -= af_project_finding_rows[at->id].weight > 1;
    }
    *end = NULL;
}

void af_project_findings_make(struct af_arena *arena, const struct af_project_source *sources,
                              size_t count, const struct af_catalog *catalog,
                              const struct af_project_options *options,
                              struct af_project_findings *findings_out)
{
    struct af_project_wheels wheels = {.catalog = catalog, .arena = arena};
    struct af_project_asks asks;
    af_project_find(arena, sources, count, &wheels, options, findings_out, &asks);
    drop_changes(findings_out, options);
    af_project_try_changes(findings_out, sources, count, &wheels, options, &asks);
    drop_findings(findings_out, options);
}

size_t af_project_findings_edits(const struct af_project_findings *findings,
                                 const struct af_project_source *source, struct af_arena *arena,
                                 const struct af_project_edit **edits_out)
{
    size_t count = 0;
    const struct af_project_finding *at = findings->first;
    for (; at != NULL; at = at->next)
        count += at->source == source ? at->edit_count : 0;
    struct af_project_edit *edits = af_arena_array(arena, count + 1, sizeof *edits);
    *edits_out = edits;
    count = 0;
    for (at = findings->first; at != NULL; at = at->next)
        for (size_t i = 0; at->source == source && i < at->edit_count; i++)
            edits[count++] = at->edits[i];
    return af_project_edits_order(edits, count);
}
