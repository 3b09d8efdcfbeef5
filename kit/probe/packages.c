/*
 * packages.c: which installed packages matter: flash-attn in every form, the packages known to
 * use it, and all that require torch or flash-attn. Only the start of each METADATA file is
 * read, because an environment has hundreds of them.
 */
#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <ctype.h>
#include <string.h>

#define NAMES_MAX 20000u
#define HEAD_BYTES_MAX (64u * 1024u)
#define NAME_BYTES 128
#define INIT_BYTES_MAX (64u * 1024u)
#define REQUIREMENTS_MAX 16u

/* Always listed when installed, whatever they require; flash-attn requires einops. */
static const char *const peers[] = {"xformers",     "vllm",   "transformer-engine",
                                    "transformers", "einops", "anyflash"};

struct requirement_names {
    const char *items[REQUIREMENTS_MAX]; /* normalised */
    size_t count;
};

/* Facts from one .dist-info or .egg-info. */
struct head {
    char name[NAME_BYTES]; /* normalised */
    const char *version;   /* or NULL */
    const char *torch;     /* specifier, or NULL when torch is not required */
    const char *flash_attn;
    bool torch_marked; /* the requirement that was kept has a marker */
    bool flash_attn_marked;
    struct requirement_names requires; /* without torch, markers and extras */
    const char *path;                  /* the file it was read from */
    const char *problem;               /* why it was not read, or NULL */
};

static bool is_peer(const char *name)
{
    for (size_t i = 0; i < AF_COUNT(peers); i++) {
        if (strcmp(name, peers[i]) == 0)
            return true;
    }
    return af_probe_package_is_flash_attn(name);
}

/*
 * A new row of the machine's packages: the last one if it `is_broken`, else in front of the
 * *broken rows that are.
 */
static struct af_package *add_row(const struct af_probe *probe, bool is_broken, size_t *broken)
{
    struct af_package *row = af_machine_row_add(
        probe->machine, offsetof(struct af_machine, packages), "not looked at");
    if (row != NULL && is_broken) {
        ++*broken;
    } else if (row != NULL) {
        const struct af_package empty = *row;
        row -= *broken;
        memmove(row + 1, row, *broken * sizeof *row);
        *row = empty;
    }
    return row;
}

/* Keeps the requirement on torch or flash-attn; one without a marker is preferred. */
static void take_requirement(struct af_arena *scratch, const struct af_requirement *requirement,
                             struct head *head)
{
    bool torch = af_name_is(requirement->name, "torch");
    if (requirement->only_for_extra || (!torch && !af_name_is(requirement->name, "flash-attn")))
        return;
    const char **place = torch ? &head->torch : &head->flash_attn;
    bool *marked = torch ? &head->torch_marked : &head->flash_attn_marked;
    if (*place != NULL && (!*marked || requirement->has_marker))
        return;
    *place =
        requirement->specifier.len == 0
            ? ""
            : af_arena_text_n(scratch, requirement->specifier.data, requirement->specifier.len);
    *marked = requirement->has_marker;
}

/* Keeps the name of a requirement that always applies; torch has facts of its own. */
static void take_name(struct af_arena *scratch, const struct af_requirement *requirement,
                      struct requirement_names *names)
{
    char name[NAME_BYTES];
    if (requirement->has_marker || af_name_is(requirement->name, "torch") ||
        names->count == REQUIREMENTS_MAX)
        return;
    af_name_normalise(requirement->name, name, sizeof name);
    names->items[names->count++] = af_arena_text(scratch, name);
}

/* Reads requires.txt of an egg: requirements up to the first "[extra]". */
static void read_requires_txt(struct af_arena *scratch, const char *info, struct head *head)
{
    struct af_span text;
    struct af_span line;
    struct af_requirement requirement;
    const char *path = af_path_join(scratch, info, "requires.txt");
    if (!af_file_exists(path) ||
        af_file_read_start(scratch, path, HEAD_BYTES_MAX, &text, NULL) != ANYFLASH_OK)
        return;
    while (af_text_line(&text, &line)) {
        line = af_text_trim(line);
        if (line.len > 0 && line.data[0] == '[')
            return;
        if (af_requirement_parse(line, &requirement))
            take_requirement(scratch, &requirement, head);
    }
}

static void name_from_folder(struct af_arena *scratch, const char *folder, struct head *head)
{
    struct af_info_folder parts;
    if (!af_info_folder_parse((struct af_span){folder, strlen(folder)}, &parts))
        return;
    af_name_normalise(parts.name, head->name, sizeof head->name);
    if (parts.version.len > 0 && isdigit((unsigned char)parts.version.data[0]))
        head->version = af_arena_text_n(scratch, parts.version.data, parts.version.len);
}

