/*
 * findings.c: the checks. Each looks at one requirement, import or command and adds at most one
 * finding; what a change has to be is decided here, how it is shown by the caller.
 */
#include "kit/project/findings.h"

#include <string.h>

#include "kit/base/url.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/project_asks.h"
#include "kit/project/project_wheels.h"

#define AF_PROJECT_FINDING(id, name, title, why, fix) {name, title, why, fix},
const struct af_project_finding_row af_project_finding_rows[] = {
#include "kit/project/findings.inc"
};
#undef AF_PROJECT_FINDING

#define EDITS_MAX 32
#define IMPORT_NAMES_MAX 8
#define LINUX "sys_platform == 'linux' and platform_machine == 'x86_64'"

struct checker {
    struct af_arena *arena;
    const struct af_project_source *sources;
    size_t count;
    const struct af_catalog *catalog;
    enum af_fallback fallback;
    struct af_project_asks asks;
    bool has_python;   /* there is a Python file besides setup.py */
    bool is_mentioned; /* and one names flash-attn */
    struct af_project_findings *findings;
    struct af_project_finding **end;
    struct anyflash_error *err;
};

static const char *copy(struct checker *checker, struct af_span span)
{
    return af_arena_text_n(checker->arena, span.data, span.len);
}

/* Adds a finding on the line; NULL without memory. */
static struct af_project_finding *add(struct checker *checker, enum af_project_finding_id id,
                                      const struct af_project_source *source, size_t line)
{
    struct af_project_finding *finding = af_arena_alloc(checker->arena, sizeof *finding);
    if (finding == NULL)
        return NULL;
    finding->id = id;
    finding->source = source;
    finding->line = line;
    finding->subject = copy(checker, af_text_trim(af_project_line(source->text, line)));
    *checker->end = finding;
    checker->end = &finding->next;
    checker->findings->count++;
    return finding;
}

/* Adds a change. Without memory the arena has failed, and the answer is not used. */
static void add_edit(struct checker *checker, struct af_project_finding *finding, size_t start,
                     size_t end, const char *text)
{
    if (finding->edits == NULL)
        finding->edits = af_arena_array(checker->arena, EDITS_MAX, sizeof *finding->edits);
    if (finding->edits != NULL && text != NULL && finding->edit_count < EDITS_MAX)
        finding->edits[finding->edit_count++] = (struct af_project_edit){start, end, text};
}

/* "3.10", "3.9 to 3.12" or "3.9, 3.11", in the arena. */
static const char *pythons_text(struct checker *checker, const struct af_project_pythons *list)
{
    struct af_text text = {0};
    size_t last = list->count - 1;
    bool is_range =
        list->count > 2 && list->minors[last] - list->minors[0] == (int)list->count - 1;
    for (size_t i = 0; i < list->count; i++)
        if (!is_range || i == 0 || i == last)
            af_text_format(&text, "%s3.%d",
                           i == 0     ? ""
                           : is_range ? " to "
                                      : ", ",
                           list->minors[i]);
    const char *made = af_arena_text(checker->arena, af_text_get(&text));
    af_text_release(&text);
    return made;
}

/* ---- requirements ---- */

/* The line with `version` in place of its pinned version. */
static void edit_pin(struct checker *checker, struct af_project_finding *finding,
                     const struct af_project_ask *ask, const char *version)
{
    if (ask == NULL || ask->source != finding->source || ask->start == ask->end)
        return;
    const char *text = copy(
        checker, (struct af_span){ask->source->text.data + ask->start, ask->end - ask->start});
    const char *name = text == NULL ? NULL : strstr(text, ask->name);
    if (name == NULL)
        return;
    size_t start = (size_t)(name - text) + strlen(ask->name);
    const char *old = ask->specifier[0] == '\0' ? NULL : strstr(text + start, ask->specifier);
    size_t at = old == NULL ? start : (size_t)(old - text);
    add_edit(checker, finding, ask->start + at, ask->start + at + strlen(ask->specifier),
             af_arena_format(checker->arena, "==%s", version));
}

/*
 * Replaces the line by one for each wheel. Only for requirements files: PyPI refuses packages
 * whose dependencies are URLs.
 */
