/*
 * given_build.c: packages, installers, toolkits, compilers, memory, disks and
 * variables given by the user. A list that gets a row here counts as complete.
 */
#include "kit/formats/tags.h"
#include "kit/formats/version.h"
#include "kit/machine/given.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define UNSAID "not given"

/* The row of the list with that name; made if missing. NULL when the list is full. */
static void *row_named(struct af_given *given, size_t list_offset, const char *name)
{
    struct af_fact *row = af_machine_row(given->machine, list_offset, name);
    if (row != NULL)
        return row;
    row = af_machine_row_add(given->machine, list_offset, UNSAID);
    if (row != NULL)
        af_given_text(given, row, name, NULL);
    return row;
}

static struct af_package *package_row(struct af_given *given, const char *name)
{
    return row_named(given, offsetof(struct af_machine, packages), name);
}

/* Removes the row of that name; the list is known then. */
static void remove_named(struct af_given *given, size_t list_offset, size_t row_bytes,
                         const char *name)
{
    struct af_rows *list = (void *)((char *)given->machine + list_offset);
    if (list->state == AF_FACT_UNKNOWN)
        *list = (struct af_rows){.state = AF_FACT_KNOWN, .source = given->source};
    char *row = af_machine_row(given->machine, list_offset, name);
    if (row == NULL)
        return;
    list->count--;
    memmove(row, row + row_bytes, (size_t)((char *)list->rows + list->count * row_bytes - row));
}

/* `version_at` is the offset of the package's version in the value. */
static void give_package(struct af_given *given, const char *name, size_t version_at)
{
    struct af_given rest = *given;
    struct af_version parsed;
    if (af_given_is_none(given)) {
        remove_named(given, offsetof(struct af_machine, packages), sizeof(struct af_package),
                     name);
        return;
    }
    struct af_package *package = package_row(given, name);
    if (package == NULL)
        return;
    rest.value = given->value + version_at;
    const char *version = af_given_version(&rest);
    if (version == NULL || !af_version_parse(version, strlen(version), &parsed)) {
        af_given_unclear(given, &package->version, "not one version");
        return;
    }
    af_given_text(given, &package->version, version, NULL);
    if (strpbrk(rest.value, " (") != NULL)
        af_given_remark(given, "taken as %s %s", name, version);
}

/* "2.8.3+cu12...", "git@v2.5.9", "flash-attn-4 4.0.0b4", "3.0 beta" */
void af_given_flash_attn(struct af_given *given)
{
    static const char *const others[] = {"flash-attn-4", "flash-attn-3"};
    for (size_t i = 0; i < AF_COUNT(others); i++) {
        size_t len = strlen(others[i]);
        if (strncmp(given->lower, others[i], len) == 0) {
            give_package(given, others[i], len + strspn(given->lower + len, " =@"));
            return;
        }
    }
    if (strstr(given->lower, " beta") != NULL || strstr(given->lower, " alpha") != NULL) {
        struct af_package *package = package_row(given, "flash-attn");
        if (package != NULL)
            af_given_unclear(given, &package->version, "names no exact pre-release");
        return;
    }
    give_package(given, "flash-attn", af_starts_with(given->lower, "git@") ? 4 : 0);
}

/* The key is the package's name: vllm=0.9.1 */
void af_given_package(struct af_given *given)
{
    char *name = af_arena_text(given->arena, given->key);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '_' ? '-' : *at;
    give_package(given, name, 0);
}

static struct af_tool *tool_row(struct af_given *given, const char *name)
{
    return row_named(given, offsetof(struct af_machine, tools), name);
}

static void tool_version(struct af_given *given, struct af_tool *tool, const char *text)
{
    size_t len = strspn(text, "0123456789.");
    const char *version = af_arena_text_n(given->arena, text, len);
    if (len > 0)
        af_given_text(given, &tool->version, version, NULL);
}

/* Stores every installer named in the value: "uv 0.7.8 sync", "conda + pip" */
void af_given_installer(struct af_given *given)
{
    static const char names[] = "uv|pip|conda|mamba|pixi|poetry|pdm|pipx";
    bool any = false;
    for (const char *at = given->lower; *at != '\0';) {
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (len > 0 && af_given_is_word(at, len, names)) {
            const char *name = af_arena_text_n(given->arena, at, len);
            struct af_tool *tool = tool_row(given, name);
            if (tool == NULL)
                return;
            tool_version(given, tool, at + len + strspn(at + len, " ="));
            any = true;
        }
        at += len == 0 ? 1 : len;
    }
    if (!any) /* there are others, so this is not an error */
        af_given_remark(given, "names no installer (uv, pip, conda, mamba, pixi, poetry, pdm)");
}

