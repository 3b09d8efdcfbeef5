/*
 * config_fragment.c: lines to paste, for tools whose files are not edited: one
 * template for each tool.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/config/config.h"

/* value_of() has the <names>; a line is left out if one of its values is unknown. */
struct fragment {
    const char *tool;
    const char *text;
    const char *conda_text; /* if torch comes from conda-forge; NULL: as `text` */
};

static const struct fragment fragments[] = {
    /* The hash in the address does not turn on hash mode for all other lines. */
    {"pip",
     "--only-binary <package>\n"
     "torch==<torch>.*\n"
     "<package> @ <url_with_hash> ; <marker>\n",
     NULL},
    /* An archive without a version is the only form that both pip and uv accept. */
    {"pylock",
     "[[packages]]\n"
     "name = \"<package>\"\n"
     "marker = \"<marker>\"\n"
     "archive = { url = \"<url>\", hashes = { sha256 = \"<sha256>\" } }\n",
     NULL},
    {"poetry",
     "[tool.poetry.dependencies]\n"
     "torch = \"<torch>.*\"\n"
     "<package> = { url = \"<url>\", markers = \"<marker>\" }\n",
     NULL},
    {"pixi",
     "# in pyproject.toml, each table below tool.pixi\n"
     "[<python_target>dependencies]\n"
     "python = \"3.<python>.*\"\n"
     "[<target>pypi-dependencies]\n"
     "torch = \"==<torch>.*\"\n"
     "<package> = { url = \"<url>\" }\n",
     "# in pyproject.toml: [tool.pixi.dependencies]\n"
     "[dependencies]\n"
     "pytorch-gpu = \"<torch>.*\"\n"
     "<package> = \"*\"\n"},
    {"conda",
     "channels:\n"
     "  - conda-forge\n"
     "dependencies:\n"
     "  - python=3.<python>\n"
     "  - pip\n"
     "  - pip:\n"
     "      - torch==<torch>.*\n"
     "      - \"<package> @ <url_with_hash>\"\n",
     "channels:\n"
     "  - conda-forge\n"
     "dependencies:\n"
     "  - python=3.<python>\n"
     "  - pytorch-gpu=<torch>.*\n"
     "  - <package>\n"},
    {"dockerfile",
     "# <package> <version> for torch <torch>, Python 3.<python>\n"
     "ADD <checksum><url> /tmp/wheels/<file>\n"
     "RUN python -c \"import importlib.metadata as m; v = m.version('torch'); "
     "assert v.startswith('<torch>.'), v\"\n"
     "RUN python -m pip install --no-cache-dir --no-deps '/tmp/wheels/<file>'\n"
     "RUN python -m pip install --no-cache-dir einops\n",
     NULL},
};

/* pixi's table for the platform of the pin: "target.linux-64."; "" for all platforms. */
static const char *pixi_target(const struct af_pin *pin)
{
    static const char *const words[][2] = {
        {"'linux' and platform_machine == 'x86_64'", "target.linux-64."},
        {"'linux' and platform_machine == 'aarch64'", "target.linux-aarch64."},
        {"'win32' and platform_machine == 'AMD64'", "target.win-64."},
    };
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (strstr(pin->platform_marker, words[i][0]) != NULL)
            return words[i][1];
    return "";
}

/* The value of a name in a template; NULL: unknown. */
static const char *value_of(struct af_arena *arena, const struct af_config_lock *lock,
                            struct af_span name)
{
    const struct af_pin *pin = &lock->pins[0];
    const char *sha256 = pin->facts.sha256;
    const struct {
        const char *name;
        const char *value;
    } values[] = {
        {"package", lock->package},
        {"version", pin->version},
        {"file", pin->file},
        {"url", pin->url},
        {"sha256", sha256},
        {"url_with_hash", af_url_with_sha256(arena, pin->url, sha256)},
        {"checksum",
         sha256 == NULL ? "" : af_arena_format(arena, "--checksum=sha256:%s ", sha256)},
        {"marker", pin->marker},
        {"target", pixi_target(pin)},
        {"python_target", pin->python_minor < 0 ? NULL : pixi_target(pin)},
        {"torch", pin->torch},
        {"python",
         pin->python_minor < 0 ? NULL : af_arena_format(arena, "%d", pin->python_minor)},
    };
    for (size_t i = 0; i < AF_COUNT(values); i++)
        if (af_text_span_equal(name, values[i].name))
            return values[i].value;
    return NULL;
}

