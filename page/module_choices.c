/*
 * module_choices.c: menus from the tables that decisions use, so that each value that
 * the page offers is one that the rules know.
 */
#include "page/module_choices.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/sort.h"
#include "kit/catalog/tables.h"
#include "kit/formats/embedded.h"
#include "kit/plan/plan_answer.h"

#define PLACES_BYTES 160u /* af_sort() moves at most 256 bytes */
#define GROUPS_MAX 32u
#define GPUS_NAMED_MAX 8u

struct menus {
    const struct af_machine *machine;
    const struct af_catalog *catalog;
    const struct af_tables *tables;
    struct af_arena *arena;
};

/* What a text says of a fact: NULL values are unknown. */
struct said {
    const char *value;
    const char *source;
};

static json_t *choice(const char *value, const char *label)
{
    return json_pack("{s:s, s:s}", "value", value, "label", label == NULL ? value : label);
}

static struct said said_by(const struct af_fact *fact)
{
    return (struct said){af_fact_text_or(fact, NULL), fact->source};
}

static json_t *list_os(const struct menus *menus)
{
    (void)menus;
    return json_pack("[o, o, o, o]", choice("linux", "Linux"), choice("windows", "Windows"),
                     choice("WSL2", "Linux on Windows (WSL2)"), choice("macos", "macOS"));
}

static struct said says_os(const struct menus *menus)
{
    const struct af_platform *platform = &menus->machine->platform;
    struct said said = said_by(&platform->os);
    if (said.value != NULL && af_fact_truth(&platform->wsl) == AF_YES)
        said = (struct said){"WSL2", platform->wsl.source};
    return said;
}

static json_t *list_arch(const struct menus *menus)
{
    (void)menus;
    return json_pack("[o, o]", choice("x86_64", "x86_64 (Intel, AMD)"),
                     choice("aarch64", "aarch64 (ARM, Grace, Jetson)"));
}

static struct said says_arch(const struct menus *menus)
{
    struct said said = said_by(&menus->machine->platform.arch);
    if (af_equal(said.value, "amd64"))
        said.value = "x86_64";
    else if (af_equal(said.value, "arm64"))
        said.value = "aarch64";
    return said;
}

/* Every Python that some release of torch was built for, newest first. */
static json_t *list_python(const struct menus *menus)
{
    json_t *list = json_array();
    for (int minor = 99; minor > 0; minor--) {
        bool plain = false;
        bool threaded = false;
        const char *name = af_arena_format(menus->arena, "3.%d", minor);
        for (size_t i = 0; name != NULL && i < menus->tables->torch_count; i++) {
            plain |= af_words_have(menus->tables->torch[i].pythons, name);
            threaded |= af_words_have(menus->tables->torch[i].pythons_free_threaded, name);
        }
        if (plain)
            list = af_json_append(list, choice(name, NULL));
        const char *full = threaded ? af_arena_format(menus->arena, "%st", name) : NULL;
        if (full != NULL)
            list = af_json_append(
                list, choice(full, af_arena_format(menus->arena, "%s (free-threaded)", full)));
    }
    return list;
}

static struct said says_python(const struct menus *menus)
{
    const struct af_python *python = &menus->machine->python;
    struct said said = said_by(&python->version);
    if (said.value != NULL && strchr(af_fact_text_or(&python->abi_flags, ""), 't') != NULL)
        said.value = af_arena_format(menus->arena, "%st", said.value);
    return said;
}

static json_t *list_torch(const struct menus *menus)
{
    json_t *list = json_array();
    for (size_t i = menus->tables->torch_count; i > 0; i--)
        list = af_json_append(list, choice(menus->tables->torch[i - 1].latest, NULL));
    return af_json_append(list, choice("none", "not installed"));
}

/* Without the local version, which the menu of builds shows. */
static struct said says_torch(const struct menus *menus)
{
    const struct af_fact *version = &menus->machine->torch.version;
    struct said said = said_by(version);
    if (version->state == AF_FACT_ABSENT)
        said.value = "none";
    else if (said.value != NULL)
        said.value = af_arena_text_n(menus->arena, said.value, strcspn(said.value, "+"));
    return said;
}

