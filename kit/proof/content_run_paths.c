/*
 * content_run_paths.c: where the libraries of a wheel make the loader search: run paths that
 * leave the folder of the packages, and needed libraries that are named by a path.
 */
#include "kit/proof/wheel_content.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/proof/inspect_target.h"

/* Reads the next part of a path, without empty ones and ".". */
static bool next_part(const char **at, struct af_span *part_out)
{
    do {
        *at += strspn(*at, "/");
        *part_out = (struct af_span){*at, strcspn(*at, "/")};
        *at += part_out->len;
    } while (af_text_span_equal(*part_out, "."));
    return part_out->len > 0;
}

/* How many folders above its start a path such as "/../torch/lib" leads at most. */
static size_t levels_up(const char *path)
{
    struct af_span part;
    size_t up = 0;
    size_t depth = 0;
    while (next_part(&path, &part)) {
        bool is_up = af_text_span_equal(part, "..");
        up += is_up && depth == 0;
        depth = !is_up ? depth + 1 : depth > 0 ? depth - 1 : 0;
    }
    return up;
}

/* Whether the path is below a folder in which other users can create files, or processes do. */
static bool is_open_folder(struct af_arena *arena, const char *path)
{
    static const char *const folders[] = {"/tmp/",       "/var/tmp/", "/var/lock/", "/var/run/",
                                          "/var/crash/", "/dev/",     "/run/",      "/proc/",
                                          "/sys/",       "/usr/tmp/", "/private/"};
    struct af_span part;
    const char *plain = "/";
    while (next_part(&path, &part))
        plain = af_arena_format(arena, "%s%.*s/", plain, (int)part.len, part.data);
    for (size_t i = 0; i < AF_COUNT(folders); i++)
        if (af_starts_with(plain, folders[i]))
            return true;
    return false;
}

/* The rest of a run path after "$ORIGIN"; NULL if it does not begin with that. */
static const char *behind_origin(const char *element)
{
    static const char *const names[] = {"$ORIGIN", "${ORIGIN}"};
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        const char *rest = element + strlen(names[i]);
        if (af_starts_with(element, names[i]) && (*rest == '/' || *rest == '\0'))
            return rest;
    }
    return NULL;
}

/*
 * The kind of one element of a run path of a library that lies `depth` folders below the folder
 * of the packages; AF_CONTENT_KIND_COUNT: it stays in there. An environment's own folder is
 * three above: lib/python3.12/site-packages.
 */
static enum af_content_kind run_path_kind(struct af_arena *arena, const char *element,
                                          size_t depth)
{
    const char *rest = behind_origin(element);
    size_t up = levels_up(rest != NULL ? rest : element);
    if (strstr(rest != NULL ? rest : element, "ORIGIN") != NULL)
        return AF_CONTENT_RUN_PATH;
    if (rest != NULL)
        return up <= depth       ? AF_CONTENT_KIND_COUNT
               : up <= depth + 3 ? AF_CONTENT_BUILD_PATH
                                 : AF_CONTENT_RUN_PATH;
    return element[0] != '/' || strstr(element, "..") != NULL || is_open_folder(arena, element)
               ? AF_CONTENT_RUN_PATH
               : AF_CONTENT_BUILD_PATH;
}

static void compare_run_path(const struct af_inspect_extension *one, const char *run_path,
                             struct af_arena *arena, af_content_add *add, void *context)
{
    const char *path = one->member->name;
    const struct af_span name = {path, strlen(path)};
    bool is_data = af_content_is_top_folder(path, strcspn(path, "/"), ".data");
    size_t depth = 0;
    for (const char *at = path; *at != '\0'; at++)
        depth += *at == '/';
    depth -= is_data && depth >= 2 ? 2 : 0; /* NAME.data/platlib is not a folder of packages */
    for (const char *at = run_path; at != NULL;) {
        size_t len = strcspn(at, ":");
        const char *element = af_arena_text_n(arena, at, len);
        enum af_content_kind kind = run_path_kind(arena, element, depth);
        if (kind != AF_CONTENT_KIND_COUNT)
            add(context, kind, name, len == 0 ? "the current folder" : element);
        at = at[len] == ':' ? at + len + 1 : NULL;
    }
}

/* The loader takes a name with a '/' as a path, whatever the run path is. */
static void compare_needed(const struct af_inspect_extension *one, af_content_add *add,
                           void *context)
{
    const struct af_texts *needed = &one->facts.binary.needed;
    const struct af_span name = {one->member->name, strlen(one->member->name)};
    for (size_t i = 0; i < needed->count; i++)
        if (strchr(needed->items[i], '/') != NULL)
            add(context, AF_CONTENT_RUN_PATH, name, needed->items[i]);
}

void af_content_run_paths(const struct af_inspect_target *target, struct af_arena *arena,
                          af_content_add *add, void *context)
{
    for (size_t i = 0; i < target->count; i++) {
        const struct af_inspect_extension *one = &target->extensions[i];
        if (!one->has_facts || one->member == NULL)
            continue;
        compare_run_path(one, one->facts.binary.rpath, arena, add, context);
        compare_run_path(one, one->facts.binary.runpath, arena, add, context);
        compare_needed(one, add, context);
    }
}
