/*
 * record_files.c: compares RECORD with the installed files. Installers consider an installation
 * complete even if they were killed half-way; only RECORD shows it. Contents are not read: a
 * file that was replaced by one of the same size is not seen.
 */
#include "kit/probe/record_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/elf.h"
#include "kit/system/file.h"

#define LINES_MAX 100000u
#define NAMED_MAX 8u

struct names {
    const char *items[NAMED_MAX];
    size_t count;
};

struct comparison {
    const struct af_probe *probe;
    const char *site;
    struct names missing;
    struct names changed;
    struct names broken;
};

static void add(const struct comparison *comparison, struct names *names, const char *path)
{
    if (names->count < NAMED_MAX)
        names->items[names->count++] = af_arena_text(comparison->probe->arena, path);
}

/* Loading such a library fails or crashes; one that was stripped later is whole. */
static bool is_broken_library(const char *path)
{
    struct af_mapping mapping;
    struct af_elf elf;
    const char *name = af_path_name(path);
    if (!af_ends_with(name, ".so") && strstr(name, ".so.") == NULL)
        return false;
    if (af_file_map(path, &mapping, NULL) != ANYFLASH_OK)
        return false; /* unreadable for us only */
    struct af_span bytes = {(const char *)mapping.data, mapping.len};
    bool broken =
        af_elf_open_bytes(bytes, path, &elf, NULL) != ANYFLASH_OK || af_elf_is_truncated(&elf);
    af_file_unmap(&mapping);
    return broken;
}

static void compare_file(struct comparison *comparison,
                         const struct af_formats_record_line *line)
{
    char full[2 * AF_FORMATS_RECORD_PATH_BYTES];
    struct stat found;
    int len = snprintf(full, sizeof full, "%s/%s", comparison->site, line->path);
    if (line->path[0] == '/' || len < 0 || (size_t)len >= sizeof full ||
        af_ends_with(line->path, ".pyc"))
        return;
    if (stat(full, &found) != 0) {
        if (!af_file_exists(full))
            add(comparison, &comparison->missing, line->path);
        return;
    }
    if (line->size_bytes < 0 || line->size_bytes == (int64_t)found.st_size)
        return;
    add(comparison, &comparison->changed, line->path);
    if (found.st_size == 0 || is_broken_library(full))
        add(comparison, &comparison->broken, line->path);
}

static void set_list(const struct comparison *comparison, const struct names *names,
                     const char *source, struct af_fact *fact)
{
    af_fact_list(comparison->probe->arena, fact, names->items, names->count, source);
}

void af_probe_record_compare(const struct af_probe *probe, const char *site, const char *path,
                             struct af_span record, const struct af_probe_record_facts *facts)
{
    struct comparison comparison = {.probe = probe, .site = site};
    struct af_formats_record_line line;
    for (size_t i = 0; i < LINES_MAX && af_formats_record_next(&record, &line); i++)
        compare_file(&comparison, &line);
    if (probe->arena->failed)
        return;
    set_list(&comparison, &comparison.missing, path, facts->missing);
    set_list(&comparison, &comparison.changed, path, facts->changed);
    set_list(&comparison, &comparison.broken, path, facts->broken);
}

void af_probe_record_unknown(const struct af_probe *probe, const char *why,
                             const struct af_probe_record_facts *facts)
{
    af_fact_unknown(probe->arena, facts->missing, "%s", why);
    af_fact_unknown(probe->arena, facts->changed, "%s", why);
    af_fact_unknown(probe->arena, facts->broken, "%s", why);
}
