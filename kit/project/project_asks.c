/*
 * project_asks.c: finds what requirements files, setup.py, conda's environment.yml and
 * setup.cfg ask of torch and flash-attn, and where; and joins what all files state.
 * environment.yml and setup.cfg are read line by line: no quoting across lines, anchors or
 * interpolation.
 */
#include "kit/project/project_asks.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/requirements.h"

static const struct af_project_source *find_source(const struct af_project_asks *asks,
                                                   const char *path)
{
    while (af_starts_with(path, "./"))
        path += 2;
    for (size_t i = 0; i < asks->count; i++)
        if (strcmp(asks->sources[i].path, path) == 0)
            return &asks->sources[i];
    return NULL;
}

/*
 * The file reader of requirements.h, over the sources. Other files, such as those that a run
 * makes, are empty: what is stated elsewhere counts.
 */
static enum anyflash_status read_source(void *context, struct af_arena *arena, const char *path,
                                        struct af_span *text_out, struct anyflash_error *err)
{
    const struct af_project_source *source = find_source(context, path);
    (void)arena;
    (void)err;
    *text_out = source == NULL ? (struct af_span){"", 0} : source->text;
    return ANYFLASH_OK;
}

static bool is_known(const struct af_project_asks *asks, const struct af_project_ask *made)
{
    const struct af_project_ask *ask = asks->first;
    while (ask != NULL && (ask->source != made->source || ask->line != made->line ||
                           ask->start != made->start || !af_equal(ask->url, made->url)))
        ask = ask->next;
    return ask != NULL;
}

void af_project_asks_add(struct af_project_asks *asks, struct af_project_ask made)
{
    struct af_span name = {made.name, strlen(made.name)};
    made.is_torch = af_name_is(name, "torch");
    if ((!made.is_torch && (!af_name_is(name, "flash-attn") || is_known(asks, &made))) ||
        !af_project_platform_admits(AF_PROJECT_LINUX_X86_64, made.marker))
        return;
    struct af_project_ask *ask = af_arena_alloc(asks->arena, sizeof *ask);
    if (ask == NULL)
        return;
    made.pinned = af_project_pinned_version(asks->arena, made.specifier);
    *ask = made;
    *asks->end = ask;
    asks->end = &ask->next;
}

/*
 * Copies the texts of the requirement. The name is copied as it is written; a line that is only
 * a URL gets the normalized name. Returns false if the requirement has no name.
 */
static bool take_requirement(const struct af_project_asks *asks,
                             const struct af_project_requirement *requirement,
                             struct af_project_ask *ask)
{
    const char *url = requirement->url, *path = requirement->path;
    size_t len = strcspn(requirement->text, "=<>!~[ \t;@(");
    bool is_named = requirement->name != NULL &&
                    af_name_is((struct af_span){requirement->text, len}, requirement->name);
    ask->name =
        is_named ? af_arena_text_n(asks->arena, requirement->text, len) : requirement->name;
    if (ask->name == NULL && url != NULL && af_starts_with(url, "git+") &&
        strstr(url, "/flash-attention") != NULL)
        ask->name = "flash-attn"; /* what that repository builds */
    ask->specifier = requirement->specifier;
    ask->marker = requirement->marker;
    ask->url = url != NULL ? url : path != NULL ? path : "";
    return ask->name != NULL;
}

bool af_project_asks_parse(struct af_project_asks *asks, struct af_span text,
                           struct af_project_ask *ask)
{
    struct af_project project = {.arena = asks->arena, .read = read_source, .context = asks};
    const char *word = af_arena_text_n(asks->arena, text.data, text.len);
    return word != NULL && word[0] != '\0' && word[0] != '-' &&
           af_project_add_word(&project, word, false, NULL) == ANYFLASH_OK &&
           take_requirement(asks, project.requirements, ask);
}

/* Whether the requirement pins a package of which each release needs one torch. */
static bool decides_torch(const struct af_project_requirement *requirement)
{
    static const char *const names[] = {"torchvision", "torchaudio", "vllm", "xformers"};
    for (size_t i = 0; requirement->name != NULL && i < AF_COUNT(names); i++)
        if (strcmp(requirement->name, names[i]) == 0)
            return af_starts_with(requirement->specifier, "==");
    return false;
}

