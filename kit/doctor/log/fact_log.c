/*
 * fact_log.c: facts from a log: the wheel that it names, the symbol that was
 * not found, and whether wheels are published for its machine.
 */
#include <string.h>

#include "kit/doctor/log/lookup_rows.h"
#include "kit/formats/symbol_name.h"
#include "kit/formats/version.h"

static const char looked_up[] = "the symbol, looked up in torch's releases";

/* "cp312" as "3.12". */
static value wheel_python(const struct af_lookup *lookup)
{
    if (lookup->wheel == NULL)
        return af_lookup_unknown;
    const char *tag = lookup->wheel->python;
    size_t digits = af_starts_with(tag, "cp") ? strspn(tag + 2, "0123456789") : 0;
    if (digits < 2 || tag[2 + digits] != '\0')
        return af_lookup_unknown;
    return af_lookup_known(af_arena_format(lookup->arena, "%c.%s", tag[2], tag + 3),
                           lookup->wheel_source);
}

static value wheel_platform(const struct af_lookup *lookup)
{
    return lookup->wheel == NULL
               ? af_lookup_unknown
               : af_lookup_known(lookup->wheel->platform, lookup->wheel_source);
}

/* "2.28" of "manylinux_2_28_x86_64"; of several tags the first, which names the oldest. */
static value wheel_glibc(const struct af_lookup *lookup)
{
    value platform = wheel_platform(lookup);
    if (platform.state != AF_FACT_KNOWN || !af_starts_with(platform.text, "manylinux_"))
        return af_lookup_unknown;
    const char *major = platform.text + strlen("manylinux_");
    size_t major_len = strspn(major, "0123456789");
    const char *minor = major + major_len + 1;
    if (major_len == 0 || major[major_len] != '_')
        return af_lookup_unknown;
    size_t minor_len = strspn(minor, "0123456789");
    return minor_len == 0
               ? af_lookup_unknown
               : af_lookup_known(af_arena_format(lookup->arena, "%.*s.%.*s", (int)major_len,
                                                 major, (int)minor_len, minor),
                                 lookup->wheel_source);
}

static value symbol_value(const struct af_lookup *lookup, const char *text)
{
    return lookup->symbol == NULL ? af_lookup_unknown
                                  : af_lookup_known(text, lookup->symbol_source);
}

static value symbol_is_torch(const struct af_lookup *lookup)
{
    if (lookup->symbol == NULL)
        return af_lookup_unknown;
    return symbol_value(lookup, af_symbol_is_torch(lookup->symbol) ? "true" : "false");
}

static value symbol_cxx11abi(const struct af_lookup *lookup)
{
    enum af_answer answer =
        lookup->symbol == NULL ? AF_UNKNOWN : af_symbol_cxx11abi(lookup->symbol);
    if (answer == AF_UNKNOWN)
        return af_lookup_unknown;
    return symbol_value(lookup, answer == AF_YES ? "true" : "false");
}

/* The platform whose builds of torch the log is about. */
static const char *platform_of(const struct af_lookup *lookup)
{
    return af_fact_is(&lookup->machine->platform.arch, "aarch64") ? "linux_aarch64"
                                                                  : "linux_x86_64";
}

static value symbol_torch(const struct af_lookup *lookup, bool newest)
{
    const char *oldest_version;
    const char *newest_version;
    if (lookup->symbol == NULL || lookup->symbols == NULL)
        return af_lookup_unknown;
    if (!af_catalog_torch_symbols_span(lookup->symbols, platform_of(lookup), lookup->symbol,
                                       &oldest_version, &newest_version))
        return (value){AF_FACT_ABSENT, NULL, lookup->symbol_source};
    return af_lookup_numbers(
        af_lookup_known(newest ? newest_version : oldest_version, looked_up), 2, lookup->arena);
}

/* "torch 2.1 to 2.2", "torch 2.8 or later" */
static value symbol_built_for(const struct af_lookup *lookup)
{
    value oldest = symbol_torch(lookup, false);
    value newest = symbol_torch(lookup, true);
    if (oldest.state != AF_FACT_KNOWN || newest.state != AF_FACT_KNOWN)
        return oldest;
    size_t count = lookup->symbols->build_count;
    bool from_first = af_starts_with(lookup->symbols->builds[0].version, oldest.text);
    bool to_last = af_starts_with(lookup->symbols->builds[count - 1].version, newest.text);
    const char *text =
        from_first && to_last ? af_arena_format(lookup->arena, "any torch from %s to %s",
                                                oldest.text, newest.text)
        : from_first ? af_arena_format(lookup->arena, "torch %s or earlier", newest.text)
        : to_last    ? af_arena_format(lookup->arena, "torch %s or later", oldest.text)
        : strcmp(oldest.text, newest.text) == 0
            ? af_arena_format(lookup->arena, "torch %s", oldest.text)
            : af_arena_format(lookup->arena, "torch %s to %s", oldest.text, newest.text);
    return af_lookup_known(text, looked_up);
}

