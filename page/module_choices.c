/*
 * module_choices.c: what the page offers beside its menus: installers, packages, the
 * builds of torch, and the sources of the catalog.
 */
#include "page/module_choices.h"

#include <string.h>

#include "kit/answer/grid.h"
#include "kit/base/sort.h"
#include "kit/fit/reason.h"
#include "page/module_menus.h"

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

enum anyflash_status af_module_choices(const struct af_machine *machine,
                                       const struct af_catalog *catalog, struct af_arena *arena,
                                       json_t **answer_out, struct anyflash_error *err)
{
    struct af_plan_grid grid;
    json_t *answer = NULL;
    enum anyflash_status status = af_plan_grid_outline(machine, arena, &grid, err);
    if (status == ANYFLASH_OK)
        answer = json_pack(
            "{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
            "anyflash-choices/1", "facts", af_module_menus(machine, arena), "installers",
            installers_json(), "installer", installer_of(machine), "packages",
            counted_json(catalog, offsetof(struct af_catalog_wheel, package)), "catalog",
            json_pack("{s:s, s:o, s:I}", "name", catalog->name, "date",
                      af_json_text(catalog->date), "count", (json_int_t)catalog->count),
            "sources", counted_json(catalog, offsetof(struct af_catalog_wheel, source)),
            "notes", af_json_text(machine->notes), "columns", columns_json(&grid), "rows",
            rows_json(&grid), "ways", af_plan_ways_json(), "hints", hints_json());
    if (status == ANYFLASH_OK && (answer == NULL || arena->failed)) {
        json_decref(answer);
        return af_fail_memory(err);
    }
    *answer_out = answer;
    return status;
}
