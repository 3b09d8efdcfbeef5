/*
 * project_lines.c: the requirements of files with one in a line: the lists of conda's
 * environment.yml, with the list for pip in it, and setup.cfg. Of YAML and of configparser's
 * format only lines are read, no quoting across lines, anchors or interpolation.
 */
#include "kit/project/project_asks.h"

#include <string.h>

#include "kit/base/text.h"

struct line_reader {
    struct af_project_asks *asks;
    size_t source;
    struct af_span line; /* without its newline */
    size_t number;
    size_t indent;        /* of the line's first byte */
    struct af_span words; /* the line without blanks, "- ", comment and quotes */
    bool is_item;         /* "- " before it */
};

/* Reads the next line that is not empty. */
static bool next_line(struct line_reader *reader, struct af_span *rest)
{
    while (af_text_line(rest, &reader->line)) {
        struct af_span words = af_text_trim(reader->line);
        reader->number++;
        if (words.len == 0 || words.data[0] == '#' || words.data[0] == ';')
            continue;
        reader->indent = (size_t)(words.data - reader->line.data);
        reader->is_item = words.data[0] == '-' && words.len > 1 && words.data[1] == ' ';
        if (reader->is_item)
            words = af_text_trim((struct af_span){words.data + 1, words.len - 1});
        for (size_t i = 1; i < words.len; i++)
            if (words.data[i] == '#' && words.data[i - 1] == ' ')
                words.len = i;
        words = af_text_trim(words);
        bool is_quoted = words.len > 1 && (words.data[0] == '"' || words.data[0] == '\'') &&
                         words.data[words.len - 1] == words.data[0];
        reader->words = is_quoted ? (struct af_span){words.data + 1, words.len - 2} : words;
        return true;
    }
    return false;
}

/* The requirement of the line, whose texts were set, but for its place. */
static void add_line(struct line_reader *reader, struct af_project_ask ask)
{
    const struct af_project_source *source = &reader->asks->sources[reader->source];
    ask.root = ask.source = source;
    ask.line = reader->number;
    ask.start = (size_t)(reader->line.data - source->text.data);
    ask.end = ask.start + af_project_line(source->text, reader->number).len;
    af_project_asks_add(reader->asks, ask);
}

/* A requirement for pip. */
static void add_pip(struct line_reader *reader, bool is_optional)
{
    struct af_project_ask ask = {.is_optional = is_optional};
    if (af_project_asks_parse(reader->asks, reader->words, &ask))
        add_line(reader, ask);
}

const char *af_project_asks_conda_name(const char *name)
{
    bool is_torch = strcmp(name, "pytorch") == 0 || strcmp(name, "pytorch-gpu") == 0;
    return is_torch ? "torch" : "";
}

/* "channel::pytorch=2.1.0=py3.10_cuda12.1" of conda, or "python >=3.10,<3.12". */
static void add_conda(struct line_reader *reader)
{
    struct af_arena *arena = reader->asks->arena;
    const char *text = af_project_text(arena, reader->words);
    const char *channel = strstr(text, "::");
    const char *name = channel == NULL ? text : channel + 2;
    size_t len = strcspn(name, "=<>!~ ");
    const char *version = name + len + strspn(name + len, " ");
    const char *package = af_project_text(arena, (struct af_span){name, len});
    size_t skipped = strspn(version, "=");
    size_t end = skipped + strcspn(version + skipped, "= ");
    bool has_build = skipped > 0 && version[end] != '\0';
    struct af_span made = {version, has_build ? end : strlen(version)};
    const char *specifier =
        af_project_asks_specifier(arena, af_project_text(arena, made), true);
    struct af_project_stated *stated = &reader->asks->stated[reader->source];
    if (strcmp(package, "python") == 0 && stated->python_range == NULL)
        stated->python_range = specifier;
    add_line(reader, (struct af_project_ask){.name = af_project_asks_conda_name(package),
                                             .specifier = specifier,
                                             .marker = "",
                                             .url = ""});
}

/* dependencies: [..., {pip: [...]}]. A list may be indented like the key before it. */
static void read_conda(struct line_reader *reader, struct af_span rest)
{
    bool is_inside = false;
    size_t pip_indent = 0;
    bool in_pip = false;
    while (next_line(reader, &rest)) {
        if (reader->indent == 0 && !reader->is_item) {
            is_inside = af_text_span_equal(reader->words, "dependencies:");
            in_pip = false;
        } else if (is_inside && af_text_span_equal(reader->words, "pip:")) {
            in_pip = true;
            pip_indent = reader->indent;
        } else if (is_inside && reader->is_item) {
            in_pip = in_pip && reader->indent > pip_indent;
            if (in_pip)
                add_pip(reader, false);
            else
                add_conda(reader);
        }
    }
}

/* "key = value" at the start of a line, or more of the last key's value below it. */
static void read_cfg(struct line_reader *reader, struct af_span rest)
{
    struct af_project_stated *stated = &reader->asks->stated[reader->source];
    struct af_span section = {0}, key = {0};
    while (next_line(reader, &rest)) {
        struct af_span line = af_text_trim(reader->line);
        const char *equal = memchr(line.data, '=', line.len);
        if (line.data[0] == '[') {
            section = line;
            key = (struct af_span){0};
            continue;
        }
        if (reader->indent == 0 && equal != NULL) {
            size_t len = (size_t)(equal - line.data);
            key = af_text_trim((struct af_span){line.data, len});
            line = af_text_trim((struct af_span){equal + 1, line.len - len - 1});
        }
        bool in_options = af_text_span_equal(section, "[options]");
        bool in_extras = af_text_span_equal(section, "[options.extras_require]");
        reader->words = line;
        if (in_options && af_text_span_equal(key, "python_requires") && line.len > 0)
            stated->python_range = af_arena_text_n(reader->asks->arena, line.data, line.len);
        else if (line.len > 0 &&
                 (in_extras || (in_options && af_text_span_equal(key, "install_requires"))))
            add_pip(reader, in_extras);
    }
}

void af_project_asks_read_lines(struct af_project_asks *asks, size_t source)
{
    struct line_reader reader = {.asks = asks, .source = source};
    if (asks->sources[source].kind == AF_PROJECT_CONDA)
        read_conda(&reader, asks->sources[source].text);
    else
        read_cfg(&reader, asks->sources[source].text);
}
