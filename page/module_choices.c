/*
 * module_choices.c: the values of the page's menus. They come from the tables that decisions
 * use, so the rules know every value. Also the installers, packages, builds of torch and
 * catalog sources that the page shows.
 */
#include "page/module_choices.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/answer/grid.h"
#include "kit/base/sort.h"
#include "kit/catalog/tables.h"
#include "kit/fit/reason.h"
#include "kit/formats/embedded.h"

#define PLACES_BYTES 160u /* af_sort() moves at most 256 bytes */
#define GROUPS_MAX 32u

static json_t *choice(const char *value, const char *label)
{
    return json_pack("{s:s, s:s, s:n}", "value", value, "label", label == NULL ? value : label,
                     "group");
}

static json_t *list_os(struct af_arena *arena)
{
    (void)arena;
    return json_pack("[o, o, o, o]", choice("linux", "Linux"), choice("windows", "Windows"),
                     choice("WSL2", "Linux on Windows (WSL2)"), choice("macos", "macOS"));
}

static json_t *list_arch(struct af_arena *arena)
{
    (void)arena;
    return json_pack("[o, o]", choice("x86_64", "x86_64 (Intel, AMD)"),
                     choice("aarch64", "aarch64 (ARM, Grace, Jetson)"));
}

/* Every Python that some release of torch was built for, newest first. */
static json_t *list_python(struct af_arena *arena)
{
    json_t *list = json_array();
    for (int minor = 99; minor > 0; minor--) {
        bool plain = false;
        bool threaded = false;
        const char *name = af_arena_format(arena, "3.%d", minor);
        for (size_t i = 0; i < af_tables.torch_count; i++) {
            plain |= af_words_have(af_tables.torch[i].python, name);
            threaded |= af_words_have(af_tables.torch[i].python_free_threaded, name);
        }
        if (plain)
            list = af_json_append(list, choice(name, NULL));
        const char *full = threaded ? af_arena_format(arena, "%st", name) : NULL;
        if (full != NULL)
            list = af_json_append(
                list, choice(full, af_arena_format(arena, "%s (free-threaded)", full)));
    }
    return list;
}

static json_t *list_torch(struct af_arena *arena)
{
    (void)arena;
    json_t *list = json_array();
    for (size_t i = af_tables.torch_count; i > 0; i--)
        list = af_json_append(list, choice(af_tables.torch[i - 1].latest, NULL));
    return af_json_append(list, choice("none", "not installed"));
}

static json_t *list_torch_cuda(struct af_arena *arena)
{
    json_t *list = json_array();
    const struct af_catalog_torch_variant *variant = af_tables_next_build(NULL, NULL);
    for (; variant != NULL; variant = af_tables_next_build(NULL, variant))
        list = af_json_append(
            list,
            choice(variant->cuda, af_arena_format(arena, "%s (CUDA %d.%d)", variant->cuda,
                                                  variant->cuda_major, variant->cuda_minor)));
    list = af_json_append(list, choice("rocm", "rocm (AMD)"));
    return af_json_append(list, choice("cpu", "cpu (no CUDA)"));
}

static bool is_capitals(const char *word, size_t len)
{
    static const char *const words[] = {"gtx", "rtx", "gpu", "dgx", "rx"};
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (len == strlen(words[i]) && strncmp(word, words[i], len) == 0)
            return true;
    return strcspn(word, "0123456789") < len && strncmp(word, "navi", 4) != 0;
}

/* "RTX A6000" for "rtx a6000", "Arc Pro B50" for "arc pro b50", but "RTX PRO". */
static const char *product_name(struct af_arena *arena, const char *lower)
{
    char *name = af_arena_text(arena, lower);
    bool is_rtx = strncmp(name, "rtx ", 4) == 0;
    for (char *word = name; *word != '\0';) {
        size_t len = strcspn(word, " ");
        bool capitals = is_capitals(word, len) || (is_rtx && strncmp(word, "pro", 3) == 0);
        for (size_t i = 0; i < len; i++)
            if (i == 0 || capitals)
                word[i] = (char)toupper((unsigned char)word[i]);
        word += len + (word[len] == ' ');
    }
    return name;
}

