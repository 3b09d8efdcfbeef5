/*
 * wheel_needs.c: Requires-Dist against the environment. Nothing that is
 * installed is changed for a wheel: what disagrees is said.
 */
#include "kit/cli/wheel_needs.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/marker.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"
#include "kit/formats/version.h"
#include "kit/install/distribution.h"

#define SENTENCE_BYTES 400

struct asking {
    struct af_cli *cli;
    const struct af_machine *machine;
    struct af_marker_environment here;
    struct af_cli_wheel_needs *needs;
};

/* The names by which Python knows a system. */
static const struct {
    const char *os;
    const char *os_name;
    const char *sys_platform;
    const char *platform_system;
} systems[] = {
    {"linux", "posix", "linux", "Linux"},
    {"macos", "posix", "darwin", "Darwin"},
    {"windows", "nt", "win32", "Windows"},
};

static struct af_marker_environment environment_of(const struct af_machine *machine)
{
    const char *implementation = af_fact_text_or(&machine->python.implementation, NULL);
    struct af_marker_environment here = {
        .python_full_version = af_fact_text_or(&machine->python.version, NULL),
        .platform_machine = af_fact_text_or(&machine->platform.arch, NULL),
        .implementation_name = implementation,
        .platform_python_implementation = af_equal(implementation, "cpython") ? "CPython"
                                          : af_equal(implementation, "pypy")  ? "PyPy"
                                                                              : NULL,
        .extra = "",
    };
    for (size_t i = 0; i < AF_COUNT(systems); i++) {
        if (!af_fact_is(&machine->platform.os, systems[i].os))
            continue;
        here.os_name = systems[i].os_name;
        here.sys_platform = systems[i].sys_platform;
        here.platform_system = systems[i].platform_system;
    }
    return here;
}

/* The version in which it is installed; NULL: it is not. */
static const char *installed_version(struct asking *asking, struct af_span name)
{
    const struct af_fact *sites = &asking->machine->python.site_packages;
    size_t site_count = sites->state == AF_FACT_KNOWN ? sites->value.list.count : 0;
    for (size_t i = 0; i < site_count; i++) {
        struct af_distribution *list;
        size_t count;
        if (af_distributions_list(&asking->cli->arena, sites->value.list.items[i], &list,
                                  &count, NULL) != ANYFLASH_OK)
            continue;
        for (size_t j = 0; j < count; j++)
            if (af_name_is(name, list[j].name))
                return list[j].version != NULL ? list[j].version : "";
    }
    return NULL;
}

static void tell(struct asking *asking, const struct af_requirement *requirement,
                 const char *specifier, const char *what)
{
    char name[100];
    char said[100];
    char sentence[SENTENCE_BYTES];
    af_text_quote(name, sizeof name, requirement->name.data, requirement->name.len);
    af_text_quote(said, sizeof said, specifier, strlen(specifier));
    snprintf(sentence, sizeof sentence, "the wheel asks for %s%s%s", name, said, what);
    af_cli_remark(asking->cli, sentence);
}

/* torch and all that is installed stay as they are: what the wheel says of them is told. */
static void check_version(struct asking *asking, const struct af_requirement *requirement,
                          const char *specifier, const char *installed)
{
    struct af_version version;
    char shown[100];
    char what[200];
    bool is_torch = af_name_is(requirement->name, "torch");
    if (!af_version_parse(installed, strlen(installed), &version) ||
        af_specifier_contains(specifier, &version) != AF_NO)
        return;
    af_text_quote(shown, sizeof shown, installed, strlen(installed));
    snprintf(what, sizeof what, ", and %s is here and stays: %s`pip check` will complain",
             shown, is_torch ? "its bytes decide, but " : "");
    tell(asking, requirement, specifier, what);
}

static void take_missing(struct asking *asking, const struct af_requirement *requirement,
                         const char *specifier)
{
    struct af_cli_wheel_needs *needs = asking->needs;
    if (requirement->url.len > 0 || needs->missing_count == AF_CLI_WHEEL_NEEDS_MAX) {
        tell(asking, requirement, specifier, ", which is not here: install it by hand");
        return;
    }
    needs->missing[needs->missing_count++] =
        af_arena_format(&asking->cli->arena, "%.*s%s", (int)requirement->name.len,
                        requirement->name.data, specifier);
}

static void take_requirement(struct asking *asking, const struct af_requirement *requirement)
{
    enum af_answer meant = af_marker_holds(requirement->marker, &asking->here);
    struct af_span text = requirement->specifier;
    const char *specifier =
        af_arena_text_n(&asking->cli->arena, text.len > 0 ? text.data : "", text.len);
    if (meant == AF_NO || specifier == NULL)
        return;
    const char *installed = installed_version(asking, requirement->name);
    if (installed != NULL)
        check_version(asking, requirement, specifier, installed);
    else if (meant == AF_UNKNOWN)
        tell(asking, requirement, specifier,
             " on systems that it describes in a way that is not understood: install it by "
             "hand if it is missed");
    else if (af_name_is(requirement->name, "torch"))
        tell(asking, requirement, specifier, ", which is not here: install it first");
    else
        take_missing(asking, requirement, specifier);
}

void af_cli_wheel_needs_read(struct af_cli *cli, const struct af_machine *machine,
                             struct af_span text, struct af_cli_wheel_needs *needs)
{
    struct asking asking = {
        .cli = cli, .machine = machine, .here = environment_of(machine), .needs = needs};
    struct af_header header;
    struct af_requirement requirement;
    while (af_header_next(&text, &header))
        if (af_header_is(&header, "Requires-Dist") &&
            af_requirement_parse(header.value, &requirement))
            take_requirement(&asking, &requirement);
}
