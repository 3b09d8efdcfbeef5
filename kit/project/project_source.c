/*
 * project_source.c: kinds of files by their names, and commands by their words.
 */
#include "kit/project/project_source.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "kit/base/text.h"

#define CALL_BYTES_MAX 4096 /* of a call pip_install() that are read */

enum af_project_kind af_project_kind_of(const char *path)
{
    static const struct {
        const char *name;
        enum af_project_kind kind;
    } names[] = {{"pixi.toml", AF_PROJECT_PIXI},
                 {"setup.cfg", AF_PROJECT_SETUP_CFG},
                 {"setup.py", AF_PROJECT_SETUP}};
    const char *name = af_path_name(path);
    if (af_starts_with(name, "pyproject") && af_ends_with(name, ".toml"))
        return AF_PROJECT_PYPROJECT;
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
    if (af_ends_with(name, ".ipynb"))
        return AF_PROJECT_NOTEBOOK;
    if (af_ends_with(name, ".sh") || strcmp(name, "Makefile") == 0 ||
        af_ends_with(name, ".mk") || (is_yaml && af_starts_with(path, ".github/workflows/")))
        return AF_PROJECT_SCRIPT;
    bool is_page = af_ends_with(name, ".md") || af_ends_with(name, ".rst");
    return is_page && (name == path || strncasecmp(name, "readme", 6) == 0 ||
                       strncasecmp(name, "install", 7) == 0)
               ? AF_PROJECT_README
               : AF_PROJECT_OTHER;
}

const char *af_project_text(struct af_arena *arena, struct af_span span)
{
    return span.len == 0 ? "" : af_arena_text_n(arena, span.data, span.len);
}

/* The start of the line that has byte `at`. */
static size_t line_start(struct af_span text, size_t at)
{
    const char *newline = at == 0 ? NULL : memrchr(text.data, '\n', at);
    return newline == NULL ? 0 : (size_t)(newline - text.data) + 1;
}

/* The byte behind the line that has byte `at`. */
static size_t line_end(struct af_span text, size_t at)
{
    const char *newline = at < text.len ? memchr(text.data + at, '\n', text.len - at) : NULL;
    return newline == NULL ? text.len : (size_t)(newline - text.data) + 1;
}

struct af_span af_project_line(struct af_span text, size_t at)
{
    at = at < text.len ? at : text.len;
    size_t start = line_start(text, at);
    return (struct af_span){text.data + start, line_end(text, at) - start};
}

