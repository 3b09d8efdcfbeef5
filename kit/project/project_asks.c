/*
 * project_asks.c: finds what requirements files and setup.py ask of torch and flash-attn, and
 * where; and joins what all files state.
 */
#include "kit/project/project_asks.h"

#include <string.h>

#include "kit/base/sort.h"
#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/requirements.h"

static int compare_paths(const void *a, const void *b, const void *context)
{
    (void)context;
    return strcmp((*(const struct af_project_source *const *)a)->path,
                  (*(const struct af_project_source *const *)b)->path);
}

static int compare_names(const void *a, const void *b, const void *context)
{
    (void)context;
    return strcmp(af_path_name((*(const struct af_project_source *const *)a)->path),
                  af_path_name((*(const struct af_project_source *const *)b)->path));
}

/* The item of the sorted list that equals `path` by `compare`, or NULL. */
static const struct af_project_source *search(const struct af_project_source *const *list,
                                              size_t count, const char *path,
                                              af_sort_compare *compare)
{
    const struct af_project_source wanted = {.path = path}, *key = &wanted;
    size_t start = 0;
    while (start < count) {
        size_t middle = start + (count - start) / 2;
        int order = compare(&key, &list[middle], NULL);
        if (order == 0)
            return list[middle];
        if (order < 0)
            count = middle;
        else
            start = middle + 1;
    }
    return NULL;
}

static const struct af_project_source *find_source(const struct af_project_asks *asks,
                                                   const char *path)
{
    while (af_starts_with(path, "./"))
        path += 2;
    return search(asks->by_path, asks->count, path, compare_paths);
}

/*
 * The file reader of requirements.h, over the sources. Other files, such as those that a run
 * makes, are empty: what is stated elsewhere counts. A pyproject.toml is read by itself.
 */
static enum anyflash_status read_source(void *context, struct af_arena *arena, const char *path,
                                        struct af_span *text_out, struct anyflash_error *err)
{
    struct af_project_asks *asks = context;
    (void)arena;
    if (strcmp(af_path_name(path), "pyproject.toml") == 0)
        return ANYFLASH_E_NOT_FOUND;
    const struct af_project_source *source = find_source(asks, path);
    *text_out = source == NULL ? (struct af_span){"", 0} : source->text;
    asks->read_bytes += text_out->len;
    if (asks->read_bytes <= AF_PROJECT_READ_MAX)
        return ANYFLASH_OK;
    asks->limit = AF_PROJECT_LIMIT_READ;
    return af_fail(err, ANYFLASH_E_LIMIT, "the requirements files include too much text");
}

enum anyflash_status af_project_read_nothing(void *context, struct af_arena *arena,
                                             const char *path, struct af_span *text_out,
                                             struct anyflash_error *err)
{
    (void)context;
    (void)arena;
    (void)path;
    (void)err;
    *text_out = (struct af_span){"", 0};
    return ANYFLASH_E_NOT_FOUND;
}

bool af_project_asks_want(const char *name)
{
    struct af_span span = {name, strlen(name)};
    return af_name_is(span, "torch") || af_name_is(span, "flash-attn");
}

bool af_project_asks_wanted(const struct af_project_asks *asks, const char *name)
{
    if (asks->wanted == NULL)
        return af_project_asks_want(name);
    for (const char *const *at = asks->wanted; *at != NULL; at++)
        if (af_name_is((struct af_span){name, strlen(name)}, *at))
            return true;
    return false;
}

/* Whether it was added; then another file includes the one that states it. */
static bool is_known(const struct af_project_asks *asks, const struct af_project_ask *made)
{
    struct af_project_ask *ask = asks->first;
    while (ask != NULL &&
           (ask->source != made->source || ask->at != made->at || ask->start != made->start ||
            ask->is_torch != made->is_torch || !af_equal(ask->url, made->url)))
        ask = ask->next;
    if (ask != NULL)
        ask->is_included |= made->root != made->source;
    return ask != NULL;
}

bool af_project_asks_are_full(const struct af_project_asks *asks)
{
    return asks->tried_count > AF_PROJECT_ASKS_MAX;
}

