/*
 * probe_root.c: how the probes read variables, paths and PATH, so that a test can put a whole
 * machine into a folder. Used by every probe.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define TOML_BYTES (1024u * 1024u)
#define SMALL_FILE_BYTES 65536u
#define NAMES_MAX 20000u

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

const char *af_probe_next_folder(const struct af_probe *probe, const char **rest,
                                 const char *if_empty)
{
    while (*rest != NULL) {
        const char *at = *rest;
        size_t len = strcspn(at, ":");
        *rest = at[len] == '\0' ? NULL : at + len + 1;
        if (len > 0)
            return af_probe_path(probe, af_arena_text_n(probe->arena, at, len));
        if (if_empty != NULL)
            return af_probe_path(probe, if_empty);
    }
    return NULL;
}

const char *af_probe_on_path_except(const struct af_probe *probe, const char *name,
                                    const char *skipped)
{
    const char *rest = af_probe_variable(probe, "PATH");
    const char *folder;
    while ((folder = af_probe_next_folder(probe, &rest, probe->options->folder)) != NULL) {
        const char *program = af_path_join(probe->arena, folder, name);
        if (!af_equal(folder, skipped) && af_file_is_executable(program))
            return program;
    }
    return NULL;
}

const char *af_probe_on_path(const struct af_probe *probe, const char *name)
{
    return af_probe_on_path_except(probe, name, NULL);
}

const char *af_probe_home(const struct af_probe *probe, const char *variable, const char *below)
{
    const char *folder = af_probe_variable(probe, variable);
    const char *home = af_probe_variable(probe, "HOME");
    if (folder == NULL && home != NULL)
        folder = af_path_join(probe->arena, home, below);
    return af_probe_path(probe, folder);
}

const char *af_probe_parent(const struct af_probe *probe, const char *folder)
{
    bool is_last = folder[0] == '\0' || strcmp(folder, "/") == 0 || strcmp(folder, ".") == 0;
    return is_last ? NULL : af_path_folder(probe->arena, folder);
}

const char *af_probe_small_text(const struct af_probe *probe, const char *path)
{
    struct af_span bytes;
    if (path == NULL ||
        af_file_read(probe->arena, path, SMALL_FILE_BYTES, &bytes, NULL) != ANYFLASH_OK)
        return NULL;
    bytes = af_text_trim(bytes);
    return af_arena_text_n(probe->arena, bytes.data, bytes.len);
}

size_t af_probe_list(const struct af_probe *probe, const char *folder,
                     const char *const **names_out)
{
    const char **names = NULL;
    size_t count = 0;
    *names_out = NULL;
    if (folder == NULL || af_folder_list(probe->arena, folder, NAMES_MAX, &names, &count, NULL,
                                         NULL) != ANYFLASH_OK)
        return 0;
    *names_out = names;
    return count;
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
