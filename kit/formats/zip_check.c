/*
 * zip_check.c: whether a list of members may be trusted: names that stay inside
 * the folder and do not contradict each other, bytes that do not overlap.
 */
#include "kit/formats/zip_parts.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"

static bool is_plain(const char *name)
{
    char quoted[AF_ZIP_NAME_BYTES_MAX * 4 + 1];
    return strcmp(af_text_quote(quoted, sizeof quoted, name, strlen(name)), name) == 0;
}

/* One part between slashes. */
static const char *part_problem(const char *part, size_t len)
{
    if (len == 0)
        return "has an empty part";
    if (len == 1 && part[0] == '.')
        return "has '.' as a part";
    if (len == 2 && part[0] == '.' && part[1] == '.')
        return "leaves the folder";
    return NULL;
}

const char *af_zip_name_problem(const char *name)
{
    if (name[0] == '\0')
        return "is empty";
    if (name[0] == '/')
        return "is absolute";
    if (strchr(name, '\\') != NULL)
        return "has a backslash";
    if (name[1] == ':')
        return "names a drive";
    if (!is_plain(name))
        return "has characters that cannot be shown";
    for (const char *part = name; *part != '\0';) {
        size_t len = strcspn(part, "/");
        const char *problem = part_problem(part, len);
        if (problem != NULL)
            return problem;
        part += len;
        part += *part == '/';
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct af_zip_member *const *)a)->name,
                  (*(const struct af_zip_member *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    uint64_t one = (*(const struct af_zip_member *const *)a)->header_at;
    uint64_t two = (*(const struct af_zip_member *const *)b)->header_at;
    return one < two ? -1 : one > two;
}

struct start {
    const char *text;
    size_t len;
};

static int compare_start(const void *key, const void *element)
{
    const struct start *start = key;
    const char *name = (*(const struct af_zip_member *const *)element)->name;
    int order = strncmp(start->text, name, start->len);
    return order != 0 ? order : name[start->len] == '\0' ? 0 : -1;
}

/* A file whose name is a folder in `name`, or NULL. */
static const struct af_zip_member *file_above(struct af_zip_member *const *sorted, size_t count,
                                              const char *name)
{
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct start start = {name, (size_t)(slash - name)};
        struct af_zip_member *const *found =
            bsearch(&start, sorted, count, sizeof *sorted, compare_start);
        if (found != NULL)
            return *found;
    }
    return NULL;
}

static enum anyflash_status check_names(struct af_zip_member **sorted, size_t count,
                                        const char *name, struct anyflash_error *err)
{
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return af_fail(err, ANYFLASH_E_DATA, "'%s' has two members called '%s'", name,
                           sorted[i]->name);
    for (size_t i = 0; i < count; i++)
        if (file_above(sorted, count, sorted[i]->name) != NULL)
            return af_fail(err, ANYFLASH_E_DATA,
                           "'%s' has a file where '%s' needs a folder of that name", name,
                           sorted[i]->name);
    return ANYFLASH_OK;
}

static enum anyflash_status check_places(struct af_zip_member **sorted, size_t count,
                                         const char *name, uint64_t directory_at,
                                         struct anyflash_error *err)
{
    qsort(sorted, count, sizeof *sorted, by_place);
    if (sorted[0]->header_at != 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has bytes before its first member", name);
    for (size_t i = 0; i < count; i++) {
        struct af_zip_member *member = sorted[i];
        uint64_t limit = i + 1 < count ? sorted[i + 1]->header_at : directory_at;
        uint64_t least = AF_ZIP_HEADER_BYTES + strlen(member->name) + member->packed_bytes;
        if (limit < member->header_at || limit - member->header_at < least)
            return af_fail(err, ANYFLASH_E_DATA,
                           "'%s': member '%s' overlaps what comes after it", name,
                           member->name);
        member->limit_at = limit;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_zip_check(struct af_zip_member *members, size_t count, const char *name,
                                  uint64_t directory_at, struct anyflash_error *err)
{
    struct af_zip_member **sorted = af_mem_alloc(count * sizeof *sorted);
    if (sorted == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &members[i];
    enum anyflash_status status = check_names(sorted, count, name, err);
    if (status == ANYFLASH_OK)
        status = check_places(sorted, count, name, directory_at, err);
    af_mem_free(sorted);
    return status;
}