static const char *maker_of(const char *id)
{
    static const char *const makers[][2] = {
        {"nvidia", "NVIDIA"}, {"amd", "AMD"}, {"intel", "Intel"}, {"apple", "Apple"}};
    for (size_t i = 0; i < AF_COUNT(makers); i++)
        if (af_equal(id, makers[i][0]))
            return makers[i][1];
    return id;
}

static const char *gpu_label(struct af_arena *arena, const char *name, const char *capability)
{
    return af_arena_format(arena, "%s (compute capability %s)", name, capability);
}

static json_t *list_gpu(struct af_arena *arena)
{
    json_t *list = json_pack("[o]", choice("none", "no GPU"));
    for (size_t i = 0; af_embedded_gpu_names[i][0] != NULL; i++) {
        const char *const *row = af_embedded_gpu_names[i];
        const char *name = product_name(arena, row[1]);
        const char *maker = maker_of(row[0]);
        list = af_json_append(
            list, json_pack("{s:s, s:s, s:s}", "value", name, "label",
                            af_equal(maker, "NVIDIA") ? gpu_label(arena, name, row[2]) : name,
                            "group", maker));
    }
    return list;
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
    name[0] = (char)toupper((unsigned char)name[0]);
    return name;
}

static void add_place(struct places *groups, size_t *count, const char *const *row,
                      struct af_arena *arena)
{
    size_t i = 0;
    const char *name = af_arena_format(arena, "%s %s", row[2], row[3]);
    while (i < *count && !af_equal(groups[i].name, name))
        i++;
    if (i == GROUPS_MAX)
        return;
    if (i == *count) {
        groups[(*count)++] = (struct places){.name = name};
        groups[i].major = (int)strtol(row[3], NULL, 10);
        const char *dot = strchr(row[3], '.');
        groups[i].minor = dot == NULL ? 0 : (int)strtol(dot + 1, NULL, 10);
    }
    size_t len = strlen(groups[i].text);
    snprintf(groups[i].text + len, PLACES_BYTES - len, "%s%s %s", len > 0 ? ", " : "",
             distribution_name(arena, row[0]), row[1]);
}

static int newer_first(const void *left, const void *right, const void *context)
{
    (void)context;
    const struct places *a = left;
    const struct places *b = right;
    return a->major != b->major ? b->major - a->major : b->minor - a->minor;
}

static json_t *list_libc(struct af_arena *arena)
{
    size_t count = 0;
    struct places *groups = af_arena_array(arena, GROUPS_MAX, sizeof *groups);
    for (size_t i = 0; af_embedded_distributions[i][0] != NULL; i++)
        add_place(groups, &count, af_embedded_distributions[i], arena);
    json_t *list = json_array();
    af_sort(groups, count, sizeof *groups, newer_first, NULL);
    for (size_t i = 0; i < count; i++)
        list = af_json_append(
            list, choice(groups[i].name,
                         af_arena_format(arena, "%s (%s)", groups[i].name, groups[i].text)));
    return list;
}

static json_t *list_driver(struct af_arena *arena)
{
    json_t *list = json_array();
    for (size_t i = 0; af_embedded_driver_cuda[i][0] != NULL; i++) {
        const char *const *row = af_embedded_driver_cuda[i];
        list = af_json_append(
            list, choice(row[0], af_arena_format(arena, "%s (CUDA %s)", row[0], row[1])));
    }
    return list;
}

static const struct {
    const char *key;
    json_t *(*list)(struct af_arena *arena);
} lists[AF_MACHINE_KEY_FACT_COUNT] = {
    {"gpu", list_gpu},
    {"os", list_os},
    {"python", list_python},
    {"torch", list_torch},
    {"torch_cuda", list_torch_cuda},
    {"driver", list_driver},
    {"libc", list_libc},
    {"arch", list_arch},
};

static json_t *list_of(const char *key, struct af_arena *arena)
{
    for (size_t i = 0; i < AF_COUNT(lists); i++)
        if (af_equal(lists[i].key, key))
            return lists[i].list(arena);
    return NULL;
}

static const char *help_of(const char *key)
{
    const char *doc;
    for (size_t i = 0;; i++) {
        const char *name = af_machine_given_key(i, &doc);
        if (name == NULL || af_equal(name, key))
            return name == NULL ? NULL : doc;
    }
}

