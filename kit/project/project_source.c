/*
 * project_source.c: kinds of files by their names, and commands by their words.
 */
#include "kit/project/project_source.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "kit/base/path.h"
#include "kit/base/text.h"
#include "kit/project/requirements.h"

#define COMMAND_WORDS_MAX 256

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

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n' ||
           letter == '\\';
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