static void read_head(struct af_arena *scratch, const char *site, const char *entry,
                      struct head *head)
{
    struct anyflash_error err = {0};
    struct af_span text;
    struct af_span value;
    struct af_requirement requirement;
    bool egg = af_ends_with(entry, ".egg-info");
    const char *info = af_path_join(scratch, site, entry);
    name_from_folder(scratch, entry, head);
    head->path = info;
    if (!egg || af_file_is_folder(info))
        head->path = af_path_join(scratch, info, egg ? "PKG-INFO" : "METADATA");
    if (af_file_read_start(scratch, head->path, HEAD_BYTES_MAX, &text, &err) != ANYFLASH_OK) {
        head->problem = af_arena_text(scratch, err.message);
        return;
    }
    if (af_header_find(text, "Name", &value))
        af_name_normalise(value, head->name, sizeof head->name);
    if (af_header_find(text, "Version", &value))
        head->version = af_arena_text_n(scratch, value.data, value.len);
    while (af_requirement_next(&text, &requirement)) {
        take_requirement(scratch, &requirement, head);
        take_name(scratch, &requirement, &head->requires);
    }
    if (egg)
        read_requires_txt(scratch, info, head);
}

static void set_specifier(const struct af_probe *probe, const struct head *head,
                          const char *specifier, struct af_fact *fact)
{
    if (head->problem != NULL)
        af_fact_unknown(probe->arena, fact, "%s", head->problem);
    else if (specifier == NULL)
        af_fact_absent(probe->arena, fact, head->path);
    else
        af_fact_text(probe->arena, fact, specifier, head->path);
}

/* Whether it is a .dist-info or .egg-info of the package `name`. */
static bool is_info_of(struct af_arena *scratch, const char *entry, const char *name)
{
    struct head head = {0};
    if (!af_ends_with(entry, ".dist-info") && !af_ends_with(entry, ".egg-info"))
        return false;
    name_from_folder(scratch, entry, &head);
    return strcmp(head.name, name) == 0;
}

/* Whether Python can import the package from this folder. */
static bool is_installed_in(const char *site, const char *name)
{
    struct af_arena scratch;
    const char **names;
    size_t count;
    af_arena_init(&scratch);
    const char *code = af_arena_format(&scratch, "%s/%s/__init__.py", site, name);
    bool found = af_file_exists(code);
    if (!found &&
        af_folder_list(&scratch, site, NAMES_MAX, &names, &count, NULL, NULL) == ANYFLASH_OK) {
        for (size_t i = 0; i < count && !found; i++)
            found = is_info_of(&scratch, names[i], name) &&
                    !af_probe_package_is_gone(site, af_path_join(&scratch, site, names[i]));
    }
    af_arena_release(&scratch);
    return found;
}

static bool is_installed(const struct af_probe *probe, const char *name)
{
    const struct af_fact *sites = &probe->machine->python.site_packages;
    for (size_t i = 0; i < sites->value.list.count; i++)
        if (is_installed_in(sites->value.list.items[i], name))
            return true;
    return false;
}

static void set_missing_requirements(const struct af_probe *probe, const struct head *head,
                                     struct af_package *row)
{
    const char *missing[REQUIREMENTS_MAX];
    size_t count = 0;
    if (strcmp(head->name, "flash-attn") != 0 || head->problem != NULL) {
        af_fact_unknown(probe->arena, &row->missing_requirements, "%s",
                        head->problem != NULL ? head->problem : "read for flash-attn only");
        return;
    }
    for (size_t i = 0; i < head->requires.count; i++)
        if (!is_installed(probe, head->requires.items[i]))
            missing[count++] = af_arena_text(probe->arena, head->requires.items[i]);
    af_fact_list(probe->arena, &row->missing_requirements, missing, count, head->path);
}

static void fill_row(const struct af_probe *probe, const struct head *head, const char *site,
                     const char *entry, struct af_package *row)
{
    af_fact_text(probe->arena, &row->name, head->name, head->path);
    af_fact_text(probe->arena, &row->folder, site, head->path);
    if (head->problem != NULL || head->version == NULL)
        af_fact_unknown(probe->arena, &row->version, "%s",
                        head->problem == NULL ? "no Version in METADATA" : head->problem);
    else
        af_fact_text(probe->arena, &row->version, head->version, head->path);
    set_specifier(probe, head, head->torch, &row->needs_torch);
    set_specifier(probe, head, head->flash_attn, &row->needs_flash_attn);
    set_missing_requirements(probe, head, row);
    const char *info = af_path_join(probe->arena, site, entry);
    af_probe_package_read_info(probe, row, head->name, site, info);
    af_probe_package_read_window(probe, row, head->name, site);
}

/* Reads one .dist-info or .egg-info and keeps it if it matters. */
static void visit_info(const struct af_probe *probe, const char *site, const char *entry,
                       size_t *broken)
{
    struct af_arena scratch;
    struct head head = {0};
    af_arena_init(&scratch);
    read_head(&scratch, site, entry, &head);
    bool wanted = is_peer(head.name) || head.torch != NULL || head.flash_attn != NULL;
    struct af_package *row = NULL;
    if (strcmp(head.name, "torch") == 0)
        af_probe_package_read_torch(probe, site, af_path_join(&scratch, site, entry));
    if (wanted)
        row = add_row(probe, head.problem != NULL, broken);
    if (row != NULL)
        fill_row(probe, &head, site, entry, row);
    af_arena_release(&scratch);
}

