/*
 * project_source.c: kinds of files by their names, commands by their words, and edits with
 * their unified diff, which is made from the edits: the lines that they touch are removed, and
 * added as they are afterwards.
 */
#include "kit/project/project_source.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "kit/base/sort.h"
#include "kit/base/text.h"

#define COMMAND_WORDS_MAX 256
#define CONTEXT_LINES 2

enum af_project_kind af_project_kind_of(const char *path)
{
    static const struct {
        const char *name;
        enum af_project_kind kind;
    } names[] = {{"pyproject.toml", AF_PROJECT_PYPROJECT},
                 {"pixi.toml", AF_PROJECT_PIXI},
                 {"setup.cfg", AF_PROJECT_SETUP_CFG},
                 {"setup.py", AF_PROJECT_SETUP}};
    const char *name = af_path_name(path);
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (strcmp(name, names[i].name) == 0)
            return names[i].kind;
    bool is_text = af_ends_with(name, ".txt") || af_ends_with(name, ".in");
    if (is_text &&
        (strstr(name, "requirement") != NULL || af_starts_with(path, "requirements/") ||
         strstr(path, "/requirements/") != NULL))
        return AF_PROJECT_REQUIREMENTS;
    bool is_yaml = af_ends_with(name, ".yml") || af_ends_with(name, ".yaml");
    if (is_yaml && path[0] != '.' &&
        (strstr(name, "env") != NULL || strstr(name, "conda") != NULL ||
         strstr(name, "requirement") != NULL))
        return AF_PROJECT_CONDA;
    if (af_ends_with(name, ".py"))
        return AF_PROJECT_PYTHON;
    if (af_starts_with(name, "Dockerfile") || af_ends_with(name, ".Dockerfile") ||
        af_ends_with(name, ".dockerfile"))
        return AF_PROJECT_DOCKERFILE;
    if (af_ends_with(name, ".sh") || (is_yaml && af_starts_with(path, ".github/workflows/")))
        return AF_PROJECT_SCRIPT;
    bool is_page = af_ends_with(name, ".md") || af_ends_with(name, ".rst");
    return is_page && (name == path || strncasecmp(name, "readme", 6) == 0 ||
                       strncasecmp(name, "install", 7) == 0)
               ? AF_PROJECT_README
               : AF_PROJECT_OTHER;
}

const char *af_project_text(struct af_arena *arena, struct af_span span)
{
    const char *text = span.len == 0 ? "" : af_arena_text_n(arena, span.data, span.len);
    return text == NULL ? "" : text;
}

struct af_span af_project_line(struct af_span text, size_t line)
{
    size_t start = 0;
    for (; line > 1 && start < text.len; start++)
        line -= text.data[start] == '\n';
    const char *end =
        start < text.len ? memchr(text.data + start, '\n', text.len - start) : NULL;
    return (struct af_span){text.data + start, end == NULL
                                                   ? text.len - start
                                                   : (size_t)(end - text.data) + 1 - start};
}

size_t af_project_line_of(struct af_span text, size_t at)
{
    size_t line = 1;
    for (size_t i = 0; i < at && i < text.len; i++)
        line += text.data[i] == '\n';
    return line;
}

/* The end of the line at `at`; a line that ends in a backslash goes on. */
static size_t end_of_line(struct af_span text, size_t at)
{
    while (at < text.len && text.data[at] != '\n') {
        bool joins = text.data[at] == '\\' && at + 1 < text.len;
        if (joins && text.data[at + 1] == '\r' && at + 2 < text.len)
            at++;
        at += joins ? 2 : 1;
    }
    return at < text.len ? at : text.len;
}

/* What separates words, with the backslash of a joined line. */
static bool is_blank(char letter)
{
    return letter != '\0' && strchr(" \t\r\f\n\\", letter) != NULL;
}

/* Whether the byte at `at` is between words: a blank, or part of a joined line's end. */
static bool is_between(struct af_span text, size_t at)
{
    char next = at + 1 < text.len ? text.data[at + 1] : '\0';
    return text.data[at] == '\\' ? next == '\n' || next == '\r' : is_blank(text.data[at]);
}

