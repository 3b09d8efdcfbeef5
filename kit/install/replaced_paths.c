/*
 * replaced_paths.c: which files and folders an installation moves.
 *
 * The files of all RECORDs, old and new, are sorted. A folder without files of other packages
 * is moved as a whole, with everything in it (Python's caches, the user's own files: they are
 * moved aside, and undo restores them). A folder in which other distributions have files, such
 * as `nvidia` or `bin`, is split, level by level.
 */
#include "kit/install/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/install/record.h"
#include "kit/system/file.h"

#define PATH_BYTES 8192
#define INSTALLER_BYTES 64

struct search {
    struct af_arena *arena;
    const char *site;
    const char *fresh;
    const struct af_progress *progress;
    struct af_file_names wanted; /* files to install or to replace */
    struct af_file_names old;    /* the part of `wanted` that is replaced */
    struct af_file_names others; /* files that belong to other distributions */
    struct af_entry *entries;
    size_t count;
    struct anyflash_error *err;
};

/* '/' sorts before all other characters, so that a folder's files follow it directly. */
static int compare(const void *a, const void *b)
{
    const unsigned char *x = *(const unsigned char *const *)a;
    const unsigned char *y = *(const unsigned char *const *)b;
    while (*x != '\0' && *x == *y) {
        x++;
        y++;
    }
    int left = *x == '/' ? 1 : *x == '\0' ? 0 : *x + 1;
    int right = *y == '/' ? 1 : *y == '\0' ? 0 : *y + 1;
    return left - right;
}

static void sort(struct af_file_names *paths)
{
    size_t kept = 0;
    if (paths->count > 0)
        qsort(paths->items, paths->count, sizeof *paths->items, compare);
    for (size_t i = 0; i < paths->count; i++)
        if (kept == 0 || strcmp(paths->items[kept - 1], paths->items[i]) != 0)
            paths->items[kept++] = paths->items[i];
    paths->count = kept;
}

/* Whether `path` is `prefix` or inside it. */
static bool is_within(const char *path, const char *prefix, size_t len)
{
    return strncmp(path, prefix, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Whether the sorted list has a path that is `prefix` or inside it. */
static bool has_within(const struct af_file_names *paths, const char *prefix)
{
    size_t low = 0;
    size_t high = paths->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&paths->items[middle], &prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < paths->count && is_within(paths->items[low], prefix, strlen(prefix));
}

/* lstat() of folder/path; false when it does not exist. */
static bool look(const char *folder, const char *path, struct stat *facts)
{
    char full[PATH_BYTES];
    int len = snprintf(full, sizeof full, "%s/%s", folder, path);
    return len > 0 && (size_t)len < sizeof full && lstat(full, facts) == 0;
}

/*
 * Adds the files of a distribution to `paths`. With `strict`, for RECORDs that nobody has used
 * yet, each path must be inside the environment, and only files that exist count: RECORD may
 * list byte code that is not there.
 */
static enum anyflash_status add_files(struct search *search, const char *site,
                                      const struct af_distribution *distribution, bool strict,
                                      struct af_file_names *paths)
{
    const char **files;
    const char *odd;
    size_t count;
    enum anyflash_status status = af_distribution_files(search->arena, site, distribution,
                                                        &files, &count, &odd, search->err);
    if (status == ANYFLASH_OK && strict && odd != NULL)
        status = af_fail(search->err, ANYFLASH_E_DATA,
                         "the RECORD of '%s' lists '%s', which is outside the environment",
                         distribution->folder, odd);
    struct stat facts;
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        if (!strict || look(site, files[i], &facts))
            af_file_names_add(paths, files[i]);
    return status;
}

/* Whether the INSTALLER file of the distribution names conda. */
static bool is_of_conda(const struct search *search, const struct af_distribution *distribution)
{
    struct af_span text;
    const char *path =
        af_arena_format(search->arena, "%s/%s/INSTALLER", search->site, distribution->folder);
    return af_file_read_start(search->arena, path, INSTALLER_BYTES, &text, NULL) ==
               ANYFLASH_OK &&
           af_text_span_equal(af_text_trim(text), "conda");
}

/*
 * Adds the files to be replaced, and the dist-info folder itself: after an incomplete removal
 * it may have no RECORD.
 */
static enum anyflash_status add_old(struct search *search,
                                    const struct af_distribution *distribution)
{
    if (distribution->egg)
        return af_fail(
            search->err, ANYFLASH_E_UNSUPPORTED,
            "'%s' was installed by setup.py, which records no file list: remove %s first",
            distribution->folder, distribution->name);
    if (is_of_conda(search, distribution))
        return af_fail(search->err, ANYFLASH_E_UNSUPPORTED,
                       "%s was installed by conda: remove it with conda first",
                       distribution->name);
    af_file_names_add(&search->old, distribution->folder);
    return add_files(search, search->site, distribution, false, &search->old);
}

static bool is_fresh(const struct af_distribution *fresh, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fresh[i].name, name) == 0)
            return true;
    return false;
}