static bool edit_urls(struct checker *checker, struct af_project_finding *finding,
                      const struct af_project_ask *ask, const struct af_project_pins *pins)
{
    struct af_project_pythons pythons;
    struct af_text lines = {0};
    if (ask->source->kind != AF_PROJECT_REQUIREMENTS || ask->start == ask->end)
        return false;
    af_project_pythons_of(pins->torch, checker->asks.python_range, &pythons);
    for (size_t i = 0; i < pythons.count; i++) {
        const struct af_catalog_wheel *wheel;
        if (af_project_wheel(checker->catalog, pins, pythons.minors[i], &wheel, checker->err) !=
                ANYFLASH_OK ||
            wheel == NULL || wheel->url == NULL)
            continue;
        const char *url =
            af_url_with_sha256(checker->arena, af_url_encode_plus(checker->arena, wheel->url),
                               af_catalog_sha256(checker->arena, wheel));
        af_text_format(&lines, "%s @ %s ; python_version == '3.%d' and " LINUX "\n", ask->name,
                       url == NULL ? "" : url, pythons.minors[i]);
    }
    if (lines.len > 0)
        add_edit(checker, finding, ask->start, ask->end,
                 af_arena_text(checker->arena, af_text_get(&lines)));
    af_text_release(&lines);
    return finding->edit_count > 0;
}

/* Moves an element of `dependencies` into an extra; the first extra if there are some. */
static void edit_extra(struct checker *checker, struct af_project_finding *finding,
                       const struct af_project_ask *ask)
{
    static const char table[] = "[project.optional-dependencies]";
    struct af_span text = ask->source->text;
    const char *all = copy(checker, text);
    if (all == NULL || ask->start == ask->end || strstr(all, "\nflash = ") != NULL)
        return;
    const char *line =
        af_arena_format(checker->arena, "flash = [\"%s%s\"]\n", ask->name, ask->specifier);
    const char *found = strstr(all, table);
    const char *newline = found == NULL ? NULL : strchr(found, '\n');
    if (found != NULL && newline == NULL)
        return;
    add_edit(checker, finding, ask->start, ask->end, "");
    if (newline != NULL) {
        size_t at = (size_t)(newline - all) + 1;
        add_edit(checker, finding, at, at, line);
        return;
    }
    bool ends = text.len > 0 && text.data[text.len - 1] == '\n';
    add_edit(checker, finding, text.len, text.len,
             af_arena_format(checker->arena, "%s\n%s\n%s", ends ? "" : "\n", table, line));
}

/* flash-attn is required by name: names its wheels, or makes it optional. */
static void repair_build(struct checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask, const struct af_project_ask *torch)
{
    struct af_project_pins pins = {.flash = ask->pinned};
    if (torch != NULL && torch->pinned != NULL) {
        pins.torch = torch->pinned;
        if (edit_urls(checker, finding, ask, &pins)) {
            finding->advice = "Name the wheels that fit the pinned torch.";
            return;
        }
    }
    if (ask->source->kind == AF_PROJECT_REQUIREMENTS && ask->start < ask->end)
        add_edit(
            checker, finding, ask->start, ask->end,
            "# flash-attn is optional: `anyflash install` finds the wheel for the installed "
            "torch\n");
    else if (ask->source->kind == AF_PROJECT_PYPROJECT)
        edit_extra(checker, finding, ask);
    finding->advice = "Make flash-attn optional: take it out of what everybody installs.";
}

static void add_no_wheel(struct checker *checker, const struct af_project_ask *ask,
                         const struct af_project_ask *torch, const char *torch_version,
                         const struct af_project_pythons *lacking)
{
    struct af_project_pins nearest, pins = {ask->pinned, torch_version};
    bool is_open = torch->pinned == NULL;
    struct af_project_finding *finding =
        add(checker, is_open ? AF_PROJECT_FINDING_OPEN_TORCH : AF_PROJECT_FINDING_NO_WHEEL,
            ask->source, ask->line);
    if (finding == NULL ||
        af_project_nearest_pins(checker->catalog, &pins,
                                is_open ? torch->specifier : "==", checker->asks.python_range,
                                &nearest, checker->err) != ANYFLASH_OK)
        return;
    finding->detail = af_arena_format(
        checker->arena, "there is no wheel of flash-attn %s for torch %s and Python %s",
        ask->pinned, torch_version, pythons_text(checker, lacking));
    if (nearest.torch == NULL) {
        finding->advice =
            "No other version of either has wheels for all of these Pythons: make "
            "flash-attn optional.";
        return;
    }
    bool is_flash = strcmp(nearest.torch, torch_version) == 0;
    edit_pin(checker, finding, is_flash ? ask : torch,
             is_flash ? nearest.flash : nearest.torch);
    finding->advice = af_arena_format(
        checker->arena,
        "Pin flash-attn %s with torch %s: they have wheels. Then name these, or "
        "make flash-attn optional.",
        nearest.flash, nearest.torch);
}

