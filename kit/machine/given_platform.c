/*
 * given_platform.c: system, processor and C library given by the user, and facts
 * that follow from them: platform tags, and the names of extension modules.
 */
#include "kit/formats/embedded.h"
#include "kit/formats/tags.h"
#include "kit/machine/given.h"

#include <ctype.h>
#include <string.h>

/* Words for distributions, and their ids; if two occur, the last one counts. */
static const struct {
    const char *word;
    const char *id;
} distribution_words[] = {
    {"ubuntu", "ubuntu"},
    {"debian", "debian"},
    {"centos", "centos"},
    {"red hat", "rhel"},
    {"rhel", "rhel"},
    {"rocky", "rocky"},
    {"alma", "almalinux"},
    {"amazon", "amzn"},
    {"alpine", "alpine"},
    {"fedora", "fedora"},
    {"arch linux", "arch"},
    {"suse", "opensuse"},
    {"nixos", "nixos"},
    {"jetpack 5", "ubuntu 20.04"},
    {"jetpack 6", "ubuntu 22.04"},
};

static bool says(const struct af_given *given, const char *word)
{
    return strstr(given->lower, word) != NULL;
}

/* Whether `version` is the release `release` or a point release of it: 22.04.3 of 22.04. */
static bool is_release(const char *version, const char *release)
{
    size_t len = strlen(release);
    return strncmp(version, release, len) == 0 && (version[len] == '\0' || version[len] == '.');
}

/* Sets facts that a distribution's release implies, unless given themselves. */
static void imply_libc(struct af_given *given, const char *id, const char *version)
{
    struct af_platform *platform = &given->machine->platform;
    for (size_t i = 0; af_embedded_distributions[i][0] != NULL; i++) {
        const char *const *row = af_embedded_distributions[i];
        if (strcmp(id, row[0]) != 0 || !is_release(version, row[1]))
            continue;
        const char *why = af_arena_format(given->arena, "what %s %s ships", id, version);
        if (!af_given_by(&platform->libc_version, NULL)) {
            af_given_text(given, &platform->libc, row[2], why);
            af_given_text(given, &platform->libc_version, row[3], why);
        }
        if (!af_given_by(&platform->glibcxx, NULL))
            af_given_text(given, &platform->glibcxx, row[4], why);
    }
}

/* Finds the distribution that the value names; false if there is none. */
static bool give_distribution(struct af_given *given)
{
    const char *id = NULL;
    const char *after = NULL;
    for (size_t i = 0; i < AF_COUNT(distribution_words); i++) {
        const char *found = strstr(given->lower, distribution_words[i].word);
        if (found != NULL && (after == NULL || found > after)) {
            id = distribution_words[i].id;
            after = found + strlen(distribution_words[i].word);
        }
    }
    if (id == NULL)
        return false;
    const char *blank = strchr(id, ' ');
    const char *digits = after + strcspn(after, "0123456789");
    size_t digits_len = strspn(digits, "0123456789.");
    const char *version =
        blank != NULL ? blank + 1 : af_arena_text_n(given->arena, digits, digits_len);
    if (blank != NULL)
        id = af_arena_text_n(given->arena, id, (size_t)(blank - id));
    const char *text =
        version[0] == '\0' ? id : af_arena_format(given->arena, "%s %s", id, version);
    af_given_text(given, &given->machine->platform.distribution, text, NULL);
    imply_libc(given, id, version);
    return true;
}

/* Finds containers and hosted notebooks that the value names. */
static void give_surroundings(struct af_given *given)
{
    static const char *const containers[] = {"docker",     "podman", "apptainer", "singularity",
                                             "kubernetes", "colab",  "kaggle",    "container"};
    struct af_platform *platform = &given->machine->platform;
    if (says(given, "wsl"))
        af_given_bool(given, &platform->wsl, true, NULL);
    for (size_t i = 0; i < AF_COUNT(containers); i++) {
        if (!says(given, containers[i]))
            continue;
        af_given_text(given, &platform->container, containers[i], NULL);
        return;
    }
}