static enum anyflash_status add_requirements(struct af_project_asks *asks,
                                             const struct af_project_source *root,
                                             struct anyflash_error *err)
{
    struct af_project project = {.arena = asks->arena, .read = read_source, .context = asks};
    /* What was read before a line that cannot be is kept. */
    if (af_project_add_file(&project, root->path, false, NULL) == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    bool is_decided = false;
    for (const struct af_project_requirement *at = project.requirements; at != NULL;
         at = at->next) {
        is_decided |= decides_torch(at);
        struct af_project_ask ask = {.root = root};
        ask.source = at->place.file == NULL ? NULL : find_source(asks, at->place.file);
        if (at->constraint || ask.source == NULL || !take_requirement(asks, at, &ask))
            continue;
        ask.line = (size_t)at->place.line;
        struct af_span line = af_project_line(ask.source->text, ask.line);
        ask.start = (size_t)(line.data - ask.source->text.data);
        ask.end = ask.start + line.len;
        if (line.len > 1 && memchr(line.data, '\\', line.len) != NULL)
            ask.end = ask.start; /* it has further lines */
        af_project_asks_add(asks, ask);
    }
    for (struct af_project_ask *ask = asks->first; ask != NULL; ask = ask->next)
        ask->is_decided |= ask->root == root && is_decided;
    return ANYFLASH_OK;
}

static void add_setup(struct af_project_asks *asks, size_t at)
{
    const struct af_project_source *source = &asks->sources[at];
    struct af_project_stated *stated = &asks->stated[at];
    for (const struct af_import_string *string = stated->python.install_requires;
         string != NULL; string = string->next) {
        struct af_project_ask ask = {.root = source, .source = source, .line = string->line};
        if (af_project_asks_parse(asks, string->text, &ask))
            af_project_asks_add(asks, ask);
    }
    struct af_span range = stated->python.python_requires;
    if (range.len > 0)
        stated->python_range = af_arena_text_n(asks->arena, range.data, range.len);
}

/* ---- lines ---- */

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

static void read_lines(struct af_project_asks *asks, size_t source)
{
    struct line_reader reader = {.asks = asks, .source = source};
    if (asks->sources[source].kind == AF_PROJECT_CONDA)
        read_conda(&reader, asks->sources[source].text);
    else
        read_cfg(&reader, asks->sources[source].text);
}

/* ---- all files ---- */

static enum anyflash_status read_one(struct af_project_asks *asks, size_t at,
                                     struct anyflash_error *err)
{
    const struct af_project_source *source = &asks->sources[at];
    enum anyflash_status status = ANYFLASH_OK;
    switch (source->kind) {
    case AF_PROJECT_REQUIREMENTS:
        return add_requirements(asks, source, err);
    case AF_PROJECT_PYPROJECT:
    case AF_PROJECT_PIXI:
        af_project_asks_read_toml(asks, at);
        return ANYFLASH_OK;
    case AF_PROJECT_CONDA:
    case AF_PROJECT_SETUP_CFG:
        read_lines(asks, at);
        return ANYFLASH_OK;
    case AF_PROJECT_SETUP:
    case AF_PROJECT_PYTHON:
        status = af_imports_of_python(asks->arena, source->text, &asks->stated[at].python, err);
        if (status == ANYFLASH_OK && source->kind == AF_PROJECT_SETUP)
            add_setup(asks, at);
        return status;
    default:
        return ANYFLASH_OK;
    }
}

enum anyflash_status af_project_asks_read(struct af_arena *arena,
                                          const struct af_project_source *sources, size_t count,
                                          struct af_project_asks *asks_out,
                                          struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    *asks_out = (struct af_project_asks){
        .arena = arena, .sources = sources, .count = count, .end = &asks_out->first};
    asks_out->stated = af_arena_array(arena, count + 1, sizeof *asks_out->stated);
    for (size_t i = 0; i < count && status == ANYFLASH_OK && !arena->failed; i++)
        status = read_one(asks_out, i, err);
    return status == ANYFLASH_OK && arena->failed ? af_fail_memory(err) : status;
}

static bool in_same_folder(const struct af_project_source *a, const struct af_project_source *b)
{
    size_t a_len = (size_t)(af_path_name(a->path) - a->path);
    size_t b_len = (size_t)(af_path_name(b->path) - b->path);
    return a_len == b_len && memcmp(a->path, b->path, a_len) == 0;
}

const struct af_project_ask *af_project_torch_for(const struct af_project_asks *asks,
                                                  const struct af_project_ask *ask)
{
    const struct af_project_ask *near = NULL, *exact = NULL;
    for (const struct af_project_ask *at = asks->first; at != NULL; at = at->next) {
        if (!at->is_torch)
            continue;
        if (at->root == ask->root && (near == NULL || near->pinned == NULL))
            near = at;
        if (at->pinned != NULL && exact == NULL && in_same_folder(at->source, ask->source))
            exact = at;
    }
    return near != NULL ? near : exact;
}

struct af_project_stated af_project_stated_for(const struct af_project_asks *asks,
                                               const struct af_project_ask *ask)
{
    struct af_project_stated found = {0};
    if (ask != NULL)
        found = asks->stated[ask->source - asks->sources];
    for (size_t i = 0; i < asks->count; i++) {
        enum af_project_kind kind = asks->sources[i].kind;
        if (kind == AF_PROJECT_CONDA || kind == AF_PROJECT_PIXI)
            continue; /* about their own environment only */
        if (found.python_range == NULL)
            found.python_range = asks->stated[i].python_range;
        if (found.platforms == 0)
            found.platforms = asks->stated[i].platforms;
    }
    if (found.python_range == NULL)
        found.python_range = "";
    return found;
}

bool af_project_brings_torch(const struct af_project_asks *asks, const char *path)
{
    for (const struct af_project_ask *at = asks->first; at != NULL; at = at->next)
        if (at->is_torch && (strcmp(at->root->path, path) == 0 ||
                             strcmp(af_path_name(at->root->path), af_path_name(path)) == 0))
            return true;
    return false;
}
