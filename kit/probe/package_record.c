/*
 * package_record.c: whether the files of a package, or the main files of torch, are there as
 * its RECORD lists them. Installers consider an installation complete even if they were killed
 * half-way; only RECORD shows it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/elf.h"
#include "kit/formats/metadata.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define LINES_MAX 100000u
#define NAMED_MAX 8u
#define METADATA_BYTES_MAX (64u * 1024u)
#define RECORD_BYTES_MAX (8u * 1024u * 1024u)
#define RECORD_LINES_MAX 20000u
#define EXTENSIONS_MAX 16u

/* The lists of files that differ from RECORD. Each names the first few, relative to `site`. */
enum {
    MISSING, /* they do not exist */
    CHANGED, /* their size is not the one in RECORD */
    BROKEN,  /* of those: libraries cut short, or no ELF files at all */
    LISTS
};

struct comparison {
    const struct af_probe *probe;
    const char *site;
    struct {
        const char *items[NAMED_MAX];
        size_t count;
    } lists[LISTS];
};

static void add(struct comparison *comparison, int list, const char *path)
{
    size_t count = comparison->lists[list].count;
    if (count < NAMED_MAX) {
        comparison->lists[list].items[count] = af_arena_text(comparison->probe->arena, path);
        comparison->lists[list].count++;
    }
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
        af_elf_open(bytes, path, &elf, NULL) != ANYFLASH_OK || af_elf_is_truncated(&elf);
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
            add(comparison, MISSING, line->path);
        return;
    }
    if (line->size_bytes < 0 || line->size_bytes == (int64_t)found.st_size)
        return;
    add(comparison, CHANGED, line->path);
    if (found.st_size == 0 || is_broken_library(full))
        add(comparison, BROKEN, line->path);
}

/*
 * Compares the existence and size of files, which takes a microsecond each; no file is read
 * except the header of a library whose size differs. `record` is the content of RECORD at
 * `path`, or some of its lines. Compiled Python is left out, because anybody may delete it.
 */
static void compare_record(const struct af_probe *probe, const char *site, const char *path,
                           struct af_span record, struct af_fact *const facts[LISTS])
{
    struct comparison comparison = {.probe = probe, .site = site};
    struct af_formats_record_line line;
    for (size_t i = 0; i < LINES_MAX && af_formats_record_next(&record, &line); i++)
        compare_file(&comparison, &line);
    for (size_t i = 0; i < LISTS; i++)
        af_fact_list(probe->arena, facts[i], comparison.lists[i].items,
                     comparison.lists[i].count, path);
}

void af_probe_package_record_unknown(const struct af_probe *probe, struct af_package *package,
                                     const char *why)
{
    struct af_fact *const facts[] = {&package->extensions, &package->missing_libraries,
                                     &package->missing_files, &package->changed_files,
                                     &package->broken_files};
    for (size_t i = 0; i < AF_COUNT(facts); i++)
        af_fact_unknown(probe->arena, facts[i], "%s", why);
}

/* Whether the loader and torch find what the compiled modules need. */
static void set_missing_libraries(const struct af_probe *probe, struct af_package *package,
                                  const char *site)
{
    struct af_probe_missing missing = {0};
    if (probe->machine->torch.path.state != AF_FACT_KNOWN) {
        af_fact_unknown(probe->arena, &package->missing_libraries, "torch was not found");
        return;
    }
    for (size_t i = 0; i < package->extensions.value.list.count; i++) {
        const char *path =
            af_path_join(probe->arena, site, package->extensions.value.list.items[i]);
        if (!af_probe_library_check(probe, path, &missing)) {
            af_fact_unknown(probe->arena, &package->missing_libraries,
                            "'%s' cannot be read as an ELF file", path);
            return;
        }
    }
    af_fact_list(probe->arena, &package->missing_libraries, missing.names, missing.count,
                 "search order of ld.so");
}

/* Lists the compiled modules of RECORD, whose text is `text`. */
static void take_extensions(const struct af_probe *probe, struct af_package *package,
                            const char *path, struct af_span text)
{
    const char *found[EXTENSIONS_MAX];
    size_t count = 0;
    struct af_formats_record_line line;
    for (size_t i = 0; i < RECORD_LINES_MAX && af_formats_record_next(&text, &line); i++)
        if (count < EXTENSIONS_MAX &&
            (af_ends_with(line.path, ".so") || af_ends_with(line.path, ".pyd")))
            found[count++] = af_arena_text(probe->arena, line.path);
    af_fact_list(probe->arena, &package->extensions, found, count, path);
}