const char *af_project_next_word(struct af_arena *arena, struct af_span *rest, const char *ends)
{
    size_t at = 0, len = 0;
    char quote = '\0';
    while (at < rest->len && is_between(*rest, at))
        at++;
    *rest = (struct af_span){rest->data + at, rest->len - at};
    if (rest->len == 0 || strchr(ends, rest->data[0]) != NULL)
        return NULL;
    char *word = af_arena_alloc(arena, rest->len + 1);
    if (word == NULL)
        return NULL;
    for (at = 0; at < rest->len; at++) {
        char letter = rest->data[at];
        if (quote == '\0' &&
            (is_between(*rest, at) || (strchr(ends, letter) != NULL && letter != '#')))
            break;
        if (letter == quote && quote != '\0')
            quote = '\0';
        else if (quote == '\0' && (letter == '"' || letter == '\''))
            quote = letter;
        else if (letter == '\\' && quote != '\'' && at + 1 < rest->len)
            word[len++] = rest->data[++at];
        else
            word[len++] = letter;
    }
    *rest = (struct af_span){rest->data + at, rest->len - at};
    return word;
}

static const struct option_row {
    const char *names; /* with a blank on either side */
    enum af_project_meaning meaning;
    bool flag; /* takes no value */
} option_rows[] = {
    {" --requirement --requirements -r ", AF_PROJECT_MEANS_FILE, false},
    {" --constraint --constraints -c ", AF_PROJECT_MEANS_CONSTRAINT, false},
    {" --editable -e ", AF_PROJECT_MEANS_EDITABLE, false},
    {" --hash ", AF_PROJECT_MEANS_HASH, false},
    {" --index-url -i --extra-index-url --index --default-index --torch-backend --find-links "
     "-f ",
     AF_PROJECT_MEANS_INDEX, false},
    {" --no-binary ", AF_PROJECT_MEANS_NO_BINARY, false},
    {" --group ", AF_PROJECT_MEANS_GROUP, false},
    {" --python -p ", AF_PROJECT_MEANS_PYTHON, false},
    {" --target -t --prefix --root --platform --python-platform --python-version ",
     AF_PROJECT_MEANS_ELSEWHERE, false},
    {" --user ", AF_PROJECT_MEANS_ELSEWHERE, true},
    {" --only-binary --implementation --abi --src --upgrade-strategy -C --config-settings "
     "--config-setting --global-option --progress-bar --log --proxy --retries --timeout "
     "--exists-action --trusted-host --cert --client-cert --cache-dir --use-feature "
     "--use-deprecated --report -b --build-constraint --build-constraints --override "
     "--overrides --exclude-newer --resolution --prerelease --index-strategy "
     "--keyring-provider --link-mode -P --upgrade-package --reinstall-package "
     "--refresh-package --no-build-isolation-package --no-build-package --no-binary-package "
     "--config-file --directory --project --color --allow-insecure-host --extra ",
     AF_PROJECT_MEANS_NOTHING, false},
};

bool af_project_words_have(const char *list, struct af_span word)
{
    for (const char *at = list; (at = strchr(at, ' ')) != NULL; at++)
        if (word.len > 0 && strncmp(at + 1, word.data, word.len) == 0 &&
            at[1 + word.len] == ' ')
            return true;
    return false;
}