static enum anyflash_status read_site(struct search *search,
                                      const struct af_distribution *fresh, size_t fresh_count)
{
    struct af_distribution *list;
    size_t count;
    enum anyflash_status status =
        af_distributions_list(search->arena, search->site, &list, &count, search->err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = is_fresh(fresh, fresh_count, list[i].name)
                     ? add_old(search, &list[i])
                     : add_files(search, search->site, &list[i], false, &search->others);
    return status;
}

static enum anyflash_status read_fresh(struct search *search)
{
    struct af_distribution *list;
    size_t count;
    enum anyflash_status status =
        af_distributions_list(search->arena, search->fresh, &list, &count, search->err);
    if (status == ANYFLASH_OK && count == 0)
        status = af_fail(search->err, ANYFLASH_E_DATA, "the installer unpacked nothing");
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = add_files(search, search->fresh, &list[i], true, &search->wanted);
    if (status == ANYFLASH_OK)
        status = read_site(search, list, count);
    for (size_t i = 0; i < search->old.count; i++)
        af_file_names_add(&search->wanted, search->old.items[i]);
    sort(&search->wanted);
    sort(&search->old);
    sort(&search->others);
    return status;
}

static void add_entry(struct search *search, const char *path, bool has_old, bool has_new)
{
    if (has_old && !has_within(&search->old, path))
        af_progress_message(
            search->progress,
            "'%s' would be overwritten and belongs to no package: moving it aside", path);
    if (has_old || has_new)
        search->entries[search->count++] = (struct af_entry){path, has_old, has_new};
}

static bool same_bytes(const struct search *search, const char *path)
{
    char a[PATH_BYTES];
    char b[PATH_BYTES];
    char hex_a[AF_SHA256_HEX_BYTES];
    char hex_b[AF_SHA256_HEX_BYTES];
    snprintf(a, sizeof a, "%s/%s", search->site, path);
    snprintf(b, sizeof b, "%s/%s", search->fresh, path);
    return af_file_sha256(a, hex_a, NULL, NULL) == ANYFLASH_OK &&
           af_file_sha256(b, hex_b, NULL, NULL) == ANYFLASH_OK && strcmp(hex_a, hex_b) == 0;
}

/*
 * Handles a file that another distribution owns, too: the old file is kept, and it is an error
 * if ours differs from it.
 */
static enum anyflash_status take_shared(struct search *search, const char *path, bool has_new)
{
    if (!has_new || same_bytes(search, path))
        return ANYFLASH_OK;
    char shown[200];
    return af_fail(search->err, ANYFLASH_E_UNSUPPORTED,
                   "'%s' already exists and belongs to another package",
                   af_text_quote(shown, sizeof shown, path, strlen(path)));
}

/*
 * Decides about `prefix`, a file or folder of ours: makes one entry, or sets *deeper_out if it
 * must be split.
 */
static enum anyflash_status decide(struct search *search, const char *prefix, bool *deeper_out)
{
    struct stat in_site;
    struct stat in_fresh;
    bool has_old = look(search->site, prefix, &in_site);
    bool has_new = look(search->fresh, prefix, &in_fresh);
    bool folders =
        has_old && S_ISDIR(in_site.st_mode) && (!has_new || S_ISDIR(in_fresh.st_mode));
    bool shared = has_within(&search->others, prefix);
    bool common = af_starts_with(prefix, "../") || strcmp(prefix, "__pycache__") == 0;
    *deeper_out = folders && (shared || common);
    if (*deeper_out)
        return ANYFLASH_OK;
    if (shared && has_old)
        return take_shared(search, prefix, has_new);
    add_entry(search, prefix, has_old, has_new);
    return ANYFLASH_OK;
}

/* Length of the path up to the end of the next part after its first `len` bytes. */
static size_t next_cut(const char *path, size_t len)
{
    while (path[len] == '/')
        len++;
    while (af_starts_with(path + len, "../"))
        len += 3;
    return len + strcspn(path + len, "/");
}

/* A range of a stack: the wanted paths [first, last) share their first `len` bytes. */
struct range {
    size_t first;
    size_t last;
    size_t len;
};

static size_t range_end(const struct af_file_names *paths, size_t first, size_t last,
                        size_t cut)
{
    size_t end = first + 1;
    while (end < last && is_within(paths->items[end], paths->items[first], cut))
        end++;
    return end;
}

/*
 * Decides about each part one level below `range`; folders that must be split are pushed to the
 * stack.
 */
static enum anyflash_status split(struct search *search, struct range range,
                                  struct range *stack, size_t *depth)
{
    const struct af_file_names *wanted = &search->wanted;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t first = range.first; status == ANYFLASH_OK && first < range.last;) {
        const char *path = wanted->items[first];
        size_t cut = next_cut(path, range.len);
        size_t end = range_end(wanted, first, range.last, cut);
        const char *prefix = af_arena_text_n(search->arena, path, cut);
        bool deeper = false;
        status = decide(search, prefix, &deeper);
        if (deeper) {
            if (path[cut] == '\0')
                first++; /* the dist-info folder itself, which add_old() added */
            stack[(*depth)++] = (struct range){first, end, cut};
        }
        first = end;
    }
    return status;
}