static value symbol_in_torch(const struct af_lookup *lookup)
{
    const char *torch = af_lookup_text(lookup, &lookup->machine->torch.version);
    struct af_catalog_torch_choice choice;
    if (lookup->symbol == NULL || lookup->symbols == NULL || torch == NULL)
        return af_lookup_unknown;
    if (af_catalog_torch_symbols_choose(lookup->symbols, torch, platform_of(lookup),
                                        lookup->arena, &choice, NULL) != ANYFLASH_OK ||
        choice.build == NULL)
        return af_lookup_unknown;
    bool found =
        af_catalog_torch_symbols_in(lookup->symbols, choice.build, lookup->symbol) != 0;
    return af_lookup_known(found ? "true" : "false", looked_up);
}

/* What a published wheel must agree with. */
enum published_for {
    PUBLISHED_TORCH = 1,    /* major and minor version */
    PUBLISHED_PYTHON = 2,   /* minor version */
    PUBLISHED_PLATFORM = 4, /* operating system, and processor if it is known */
    PUBLISHED_VERSION = 8   /* of flash-attn, as the machine has it */
};

/* The wanted values; -1 and NULL: not known. */
struct wanted {
    int torch_major;
    int torch_minor;
    int python_minor;
    const char *os;
    const char *arch;
    const char *version;
};

/* Number `index` of a known version, or -1. */
static int number_of(const struct af_lookup *lookup, const struct af_fact *fact, int index)
{
    struct af_version version;
    const char *text = af_lookup_text(lookup, fact);
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count <= index || version.release[index] > 1000)
        return -1;
    return (int)version.release[index];
}

static struct wanted read_wanted(const struct af_lookup *lookup)
{
    const struct af_machine *machine = lookup->machine;
    const struct af_package *package = af_machine_package(machine, "flash-attn");
    return (struct wanted){
        .torch_major = number_of(lookup, &machine->torch.version, 0),
        .torch_minor = number_of(lookup, &machine->torch.version, 1),
        .python_minor = number_of(lookup, &machine->python.version, 1),
        .os = af_lookup_text(lookup, &machine->platform.os),
        .arch = af_lookup_text(lookup, &machine->platform.arch),
        .version = package == NULL ? lookup->asked : af_lookup_text(lookup, &package->version),
    };
}

static bool is_known(const struct wanted *wanted, unsigned what)
{
    return ((what & PUBLISHED_TORCH) == 0 || wanted->torch_minor >= 0) &&
           ((what & PUBLISHED_PYTHON) == 0 || wanted->python_minor >= 0) &&
           ((what & PUBLISHED_PLATFORM) == 0 || wanted->os != NULL) &&
           ((what & PUBLISHED_VERSION) == 0 || wanted->version != NULL);
}

static bool is_for_platform(const struct af_catalog_wheel *wheel, const struct wanted *wanted)
{
    const char *name = strcmp(wanted->os, "windows") == 0 ? "win_"
                       : strcmp(wanted->os, "macos") == 0 ? "macosx_"
                                                          : "linux";
    return strstr(wheel->platform, name) != NULL &&
           (wanted->arch == NULL || strstr(wheel->platform, wanted->arch) != NULL);
}

/* Bytes of the release: "2.8.3" of "2.8.3.post1" and of "2.8.3+cu12torch2.8". */
static size_t release_len(const char *version)
{
    const char *post = strstr(version, ".post");
    size_t len = strcspn(version, "+");
    return post != NULL && (size_t)(post - version) < len ? (size_t)(post - version) : len;
}

static bool has_version(const struct af_catalog_wheel *wheel, const char *version)
{
    size_t len = release_len(version);
    return release_len(wheel->version) == len && memcmp(wheel->version, version, len) == 0;
}

static bool agrees(const struct af_catalog_wheel *wheel, const struct wanted *wanted,
                   unsigned what)
{
    if (!wheel->official || strcmp(wheel->package, "flash_attn") != 0)
        return false;
    if ((what & PUBLISHED_TORCH) != 0 && (wheel->torch_major != wanted->torch_major ||
                                          wheel->torch_minor != wanted->torch_minor))
        return false;
    if ((what & PUBLISHED_PYTHON) != 0 && wheel->python_minor != wanted->python_minor)
        return false;
    if ((what & PUBLISHED_PLATFORM) != 0 && !is_for_platform(wheel, wanted))
        return false;
    return (what & PUBLISHED_VERSION) == 0 || has_version(wheel, wanted->version);
}

