/*
 * published.c: compares the catalog's official wheels with a few facts.
 */
#include "kit/doctor/log/published.h"

#include <string.h>

#include "kit/formats/version.h"

/* The wanted values; -1 and NULL: not known. */
struct wanted {
    int torch_major;
    int torch_minor;
    int python_minor;
    int cuda_major;
    const char *os;
    const char *arch;
    const char *version;
};

/* Number `index` of a known version, or -1. */
static int number_of(const struct af_fact *fact, int index)
{
    struct af_version version;
    const char *text = af_fact_text_or(fact, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count <= index || version.release[index] > 1000)
        return -1;
    return (int)version.release[index];
}

static struct wanted read_wanted(const struct af_machine *machine)
{
    const struct af_package *package = af_machine_package(machine, "flash-attn");
    return (struct wanted){
        .torch_major = number_of(&machine->torch.version, 0),
        .torch_minor = number_of(&machine->torch.version, 1),
        .python_minor = number_of(&machine->python.version, 1),
        .cuda_major = number_of(&machine->torch.cuda, 0),
        .os = af_fact_text_or(&machine->platform.os, NULL),
        .arch = af_fact_text_or(&machine->platform.arch, NULL),
        .version = package == NULL ? NULL : af_fact_text_or(&package->version, NULL),
    };
}

static bool is_known(const struct wanted *wanted, unsigned what)
{
    return ((what & AF_PUBLISHED_TORCH) == 0 || wanted->torch_minor >= 0) &&
           ((what & AF_PUBLISHED_PYTHON) == 0 || wanted->python_minor >= 0) &&
           ((what & AF_PUBLISHED_PLATFORM) == 0 || wanted->os != NULL) &&
           ((what & AF_PUBLISHED_CUDA) == 0 || wanted->cuda_major >= 0) &&
           ((what & AF_PUBLISHED_VERSION) == 0 || wanted->version != NULL);
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
    if ((what & AF_PUBLISHED_TORCH) != 0 && (wheel->torch_major != wanted->torch_major ||
                                             wheel->torch_minor != wanted->torch_minor))
        return false;
    if ((what & AF_PUBLISHED_PYTHON) != 0 && wheel->python_minor != wanted->python_minor)
        return false;
    if ((what & AF_PUBLISHED_CUDA) != 0 && wheel->cuda_major != wanted->cuda_major)
        return false;
    if ((what & AF_PUBLISHED_PLATFORM) != 0 && !is_for_platform(wheel, wanted))
        return false;
    return (what & AF_PUBLISHED_VERSION) == 0 || has_version(wheel, wanted->version);
}

enum af_answer af_published_find(const struct af_catalog *catalog,
                                 const struct af_machine *machine, unsigned what)
{
    struct wanted wanted = read_wanted(machine);
    if (!is_known(&wanted, what))
        return AF_UNKNOWN;
    bool is_known_version = false; /* the catalog cannot say what an unlisted version has */
    for (size_t i = 0; i < catalog->count; i++) {
        if (agrees(&catalog->wheels[i], &wanted, what))
            return AF_YES;
        is_known_version = is_known_version ||
                           agrees(&catalog->wheels[i], &wanted, what & AF_PUBLISHED_VERSION);
    }
    return is_known_version ? AF_NO : AF_UNKNOWN;
}
