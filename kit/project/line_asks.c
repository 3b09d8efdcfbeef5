/*
 * line_asks.c: the requirements of conda's environment.yml and of setup.cfg, read line by line:
 * no quoting across lines, anchors or interpolation.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/project/project_asks.h"

struct line_reader {
    struct af_project_asks *asks;
    size_t source;
    struct af_span line;  /* without its newline */
    size_t indent;        /* of the line's first byte */
    struct af_span words; /* the line without blanks, "- ", comment and quotes */
    bool is_item;         /* "- " before it */
};

/* Reads the next line that is not empty. */
static bool next_line(struct line_reader *reader, struct af_span *rest)
{
    while (af_text_line(rest, &reader->line)) {
        struct af_span words = af_text_trim(reader->line);
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

/* The line as the place of a requirement. */
static struct af_project_ask place_of(const struct line_reader *reader)
{
    const struct af_project_source *source = &reader->asks->sources[reader->source];
    size_t start = (size_t)(reader->line.data - source->text.data);
    size_t end = start + reader->line.len;
    return (struct af_project_ask){.root = source,
                                   .source = source,
                                   .at = start,
                                   .start = start,
                                   .end = end + (end < source->text.len)};
}

/* A requirement for pip. */
static void add_pip(struct line_reader *reader, bool is_optional)
{
    struct af_project_ask ask = place_of(reader);
    ask.is_optional = is_optional;
    af_project_asks_add_text(reader->asks, reader->words, ask);
}

const char *af_project_asks_conda_name(const char *name)
{
    bool is_torch = strcmp(name, "pytorch") == 0 || strcmp(name, "pytorch-gpu") == 0;
    return is_torch ? "torch" : "";
}

/* "pytorch=2.1.0=py3.10_cuda12.1" of conda, or "python >=3.10,<3.12". */
static void add_conda_text(struct line_reader *reader, struct af_arena *arena, const char *text)
{
    size_t len = strcspn(text, "=<>!~ ");
    const char *version = text + len + strspn(text + len, " ");
    const char *package = af_project_text(arena, (struct af_span){text, len});
    bool is_python = strcmp(package, "python") == 0;
    const char *name = af_project_asks_conda_name(package);
    if (!is_python && name[0] == '\0')
        return;
    size_t skipped = strspn(version, "=");
    size_t end = skipped + strcspn(version + skipped, "= ");
    bool has_build = skipped > 0 && version[end] != '\0';
    struct af_span made = {version, has_build ? end : strlen(version)};
    struct af_project_ask ask = place_of(reader);
    ask.name = name;
    ask.specifier = af_project_asks_specifier(arena, af_project_text(arena, made), true);
    ask.marker = ask.url = "";
    if (is_python)
        af_project_asks_state_python(reader->asks, reader->source, ask.specifier);
    else
        af_project_asks_add(reader->asks, ask);
}

/* The same, with or without "channel::" before it. */
static void add_conda(struct line_reader *reader)
{
    struct af_arena arena;
    af_arena_init(&arena);
    const char *text = af_project_text(&arena, reader->words);
    const char *channel = strstr(text, "::");
    add_conda_text(reader, &arena, channel == NULL ? text : channel + 2);
    af_arena_release(&arena);
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
            af_project_asks_state_python(reader->asks, reader->source,
                                         af_project_text(reader->asks->arena, line));
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