void af_given_os(struct af_given *given)
{
    struct af_fact *os = &given->machine->platform.os;
    bool windows = says(given, "win") && !says(given, "darwin") && !says(given, "wsl");
    bool macos = says(given, "mac") || says(given, "darwin");
    give_surroundings(given);
    bool distribution = give_distribution(given);
    bool linux = distribution || says(given, "linux") || says(given, "wsl") ||
                 says(given, "jetpack") || says(given, "l4t") || says(given, "hpc") ||
                 given->machine->platform.container.state == AF_FACT_KNOWN;
    if (windows && (linux || macos))
        af_given_unclear(given, os, "names more than one system");
    else if (windows)
        af_given_text(given, os, "windows", NULL);
    else if (linux)
        af_given_text(given, os, "linux", NULL);
    else if (macos)
        af_given_text(given, os, "macos", NULL);
    else
        af_given_unclear(given, os, "names no system (linux, windows, macos, ubuntu 22.04)");
}

void af_given_distribution(struct af_given *given)
{
    struct af_platform *platform = &given->machine->platform;
    if (!give_distribution(given)) {
        /* there are distributions that the table does not have, so this is not an error */
        af_given_remark(given, "not a known distribution, so this stays unknown");
        af_fact_unknown(given->arena, &platform->distribution, "%s: not a known distribution",
                        given->source);
        return;
    }
    if (platform->os.state != AF_FACT_KNOWN)
        af_given_text(given, &platform->os, "linux", NULL);
}

void af_given_arch(struct af_given *given)
{
    struct af_fact *fact = &given->machine->platform.arch;
    const char *arch;
    for (const char *at = given->lower; *at != '\0'; at++) {
        bool begins = at == given->lower || !isalnum((unsigned char)at[-1]);
        if (!begins || af_platform_arch_at(at, &arch) == 0)
            continue;
        af_given_text(given, fact, arch, NULL);
        return;
    }
    af_given_unclear(given, fact, "not a machine name (x86_64, aarch64)");
}

static void set_libc(struct af_given *given, const char *libc, const char *version)
{
    struct af_platform *platform = &given->machine->platform;
    int major;
    int minor;
    if (!af_platform_libc_parse(version, &major, &minor)) {
        af_given_unclear(given, &platform->libc_version, "not a version such as 2.35");
        return;
    }
    af_given_text(given, &platform->libc, libc, NULL);
    af_given_text(given, &platform->libc_version, version, NULL);
    if (platform->os.state != AF_FACT_KNOWN) /* only Linux has these */
        af_given_text(given, &platform->os, "linux", NULL);
}

/* glibc=2.35, musl=1.2; libc=musl, "glibc 2.35", "musl 1.2" */
void af_given_libc(struct af_given *given)
{
    struct af_fact *libc = &given->machine->platform.libc;
    bool by_name = strcmp(given->key, "libc") == 0;
    const char *said = by_name ? given->lower : given->key;
    const char *name = strstr(said, "musl") != NULL ? "musl" : "glibc";
    const char *digits = given->value + strcspn(given->value, "0123456789");
    if (!by_name)
        set_libc(given, name, af_given_version(given));
    else if (*digits != '\0')
        set_libc(given, name, digits);
    else if (says(given, name) || says(given, "gnu"))
        af_given_text(given, libc, name, NULL);
    else
        af_given_unclear(given, libc, "neither glibc nor musl");
}

/* "3.4.30" or "GLIBCXX_3.4.30" */
void af_given_glibcxx(struct af_given *given)
{
    const char *digits = given->value + strcspn(given->value, "0123456789");
    if (*digits != '\0')
        af_given_text(given, &given->machine->platform.glibcxx, digits, NULL);
    else
        af_given_unclear(given, &given->machine->platform.glibcxx,
                         "not a version such as 3.4.30");
}

/* A wheel's platform tag: "linux_x86_64", "manylinux_2_28_aarch64", "win_amd64". */
void af_given_platform(struct af_given *given)
{
    af_given_os(given);
    af_given_arch(given);
    const char *glibc = strstr(given->lower, "manylinux_");
    const char *musl = strstr(given->lower, "musllinux_");
    const char *digits = glibc != NULL ? glibc + 10 : musl != NULL ? musl + 10 : "";
    size_t len = strspn(digits, "0123456789_");
    char *version = af_arena_text_n(given->arena, digits, len > 0 ? len - 1 : 0);
    char *between = strchr(version, '_');
    if (between == NULL)
        return;
    *between = '.';
    set_libc(given, glibc != NULL ? "glibc" : "musl", version);
}