void af_probe_package_read_record(const struct af_probe *probe, struct af_package *package,
                                  const char *site, const char *info, bool is_ours)
{
    struct anyflash_error err = {0};
    struct af_arena scratch;
    struct af_span text;
    struct af_fact *const facts[LISTS] = {&package->missing_files, &package->changed_files,
                                          &package->broken_files};
    const char *path = af_path_join(probe->arena, info, "RECORD");
    af_arena_init(&scratch);
    if (af_file_read(&scratch, path, RECORD_BYTES_MAX, &text, &err) == ANYFLASH_OK) {
        take_extensions(probe, package, path, text);
        if (is_ours) {
            compare_record(probe, site, path, text, facts);
            set_missing_libraries(probe, package, site);
        }
    } else if (is_ours) {
        af_probe_package_record_unknown(probe, package, err.message);
    }
    af_arena_release(&scratch);
}

/* "einops/__init__.py": what `import einops` reads. */
static bool is_top_init(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash != NULL && strcmp(slash, "/__init__.py") == 0;
}

static bool is_absent(struct af_arena *scratch, const char *site, const char *file)
{
    const char *path = af_path_join(scratch, site, file);
    return af_file_is_absent(path);
}

bool af_probe_package_is_gone(const char *site, const char *info)
{
    struct af_arena scratch;
    struct af_formats_record_line line;
    struct af_span text;
    bool gone = false;
    af_arena_init(&scratch);
    const char *record = af_path_join(&scratch, info, "RECORD");
    if (af_file_read(&scratch, record, RECORD_BYTES_MAX, &text, NULL) == ANYFLASH_OK) {
        for (size_t i = 0;
             i < RECORD_LINES_MAX && !gone && af_formats_record_next(&text, &line); i++)
            gone = is_top_init(line.path) && is_absent(&scratch, site, line.path);
    }
    af_arena_release(&scratch);
    return gone;
}

/*
 * The files of torch that importing it reads first. RECORD has thousands of others, most of
 * them headers.
 */
static bool is_main_torch_file(struct af_span path)
{
    static const char *const folders[] = {"torch/lib/", "torch/"};
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        size_t len = strlen(folders[i]);
        if (path.len <= len || memcmp(path.data, folders[i], len) != 0)
            continue;
        const char *comma = memchr(path.data, ',', path.len);
        size_t rest = (comma == NULL ? path.len : (size_t)(comma - path.data)) - len;
        return memchr(path.data + len, '/', rest) == NULL;
    }
    return false;
}

/* Keeps the wanted lines of a large RECORD, which is read in pieces. */
struct line_filter {
    struct af_text kept;
    char line[AF_FORMATS_RECORD_PATH_BYTES];
    size_t len; /* of the line so far; longer lines are cut */
};

static void end_line(struct line_filter *filter)
{
    if (is_main_torch_file((struct af_span){filter->line, filter->len})) {
        af_text_add_n(&filter->kept, filter->line, filter->len);
        af_text_add(&filter->kept, "\n");
    }
    filter->len = 0;
}

static void take_piece(void *context, const char *bytes, size_t len)
{
    struct line_filter *filter = context;
    struct af_span rest = {bytes, len};
    struct af_span part;
    while (af_text_line(&rest, &part)) {
        size_t room = sizeof filter->line - filter->len;
        size_t taken = part.len < room ? part.len : room;
        memcpy(filter->line + filter->len, part.data, taken);
        filter->len += taken;
        if (part.data + part.len < bytes + len)
            end_line(filter);
    }
}

/* Without version.py, METADATA says the version, if only without the build. */
static void read_torch_version(const struct af_probe *probe, const char *info)
{
    struct af_fact *version = &probe->machine->torch.version;
    struct af_span text;
    struct af_span value;
    const char *path = af_path_join(probe->arena, info, "METADATA");
    if (version->state == AF_FACT_KNOWN ||
        af_file_read_start(probe->arena, path, METADATA_BYTES_MAX, &text, NULL) !=
            ANYFLASH_OK ||
        !af_header_find(text, "Version", &value))
        return;
    af_fact_text(probe->arena, version, af_arena_text_n(probe->arena, value.data, value.len),
                 path);
}

void af_probe_package_read_torch(const struct af_probe *probe, const char *site,
                                 const char *info)
{
    struct af_torch *torch = &probe->machine->torch;
    struct af_fact *const facts[LISTS] = {&torch->missing_files, &torch->changed_files,
                                          &torch->broken_files};
    struct anyflash_error err = {0};
    struct line_filter filter = {.len = 0};
    const char *folder = af_path_join(probe->arena, site, "torch");
    const char *path = af_path_join(probe->arena, info, "RECORD");
    if (!af_fact_is(&torch->path, folder))
        return;
    read_torch_version(probe, info);
    if (af_file_read_pieces(path, take_piece, &filter, &err) == ANYFLASH_OK) {
        end_line(&filter);
        const char *text = af_text_get(&filter.kept);
        compare_record(probe, site, path, (struct af_span){text, strlen(text)}, facts);
    }
    for (size_t i = 0; err.status != ANYFLASH_OK && i < LISTS; i++)
        af_fact_unknown(probe->arena, facts[i], "%s", err.message);
    af_text_release(&filter.kept);
}