/* Whether the pinned flash-attn lacks wheels; then adds a finding. */
static bool check_pins(struct checker *checker, const struct af_project_ask *ask,
                       const struct af_project_ask *torch)
{
    struct af_project_pythons all, with, lacking = {.count = 0};
    const char *version = torch->pinned != NULL
                              ? torch->pinned
                              : af_project_newest_torch(checker->catalog, torch->specifier);
    struct af_project_pins pins = {ask->pinned, version};
    af_project_pythons_of(version, checker->asks.python_range, &all);
    with = all;
    if (all.count == 0 || af_project_pythons_with_wheel(checker->catalog, &pins, &with,
                                                        checker->err) != ANYFLASH_OK)
        return false;
    for (size_t i = 0, at = 0; i < all.count; i++) {
        if (at < with.count && with.minors[at] == all.minors[i])
            at++;
        else
            lacking.minors[lacking.count++] = all.minors[i];
    }
    /* A torch that is for more Pythons than the project says something about is fine. */
    if (lacking.count == 0 || (with.count > 0 && checker->asks.python_range[0] == '\0'))
        return false;
    add_no_wheel(checker, ask, torch, version, &lacking);
    return true;
}

/* The one Python minor of a wheel "cp310-cp310"; -1: it is for several. */
static int only_python(const struct af_wheel_name *wheel)
{
    int64_t minor;
    bool is_one = af_starts_with(wheel->python, "cp3") && strcmp(wheel->abi, "abi3") != 0 &&
                  af_parse_i64(wheel->python + 3, 0, 99, &minor);
    return is_one ? (int)minor : -1;
}

/* A wheel by its URL: `marker` is what the requirement says about Python. */
static void check_wheel(struct checker *checker, const struct af_project_source *source,
                        size_t line, const char *url, const char *marker,
                        const struct af_project_ask *ask, const struct af_project_ask *torch)
{
    struct af_wheel_name wheel;
    struct af_wheel_local local;
    struct af_project_pythons pythons;
    const char *file = af_url_file_name(checker->arena, url);
    if (file == NULL || strchr(url, '$') != NULL || strchr(url, '{') != NULL ||
        af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID)
        return;
    af_wheel_local_parse(wheel.version.local, AF_FORMATS_TORCH_DIGITS_NONE, &local);
    const char *for_torch =
        torch != NULL && torch->pinned != NULL ? torch->pinned : local.torch;
    size_t len = strlen(local.torch);
    struct af_project_finding *finding = NULL;
    af_project_pythons_of(local.torch[0] != '\0' ? local.torch : "2.6",
                          checker->asks.python_range, &pythons);
    if (len > 0 &&
        (strncmp(for_torch, local.torch, len) != 0 || strchr(".+", for_torch[len]) == NULL)) {
        finding = add(checker, AF_PROJECT_FINDING_OTHER_TORCH, source, line);
        if (finding != NULL)
            finding->detail = af_arena_format(checker->arena,
                                              "the wheel is for torch %s, the project pins %s",
                                              local.torch, for_torch);
    } else if (only_python(&wheel) >= 0 && strstr(marker, "python_version") == NULL &&
               strstr(marker, "python_full_version") == NULL &&
               (pythons.count > 1 ||
                (pythons.count == 1 && pythons.minors[0] != only_python(&wheel)))) {
        finding = add(checker, AF_PROJECT_FINDING_ONE_PYTHON, source, line);
        if (finding != NULL)
            finding->detail =
                af_arena_format(checker->arena, "it is for Python 3.%d", only_python(&wheel));
    }
    if (finding == NULL || ask == NULL || for_torch[0] == '\0')
        return;
    char version[AF_WHEEL_NAME_BYTES];
    struct af_project_pins pins = {
        af_version_format(&wheel.version, false, version, sizeof version), for_torch};
    edit_urls(checker, finding, ask, &pins);
}