size_t af_project_lines_between(struct af_span text, size_t start, size_t end)
{
    size_t count = 0;
    for (size_t i = start; i < end && i < text.len; i++)
        count += text.data[i] == '\n';
    return count;
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

/* Where the word at the start of `rest` ends; its letters go to `word`, if it is not NULL. */
static size_t word_end(struct af_span rest, const char *ends, char *word, size_t *len_out)
{
    size_t at = 0, len = 0;
    char quote = '\0';
    for (; at < rest.len; at++) {
        char letter = rest.data[at];
        if (quote == '\0' &&
            (is_between(rest, at) || (strchr(ends, letter) != NULL && letter != '#')))
            break;
        bool ends_quote = letter == quote && quote != '\0';
        if (ends_quote || (quote == '\0' && (letter == '"' || letter == '\''))) {
            quote = ends_quote ? '\0' : letter;
            continue;
        }
        if (letter == '\\' && quote != '\'' && at + 1 < rest.len)
            letter = rest.data[++at];
        if (word != NULL)
            word[len] = letter;
        len++;
    }
    *len_out = len;
    return at;
}

const char *af_project_next_word(struct af_arena *arena, struct af_span *rest, const char *ends)
{
    size_t at = 0, len;
    while (at < rest->len && is_between(*rest, at))
        at++;
    *rest = (struct af_span){rest->data + at, rest->len - at};
    if (rest->len == 0 || strchr(ends, rest->data[0]) != NULL)
        return NULL;
    at = word_end(*rest, ends, NULL, &len);
    char *word = af_arena_alloc(arena, len + 1);
    (void)word_end(*rest, ends, word, &len);
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

bool af_project_option_is_cut(struct af_span name)
{
    if (name.len < 4 || name.data[1] != '-' || af_text_span_equal(name, "--pre"))
        return false;
    for (size_t i = 0; i < AF_COUNT(option_rows); i++)
        if (af_project_words_have(option_rows[i].names, name))
            return false;
    for (size_t i = 0; i < AF_COUNT(option_rows); i++)
        for (const char *at = option_rows[i].names; (at = strchr(at, ' ')) != NULL; at++)
            if (option_rows[i].meaning != AF_PROJECT_MEANS_NOTHING &&
                strncmp(at + 1, name.data, name.len) == 0)
                return true;
    return false;
}

/* The name "-r" of the option with a value in "-qr", or "-q"; its letter is at *at_out. */
static struct af_span last_of_cluster(const char *word, size_t *at_out)
{
    static const char names[] = "-A-B-C-D-E-F-G-H-I-J-K-L-M-N-O-P-Q-R-S-T-U-V-W-X-Y-Z"
                                "-a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r-s-t-u-v-w-x-y-z";
    size_t at = 1;
    while (strchr("qvUIhVn", word[at]) != NULL && word[at + 1] != '\0')
        at++;
    *at_out = at;
    const char *letter = strchr(names, word[at]);
    return at == 1 || letter == NULL || word[at] == '-' ? (struct af_span){word, 2}
                                                        : (struct af_span){letter - 1, 2};
}

bool af_project_option_parse(const char *word, struct af_project_option_word *option_out)
{
    size_t end;
    *option_out = (struct af_project_option_word){.name = {word, 0}};
    if (word[0] != '-' || word[1] == '\0')
        return false;
    if (word[1] == '-') {
        end = strcspn(word, "=");
        option_out->name.len = end;
    } else {
        option_out->name = last_of_cluster(word, &end);
        end++;
    }
    if (word[end] != '\0')
        option_out->value = word + end + (word[end] == '=');
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

/*
 * Whether a line of a page is a command, and no sentence that mentions one: whether only
 * prompts and programs are before its byte `end`. Those before *checked were looked at by
 * earlier calls.
 */
static bool begins_command(struct af_span line, size_t *checked, size_t end)
{
    static const char *const words[] = {"uv", "python", "python3", "-m", "sudo", "!",
                                        "$",  "%",      ">",       "-",  "*",    "RUN"};
    for (size_t at = *checked;; *checked = at) {
        size_t start, row = 0;
        while (at < end && is_blank(line.data[at]))
            at++;
        if (at == end)
            return true;
        start = at;
        while (at < end && !is_blank(line.data[at]) && line.data[start] != '!')
            at++;
        at += line.data[start] == '!';
        struct af_span word = {line.data + start, at - start};
        while (row < AF_COUNT(words) && !af_text_span_equal(word, words[row]))
            row++;
        /* "MAX_JOBS=4" */
        const bool is_set =
            isupper((unsigned char)word.data[0]) && memchr(word.data, '=', word.len) != NULL;
        if (row == AF_COUNT(words) && !is_set)
            return false;
        if (at == end)
            return true; /* it may go on */
    }
}

/* Where "pip install" or "pip3 install" ends in `line`, or 0. */
static size_t find_install(struct af_span line, bool is_page)
{
    static const char install[] = "install";
    size_t checked = 0;
    for (size_t i = 0; i + 3 <= line.len; i++) {
        if (is_page && line.data[i] == 'p' && !begins_command(line, &checked, i))
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

/* Whether the line is a comment. A heading of a page is none. */
static bool is_comment(struct af_span line)
{
    size_t at = 0;
    while (at < line.len && is_blank(line.data[at]))
        at++;
    return at < line.len && line.data[at] == '#';
}

void af_project_shell_init(struct af_project_shell *shell,
                           const struct af_project_source *source)
{
    *shell = (struct af_project_shell){.source = source};
    af_arena_init(&shell->arena);
}

void af_project_shell_release(struct af_project_shell *shell)
{
    af_arena_release(&shell->arena);
}

/* Reads the words of the command from byte `at` on. */
static void read_command(struct af_project_shell *shell, size_t at,
                         struct af_project_shell_command *command_out)
{
    const char *text = shell->source->text.data;
    if (shell->source->kind == AF_PROJECT_NOTEBOOK) /* the string ends, or its line does */
        for (size_t i = at; i < shell->line_end; i++)
            if (text[i] == '"' || (text[i] == '\\' && text[i + 1] == 'n'))
                shell->line_end = i;
    struct af_span rest = {text + at, shell->line_end - at};
    size_t count = 0;
    *command_out = (struct af_project_shell_command){
        .words_at = at, .words = shell->words, .is_isolated = true};
    af_arena_release(&shell->arena);
    while (count < AF_PROJECT_COMMAND_WORDS_MAX &&
           (shell->words[count] = af_project_next_word(&shell->arena, &rest, command_ends)) !=
               NULL)
        if (strcmp(shell->words[count++], "--no-build-isolation") == 0)
            command_out->is_isolated = false;
    shell->words[count] = NULL;
    bool is_remark = rest.len > 0 && rest.data[0] == '#';
    shell->at = is_remark ? shell->line_end : shell->line_end - rest.len;
}

/* Whether the line of a page is what a command printed, in a block that begins with "$ ". */
static bool is_output(struct af_project_shell *shell, struct af_span line)
{
    bool is_fence = line.len >= 3 && memcmp(line.data, "```", 3) == 0;
    bool is_prompt = line.len >= 2 && memcmp(line.data, "$ ", 2) == 0;
    shell->in_session =
        is_prompt ? shell->in_session || shell->after_fence : shell->in_session && !is_fence;
    shell->after_fence = is_fence;
    return shell->in_session && !is_prompt;
}

/* Whether the string of JSON with byte `at` is a line "!pip ..." of a cell, and no output. */
static bool is_cell(struct af_span line, size_t at)
{
    while (at > 0 && line.data[at - 1] != '"')
        at--;
    while (at < line.len && line.data[at] == ' ')
        at++;
    return at < line.len && (line.data[at] == '!' || line.data[at] == '%');
}

/*
 * The next call "image.pip_install('torch==2.6.0', ...)", as modal builds images: its strings
 * are the words. A comma behind a word is not part of it.
 */
static bool next_call(struct af_project_shell *shell,
                      struct af_project_shell_command *command_out)
{
    static const char call[] = "pip_install(";
    struct af_span text = shell->source->text;
    const char *found =
        shell->at >= text.len
            ? NULL
            : memmem(text.data + shell->at, text.len - shell->at, call, sizeof call - 1);
    if (found == NULL)
        return false;
    shell->at = (size_t)(found - text.data) + sizeof call - 1;
    const size_t left = text.len - shell->at;
    struct af_span rest = {text.data + shell->at,
                           left < CALL_BYTES_MAX ? left : CALL_BYTES_MAX};
    size_t count = 0;
    *command_out = (struct af_project_shell_command){
        .words_at = shell->at, .words = shell->words, .is_isolated = true};
    af_arena_release(&shell->arena);
    while (count < AF_PROJECT_COMMAND_WORDS_MAX) {
        const char *word = af_project_next_word(&shell->arena, &rest, ")#");
        if (word == NULL)
            break;
        const size_t len = strlen(word);
        const bool has_comma = len > 0 && word[len - 1] == ',';
        if (strstr(word, "--no-build-isolation") != NULL)
            command_out->is_isolated = false;
        shell->words[count++] = af_arena_text_n(&shell->arena, word, len - has_comma);
    }
    shell->words[count] = NULL;
    shell->at = (size_t)(rest.data - text.data);
    return true;
}

bool af_project_shell_next(struct af_project_shell *shell,
                           struct af_project_shell_command *command_out)
{
    struct af_span text = shell->source->text;
    if (shell->source->kind == AF_PROJECT_PYTHON)
        return next_call(shell, command_out);
    while (shell->at < text.len) {
        bool is_start = shell->at >= shell->line_end;
        if (is_start)
            shell->line_end = end_of_line(text, shell->at);
        struct af_span line = {text.data + shell->at, shell->line_end - shell->at};
        bool is_page = shell->source->kind == AF_PROJECT_README && is_start;
        bool is_none = (is_page && is_output(shell, line)) || (is_start && is_comment(line));
        size_t found = is_none ? 0 : find_install(line, is_page);
        if (found > 0 && shell->source->kind == AF_PROJECT_NOTEBOOK && !is_cell(line, found))
            found = 0;
        if (found > 0) {
            read_command(shell, shell->at + found, command_out);
            return true;
        }
        shell->at = ++shell->line_end;
    }
    return false;
}
