/*
 * package.c: facts of one installed package: the limits on flash-attn's version in the code of
 * packages that use it; the small files beside METADATA; and for flash-attn and torch whether
 * the files are there that RECORD lists. Installers consider an installation complete even if
 * they were killed half-way; only RECORD shows it.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/elf.h"
#include "kit/formats/metadata.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define CODE_BYTES_MAX (1u * 1024u * 1024u)
#define VALUE_BYTES 48
#define LINES_MAX 100000u
#define NAMED_MAX 8u
#define SMALL_BYTES_MAX (64u * 1024u)
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

/*
 * Where packages state their limits. `section` restricts the search to the text from there to
 * the next function; if the text has `open_end`, the upper limit itself is not allowed. Read in
 * versions from 2024 to 2026 (xformers 0.0.28 to 0.0.35, transformer_engine 1.13 to 2.20,
 * transformers 4.4x to 5.23).
 */
static const struct window {
    const char *package;
    const char *file;
    const char *section;
    const char *min_key;
    const char *max_key;
    const char *open_end;
} windows[] = {
    {"xformers", "xformers/ops/fmha/flash.py", NULL,
     "FLASH_VER_MIN = ", "FLASH_VER_LAST = ", NULL},
    {"transformer-engine",
     "transformer_engine/pytorch/attention/dot_product_attention/utils.py", NULL,
     "version_required = ", "max_version = ", "version < FlashAttentionUtils.max_version"},
    {"transformer-engine", "transformer_engine/pytorch/attention.py", NULL,
     "_flash_attn_version_required = ", "_flash_attn_max_version = ", NULL},
    {"transformers", "transformers/utils/import_utils.py", "def is_flash_attn_2_available(",
     ">= version.parse(", NULL, NULL},
};

/* The bytes after `key`, where `key` begins a word, or NULL. */
static const char *find_key(struct af_span text, const char *key)
{
    const char *at = text.data;
    const char *end = text.data + text.len;
    size_t len = strlen(key);
    while (text.len > 0 && (at = memmem(at, (size_t)(end - at), key, len)) != NULL) {
        bool begins = at == text.data || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        at += len;
        if (begins)
            return at;
    }
    return NULL;
}

/* Reads (2, 7, 1) as "2.7.1", or the first quoted text of the line. */
static bool read_value(const char *at, const char *end, char value[VALUE_BYTES])
{
    size_t len = 0;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    char close = ')';
    if (at < stop && *at == '(' && at + 1 < stop && isdigit((unsigned char)at[1])) {
        at++;
    } else {
        while (at < stop && *at != '"' && *at != '\'')
            at++;
        if (at == stop)
            return false;
        close = *at++;
    }
    for (; at < stop && *at != close; at++) {
        if (*at == ' ')
            continue;
        if (len + 1 >= VALUE_BYTES ||
            !(isalnum((unsigned char)*at) || strchr(".,+", *at) != NULL))
            return false;
        value[len++] = *at == ',' ? '.' : *at;
    }
    value[len] = '\0';
    return at < stop && len > 0 && isdigit((unsigned char)value[0]);
}

/* The text from `section` to the next function. */
static struct af_span narrow(struct af_span text, const char *section)
{
    static const char next[] = "\ndef ";
    const char *start =
        text.len == 0 ? NULL : memmem(text.data, text.len, section, strlen(section));
    if (start == NULL)
        return (struct af_span){NULL, 0};
    size_t len = text.len - (size_t)(start - text.data);
    const char *end = memmem(start, len, next, sizeof next - 1);
    return (struct af_span){start, end == NULL ? len : (size_t)(end - start)};
}

static void set_limit(const struct af_probe *probe, struct af_span text, const char *key,
                      const char *ending, const char *path, struct af_fact *fact)
{
    char value[VALUE_BYTES];
    const char *at = key == NULL ? NULL : find_key(text, key);
    if (key == NULL)
        af_fact_absent(probe->arena, fact, path);
    else if (at == NULL || !read_value(at, text.data + text.len, value))
        af_fact_unknown(probe->arena, fact, "'%s' has no '%s' in a known form", path, key);
    else
        af_fact_text(probe->arena, fact, af_arena_format(probe->arena, "%s%s", value, ending),
                     path);
}

static void read_window(const struct af_probe *probe, struct af_package *package,
                        const struct window *window, const char *path)
{
    struct anyflash_error err = {0};
    struct af_arena scratch;
    struct af_span text;
    af_arena_init(&scratch);
    if (af_file_read(&scratch, path, CODE_BYTES_MAX, &text, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &package->flash_attn_min, "%s", err.message);
        af_fact_unknown(probe->arena, &package->flash_attn_max, "%s", err.message);
        af_arena_release(&scratch);
        return;
    }
    /* "before 2.8.4" is written as "up to 2.8.4.dev0", because no release is in between. */
    bool open = window->open_end != NULL &&
                memmem(text.data, text.len, window->open_end, strlen(window->open_end)) != NULL;
    if (window->section != NULL)
        text = narrow(text, window->section);
    set_limit(probe, text, window->min_key, "", path, &package->flash_attn_min);
    set_limit(probe, text, window->max_key, open ? ".dev0" : "", path,
              &package->flash_attn_max);
    af_arena_release(&scratch);
}

