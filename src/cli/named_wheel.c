/*
 * named_wheel.c: from a file or an address to a plan with one wheel. What the
 * wheel needs beside it is read from its METADATA where the file is here.
 */
#include "cli/named_wheel.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "formats/metadata.h"
#include "formats/names.h"
#include "formats/sha256.h"
#include "formats/source.h"
#include "formats/wheel_name.h"
#include "formats/zip.h"
#include "run/distribution.h"
#include "run/http.h"

#define METADATA_BYTES_MAX (4u * 1024u * 1024u)
#define MISSING_MAX 8

struct named {
    struct af_cli *cli;
    const struct af_machine *machine;
    struct af_step_wheel wheel;
    const char *module;
    const char *missing[MISSING_MAX];
    size_t missing_count;
};

/* "%2B" and its kin in the last part of an address. */
static const char *decode(struct af_arena *arena, const char *text)
{
    char *made = af_arena_text(arena, text);
    char *to = made;
    for (const char *at = made; at != NULL && *at != '\0'; at++) {
        unsigned value;
        bool coded = *at == '%' && isxdigit((unsigned char)at[1]) &&
                     isxdigit((unsigned char)at[2]) && sscanf(at + 1, "%2x", &value) == 1 &&
                     value > ' ' && value < 0x7f && value != '/';
        *to++ = coded ? (char)value : *at;
        at += coded ? 2 : 0;
    }
    if (to != NULL)
        *to = '\0';
    return made;
}

/* Each '+' of an address as %2B, as indexes write it. */
static const char *encode(struct af_arena *arena, const char *url)
{
    struct af_text text = {0};
    for (const char *at = url; *at != '\0'; at++) {
        if (*at == '+')
            af_text_add(&text, "%2B");
        else
            af_text_add_n(&text, at, 1);
    }
    const char *made = text.failed ? NULL : af_arena_text(arena, af_text_get(&text));
    af_text_release(&text);
    return made;
}

static enum anyflash_status read_name(struct named *named, struct anyflash_error *err)
{
    struct af_wheel_name parts;
    char normal[256];
    char shown[200];
    const char *filename = named->wheel.filename;
    if (filename == NULL)
        return af_fail_memory(err);
    enum af_wheel_name_problem problem =
        af_wheel_name_parse(filename, strlen(filename), &parts);
    if (problem != AF_WHEEL_NAME_VALID ||
        !af_name_normalise((struct af_span){parts.package, strlen(parts.package)}, normal,
                           sizeof normal))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'%s' is no wheel: its name %s",
                       af_text_quote(shown, sizeof shown, filename, strlen(filename)),
                       af_wheel_name_problem_text(problem));
    named->wheel.package = af_arena_text(&named->cli->arena, normal);
    named->wheel.version = af_arena_text(&named->cli->arena, parts.version_text);
    return ANYFLASH_OK;
}

static enum anyflash_status read_word(struct named *named, const char *word,
                                      struct anyflash_error *err)
{
    struct af_arena *arena = &named->cli->arena;
    const char *sha256 = named->cli->options.values[AF_OPTION_SHA256];
    if (sha256 != NULL && !af_sha256_is_hex(sha256))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--sha256 takes 64 hexadecimal digits");
    named->wheel.sha256 = sha256;
    if (af_http_is_url(word)) {
        size_t len = strcspn(word, "?#");
        const char *plain = af_arena_text_n(arena, word, len);
        named->wheel.url = encode(arena, word);
        named->wheel.filename = plain == NULL ? NULL : decode(arena, af_path_name(plain));
        return read_name(named, err);
    }
    named->wheel.path = af_path_real(arena, word);
    if (named->wheel.path == NULL && !arena->failed) {
        char shown[200];
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "no file '%s'",
                       af_text_quote(shown, sizeof shown, word, strlen(word)));
    }
    named->wheel.filename = af_arena_text(arena, af_path_name(named->wheel.path));
    return read_name(named, err);
}

