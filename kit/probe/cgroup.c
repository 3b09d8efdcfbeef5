/*
 * cgroup.c: finds control groups of version 1 and 2, and their parents. Source: the
 * kernel's documentation, cgroup-v1/memory.rst and cgroup-v2.rst. Used by the probe
 * of memory and cores.
 */
#include "kit/probe/probes.h"

#include "kit/system/file.h"

#include <string.h>

#define SMALL_FILE_BYTES 65536u
#define V1_NONE (INT64_C(1) << 60) /* v1 reports no limit as a number above this */

/* Whether the comma-separated `list` has `word`. */
static bool has_word(struct af_span list, const char *word)
{
    while (list.len > 0) {
        const char *comma = memchr(list.data, ',', list.len);
        size_t len = comma == NULL ? list.len : (size_t)(comma - list.data);
        if (af_text_span_equal((struct af_span){list.data, len}, word))
            return true;
        size_t taken = comma == NULL ? len : len + 1;
        list.data += taken;
        list.len -= taken;
    }
    return false;
}

/* Splits "4:memory:/path" into its two parts after the number; false for any other line. */
static bool split_line(struct af_span line, struct af_span *controllers, struct af_span *path)
{
    const char *first = memchr(line.data, ':', line.len);
    if (first == NULL)
        return false;
    size_t rest = line.len - (size_t)(first + 1 - line.data);
    const char *second = memchr(first + 1, ':', rest);
    if (second == NULL)
        return false;
    *controllers = (struct af_span){first + 1, (size_t)(second - first - 1)};
    *path = (struct af_span){second + 1, (size_t)(line.data + line.len - second - 1)};
    return path->len > 0 && path->data[0] == '/';
}

/*
 * Sets the group's folder. Inside a container the host's path does not exist under our mount:
 * then its root is used.
 */
static bool enter(const struct af_probe *probe, const char *mount, struct af_span path,
                  struct af_cgroup *cgroup)
{
    mount = af_probe_path(probe, mount);
    const char *text = af_arena_text_n(probe->arena, path.data, path.len);
    if (!af_file_is_folder(mount))
        return false;
    const char *folder =
        path.len == 1 ? mount : af_arena_format(probe->arena, "%s%s", mount, text);
    bool inside = strstr(text, "..") == NULL && af_file_is_folder(folder);
    cgroup->mount = mount;
    cgroup->folder = inside ? folder : mount;
    return true;
}

static bool enter_v1(const struct af_probe *probe, struct af_span controllers,
                     const char *controller, struct af_span path, struct af_cgroup *cgroup)
{
    const char *joined = af_arena_format(probe->arena, "/sys/fs/cgroup/%.*s",
                                         (int)controllers.len, controllers.data);
    const char *single = af_arena_format(probe->arena, "/sys/fs/cgroup/%s", controller);
    return controllers.len < 200 &&
           (enter(probe, joined, path, cgroup) || enter(probe, single, path, cgroup));
}

bool af_cgroup_find(const struct af_probe *probe, const char *controller,
                    struct af_cgroup *cgroup_out)
{
    struct af_span rest;
    struct af_span line;
    struct af_span controllers;
    struct af_span path;
    struct af_span unified = {NULL, 0};
    const char *file = af_probe_path(probe, "/proc/self/cgroup");
    *cgroup_out = (struct af_cgroup){0};
    if (af_file_read(probe->arena, file, SMALL_FILE_BYTES, &rest, NULL) != ANYFLASH_OK)
        return false;
    while (af_text_line(&rest, &line)) {
        if (!split_line(line, &controllers, &path))
            continue;
        if (has_word(controllers, controller) &&
            enter_v1(probe, controllers, controller, path, cgroup_out))
            return true;
        if (controllers.len == 0)
            unified = path;
    }
    if (unified.len == 0 || !enter(probe, "/sys/fs/cgroup", unified, cgroup_out))
        return false;
    cgroup_out->v2 = true;
    return true;
}

bool af_cgroup_up(const struct af_probe *probe, struct af_cgroup *cgroup)
{
    if (strlen(cgroup->folder) <= strlen(cgroup->mount))
        return false;
    cgroup->folder = af_path_folder(probe->arena, cgroup->folder);
    return true;
}

const char *af_cgroup_text(const struct af_probe *probe, const struct af_cgroup *cgroup,
                           const char *file)
{
    return af_probe_small_text(probe, af_path_join(probe->arena, cgroup->folder, file));
}

bool af_cgroup_number(const struct af_probe *probe, const struct af_cgroup *cgroup,
                      const char *file, int64_t *number_out)
{
    const char *text = af_cgroup_text(probe, cgroup, file);
    return text != NULL && af_parse_i64(text, 0, V1_NONE, number_out);
}