/* Whether a row that is not broken is of flash-attn. */
static bool has_flash_attn(const struct af_probe *probe, size_t broken)
{
    const struct af_package_rows *packages = &probe->machine->packages;
    for (size_t i = 0; i < packages->count - broken; i++) {
        if (af_fact_is(&packages->rows[i].name, "flash-attn"))
            return true;
    }
    return false;
}

/* The version in flash_attn/__init__.py (__version__ = "2.8.3"), or NULL. */
static const char *source_version(const struct af_probe *probe, const char *path)
{
    struct af_span text;
    struct af_span value;
    if (af_file_read_start(probe->arena, path, INIT_BYTES_MAX, &text, NULL) != ANYFLASH_OK ||
        !af_formats_key_value(text, "__version__", &value) || value.len < 2 ||
        (value.data[0] != '"' && value.data[0] != '\''))
        return NULL;
    const char *quote = memchr(value.data + 1, value.data[0], value.len - 1);
    return quote == NULL ? NULL
                         : af_arena_text_n(probe->arena, value.data + 1,
                                           (size_t)(quote - value.data) - 1);
}

/* Adds a flash_attn that can be imported but was not installed: a source tree. */
static void visit_source_tree(const struct af_probe *probe, const char *site, size_t *broken)
{
    const char *path = af_path_join(probe->arena, site, "flash_attn/__init__.py");
    if (!af_file_is_regular(path) || has_flash_attn(probe, *broken))
        return;
    const char *version = source_version(probe, path);
    struct af_package *row = version == NULL ? NULL : add_row(probe, false, broken);
    if (row == NULL)
        return;
    af_machine_set_all(probe->arena, (struct af_fact *)row, sizeof *row, AF_FACT_ABSENT,
                       "not installed: a folder on the path");
    af_fact_text(probe->arena, &row->name, "flash-attn", path);
    af_fact_text(probe->arena, &row->version, version, path);
    af_fact_text(probe->arena, &row->folder, site, path);
}

static void visit_site(const struct af_probe *probe, const char *site, size_t *broken)
{
    struct af_arena scratch;
    const char **names;
    size_t count;
    af_arena_init(&scratch);
    if (af_folder_list(&scratch, site, NAMES_MAX, &names, &count, NULL, NULL) == ANYFLASH_OK) {
        for (size_t i = 0; i < count; i++) {
            if (af_ends_with(names[i], ".dist-info") || af_ends_with(names[i], ".egg-info"))
                visit_info(probe, site, names[i], broken);
        }
    }
    af_arena_release(&scratch);
    visit_source_tree(probe, site, broken);
}

/* Reads conda-meta/flash-attn-2.8.3-py312_0.json if site-packages has no dist-info. */
static void visit_conda(const struct af_probe *probe, size_t *broken)
{
    static const char start[] = "flash-attn-";
    const char *const *names;
    const char *prefix = af_fact_text_or(&probe->machine->python.prefix, NULL);
    const char *folder = af_path_join(probe->arena, prefix, "conda-meta");
    size_t count = has_flash_attn(probe, *broken) ? 0 : af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        const char *version = names[i] + sizeof start - 1;
        if (!af_starts_with(names[i], start) || !isdigit((unsigned char)*version))
            continue;
        struct af_package *row = add_row(probe, false, broken);
        if (row == NULL)
            return;
        const char *path = af_path_join(probe->arena, folder, names[i]);
        af_machine_set_all(probe->arena, (struct af_fact *)row, sizeof *row, AF_FACT_UNKNOWN,
                           "only conda's record was read");
        af_fact_text(probe->arena, &row->name, "flash-attn", path);
        af_fact_text(probe->arena, &row->version,
                     af_arena_text_n(probe->arena, version, strcspn(version, "-")), path);
        af_fact_text(probe->arena, &row->installer, "conda", path);
        return;
    }
}

void af_probe_packages(struct af_probe *probe)
{
    const struct af_fact *sites = &probe->machine->python.site_packages;
    struct af_package_rows *packages = &probe->machine->packages;
    size_t broken = 0;
    if (sites->state == AF_FACT_UNKNOWN) {
        packages->source = sites->source;
        return;
    }
    *packages = (struct af_package_rows){.state = AF_FACT_KNOWN,
                                         .source = "METADATA files in python.site_packages"};
    for (size_t i = 0; sites->state == AF_FACT_KNOWN && i < sites->value.list.count; i++)
        visit_site(probe, sites->value.list.items[i], &broken);
    visit_conda(probe, &broken);
}