static bool later_build(const struct af_catalog_torch_variant *a,
                        const struct af_catalog_torch_variant *b)
{
    return b == NULL || a->cuda_major > b->cuda_major ||
           (a->cuda_major == b->cuda_major && a->cuda_minor > b->cuda_minor);
}

/* The newest build before `limit`; NULL: there is none. */
static const struct af_catalog_torch_variant *build_before(
    const struct af_tables *tables, const struct af_catalog_torch_variant *limit)
{
    const struct af_catalog_torch_variant *best = NULL;
    for (size_t i = 0; i < tables->torch_count; i++)
        for (size_t v = 0; v < tables->torch[i].variant_count; v++) {
            const struct af_catalog_torch_variant *variant = &tables->torch[i].variants[v];
            if (variant->cuda_major > 0 && (limit == NULL || later_build(limit, variant)) &&
                (limit == NULL || !af_equal(variant->cuda, limit->cuda)) &&
                later_build(variant, best))
                best = variant;
        }
    return best;
}

static json_t *list_torch_cuda(const struct menus *menus)
{
    json_t *list = json_array();
    const struct af_catalog_torch_variant *variant = build_before(menus->tables, NULL);
    for (; variant != NULL; variant = build_before(menus->tables, variant))
        list = af_json_append(
            list, choice(variant->cuda,
                         af_arena_format(menus->arena, "%s (CUDA %d.%d)", variant->cuda,
                                         variant->cuda_major, variant->cuda_minor)));
    return af_json_append(list, choice("cpu", "cpu (no CUDA)"));
}

/* "cu124" for the CUDA "12.4" of a torch. */
static const char *build_of_cuda(struct af_arena *arena, const char *cuda)
{
    size_t major = strspn(cuda, "0123456789");
    size_t minor = cuda[major] == '.' ? strspn(cuda + major + 1, "0123456789") : 0;
    return af_arena_format(arena, "cu%.*s%.*s", (int)major, cuda, (int)minor,
                           cuda + major + (minor > 0));
}

static struct said says_torch_cuda(const struct menus *menus)
{
    const struct af_torch *torch = &menus->machine->torch;
    const char *version = af_fact_text_or(&torch->version, "");
    const char *local = strchr(version, '+');
    if (local != NULL && (af_starts_with(local, "+cu") || af_starts_with(local, "+cpu") ||
                          af_starts_with(local, "+rocm")))
        return (struct said){local + 1, torch->version.source};
    if (torch->cuda.state == AF_FACT_KNOWN)
        return (struct said){build_of_cuda(menus->arena, torch->cuda.value.text),
                             torch->cuda.source};
    if (torch->hip.state == AF_FACT_KNOWN)
        return (struct said){af_arena_format(menus->arena, "rocm%s", torch->hip.value.text),
                             torch->hip.source};
    if (torch->cuda.state == AF_FACT_ABSENT && version[0] != '\0')
        return (struct said){"cpu", torch->cuda.source};
    return (struct said){NULL, torch->cuda.source};
}

/* "RTX A6000" for "rtx a6000": short words and those with digits are in capitals. */
static const char *product_name(struct af_arena *arena, const char *lower)
{
    char *name = af_arena_text(arena, lower);
    for (char *word = name; word != NULL && *word != '\0';) {
        size_t len = strcspn(word, " ");
        bool short_word = len <= 3 && strncmp(word, "ada", 3) != 0;
        bool has_digit = strcspn(word, "0123456789") < len;
        for (size_t i = 0; i < len; i++)
            if (i == 0 || short_word || has_digit)
                word[i] = (char)toupper((unsigned char)word[i]);
        word += len + (word[len] == ' ');
    }
    return name;
}

static json_t *list_gpu(const struct menus *menus)
{
    struct af_embedded_rows rows;
    json_t *list = json_pack("[o]", choice("none", "no GPU"));
    if (!af_embedded_rows_open(&af_embedded_gpu_names, 3, menus->arena, &rows)) {
        json_decref(list);
        return NULL;
    }
    while (af_embedded_row_next(&rows)) {
        const char *name = product_name(menus->arena, rows.fields[1]);
        const char *label = af_arena_format(
            menus->arena, "%s (%s%s)", name, af_equal(rows.fields[0], "nvidia") ? "sm " : "",
            af_equal(rows.fields[2], "-") ? rows.fields[0] : rows.fields[2]);
        list = name == NULL ? list : af_json_append(list, choice(name, label));
    }
    return list;
}