static void check_requirement(struct checker *checker, const struct af_project_ask *ask)
{
    const struct af_project_ask *torch = af_project_torch_for(&checker->asks, ask);
    if (ask->url[0] != '\0') {
        check_wheel(checker, ask->source, ask->line, ask->url, ask->marker, ask, torch);
        return;
    }
    if (!ask->is_optional && checker->has_python && !checker->is_mentioned) {
        struct af_project_finding *finding =
            add(checker, AF_PROJECT_FINDING_NEVER_IMPORTED, ask->source, ask->line);
        if (finding != NULL && ask->start < ask->end)
            add_edit(checker, finding, ask->start, ask->end, "");
        return;
    }
    if (ask->pinned != NULL && torch != NULL && check_pins(checker, ask, torch))
        return;
    struct af_project_finding *finding =
        ask->is_optional
            ? NULL
            : add(checker, AF_PROJECT_FINDING_SOURCE_BUILD, ask->source, ask->line);
    if (finding != NULL)
        repair_build(checker, finding, ask, torch);
}

/* ---- imports ---- */

static const char sdpa_text[] =
    "except ImportError:\n"
    "    import torch\n"
    "\n"
    "    def %s(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):\n"
    "        \"\"\"flash_attn_func() by torch alone; q, k, v are (batch, sequence, heads, head "
    "size).\"\"\"\n"
    "        q, k, v = (x.transpose(1, 2) for x in (q, k, v))\n"
    "        if k.shape[1] != q.shape[1]:  # several query heads for each key head\n"
    "            k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))\n"
    "        mask = None\n"
    "        if causal and q.shape[2] != k.shape[2]:  # flash-attn aligns the last rows\n"
    "            mask = torch.ones(\n"
    "                q.shape[2], k.shape[2], dtype=torch.bool, device=q.device\n"
    "            ).tril(k.shape[2] - q.shape[2])\n"
    "        out = torch.nn.functional.scaled_dot_product_attention(\n"
    "            q, k, v, attn_mask=mask, dropout_p=dropout_p,\n"
    "            is_causal=causal and mask is None, scale=softmax_scale)\n"
    "        if mask is not None:  # rows without keys are 0\n"
    "            out = out.masked_fill(~mask.any(-1, keepdim=True), 0)\n"
    "        return out.transpose(1, 2)\n";

static const char *const anyflash_functions[] = {
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
};

/* How an import can be replaced. */
struct replacement {
    bool by_anyflash;
    bool by_sdpa;
    const char *local; /* the only name that it makes */
};

/* "flash_attn_func as f": the name, and the name that it gets. */
static void note_name(struct checker *checker, struct af_span item, struct replacement *what)
{
    size_t len = 0;
    while (len < item.len && item.data[len] != ' ' && item.data[len] != '\t')
        len++;
    struct af_span name = {item.data, len};
    struct af_span rest = af_text_trim((struct af_span){item.data + len, item.len - len});
    bool is_known = false;
    for (size_t i = 0; i < AF_COUNT(anyflash_functions); i++)
        is_known |= af_text_span_equal(name, anyflash_functions[i]);
    what->by_anyflash &= is_known;
    what->by_sdpa &= what->local == NULL && af_text_span_equal(name, anyflash_functions[0]);
    bool is_renamed = rest.len > 3 && memcmp(rest.data, "as ", 3) == 0;
    what->local =
        copy(checker,
             is_renamed ? af_text_trim((struct af_span){rest.data + 3, rest.len - 3}) : name);
}

static struct replacement replacement_of(struct checker *checker,
                                         const struct af_import_statement *import)
{
    bool is_interface = af_text_span_equal(import->module, "flash_attn") ||
                        af_text_span_equal(import->module, "flash_attn.flash_attn_interface");
    struct replacement what = {is_interface, is_interface, NULL};
    struct af_span rest = import->names;
    while (is_interface && rest.len > 0) {
        const char *comma = memchr(rest.data, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.data);
        struct af_span item = af_text_trim((struct af_span){rest.data, len});
        len += comma != NULL;
        rest = (struct af_span){rest.data + len, rest.len - len};
        if (item.len > 0)
            note_name(checker, item, &what);
    }
    return what;
}

/* The statement in a "try:", with what serves where it fails; NULL: nothing does. */
static const char *guarded_text(struct checker *checker, const struct af_project_source *source,
                                const struct af_import_statement *import)
{
    struct replacement what = replacement_of(checker, import);
    const char *statement = copy(checker, (struct af_span){source->text.data + import->start,
                                                           import->end - import->start});
    if (!import->is_alone || import->indent > 0 || statement == NULL || what.local == NULL ||
        memchr(import->names.data, '#', import->names.len) != NULL)
        return NULL;
    if (what.by_sdpa && checker->fallback == AF_FALLBACK_SDPA) {
        const char *rest = af_arena_format(checker->arena, sdpa_text, what.local);
        return af_arena_format(checker->arena, "try:\n    %s\n%.*s", statement,
                               rest == NULL ? 0 : (int)strlen(rest) - 1,
                               rest == NULL ? "" : rest);
    }
    if (!what.by_anyflash)
        return NULL;
    return af_arena_format(checker->arena,
                           "try:\n    %s\nexcept ImportError:\n    from anyflash.flash_attn "
                           "import %s%.*s%s",
                           statement,
                           memchr(import->names.data, '\n', import->names.len) ? "(" : "",
                           (int)import->names.len, import->names.data,
                           memchr(import->names.data, '\n', import->names.len) ? ")" : "");
}

