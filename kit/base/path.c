/*
 * path.c: joins and splits paths.
 */
#include "kit/base/path.h"

#include <string.h>

#include "kit/base/text.h"

const char *af_path_join(struct af_arena *arena, const char *folder, const char *name)
{
    if (folder == NULL || name == NULL)
        return NULL;
    const char *slash = folder[0] == '\0' || af_ends_with(folder, "/") ? "" : "/";
    return af_arena_format(arena, "%s%s%s", folder, slash, name);
}

const char *af_path_folder(struct af_arena *arena, const char *path)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    if (slash == NULL)
        return af_arena_text(arena, ".");
    return af_arena_text_n(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

const char *af_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}