/* "8x A100", "A100, T4": as --given reads it. */
static struct said says_gpu(const struct menus *menus)
{
    const struct af_gpu_rows *gpus = &menus->machine->gpus;
    struct af_text text = {0};
    size_t named = 0;
    if (gpus->state == AF_FACT_KNOWN && gpus->count == 0)
        return (struct said){"none", gpus->source};
    for (size_t i = 0; i < gpus->count && named < GPUS_NAMED_MAX;) {
        const char *name = af_fact_text_or(&gpus->rows[i].name, NULL);
        const char *sm = af_fact_text_or(&gpus->rows[i].sm, NULL);
        size_t end = i + 1;
        while (end < gpus->count &&
               af_equal(af_fact_text_or(&gpus->rows[end].name, NULL), name) &&
               af_equal(af_fact_text_or(&gpus->rows[end].sm, NULL), sm))
            end++;
        af_text_add(&text, text.len > 0 ? ", " : "");
        if (end - i > 1)
            af_text_format(&text, "%zux ", end - i);
        af_text_format(&text, "%s%s", name == NULL && sm != NULL ? "sm_" : "",
                       name != NULL ? name
                       : sm != NULL ? sm
                                    : "unknown");
        named++;
        i = end;
    }
    const char *value = text.len == 0 ? NULL : af_arena_text(menus->arena, text.data);
    menus->arena->failed |= text.failed;
    af_text_release(&text);
    if (af_equal(value, "unknown"))
        value = NULL;
    const char *source = gpus->count == 0 ? gpus->source : gpus->rows[0].name.source;
    return (struct said){value, source};
}

/* Distributions with the same C library. */
struct places {
    const char *name; /* "glibc 2.35" */
    int major, minor;
    char text[PLACES_BYTES];
};

/* "RHEL" for "rhel"; the table has ids. */
static const char *distribution_name(struct af_arena *arena, const char *id)
{
    static const char *const names[][2] = {{"rhel", "RHEL"},
                                           {"centos", "CentOS"},
                                           {"almalinux", "AlmaLinux"},
                                           {"amzn", "Amazon Linux"}};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (af_equal(id, names[i][0]))
            return names[i][1];
    char *name = af_arena_text(arena, id);
    if (name != NULL)
        name[0] = (char)toupper((unsigned char)name[0]);
    return name != NULL ? name : "";
}

static void add_place(struct places *groups, size_t *count, const struct af_embedded_rows *rows,
                      struct af_arena *arena)
{
    size_t i = 0;
    const char *name = af_arena_format(arena, "%s %s", rows->fields[2], rows->fields[3]);
    while (i < *count && !af_equal(groups[i].name, name))
        i++;
    if (i == GROUPS_MAX || name == NULL)
        return;
    if (i == *count) {
        groups[(*count)++] = (struct places){.name = name};
        groups[i].major = (int)strtol(rows->fields[3], NULL, 10);
        const char *dot = strchr(rows->fields[3], '.');
        groups[i].minor = dot == NULL ? 0 : (int)strtol(dot + 1, NULL, 10);
    }
    size_t len = strlen(groups[i].text);
    snprintf(groups[i].text + len, PLACES_BYTES - len, "%s%s %s", len > 0 ? ", " : "",
             distribution_name(arena, rows->fields[0]), rows->fields[1]);
}

static int newer_first(const void *left, const void *right, const void *context)
{
    (void)context;
    const struct places *a = left;
    const struct places *b = right;
    return a->major != b->major ? b->major - a->major : b->minor - a->minor;
}

static json_t *list_libc(const struct menus *menus)
{
    struct af_embedded_rows rows;
    size_t count = 0;
    json_t *list = json_array();
    struct places *groups = af_arena_array(menus->arena, GROUPS_MAX, sizeof *groups);
    if (groups == NULL ||
        !af_embedded_rows_open(&af_embedded_distributions, 5, menus->arena, &rows)) {
        json_decref(list);
        return NULL;
    }
    while (af_embedded_row_next(&rows))
        add_place(groups, &count, &rows, menus->arena);
    af_sort(groups, count, sizeof *groups, newer_first, NULL);
    for (size_t i = 0; i < count; i++)
        list = af_json_append(
            list, choice(groups[i].name, af_arena_format(menus->arena, "%s (%s)",
                                                         groups[i].name, groups[i].text)));
    return list;
}