static void check_imports(struct checker *checker, const struct af_project_source *source,
                          const struct af_import_facts *facts)
{
    struct af_project_finding *finding = NULL;
    size_t fatal = 0, repaired = 0;
    for (const struct af_import_statement *import = facts->imports; import != NULL;
         import = import->next) {
        if (import->guard != AF_IMPORT_FATAL)
            continue;
        if (finding == NULL)
            finding = add(checker, AF_PROJECT_FINDING_NO_FALLBACK, source, import->line);
        if (finding == NULL)
            return;
        const char *text = guarded_text(checker, source, import);
        fatal++;
        repaired += text != NULL;
        if (text != NULL)
            add_edit(checker, finding, import->start, import->end, text);
    }
    if (finding == NULL)
        return;
    if (repaired < fatal)
        finding->advice =
            "Catch the ImportError. flash-attn's other modules have no replacement "
            "elsewhere: do without them, or with code of your own.";
    if (fatal > 1)
        finding->detail =
            af_arena_format(checker->arena, "%zu imports at the top of the file", fatal);
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
    return text != NULL && strstr(text, part) != NULL;
}

static bool is_package(const char *word, const char *name)
{
    size_t len = strcspn(word, "=<>!~[ ;@");
    return af_name_is((struct af_span){word, len}, name);
}