bool af_project_option_parse(const char *word, struct af_project_option_word *option_out)
{
    *option_out = (struct af_project_option_word){.name = {word, 0}};
    if (word[0] != '-' || word[1] == '\0')
        return false;
    size_t len = word[1] == '-' ? strcspn(word, "=") : 2;
    option_out->name.len = len;
    if (word[len] != '\0')
        option_out->value = word + len + (word[len] == '=');
    for (size_t i = 0; i < AF_COUNT(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        if (!af_project_words_have(row->names, option_out->name))
            continue;
        option_out->meaning = row->meaning;
        return option_out->value == NULL && !row->flag;
    }
    return false;
}

/* What ends a command: "a && b", "a; b", "a | b", "(a)", "`a`"; '#' only before a word. */
static const char command_ends[] = ";&|`)#";

/* Whether a line of a page is a command, and no sentence that mentions one. */
static bool begins_command(struct af_span start)
{
    static const char *const words[] = {"uv", "python", "python3", "-m", "sudo", "!",
                                        "$",  "%",      ">",       "-",  "*",    "RUN"};
    while ((start = af_text_trim(start)).len > 0) {
        size_t len = 0, row = 0;
        while (len < start.len && !is_blank(start.data[len]) && start.data[0] != '!')
            len++;
        len += start.data[0] == '!';
        while (row < AF_COUNT(words) &&
               !af_text_span_equal((struct af_span){start.data, len}, words[row]))
            row++;
        if (row == AF_COUNT(words))
            return false;
        start = (struct af_span){start.data + len, start.len - len};
    }
    return true;
}

/* Where "pip install" or "pip3 install" ends in `line`, or 0. */
static size_t find_install(struct af_span line, bool is_page)
{
    static const char install[] = "install";
    for (size_t i = 0; i + 3 <= line.len; i++) {
        if (is_page && line.data[i] == 'p' && !begins_command((struct af_span){line.data, i}))
            return 0;
        if (memcmp(line.data + i, "pip", 3) != 0 ||
            (i > 0 && (isalnum((unsigned char)line.data[i - 1]) || line.data[i - 1] == '_')))
            continue;
        size_t at = i + 3;
        while (at < line.len && (isdigit((unsigned char)line.data[at]) || line.data[at] == '.'))
            at++;
        if (at == line.len || !is_blank(line.data[at]))
            continue;
        while (at < line.len && is_blank(line.data[at]))
            at++;
        if (line.len - at >= sizeof install - 1 &&
            memcmp(line.data + at, install, sizeof install - 1) == 0)
            return at + sizeof install - 1;
    }
    return 0;
}

/* Whether the line at `start` is a comment. A heading of a page is none. */
static bool is_comment(const struct af_project_source *source, size_t start)
{
    while (start < source->text.len && is_blank(source->text.data[start]))
        start++;
    return start < source->text.len && source->text.data[start] == '#';
}

bool af_project_shell_next(struct af_arena *arena, const struct af_project_source *source,
                           size_t *at, struct af_project_shell_command *command_out)
{
    while (*at < source->text.len) {
        size_t end = end_of_line(source->text, *at);
        struct af_span line = {source->text.data + *at, end - *at};
        bool is_start = *at == 0 || source->text.data[*at - 1] == '\n';
        size_t found = is_start && is_comment(source, *at)
                           ? 0
                           : find_install(line, source->kind == AF_PROJECT_README && is_start);
        if (found == 0) {
            *at = end + 1;
            continue;
        }
        *command_out = (struct af_project_shell_command){
            .line = af_project_line_of(source->text, *at + found),
            .words_at = *at + found,
            .is_isolated = true};
        const char **words = af_arena_array(arena, COMMAND_WORDS_MAX + 1, sizeof *words);
        struct af_span rest = {line.data + found, line.len - found};
        size_t count = 0;
        while (words != NULL && count < COMMAND_WORDS_MAX &&
               (words[count] = af_project_next_word(arena, &rest, command_ends)) != NULL)
            if (strcmp(words[count++], "--no-build-isolation") == 0)
                command_out->is_isolated = false;
        command_out->words = words;
        bool is_remark = rest.len > 0 && rest.data[0] == '#';
        *at = is_remark ? end : end - rest.len;
        return words != NULL && !arena->failed;
    }
    return false;
}

/* ---- changes ---- */

static int compare_edits(const void *a, const void *b, const void *context)
{
    const struct af_project_edit *left = a, *right = b;
    (void)context;
    return (left->start > right->start) - (left->start < right->start);
}

size_t af_project_edits_order(struct af_project_edit *edits, size_t count)
{
    size_t kept = 0, end = 0;
    af_sort(edits, count, sizeof *edits, compare_edits, NULL);
    for (size_t i = 0; i < count; i++) {
        if (edits[i].start < end)
            continue;
        end = edits[i].end;
        edits[kept++] = edits[i];
    }
    return kept;
}

/* Appends the bytes of `old` from `start` to `end` with the edits, which are all in there. */
static void apply(struct af_span old, size_t start, size_t end,
                  const struct af_project_edit *edits, size_t count, struct af_text *out)
{
    for (size_t i = 0; i < count; i++) {
        af_text_add_n(out, old.data + start, edits[i].start - start);
        af_text_add(out, edits[i].text);
        start = edits[i].end;
    }
    af_text_add_n(out, old.data + start, end - start);
}

void af_project_apply(struct af_span old, const struct af_project_edit *edits, size_t count,
                      struct af_text *out)
{
    apply(old, 0, old.len, edits, count, out);
}

static bool starts_line(struct af_span text, size_t at)
{
    return at == 0 || text.data[at - 1] == '\n';
}

/* The start of the line `lines` lines before the one that has byte `at`. */
static size_t back(struct af_span text, size_t at, size_t lines)
{
    while (at > 0 && (!starts_line(text, at) || lines > 0))
        lines -= starts_line(text, at--);
    return at;
}

/* The start of the line `lines` lines behind `at`, the start of a line; or the text's end. */
static size_t forward(struct af_span text, size_t at, size_t lines)
{
    while (at < text.len && lines > 0)
        lines -= text.data[at++] == '\n';
    return at;
}

/* Where the lines end that the edit touches. */
static size_t lines_end(struct af_span text, const struct af_project_edit *edit)
{
    size_t len = strlen(edit->text);
    bool is_whole = starts_line(text, edit->end) && starts_line(text, edit->start) &&
                    (len == 0 || edit->text[len - 1] == '\n');
    return is_whole ? edit->end : forward(text, edit->end, 1);
}

/* Appends the lines with a sign before each; returns how many. */
static size_t add_lines(struct af_text *out, char sign, const char *text, size_t len)
{
    struct af_span rest = {text, len}, line;
    size_t count = 0;
    for (; af_text_line(&rest, &line); count++) {
        af_text_add_n(out, &sign, 1);
        af_text_add_n(out, line.data, line.len);
        af_text_add(out, "\n");
    }
    if (len > 0 && text[len - 1] != '\n')
        af_text_add(out, "\\ No newline at end of file\n");
    return count;
}

/* A group of changes with the lines around them. */
struct hunk {
    size_t at; /* the byte behind the last line that was added */
    size_t old_count;
    size_t new_count;
    struct af_text body;
};

static void add_context(struct hunk *hunk, struct af_span old, size_t end)
{
    size_t count = add_lines(&hunk->body, ' ', old.data + hunk->at, end - hunk->at);
    hunk->old_count += count;
    hunk->new_count += count;
    hunk->at = end;
}

/* Adds the change of the first edits, those that touch the same lines; returns how many. */
static size_t add_change(struct hunk *hunk, struct af_span old,
                         const struct af_project_edit *edits, size_t count)
{
    size_t used = 1, end = lines_end(old, edits);
    struct af_text made = {0};
    while (used < count && edits[used].start < end) {
        size_t next = lines_end(old, &edits[used++]);
        end = next > end ? next : end;
    }
    add_context(hunk, old, back(old, edits->start, 0));
    apply(old, hunk->at, end, edits, used, &made);
    hunk->old_count += add_lines(&hunk->body, '-', old.data + hunk->at, end - hunk->at);
    hunk->new_count += add_lines(&hunk->body, '+', af_text_get(&made), made.len);
    hunk->body.failed |= made.failed;
    hunk->at = end;
    af_text_release(&made);
    return used;
}

void af_project_diff(const char *path, struct af_span old, const struct af_project_edit *edits,
                     size_t count, struct af_text *out)
{
    size_t old_line = 0, new_line = 0, at = 0;
    if (count > 0)
        af_text_format(out, "--- a/%s\n+++ b/%s\n", path, path);
    for (size_t i = 0; i < count;) {
        struct hunk hunk = {.at = back(old, edits[i].start, CONTEXT_LINES)};
        for (; at < hunk.at; at++) {
            old_line += old.data[at] == '\n';
            new_line += old.data[at] == '\n';
        }
        size_t near;
        do {
            i += add_change(&hunk, old, edits + i, count - i);
            near = forward(old, hunk.at, 2 * CONTEXT_LINES + 1);
        } while (i < count && (edits[i].start < near || near == old.len));
        at = forward(old, hunk.at, CONTEXT_LINES);
        add_context(&hunk, old, at);
        af_text_format(out, "@@ -%zu,%zu +%zu,%zu @@\n", old_line + (hunk.old_count > 0),
                       hunk.old_count, new_line + (hunk.new_count > 0), hunk.new_count);
        af_text_add_n(out, af_text_get(&hunk.body), hunk.body.len);
        out->failed |= hunk.body.failed;
        old_line += hunk.old_count;
        new_line += hunk.new_count;
        af_text_release(&hunk.body);
    }
}