static struct said says_libc(const struct menus *menus)
{
    const struct af_platform *platform = &menus->machine->platform;
    const char *version = af_fact_text_or(&platform->libc_version, NULL);
    const char *name = af_fact_text_or(&platform->libc, "glibc");
    return (struct said){
        version == NULL ? NULL : af_arena_format(menus->arena, "%s %s", name, version),
        platform->libc_version.source};
}

static json_t *list_driver(const struct menus *menus)
{
    struct af_embedded_rows rows;
    json_t *list = json_array();
    if (!af_embedded_rows_open(&af_embedded_driver_cuda, 2, menus->arena, &rows)) {
        json_decref(list);
        return NULL;
    }
    while (af_embedded_row_next(&rows))
        list = af_json_append(
            list, choice(rows.fields[0], af_arena_format(menus->arena, "%s (CUDA %s)",
                                                         rows.fields[0], rows.fields[1])));
    return list;
}

static struct said says_driver(const struct menus *menus)
{
    const struct af_driver *driver = &menus->machine->driver;
    return said_by(driver->user_version.state == AF_FACT_KNOWN ? &driver->user_version
                                                               : &driver->kernel_version);
}

/* The builds of each release of torch for the machine's platform, newest first. */
static json_t *builds_json(const struct menus *menus)
{
    const struct af_platform *platform = &menus->machine->platform;
    const char *name = af_fact_is(&platform->os, "windows")     ? "win_amd64"
                       : af_fact_is(&platform->arch, "aarch64") ? "linux_aarch64"
                                                                : "linux_x86_64";
    json_t *list = json_array();
    for (size_t i = menus->tables->torch_count; i > 0; i--) {
        const struct af_catalog_torch_release *release = &menus->tables->torch[i - 1];
        json_t *builds = json_array();
        for (size_t v = 0; v < release->variant_count; v++)
            if (af_equal(release->variants[v].platform, name) &&
                release->variants[v].cuda_major > 0)
                builds = af_json_append(builds, json_string(release->variants[v].cuda));
        list = af_json_append(
            list, json_pack("{s:s, s:o}", "torch", release->latest, "builds", builds));
    }
    return list;
}

static json_t *ways_json(void)
{
    json_t *list = json_array();
    for (int way = 0; way < AF_PLAN_WAY_COUNT; way++)
        list = af_json_append(list, json_pack("{s:s, s:s}", "name",
                                              af_plan_way_name((enum af_plan_way)way), "title",
                                              af_plan_way_title((enum af_plan_way)way)));
    return list;
}

struct menu {
    const char *key; /* of --given */
    const char *label;
    json_t *(*list)(const struct menus *menus);
    struct said (*says)(const struct menus *menus);
};

static const struct menu table[] = {
    {"gpu", "GPU", list_gpu, says_gpu},
    {"os", "System", list_os, says_os},
    {"python", "Python", list_python, says_python},
    {"torch", "torch", list_torch, says_torch},
    {"torch_cuda", "CUDA build of torch", list_torch_cuda, says_torch_cuda},
    {"driver", "NVIDIA driver", list_driver, says_driver},
    {"libc", "C library", list_libc, says_libc},
    {"arch", "Processor", list_arch, says_arch},
};

static const char *help_of(const char *key)
{
    const char *doc;
    for (size_t i = 0;; i++) {
        const char *name = af_machine_given_key(i, &doc);
        if (name == NULL || af_equal(name, key))
            return name == NULL ? NULL : doc;
    }
}

static json_t *facts_json(const struct menus *menus)
{
    json_t *list = json_array();
    for (size_t i = 0; i < AF_COUNT(table); i++) {
        struct said said = table[i].says(menus);
        list = af_json_append(
            list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "key", table[i].key, "label",
                            table[i].label, "help", af_json_text(help_of(table[i].key)),
                            "value", af_json_text(said.value), "source",
                            af_json_text(said.source), "choices", table[i].list(menus)));
    }
    return list;
}