void af_probe_package_read_window(const struct af_probe *probe, struct af_package *package,
                                  const char *name, const char *site)
{
    af_fact_absent(probe->arena, &package->flash_attn_min, "no check of flash-attn's version");
    af_fact_absent(probe->arena, &package->flash_attn_max, "no check of flash-attn's version");
    for (size_t i = 0; i < AF_COUNT(windows); i++) {
        if (strcmp(windows[i].package, name) != 0)
            continue;
        const char *path = af_path_join(probe->arena, site, windows[i].file);
        if (!af_file_exists(path))
            continue;
        read_window(probe, package, &windows[i], path);
        return;
    }
}

bool af_probe_package_is_flash_attn(const char *name)
{
    static const char *const names[] = {"flash-attn", "flash-attn-3", "flash-attn-4",
                                        "flash-attn4", "flashattn-hopper"};
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/*
 * Reads info/file. If the file does not exist, `fact` becomes absent; if it is unreadable,
 * unknown. False in both cases.
 */
static bool read_small(const struct af_probe *probe, const char *info, const char *file,
                       struct af_fact *fact, const char **path_out, struct af_span *text_out)
{
    struct anyflash_error err = {0};
    const char *path = af_path_join(probe->arena, info, file);
    *path_out = path;
    enum anyflash_status status =
        af_file_read(probe->arena, path, SMALL_BYTES_MAX, text_out, &err);
    if (status == ANYFLASH_E_NOT_FOUND)
        af_fact_absent(probe->arena, fact, path);
    else if (status != ANYFLASH_OK)
        af_fact_unknown(probe->arena, fact, "%s", err.message);
    return status == ANYFLASH_OK;
}

static void read_installer(const struct af_probe *probe, struct af_package *package,
                           const char *info)
{
    const char *path;
    struct af_span text;
    if (!read_small(probe, info, "INSTALLER", &package->installer, &path, &text))
        return;
    text = af_text_trim(text);
    af_fact_text(probe->arena, &package->installer,
                 af_arena_text_n(probe->arena, text.data, text.len), path);
}

/* "anyflash 1.2", as in a stand-in that pip or uv unpacked; `build` writes "anyflash (1.2)". */
static bool is_own_generator(const char *value)
{
    static const char start[] = "anyflash ";
    return af_starts_with(value, start) && isdigit((unsigned char)value[sizeof start - 1]);
}

static void read_wheel(const struct af_probe *probe, struct af_package *package,
                       const char *info)
{
    const char *path;
    struct af_span text;
    struct af_header header;
    if (!read_small(probe, info, "WHEEL", &package->purelib, &path, &text))
        return;
    af_fact_unknown(probe->arena, &package->purelib, "'%s' has no Root-Is-Purelib", path);
    while (af_header_next(&text, &header)) {
        const char *value = af_arena_text_n(probe->arena, header.value.data, header.value.len);
        if (af_header_is(&header, "Root-Is-Purelib"))
            af_fact_bool(probe->arena, &package->purelib, af_equal_fold(value, "true"), path);
        else if (af_header_is(&header, "Generator") && is_own_generator(value))
            af_fact_text(probe->arena, &package->installer, "anyflash", path);
    }
}

typedef enum anyflash_status parse_json(struct af_arena *arena, struct af_span bytes,
                                        const char *name, const char **text_out,
                                        struct anyflash_error *err);

/* Reads a fact that is one text of a JSON file. */
static void read_json(const struct af_probe *probe, const char *info, const char *file,
                      parse_json *parse, struct af_fact *fact)
{
    struct anyflash_error err = {0};
    const char *path;
    const char *found = NULL;
    struct af_span text;
    if (!read_small(probe, info, file, fact, &path, &text))
        return;
    if (parse(probe->arena, text, path, &found, &err) != ANYFLASH_OK)
        af_fact_unknown(probe->arena, fact, "%s", err.message);
    else if (found == NULL)
        af_fact_absent(probe->arena, fact, path);
    else
        af_fact_text(probe->arena, fact, found, path);
}

static void set_record_unknown(const struct af_probe *probe, struct af_package *package,
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

/*
 * Reads RECORD: its compiled modules; and if it `is_ours`, a package of flash-attn, also which
 * files and libraries are missing.
 */
static void read_record(const struct af_probe *probe, struct af_package *package,
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
        set_record_unknown(probe, package, err.message);
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

void af_probe_package_read_info(const struct af_probe *probe, struct af_package *package,
                                const char *name, const char *site, const char *info)
{
    read_installer(probe, package, info);
    read_wheel(probe, package, info);
    read_json(probe, info, "direct_url.json", af_direct_url_parse, &package->origin);
    read_json(probe, info, "uv_build.json", af_uv_build_torch, &package->built_for_torch);
    bool is_ours = af_probe_package_is_flash_attn(name);
    set_record_unknown(probe, package, "RECORD is compared for flash-attn only");
    if (is_ours || af_equal(name, "xformers") || af_equal(name, "vllm"))
        read_record(probe, package, site, info, is_ours);
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
        af_file_read_start(probe->arena, path, SMALL_BYTES_MAX, &text, NULL) != ANYFLASH_OK ||
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