/* Windows tags say amd64 where Linux tags say x86_64, and so on. */
static void spell_arch(struct af_given *given)
{
    struct af_platform *platform = &given->machine->platform;
    const char *arch = af_fact_text_or(&platform->arch, NULL);
    if (platform->os.state != AF_FACT_KNOWN || af_platform_arch_at(arch, &arch) == 0)
        return;
    if (af_equal(arch, "x86_64") && af_fact_is(&platform->os, "windows"))
        arch = "amd64";
    else if (af_equal(arch, "aarch64") && !af_fact_is(&platform->os, "linux"))
        arch = "arm64";
    platform->arch.value.text = arch;
}

void af_given_derive_tags(struct af_given *given, const char *origin)
{
    struct af_platform *platform = &given->machine->platform;
    struct af_fact *tags = &given->machine->python.platform_tags;
    const char *arch = af_fact_text_or(&platform->arch, NULL);
    const char *version = af_fact_text_or(&platform->libc_version, NULL);
    spell_arch(given);
    if (arch == NULL || af_given_by(tags, "python.platform_tags"))
        return;
    arch = af_fact_text_or(&platform->arch, arch);
    const char *source = af_arena_format(given->arena, "%s: os, arch and C library", origin);
    if (af_fact_is(&platform->os, "windows")) {
        const char *tag = af_arena_format(given->arena, "win_%s", arch);
        af_fact_list(given->arena, tags, &tag, 1, source);
    } else if (af_fact_is(&platform->os, "linux") && version != NULL) {
        size_t count;
        const char *const *items = af_platform_tags_linux(
            given->arena, arch, af_fact_text_or(&platform->libc, "glibc"), version, &count);
        af_fact_list(given->arena, tags, items, count, source);
    } else {
        af_fact_unknown(given->arena, tags, "the version of the C library is not known");
    }
}

/* CPython's names for extension modules: configure's SOABI and EXT_SUFFIX. */
static void name_modules(struct af_given *given, const char *nodot, const char *origin)
{
    struct af_platform *platform = &given->machine->platform;
    struct af_python *python = &given->machine->python;
    const char *arch = af_fact_text_or(&platform->arch, "");
    const char *os = af_fact_text_or(&platform->os, "");
    const char *flags = af_fact_text_or(&python->abi_flags, "");
    const char *libc = af_fact_is(&platform->libc, "musl") ? "musl" : "gnu";
    const char *soabi = NULL;
    bool windows = strcmp(os, "windows") == 0;
    if (windows)
        soabi = af_arena_format(given->arena, "cp%s%s-win_%s", nodot, flags, arch);
    else if (strcmp(os, "linux") == 0)
        soabi =
            af_arena_format(given->arena, "cpython-%s%s-%s-linux-%s", nodot, flags, arch, libc);
    else if (strcmp(os, "macos") == 0)
        soabi = af_arena_format(given->arena, "cpython-%s%s-darwin", nodot, flags);
    if (soabi == NULL)
        return;
    const char *suffix = af_arena_format(given->arena, ".%s.%s", soabi, windows ? "pyd" : "so");
    const char *source = af_arena_format(given->arena, "%s: python, os and arch", origin);
    af_fact_text(given->arena, &python->soabi, soabi, source);
    af_fact_text(given->arena, &python->ext_suffix, suffix, source);
}

void af_given_derive_soabi(struct af_given *given, const char *origin)
{
    struct af_python *python = &given->machine->python;
    int major;
    int minor;
    if (!af_fact_is(&python->implementation, "cpython") ||
        given->machine->platform.arch.state != AF_FACT_KNOWN ||
        af_given_by(&python->soabi, "python.soabi") ||
        !af_platform_libc_parse(af_fact_text_or(&python->version, NULL), &major, &minor))
        return;
    name_modules(given, af_arena_format(given->arena, "%d%d", major, minor), origin);
}

void af_given_derive(struct af_given *given)
{
    enum af_origin_kind kind = given->origin.kind;
    const char *origin = kind == AF_ORIGIN_GIVEN ? "--given" : given->source;
    const struct af_platform *platform = &given->machine->platform;
    bool platform_given = platform->os.origin.kind == kind ||
                          platform->arch.origin.kind == kind ||
                          platform->libc_version.origin.kind == kind;
    spell_arch(given);
    if (platform_given)
        af_given_derive_tags(given, origin);
    if (platform_given || given->machine->python.version.origin.kind == kind)
        af_given_derive_soabi(given, origin);
}