json_t *af_module_menus(const struct af_machine *machine, struct af_arena *arena)
{
    struct af_machine_key_fact facts[AF_MACHINE_KEY_FACT_COUNT];
    json_t *menus = json_array();
    af_machine_key_facts(machine, arena, facts);
    for (size_t i = 0; i < AF_COUNT(facts); i++)
        menus = af_json_append(menus, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "key",
                                                facts[i].key, "label", facts[i].label, "help",
                                                af_json_text(help_of(facts[i].key)), "value",
                                                af_json_text(facts[i].value), "source",
                                                af_json_text(facts[i].source), "choices",
                                                list_of(facts[i].key, arena)));
    return menus;
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

/* The installer that the steps use as long as none is chosen. */
static const char *installer_of(const struct af_machine *machine)
{
    const char *kind = af_fact_text_or(&machine->python.kind, "");
    const char *executable = af_fact_text_or(&machine->python.executable, "");
    if (strstr(executable, "python_embeded") != NULL)
        return "portable";
    if (af_equal(kind, "conda") || af_equal(kind, "pixi"))
        return "conda";
    return af_machine_uses_uv(machine) ? "uv" : "pip";
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

static size_t count_by(const struct af_catalog *catalog, size_t member, struct counted *rows,
                       size_t max)
{
    size_t used = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
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

static json_t *counted_json(const struct af_catalog *catalog, size_t member)
{
    struct counted rows[64];
    json_t *list = json_array();
    size_t count = count_by(catalog, member, rows, AF_COUNT(rows));
    af_sort(rows, count, sizeof rows[0], most_first, NULL);
    for (size_t i = 0; i < count; i++)
        list = af_json_append(list,
                              json_pack("{s:s, s:b, s:I}", "name", rows[i].name, "official",
                                        rows[i].official, "count", (json_int_t)rows[i].count));
    return list;
}

/* The rows of the page's matrix: each release of torch with its builds. */
static json_t *rows_json(const struct af_plan_grid *grid)
{
    json_t *rows = json_array();
    for (size_t row = 0; row < grid->row_count; row++) {
        const struct af_plan_grid_cell *cells = &grid->cells[row * grid->column_count];
        json_t *builds = json_array();
        for (size_t i = 0; i < grid->column_count; i++)
            if (cells[i].is_published)
                builds = af_json_append(builds, json_string(cells[i].build));
        rows = af_json_append(
            rows, json_pack("{s:s, s:o}", "torch", cells[0].torch, "builds", builds));
    }
    return rows;
}

static json_t *columns_json(const struct af_plan_grid *grid)
{
    json_t *columns = json_array();
    for (size_t i = 0; grid->row_count > 0 && i < grid->column_count; i++)
        columns = af_json_append(columns, json_string(grid->cells[i].build));
    return columns;
}

/* The page's wording of each hint that names options of the program. */
static json_t *hints_json(void)
{
    json_t *hints = json_array();
    for (int i = 0; i < AF_REASON_COUNT; i++) {
        enum af_reason_id id = (enum af_reason_id)i;
        const char *page_hint = af_reasons[id].page_hint;
        if (page_hint != NULL)
            hints = af_json_append(hints, json_pack("{s:s, s:s}", "program",
                                                    af_reasons[id].hint, "page", page_hint));
    }
    return hints;
}

json_t *af_module_choices(const struct af_machine *machine, const struct af_catalog *catalog,
                          struct af_arena *arena)
{
    struct af_plan_grid grid;
    af_plan_grid_outline(machine, arena, &grid);
    return json_pack(
        "{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
        "anyflash-choices/1", "facts", af_module_menus(machine, arena), "installers",
        installers_json(), "installer", installer_of(machine), "packages",
        counted_json(catalog, offsetof(struct af_catalog_wheel, package)), "catalog",
        json_pack("{s:s, s:o, s:I}", "name", catalog->name, "date", af_json_text(catalog->date),
                  "count", (json_int_t)catalog->count),
        "sources", counted_json(catalog, offsetof(struct af_catalog_wheel, source)), "notes",
        af_json_text(machine->notes), "columns", columns_json(&grid), "rows", rows_json(&grid),
        "ways", af_plan_ways_json(), "hints", hints_json());
}
