/*
 * project_files.c: the probe of files that pin what a project installs, and whether they name
 * flash-attn. It uses the nearest folder, from the project's upward, that has such files.
 */
#include <ctype.h>
#include <string.h>

#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define FILE_BYTES (8u * 1024u * 1024u)
#define FILES_MAX 64u
#define WHEEL_NAME_BYTES 256

static const struct {
    const char *name;
    const char *tool;
} known_files[] = {
    {"pyproject.toml", "any"},
    {"uv.toml", "uv"},
    {"uv.lock", "uv"},
    {"poetry.lock", "poetry"},
    {"pdm.lock", "pdm"},
    {"pixi.toml", "pixi"},
    {"pixi.lock", "pixi"},
    {"environment.yml", "conda"},
    {"environment.yaml", "conda"},
    {"conda-lock.yml", "conda"},
    {"pylock.toml", "any"},
    {"setup.py", "any"},
    {"Pipfile.lock", "pipenv"},
};

/* The tool that a file with this name belongs to, or NULL. */
static const char *tool_of(const char *name)
{
    for (size_t i = 0; i < AF_COUNT(known_files); i++) {
        if (strcmp(name, known_files[i].name) == 0)
            return known_files[i].tool;
    }
    if (af_starts_with(name, "pylock.") && af_ends_with(name, ".toml"))
        return "any";
    return af_starts_with(name, "requirements") && af_ends_with(name, ".txt") ? "pip" : NULL;
}

/* The tool of a pyproject.toml, by the table that it has. */
static const char *pyproject_tool(const char *path)
{
    static const char *const tables[][2] = {{"[tool.uv", "uv"},
                                            {"[tool.poetry", "poetry"},
                                            {"[tool.pdm", "pdm"},
                                            {"[tool.pixi", "pixi"}};
    for (size_t i = 0; i < AF_COUNT(tables); i++) {
        if (af_probe_toml_has_table(path, tables[i][0]))
            return tables[i][1];
    }
    return "any";
}

/* Sets the name of the first wheel file of flash-attn in the text, with "%2B" as '+'. */
static void set_wheel(struct af_probe *probe, struct af_fact *fact, const char *path,
                      struct af_span bytes)
{
    static const char start[] = "flash_attn-";
    char name[WHEEL_NAME_BYTES];
    for (size_t i = 0; i + sizeof start <= bytes.len; i++) {
        size_t len = 0;
        if (memcmp(bytes.data + i, start, sizeof start - 1) != 0)
            continue;
        for (size_t at = i; at < bytes.len && len + 1 < sizeof name; at++) {
            bool is_plus = at + 3 <= bytes.len && strncasecmp(bytes.data + at, "%2b", 3) == 0;
            char c = is_plus ? '+' : bytes.data[at];
            if (!isalnum((unsigned char)c) && strchr("-_.+", c) == NULL)
                break;
            name[len++] = c;
            at += is_plus ? 2 : 0;
        }
        name[len] = '\0';
        if (!af_ends_with(name, ".whl"))
            continue;
        af_fact_text(probe->arena, fact, name, path);
        return;
    }
    af_fact_absent(probe->arena, fact, path);
}

/*
 * Sets whether the file mentions flash-attn, and its wheel. flash_attn and Flash.Attn are the
 * same name (PEP 503).
 */
static void set_mention(struct af_probe *probe, struct af_project_file *file, const char *path)
{
    struct af_fact *fact = &file->names_flash_attn;
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_span bytes;
    bool found = false;
    af_arena_init(&arena);
    if (af_file_read_start(&arena, path, FILE_BYTES, &bytes, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        af_fact_unknown(probe->arena, &file->flash_attn_wheel, "%s", err.message);
    } else {
        for (size_t i = 0; !found && i + 10 <= bytes.len; i++) {
            const char *at = bytes.data + i;
            found = (*at == 'f' || *at == 'F') && strncasecmp(at, "flash", 5) == 0 &&
                    strchr("-_.", at[5]) != NULL && strncasecmp(at + 6, "attn", 4) == 0;
        }
        af_fact_bool(probe->arena, fact, found, path);
        set_wheel(probe, &file->flash_attn_wheel, path, bytes);
    }
    af_arena_release(&arena);
}

static void add(struct af_probe *probe, const char *path, const char *tool)
{
    struct af_project_file *file = af_machine_row_add(
        probe->machine, offsetof(struct af_machine, project_files), "not read");
    if (file == NULL)
        return;
    if (af_ends_with(path, "/pyproject.toml"))
        tool = pyproject_tool(path);
    af_fact_text(probe->arena, &file->path, path, path);
    af_fact_text(probe->arena, &file->tool, tool, path);
    set_mention(probe, file, path);
}

/* Adds the files of one folder; false when it has none. */
static bool add_folder(struct af_probe *probe, const char *folder)
{
    const char *const *names;
    bool any = false;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        const char *tool = tool_of(names[i]);
        const char *path = tool == NULL ? NULL : af_path_join(probe->arena, folder, names[i]);
        if (path == NULL || !af_file_is_regular(path) ||
            probe->machine->project_files.count == FILES_MAX)
            continue;
        add(probe, path, tool);
        any = true;
    }
    return any;
}

void af_probe_project_files(struct af_probe *probe)
{
    const char *folder = probe->options->folder;
    probe->machine->project_files.state = AF_FACT_KNOWN;
    probe->machine->project_files.source = "the project's folder and those above it";
    while (folder != NULL && !add_folder(probe, folder))
        folder = af_probe_parent(probe, folder);
}