/* The image of the last FROM before byte `end`. */
static void read_image(struct checker *checker, const struct af_project_source *source,
                       size_t end, struct progress *progress)
{
    const char *text = copy(checker, (struct af_span){source->text.data, end});
    const char *from = NULL;
    for (const char *at = text; at != NULL && (at = strstr(at, "FROM ")) != NULL; at++)
        if (at == text || at[-1] == '\n')
            from = at;
    if (from == NULL)
        return;
    const char *image = af_arena_text_n(checker->arena, from, strcspn(from, "\n"));
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
static bool speaks_of_torch(struct checker *checker, const struct af_project_source *source,
                            size_t end)
{
    const char *text = copy(checker, (struct af_span){source->text.data, end});
    return text_has(text, "pytorch") || text_has(text, "PyTorch") ||
           (source->kind == AF_PROJECT_README && text_has(text, "torch"));
}

static bool brings_torch(struct checker *checker, const struct af_project_command *command)
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
static bool torch_comes_later(struct checker *checker, const struct af_project_source *source,
                              size_t at)
{
    struct af_project_command command;
    while (af_project_next_command(checker->arena, source, &at, &command))
        if (brings_torch(checker, &command))
            return true;
    return false;
}

static void add_no_nvcc(struct checker *checker, const struct af_project_source *source,
                        size_t line, size_t from_line)
{
    struct af_project_finding *finding = add(checker, AF_PROJECT_FINDING_NO_NVCC, source, line);
    struct af_span from = af_project_line(source->text, from_line);
    const char *text = copy(checker, from);
    const char *tag = text == NULL ? NULL : strstr(text, "-runtime");
    size_t len = strlen("-runtime");
    if (tag == NULL && text != NULL && (tag = strstr(text, "-base")) != NULL)
        len = strlen("-base");
    if (finding == NULL || tag == NULL)
        return;
    size_t at = (size_t)(from.data - source->text.data) + (size_t)(tag - text);
    add_edit(checker, finding, at, at + len, "-devel");
}

/* A command that builds flash-attn from source. */
static void check_build(struct checker *checker, const struct af_project_source *source,
                        const struct af_project_command *command,
                        const struct progress *progress)
{
    if (progress->has_nvcc == AF_NO) {
        add_no_nvcc(checker, source, command->line, progress->from_line);
        return;
    }
    if (command->is_isolated) {
        struct af_project_finding *finding =
            add(checker, AF_PROJECT_FINDING_BARE_COMMAND, source, command->line);
        if (finding == NULL)
            return;
        finding->advice = "Build with the torch that is installed. The build also needs ninja, "
                          "packaging, psutil and, unless a wheel fits, nvcc.";
        add_edit(checker, finding, command->words_at, command->words_at,
                 " --no-build-isolation");
        return;
    }
    bool is_early =
        !progress->has_torch && !speaks_of_torch(checker, source, command->words_at);
    if (is_early && (source->kind == AF_PROJECT_DOCKERFILE ||
                     torch_comes_later(checker, source, command->words_at)))
        add(checker, AF_PROJECT_FINDING_TORCH_AFTER, source, command->line);
}

static void check_commands(struct checker *checker, const struct af_project_source *source)
{
    struct progress progress = {.has_nvcc = AF_UNKNOWN};
    struct af_project_command command;
    size_t at = 0;
    while (af_project_next_command(checker->arena, source, &at, &command)) {
        if (source->kind == AF_PROJECT_DOCKERFILE)
            read_image(checker, source, command.words_at, &progress);
        for (size_t i = 0; command.words[i] != NULL; i++) {
            if (text_has(command.words[i], "flash_attn-") && text_has(command.words[i], ".whl"))
                check_wheel(checker, source, command.line, command.words[i], "", NULL, NULL);
            else if (is_package(command.words[i], "flash-attn"))
                check_build(checker, source, &command, &progress);
        }
        progress.has_torch |= brings_torch(checker, &command);
    }
}

/* ---- all ---- */

static void note_mentions(struct checker *checker)
{
    for (size_t i = 0; i < checker->count; i++) {
        bool is_python = checker->sources[i].kind == AF_PROJECT_PYTHON;
        checker->has_python |= is_python;
        checker->is_mentioned |= is_python && checker->asks.python[i].mentions;
        struct af_span text = checker->sources[i].text;
        bool names = false;
        for (size_t at = 0; !names && at + 10 <= text.len; at++)
            names = memcmp(text.data + at, "flash", 5) == 0 &&
                    (text.data[at + 5] == '_' || text.data[at + 5] == '-') &&
                    memcmp(text.data + at + 6, "attn", 4) == 0;
        checker->findings->mention_count += names;
    }
}

static void check_source(struct checker *checker, size_t i)
{
    const struct af_project_source *source = &checker->sources[i];
    for (const struct af_project_ask *ask = checker->asks.first; ask != NULL; ask = ask->next)
        if (ask->source == source && !ask->is_torch)
            check_requirement(checker, ask);
    if (source->kind == AF_PROJECT_PYTHON)
        check_imports(checker, source, &checker->asks.python[i]);
    if (source->kind == AF_PROJECT_DOCKERFILE || source->kind == AF_PROJECT_SCRIPT ||
        source->kind == AF_PROJECT_README)
        check_commands(checker, source);
}

enum anyflash_status af_project_findings_make(struct af_arena *arena,
                                              const struct af_project_source *sources,
                                              size_t count, const struct af_catalog *catalog,
                                              enum af_fallback fallback,
                                              struct af_project_findings *findings_out,
                                              struct anyflash_error *err)
{
    struct checker checker = {.arena = arena,
                              .sources = sources,
                              .count = count,
                              .catalog = catalog,
                              .fallback = fallback,
                              .findings = findings_out,
                              .end = &findings_out->first,
                              .err = err};
    *findings_out = (struct af_project_findings){0};
    enum anyflash_status status =
        af_project_asks_read(arena, sources, count, &checker.asks, err);
    if (status != ANYFLASH_OK)
        return status;
    note_mentions(&checker);
    for (size_t i = 0; i < count && !arena->failed; i++)
        check_source(&checker, i);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

const struct af_span *af_project_findings_repaired(const struct af_project_findings *findings,
                                                   const struct af_project_source *source,
                                                   struct af_arena *arena)
{
    struct af_project_edit edits[EDITS_MAX * 4];
    size_t count = 0;
    for (const struct af_project_finding *at = findings->first; at != NULL; at = at->next)
        for (size_t i = 0; at->source == source && i < at->edit_count; i++)
            if (count < AF_COUNT(edits))
                edits[count++] = at->edits[i];
    struct af_span *made = count == 0 ? NULL : af_arena_alloc(arena, sizeof *made);
    struct af_text text = {0};
    if (made == NULL)
        return NULL;
    af_project_apply(source->text, edits, count, &text);
    made->data = text.failed ? NULL : af_arena_text_n(arena, af_text_get(&text), text.len);
    made->len = text.len;
    af_text_release(&text);
    return made->data == NULL ? NULL : made;
}