/* Adds one line of a template with its values; nothing if one of them is unknown. */
static void add_line(struct af_text *out, const struct af_config_lock *lock,
                     struct af_span line)
{
    size_t start = out->len;
    const char *open;
    while ((open = memchr(line.data, '<', line.len)) != NULL) {
        size_t before = (size_t)(open - line.data);
        size_t len = strcspn(open + 1, ">");
        const char *value = value_of(lock->arena, lock, (struct af_span){open + 1, len});
        if (value == NULL) {
            out->len = start;
            return;
        }
        af_text_add_n(out, line.data, before);
        af_text_add(out, value);
        line = (struct af_span){open + len + 2, line.len - before - len - 2};
    }
    af_text_add_n(out, line.data, line.len);
    af_text_add(out, "\n");
}

/* Whether torch comes from conda on all machines. */
static bool is_conda(const struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_package *torch = af_machine_package(lock->pins[i].machine, "torch");
        const char *kind = af_fact_text_or(&lock->pins[i].machine->python.kind, "");
        bool in_conda = strcmp(kind, "conda") == 0 || strcmp(kind, "pixi") == 0;
        if (!in_conda || (torch != NULL && torch->installer.state == AF_FACT_KNOWN &&
                          !af_fact_is(&torch->installer, "conda")))
            return false;
    }
    return true;
}

/* Fails with UNSUPPORTED, with the reason, if the lines cannot say what was decided. */
static enum anyflash_status check_lock(const struct af_config_lock *lock,
                                       const struct fragment *fragment,
                                       struct anyflash_error *err)
{
    if (lock->pin_count > 1)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the lines for %s are for one machine: ask for one at a time",
                       fragment->tool);
    if (lock->pins[0].facts.sha256 == NULL && strstr(fragment->text, "<sha256>") != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "pylock.toml needs the hash of '%s', which the catalog does not have: "
                       "--from takes it from the file, in a folder",
                       lock->pins[0].file);
    return ANYFLASH_OK;
}

enum anyflash_status af_config_fragment(struct af_config_lock *lock, const char *tool,
                                        struct af_span *new_out, struct anyflash_error *err)
{
    struct af_text out = {0};
    struct af_span line;
    const struct fragment *fragment = fragments;
    while (strcmp(fragment->tool, tool) != 0)
        fragment++;
    bool from_conda = fragment->conda_text != NULL && is_conda(lock);
    enum anyflash_status status = check_lock(lock, fragment, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *text = from_conda ? fragment->conda_text : fragment->text;
    struct af_span rest = {text, strlen(text)};
    while (af_text_line(&rest, &line))
        add_line(&out, lock, line);
    if (from_conda)
        af_config_lock_note(lock, "torch comes from conda-forge, so flash-attn does too: "
                                  "conda-forge's builds state which torch they are for");
    else if (lock->pins[0].facts.sha256 == NULL &&
             (strstr(text, "hash>") != NULL || strstr(text, "<checksum>") != NULL))
        af_config_lock_note(lock, "no hash is written, because the catalog has none; name the "
                                  "folder of the file with --from to add it");
    bool installs_torch =
        strstr(text, "torch==<torch>") != NULL || strstr(text, "torch = \"") != NULL;
    if (!from_conda && installs_torch)
        af_config_lock_note_torch(lock, "where the tool looks for torch");
    new_out->len = out.len;
    new_out->data = af_text_take(&out, lock->arena);
    return ANYFLASH_OK;
}