static enum anyflash_status find(struct search *search)
{
    size_t depth = 0;
    enum anyflash_status status = read_fresh(search);
    if (status != ANYFLASH_OK)
        return status;
    /* Ranges on the stack do not overlap, so there are never more ranges than paths. */
    struct range *stack =
        af_arena_array(search->arena, search->wanted.count + 1, sizeof *stack);
    search->entries =
        af_arena_array(search->arena, search->wanted.count + 1, sizeof *search->entries);
    stack[depth++] = (struct range){0, search->wanted.count, 0};
    while (status == ANYFLASH_OK && depth > 0) {
        struct range range = stack[--depth];
        status = split(search, range, stack, &depth);
    }
    return status;
}

enum anyflash_status af_replaced_paths_find(struct af_arena *arena, const char *site,
                                            const char *fresh,
                                            const struct af_progress *progress,
                                            struct af_entry **entries_out, size_t *count_out,
                                            struct anyflash_error *err)
{
    struct search search = {
        .arena = arena, .site = site, .fresh = fresh, .progress = progress, .err = err};
    enum anyflash_status status = find(&search);
    af_memory_free(search.wanted.items);
    af_memory_free(search.old.items);
    af_memory_free(search.others.items);
    if (status == ANYFLASH_OK && search.count > AF_ENTRIES_MAX)
        status = af_fail(err, ANYFLASH_E_LIMIT, "too many files and folders would be moved");
    if (status != ANYFLASH_OK)
        return status;
    *entries_out = search.entries;
    *count_out = search.count;
    return ANYFLASH_OK;
}