/* uv=0.7.8, ninja=none */
void af_given_tool(struct af_given *given)
{
    size_t tools = offsetof(struct af_machine, tools);
    if (af_given_is_none(given)) {
        remove_named(given, tools, sizeof(struct af_tool), given->key);
        return;
    }
    struct af_tool *tool = tool_row(given, given->key);
    if (tool != NULL)
        tool_version(given, tool, given->value);
}

/* Replaces a list by one row, which is returned; by none, and NULL, if there is none. */
static void *only_row(struct af_given *given, size_t list_offset)
{
    struct af_rows *list = (void *)((char *)given->machine + list_offset);
    *list = (struct af_rows){.state = AF_FACT_KNOWN, .source = given->source};
    return af_given_is_none(given) ? NULL
                                   : af_machine_row_add(given->machine, list_offset, UNSAID);
}

/* The toolkit for building with torch: "12.8.1", "13.1 (conda-forge)", none */
void af_given_toolkit(struct af_given *given)
{
    struct af_toolkit *toolkit = only_row(given, offsetof(struct af_machine, toolkits));
    if (toolkit == NULL)
        return;
    const char *version = af_given_version(given);
    int major;
    int minor;
    if (af_platform_libc_parse(version, &major, &minor))
        af_given_text(given, &toolkit->version, version, NULL);
    else
        af_given_unclear(given, &toolkit->version, "not a CUDA version such as 12.8");
    af_given_text(given, &toolkit->nvcc, "nvcc", NULL);
    af_given_text(given, &toolkit->found_by, "--given", NULL);
    af_given_bool(given, &toolkit->torch_takes_it, true, NULL);
    af_given_bool(given, &toolkit->headers, true, NULL);
}

/* gcc=12.2 and clang=17: the compiler for a build */
void af_given_compiler(struct af_given *given)
{
    struct af_compiler *compiler = only_row(given, offsetof(struct af_machine, compilers));
    if (compiler == NULL)
        return;
    bool gcc = strcmp(given->key, "gcc") == 0;
    const char *version = af_given_version(given);
    af_given_text(given, &compiler->command, gcc ? "g++" : "clang++", NULL);
    af_given_text(given, &compiler->family, given->key, NULL);
    if (version != NULL)
        af_given_text(given, &compiler->version, version, NULL);
    else
        af_given_unclear(given, &compiler->version, "not a compiler version such as 12.2");
}

/* "16", "0.5", "16 GB" */
static void give_gib(struct af_given *given, struct af_fact *fact)
{
    char *end;
    double gib = strtod(given->value, &end);
    end += strspn(end, " ");
    bool right = isdigit((unsigned char)given->value[0]) && gib >= 0 && gib <= 1e6 &&
                 (*end == '\0' || af_equal_fold(end, "gb") || af_equal_fold(end, "gib") ||
                  af_equal_fold(end, "g"));
    if (right)
        af_given_int(given, fact, (int64_t)(gib * 1073741824.0));
    else
        af_given_unclear(given, fact, "not a number of GiB");
}

void af_given_ram(struct af_given *given)
{
    struct af_resources *resources = &given->machine->resources;
    give_gib(given, &resources->memory_total_bytes);
    if (given->problem == NULL)
        resources->memory_available_bytes = resources->memory_total_bytes;
}

void af_given_cores(struct af_given *given)
{
    struct af_fact *cores = &given->machine->resources.cores;
    int64_t count;
    if (af_parse_i64(given->value, 1, 1000000, &count))
        af_given_int(given, cores, count);
    else
        af_given_unclear(given, cores, "not a number of cores");
}

/* Sets the free space of every place that an install or a build writes to. */
void af_given_disk(struct af_given *given)
{
    static const char *const uses[] = {"temporary", "cache", "builds", "environment"};
    given->machine->disks =
        (struct af_disk_rows){.state = AF_FACT_KNOWN, .source = given->source};
    for (size_t i = 0; i < AF_COUNT(uses); i++) {
        struct af_disk *disk =
            af_machine_row_add(given->machine, offsetof(struct af_machine, disks), UNSAID);
        af_given_text(given, &disk->use, uses[i], NULL);
        give_gib(given, &disk->free_bytes);
    }
}

/* env=UV_TORCH_BACKEND=cu128 */
void af_given_variable(struct af_given *given)
{
    const char *equals = strchr(given->value, '=');
    if (equals == NULL || equals == given->value) {
        af_given_unreadable(given, "expected NAME=VALUE");
        return;
    }
    struct af_variable *variable =
        af_machine_row_add(given->machine, offsetof(struct af_machine, variables), UNSAID);
    if (variable == NULL)
        return;
    const char *name =
        af_arena_text_n(given->arena, given->value, (size_t)(equals - given->value));
    af_given_text(given, &variable->name, name, NULL);
    af_given_text(given, &variable->value, equals + 1, NULL);
}