/* Whether a distribution of that name lies in one of the environment's folders. */
static bool is_installed(struct named *named, struct af_span name)
{
    const struct af_fact *sites = &named->machine->python.site_packages;
    size_t site_count = sites->state == AF_FACT_KNOWN ? sites->value.list.count : 0;
    for (size_t i = 0; i < site_count; i++) {
        struct af_distribution *list;
        size_t count;
        if (af_distributions_list(&named->cli->arena, sites->value.list.items[i], &list, &count,
                                  NULL) != ANYFLASH_OK)
            continue;
        for (size_t j = 0; j < count; j++)
            if (af_name_is(name, list[j].name))
                return true;
    }
    return false;
}

/* torch stays as it is: what the wheel says about it is only told. */
static void tell_torch(struct named *named, const char *specifier)
{
    struct af_version version;
    char said[100];
    char sentence[300];
    const char *torch = af_fact_text_or(&named->machine->torch.version, NULL);
    if (torch == NULL || !af_version_parse(torch, strlen(torch), &version) ||
        af_specifier_contains(specifier, &version) != AF_NO)
        return;
    af_text_quote(said, sizeof said, specifier, strlen(specifier));
    snprintf(sentence, sizeof sentence,
             "the wheel asks for torch%s, and torch %s is here: its bytes decide, but `pip "
             "check` will complain",
             said, torch);
    af_cli_remark(named->cli, sentence);
}

/* Requirements with a marker are for other systems as often as for this one: left out. */
static void take_requirement(struct named *named, const struct af_requirement *requirement)
{
    struct af_arena *arena = &named->cli->arena;
    const char *specifier = af_arena_text_n(
        arena, requirement->specifier.len > 0 ? requirement->specifier.data : "",
        requirement->specifier.len);
    if (requirement->has_marker || requirement->url.len > 0 || specifier == NULL)
        return;
    if (af_name_is(requirement->name, "torch"))
        tell_torch(named, specifier);
    else if (named->missing_count < MISSING_MAX && !is_installed(named, requirement->name))
        named->missing[named->missing_count++] = af_arena_format(
            arena, "%.*s%s", (int)requirement->name.len, requirement->name.data, specifier);
}

static void read_metadata(struct named *named, struct af_span text)
{
    struct af_header header;
    struct af_requirement requirement;
    while (af_header_next(&text, &header))
        if (af_header_is(&header, "Requires-Dist") &&
            af_requirement_parse(header.value, &requirement))
            take_requirement(named, &requirement);
}

/* The module to import: a folder or compiled file of the wheel that is called as it is. */
static void take_member(struct named *named, const char *name)
{
    char module[256];
    size_t len = strlen(named->wheel.package);
    if (len + 1 > sizeof module || named->module != NULL)
        return;
    for (size_t i = 0; i <= len; i++)
        module[i] = named->wheel.package[i] == '-' ? '_' : named->wheel.package[i];
    if (strncmp(name, module, len) == 0 &&
        (strcmp(name + len, "/__init__.py") == 0 || name[len] == '.'))
        named->module = af_arena_text(&named->cli->arena, module);
}

static enum anyflash_status read_wheel(struct named *named, struct anyflash_error *err)
{
    struct af_source source;
    struct af_zip zip = {0};
    struct af_span text;
    enum anyflash_status status = af_source_open_file(named->wheel.path, &source, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_zip_open(&source, &zip, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < zip.member_count; i++) {
        const struct af_zip_member *member = &zip.members[i];
        const char *slash = strchr(member->name, '/');
        take_member(named, member->name);
        if (slash == NULL || !af_ends_with(member->name, ".dist-info/METADATA") ||
            strchr(slash + 1, '/') != NULL)
            continue;
        status = af_zip_read(&zip, member, &named->cli->arena, METADATA_BYTES_MAX, &text, err);
        if (status == ANYFLASH_OK)
            read_metadata(named, text);
    }
    af_zip_close(&zip);
    af_source_close(&source);
    return status;
}

enum anyflash_status af_named_wheel_plan(struct af_cli *cli, const struct af_machine *machine,
                                         const char *word, struct af_plan *plan,
                                         struct anyflash_error *err)
{
    struct named named = {.cli = cli, .machine = machine};
    enum anyflash_status status = read_word(&named, word, err);
    if (status == ANYFLASH_OK && named.wheel.path != NULL)
        status = read_wheel(&named, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_plan_make_wheel(machine, &named.wheel, named.module, named.missing,
                              named.missing_count, plan, err);
}
