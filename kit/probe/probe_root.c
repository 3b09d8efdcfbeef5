/*
 * probe_root.c: how the probes read variables, paths and PATH, so that a test can put a whole
 * machine into a folder. Used by every probe.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define TOML_BYTES (1024u * 1024u)

const char *af_probe_variable(const struct af_probe *probe, const char *name)
{
    size_t len = strlen(name);
    char *const *all = probe->options->environment;
    for (size_t i = 0; all != NULL && all[i] != NULL; i++) {
        if (strncmp(all[i], name, len) == 0 && all[i][len] == '=')
            return all[i][len + 1] == '\0' ? NULL : all[i] + len + 1;
    }
    return NULL;
}

/* A path that is already below the root is not changed. */
const char *af_probe_path(const struct af_probe *probe, const char *path)
{
    const char *root = probe->options->root;
    if (path == NULL || root == NULL || path[0] != '/')
        return path;
    size_t len = strlen(root);
    if (strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0'))
        return path;
    return af_path_join(probe->arena, root, path + 1);
}

const char *af_probe_on_path_except(const struct af_probe *probe, const char *name,
                                    const char *skipped)
{
    const char *rest = af_probe_variable(probe, "PATH");
    while (rest != NULL) {
        const char *colon = strchr(rest, ':');
        size_t len = colon == NULL ? strlen(rest) : (size_t)(colon - rest);
        const char *folder =
            len == 0 ? probe->options->folder : af_arena_text_n(probe->arena, rest, len);
        folder = af_probe_path(probe, folder);
        const char *program = af_path_join(probe->arena, folder, name);
        if (program != NULL && !af_equal(folder, skipped) && af_file_is_executable(program))
            return program;
        rest = colon == NULL ? NULL : colon + 1;
    }
    return NULL;
}

const char *af_probe_on_path(const struct af_probe *probe, const char *name)
{
    return af_probe_on_path_except(probe, name, NULL);
}

bool af_probe_toml_has_table(const char *path, const char *table)
{
    struct af_arena arena;
    struct af_span rest;
    struct af_span line;
    bool found = false;
    size_t len = strlen(table);
    af_arena_init(&arena);
    if (af_file_read_start(&arena, path, TOML_BYTES, &rest, NULL) == ANYFLASH_OK) {
        while (!found && af_text_line(&rest, &line)) {
            line = af_text_trim(line);
            while (line.len > 1 && line.data[0] == '[' && line.data[1] == '[') {
                line.data++;
                line.len--;
            }
            found = line.len > len && strncmp(line.data, table, len) == 0 &&
                    (line.data[len] == ']' || line.data[len] == '.');
        }
    }
    af_arena_release(&arena);
    return found;
}