void af_project_asks_add(struct af_project_asks *asks, struct af_project_ask made)
{
    struct af_arena *arena = asks->arena;
    if (!af_project_asks_wanted(asks, made.name))
        return;
    if (asks->tried_count++ >= AF_PROJECT_ASKS_MAX) {
        asks->limit = AF_PROJECT_LIMIT_ASKS;
        return;
    }
    made.is_torch = af_name_is((struct af_span){made.name, strlen(made.name)}, "torch");
    if (strlen(made.specifier) > AF_PROJECT_EXPRESSION_BYTES_MAX ||
        strlen(made.marker) > AF_PROJECT_EXPRESSION_BYTES_MAX ||
        (!made.is_torch && is_known(asks, &made)) ||
        (asks->wanted == NULL &&
         !af_project_platform_admits(AF_PROJECT_LINUX_X86_64, made.marker)))
        return;
    struct af_project_ask *ask = af_arena_alloc(arena, sizeof *ask);
    made.name = af_arena_text(arena, made.name);
    made.specifier = af_arena_text(arena, made.specifier);
    made.marker = af_arena_text(arena, made.marker);
    made.url = af_arena_text(arena, made.url);
    made.text = made.text == NULL ? NULL : af_arena_text(arena, made.text);
    made.group = af_arena_text(arena, made.group == NULL ? "" : made.group);
    made.pinned = af_project_pinned_version(arena, made.specifier);
    made.is_included = made.root != made.source;
    *ask = made;
    *asks->end = ask;
    asks->end = &ask->next;
}

/*
 * Takes the texts of the requirement. The name is as it is written; a line that is only a URL
 * gets the normalized name. Returns false if it has none.
 */
static bool take_requirement(struct af_arena *arena,
                             const struct af_project_requirement *requirement,
                             struct af_project_ask *ask)
{
    const char *url = requirement->url, *path = requirement->path;
    size_t len = strcspn(requirement->text, "=<>!~[ \t;@(");
    bool is_named = requirement->name != NULL &&
                    af_name_is((struct af_span){requirement->text, len}, requirement->name);
    ask->name = is_named ? af_arena_text_n(arena, requirement->text, len) : requirement->name;
    if (ask->name == NULL && url != NULL && af_starts_with(url, "git+") &&
        strstr(url, "/flash-attention") != NULL)
        ask->name = "flash-attn"; /* what that repository builds */
    ask->specifier = requirement->specifier;
    ask->marker = requirement->marker;
    ask->url = url != NULL ? url : path != NULL ? path : "";
    return ask->name != NULL;
}

bool af_project_asks_parse(struct af_arena *arena, struct af_span text,
                           struct af_project_ask *ask)
{
    struct af_project project = {.arena = arena, .read = af_project_read_nothing};
    const char *word = af_arena_text_n(arena, text.data, text.len);
    return word[0] != '\0' && word[0] != '-' &&
           af_project_add_word(&project, word, false, NULL) == ANYFLASH_OK &&
           take_requirement(arena, project.requirements, ask);
}

void af_project_asks_state_python(struct af_project_asks *asks, size_t source,
                                  const char *range)
{
    const char **stated = &asks->stated[source].python_range;
    if (range != NULL && *stated == NULL && strlen(range) <= AF_PROJECT_EXPRESSION_BYTES_MAX)
        *stated = af_arena_text(asks->arena, range);
}

const char *const af_project_torch_neighbours[] = {
    "torchvision", "torchaudio",        "vllm",   "xformers",
    "lightning",   "pytorch-lightning", "sglang", NULL};

bool af_project_needs_torch(struct af_span name)
{
    for (const char *const *at = af_project_torch_neighbours; *at != NULL; at++)
        if (af_name_is(name, *at))
            return true;
    return false;
}

/* Whether the requirement pins a package of which each release needs one torch. */
static bool decides_torch(const struct af_project_requirement *requirement)
{
    return requirement->name != NULL && af_starts_with(requirement->specifier, "==") &&
           af_project_needs_torch(
               (struct af_span){requirement->name, strlen(requirement->name)});
}