/* How an installer is stated with --given. */
struct installer {
    const char *name;
    const char *label;
    const char *words[3];
};

static const struct installer installers[] = {
    {"uv", "uv", {"uv=yes"}},
    {"pip", "pip", {"uv=none", "pip=yes"}},
    {"conda", "conda", {"python.kind=conda", "uv=none", "pip=yes"}},
    {"portable",
     "ComfyUI portable",
     {"python.executable=.\\python_embeded\\python.exe", "uv=none", "pip=yes"}},
};

static bool has_tool(const struct af_machine *machine, const char *name)
{
    for (size_t i = 0; i < machine->tools.count; i++)
        if (af_fact_is(&machine->tools.rows[i].name, name))
            return true;
    return false;
}

/* The installer that the steps use as long as none is chosen. */
static const char *installer_of(const struct af_machine *machine)
{
    const char *kind = af_fact_text_or(&machine->python.kind, "");
    const char *executable = af_fact_text_or(&machine->python.executable, "");
    if (strstr(executable, "python_embeded") != NULL)
        return "portable";
    if (af_equal(kind, "conda") || af_equal(kind, "pixi"))
        return "conda";
    return has_tool(machine, "uv") || !has_tool(machine, "pip") ? "uv" : "pip";
}

static json_t *installers_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < AF_COUNT(installers); i++) {
        size_t count = 0;
        while (count < AF_COUNT(installers[i].words) && installers[i].words[count] != NULL)
            count++;
        list = af_json_append(list, json_pack("{s:s, s:s, s:o}", "name", installers[i].name,
                                              "label", installers[i].label, "words",
                                              af_json_texts(installers[i].words, count)));
    }
    return list;
}

/* Counts rows with equal values of one member; a catalog shares equal texts. */
struct counted {
    const char *name;
    bool official;
    size_t count;
};

static size_t count_by(const struct menus *menus, size_t member, struct counted *rows,
                       size_t max)
{
    size_t used = 0;
    for (size_t i = 0; i < menus->catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &menus->catalog->wheels[i];
        const char *name;
        memcpy(&name, (const char *)wheel + member, sizeof name);
        size_t row = 0;
        while (row < used && rows[row].name != name)
            row++;
        if (name == NULL || row == max)
            continue;
        if (row == used)
            rows[used++] = (struct counted){.name = name};
        rows[row].count++;
        rows[row].official |= wheel->official;
    }
    return used;
}

static int most_first(const void *left, const void *right, const void *context)
{
    (void)context;
    const struct counted *a = left;
    const struct counted *b = right;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->name, b->name);
}

static json_t *counted_json(const struct menus *menus, size_t member)
{
    struct counted rows[64];
    json_t *list = json_array();
    size_t count = count_by(menus, member, rows, AF_COUNT(rows));
    af_sort(rows, count, sizeof rows[0], most_first, NULL);
    for (size_t i = 0; i < count; i++)
        list = af_json_append(list,
                              json_pack("{s:s, s:b, s:I}", "name", rows[i].name, "official",
                                        rows[i].official, "count", (json_int_t)rows[i].count));
    return list;
}

enum anyflash_status af_module_choices(const struct af_machine *machine,
                                       const struct af_catalog *catalog, struct af_arena *arena,
                                       json_t **answer_out, struct anyflash_error *err)
{
    struct af_tables tables;
    enum anyflash_status status = af_tables_load(&tables, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct menus menus = {machine, catalog, &tables, arena};
    json_t *answer = json_pack(
        "{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "anyflash-choices/1",
        "facts", facts_json(&menus), "installers", installers_json(), "installer",
        installer_of(machine), "packages",
        counted_json(&menus, offsetof(struct af_catalog_wheel, package)), "catalog",
        json_pack("{s:s, s:o, s:I}", "name", catalog->name, "date", af_json_text(catalog->date),
                  "count", (json_int_t)catalog->count),
        "sources", counted_json(&menus, offsetof(struct af_catalog_wheel, source)), "notes",
        af_json_text(machine->notes), "builds", builds_json(&menus), "ways", ways_json());
    af_tables_release(&tables);
    if (answer == NULL || arena->failed) {
        json_decref(answer);
        return af_fail_memory(err);
    }
    *answer_out = answer;
    return ANYFLASH_OK;
}