/*
 * Whether flash-attn's authors published a wheel that agrees with all of them; UNKNOWN if one
 * of the facts is unknown. Coarser than kit/fit, which needs more facts than a log has.
 */
static enum af_answer find_published(const struct af_lookup *lookup, unsigned what)
{
    const struct af_catalog *catalog = lookup->catalog;
    struct wanted wanted = read_wanted(lookup);
    if (!is_known(&wanted, what))
        return AF_UNKNOWN;
    bool is_known_version = false; /* the catalog cannot say what an unlisted version has */
    for (size_t i = 0; i < catalog->count; i++) {
        if (agrees(&catalog->wheels[i], &wanted, what))
            return AF_YES;
        is_known_version =
            is_known_version || agrees(&catalog->wheels[i], &wanted, what & PUBLISHED_VERSION);
    }
    bool newer = (what & PUBLISHED_TORCH) != 0 &&
                 af_catalog_predates_torch(catalog, wanted.torch_major, wanted.torch_minor);
    return is_known_version && !newer ? AF_NO : AF_UNKNOWN;
}

value af_lookup_published(const struct af_lookup *lookup, unsigned what)
{
    enum af_answer answer = lookup->catalog == NULL ? AF_UNKNOWN : find_published(lookup, what);
    if (answer == AF_UNKNOWN)
        return af_lookup_unknown;
    return af_lookup_known(answer == AF_YES ? "true" : "false",
                           "the catalog of published wheels");
}

/* Whether some publisher has the file; unknown for a version that the list does not know. */
static value wheel_published(const struct af_lookup *lookup)
{
    const struct af_wheel_name *named = lookup->wheel;
    bool is_known = false, is_there = false;
    for (size_t i = 0; named != NULL && lookup->catalog != NULL && i < lookup->catalog->count;
         i++) {
        const struct af_catalog_wheel *wheel = &lookup->catalog->wheels[i];
        struct af_wheel_name file;
        is_known |= has_version(wheel, named->version_text);
        is_there |= af_wheel_name_parse(wheel->filename, strlen(wheel->filename), &file) ==
                        AF_WHEEL_NAME_VALID &&
                    strcmp(file.version_text, named->version_text) == 0 &&
                    strcmp(file.python, named->python) == 0 &&
                    strcmp(file.platform, named->platform) == 0;
    }
    return !is_known && !is_there ? af_lookup_unknown
                                  : af_lookup_known(is_there ? "true" : "false",
                                                    "the catalog of published wheels");
}

const struct af_lookup_row af_lookup_log_rows[] = {
    {"wheel.published", wheel_published, "anyflash find", 0, NULL, 0},
    {"wheel.python", wheel_python, NULL, 0, NULL, 0},
    {"wheel.platform", wheel_platform, NULL, 0, NULL, 0},
    {"wheel.glibc", wheel_glibc, NULL, 0, NULL, 0},
    {"catalog.wheel_of_version", NULL, "anyflash find",
     PUBLISHED_TORCH | PUBLISHED_PYTHON | PUBLISHED_PLATFORM | PUBLISHED_VERSION, NULL, 0},
    {"catalog.torch_of_version", NULL, "anyflash find", PUBLISHED_TORCH | PUBLISHED_VERSION,
     NULL, 0},
    {"catalog.python_of_version", NULL, "anyflash find", PUBLISHED_PYTHON | PUBLISHED_VERSION,
     NULL, 0},
    {"catalog.torch", NULL, "anyflash find", PUBLISHED_TORCH, NULL, 0},
    {"catalog.python", NULL, "anyflash find", PUBLISHED_PYTHON, NULL, 0},
    {"catalog.platform", NULL, "anyflash find", PUBLISHED_PLATFORM, NULL, 0},
    {"symbol.is_torch", symbol_is_torch, NULL, 0, NULL, 0},
    {"symbol.cxx11abi", symbol_cxx11abi, NULL, 0, NULL, 0},
    {"symbol.built_for", symbol_built_for, NULL, 0, NULL, 0},
    {"symbol.in_torch", symbol_in_torch, "python -c \"import torch; print(torch.__version__)\"",
     0, NULL, 0},
};
const size_t af_lookup_log_row_count = AF_COUNT(af_lookup_log_rows);