/* The requirements of the project, which was read from the file `root`. */
static void take_requirements(struct af_project_asks *asks,
                              const struct af_project_source *root,
                              const struct af_project *project)
{
    struct af_project_stated *stated = &asks->stated[root - asks->sources];
    const char *file = NULL;
    const struct af_project_source *source = NULL;
    bool is_decided = false, is_constrained = false;
    struct af_project_ask **first = asks->end;
    is_constrained = memmem(root->text.data, root->text.len, "\n-c ", 4) != NULL ||
                     memmem(root->text.data, root->text.len, "--constraint", 12) != NULL ||
                     (root->text.len > 2 && memcmp(root->text.data, "-c ", 3) == 0);
    for (const struct af_project_requirement *at = project->requirements; at != NULL;
         at = at->next) {
        struct af_project_ask ask = {.root = root};
        is_decided |= decides_torch(at);
        if (at->constraint) {
            is_constrained |= at->name != NULL && af_project_asks_want(at->name);
            continue;
        }
        stated->brings_torch |= at->path != NULL; /* the project itself */
        if (at->place.file != file)
            source = find_source(asks, file = at->place.file);
        if (source == NULL || !take_requirement(project->arena, at, &ask))
            continue;
        struct af_span line = af_project_line(source->text, at->place.start);
        ask.source = source;
        ask.at = ask.start = at->place.start;
        ask.end = ask.start + line.len;
        if (line.len > 1 && (memchr(line.data, '\\', line.len) != NULL ||
                             memmem(line.data, line.len, " --", 3) != NULL))
            ask.end = ask.start; /* it has further lines, or options */
        af_project_asks_add(asks, ask);
    }
    for (struct af_project_ask *ask = *first; ask != NULL; ask = ask->next) {
        ask->is_decided |= is_decided || is_constrained;
        ask->is_constrained |= is_constrained;
        stated->brings_torch |= ask->is_torch;
    }
}

static void add_requirements(struct af_project_asks *asks, size_t at)
{
    const struct af_project_source *root = &asks->sources[at];
    struct af_arena arena;
    af_arena_init(&arena);
    struct af_project project = {.arena = &arena, .read = read_source, .context = asks};
    /* What was read before a line that cannot be is kept. */
    af_project_add_file(&project, root->path, false, NULL);
    take_requirements(asks, root, &project);
    af_arena_release(&arena);
}

void af_project_asks_add_text(struct af_project_asks *asks, struct af_span text,
                              struct af_project_ask ask)
{
    struct af_arena arena;
    af_arena_init(&arena);
    if (af_project_asks_parse(&arena, text, &ask))
        af_project_asks_add(asks, ask);
    af_arena_release(&arena);
}

static void add_setup(struct af_project_asks *asks, size_t at)
{
    const struct af_project_source *source = &asks->sources[at];
    struct af_import_facts facts;
    struct af_arena arena;
    af_arena_init(&arena);
    af_imports_of_python(&arena, source->text, &facts);
    for (const struct af_import_string *string = facts.install_requires; string != NULL;
         string = string->next)
        af_project_asks_add_text(
            asks, string->text,
            (struct af_project_ask){.root = source,
                                    .source = source,
                                    .at = (size_t)(string->text.data - source->text.data)});
    if (facts.python_requires.len > 0)
        af_project_asks_state_python(asks, at, af_project_text(&arena, facts.python_requires));
    af_arena_release(&arena);
}

static void read_one(struct af_project_asks *asks, size_t at)
{
    const struct af_project_source *source = &asks->sources[at];
    switch (source->kind) {
    case AF_PROJECT_REQUIREMENTS:
        add_requirements(asks, at);
        break;
    case AF_PROJECT_PYPROJECT:
    case AF_PROJECT_PIXI:
        af_project_asks_read_toml(asks, at);
        break;
    case AF_PROJECT_CONDA:
    case AF_PROJECT_SETUP_CFG:
        af_project_asks_read_lines(asks, at);
        break;
    case AF_PROJECT_SETUP:
        add_setup(asks, at);
        break;
    case AF_PROJECT_PYTHON:
        af_project_asks_read_script(asks, at);
        af_imports_of_python(asks->arena, source->text, &asks->stated[at].python);
        break;
    default:
        break;
    }
}

/* What holds where a file states nothing itself. */
static void note_manifest(struct af_project_asks *asks)
{
    for (size_t i = 0; i < asks->count; i++) {
        enum af_project_kind kind = asks->sources[i].kind;
        if (kind == AF_PROJECT_CONDA || kind == AF_PROJECT_PIXI || kind == AF_PROJECT_PYTHON)
            continue; /* about their own environment only */
        if (asks->manifest.python_range == NULL)
            asks->manifest.python_range = asks->stated[i].python_range;
        if (asks->manifest.platforms == 0)
            asks->manifest.platforms = asks->stated[i].platforms;
    }
    if (asks->manifest.python_range == NULL)
        asks->manifest.python_range = "";
}

static void note_torch(struct af_project_asks *asks)
{
    for (size_t i = 0; i < asks->count; i++)
        if (asks->stated[i].brings_torch)
            asks->by_name[asks->by_name_count++] = &asks->sources[i];
    af_sort(asks->by_name, asks->by_name_count, sizeof(void *), compare_names, NULL);
}

static void read_all(struct af_project_asks *asks)
{
    struct af_arena *arena = asks->arena;
    size_t count = asks->count;
    asks->end = &asks->first;
    asks->stated = af_arena_array(arena, count + 1, sizeof *asks->stated);
    asks->by_path = af_arena_array(arena, count + 1, sizeof(void *));
    asks->by_name = af_arena_array(arena, count + 1, sizeof(void *));
    for (size_t i = 0; i < count; i++)
        asks->by_path[i] = &asks->sources[i];
    af_sort(asks->by_path, count, sizeof(void *), compare_paths, NULL);
    for (size_t i = 0; i < count; i++)
        read_one(asks, i);
    note_manifest(asks);
    note_torch(asks);
}

void af_project_asks_read(struct af_arena *arena, const struct af_project_source *sources,
                          size_t count, struct af_project_asks *asks_out)
{
    *asks_out = (struct af_project_asks){.arena = arena, .sources = sources, .count = count};
    read_all(asks_out);
}

void af_project_asks_read_all(struct af_arena *arena, const struct af_project_source *source,
                              const char *const *wanted, struct af_project_asks *asks_out)
{
    *asks_out = (struct af_project_asks){
        .arena = arena, .wanted = wanted, .sources = source, .count = 1};
    read_all(asks_out);
}

static bool in_same_folder(const struct af_project_source *a, const struct af_project_source *b)
{
    size_t a_len = (size_t)(af_path_name(a->path) - a->path);
    size_t b_len = (size_t)(af_path_name(b->path) - b->path);
    return a_len == b_len && memcmp(a->path, b->path, a_len) == 0;
}

/* How much torch `at` is that of the requirement: of its extra, of all, or of another extra. */
static int nearness(const struct af_project_ask *ask, const struct af_project_ask *at)
{
    const char *group = ask->group == NULL ? "" : ask->group;
    return strcmp(at->group, group) == 0 ? 2 : at->group[0] == '\0' ? 1 : 0;
}

static bool is_nearer(const struct af_project_ask *ask, const struct af_project_ask *at,
                      const struct af_project_ask *near)
{
    if (near == NULL)
        return true;
    const int here = nearness(ask, at), there = nearness(ask, near);
    return here > there || (here == there && near->pinned == NULL);
}

/* Whether the requirement is of a script, and the other one is not in it. */
static bool has_own_environment(const struct af_project_ask *ask,
                                const struct af_project_ask *other)
{
    return ask->source->kind == AF_PROJECT_PYTHON && ask->source != other->source;
}

const struct af_project_ask *af_project_torch_for(const struct af_project_asks *asks,
                                                  const struct af_project_ask *ask)
{
    const struct af_project_ask *near = NULL, *exact = NULL;
    for (const struct af_project_ask *at = asks->first; at != NULL; at = at->next) {
        if (!at->is_torch || has_own_environment(at, ask) || has_own_environment(ask, at))
            continue;
        if (at->root == ask->root && is_nearer(ask, at, near))
            near = at;
        if (at->pinned != NULL && exact == NULL && in_same_folder(at->source, ask->source))
            exact = at;
    }
    return near != NULL ? near : exact;
}

struct af_project_stated af_project_stated_for(const struct af_project_asks *asks,
                                               const struct af_project_ask *ask)
{
    struct af_project_stated found = asks->manifest;
    if (ask == NULL)
        return found;
    const struct af_project_stated *own = &asks->stated[ask->source - asks->sources];
    if (ask->source->kind == AF_PROJECT_PYTHON) /* bound by its own block alone */
        found = (struct af_project_stated){.python_range = ""};
    if (own->python_range != NULL)
        found.python_range = own->python_range;
    if (own->platforms != 0)
        found.platforms = own->platforms;
    return found;
}

bool af_project_brings_torch(const struct af_project_asks *asks, const char *path)
{
    return search(asks->by_name, asks->by_name_count, path, compare_names) != NULL;
}
