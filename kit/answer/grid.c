/*
 * grid.c: one decision for each build of torch, reduced to what a cell of a table shows.
 */
#include "kit/answer/grid.h"

#include "kit/fit/fit.h"

/* As in the table of torch's releases; NULL: there is no CUDA. */
static const char *platform_of(const struct af_machine *machine)
{
    const struct af_platform *platform = &machine->platform;
    if (af_fact_is(&platform->os, "macos"))
        return NULL;
    return af_fact_is(&platform->os, "windows")     ? "win_amd64"
           : af_fact_is(&platform->arch, "aarch64") ? "linux_aarch64"
                                                    : "linux_x86_64";
}

static bool has_cuda_build(const struct af_catalog_torch_release *release, const char *platform)
{
    for (size_t i = 0; i < release->variants_count; i++)
        if (release->variants[i].cuda_major > 0 &&
            af_equal(release->variants[i].platform, platform))
            return true;
    return false;
}

static size_t count_builds(const char *platform)
{
    size_t count = 0;
    const struct af_catalog_torch_variant *build = af_tables_next_build(platform, NULL);
    for (; build != NULL; build = af_tables_next_build(platform, build))
        count++;
    return count;
}

static void add_row(struct af_plan_grid *grid, const struct af_catalog_torch_release *release,
                    const char *platform, struct af_arena *arena)
{
    struct af_plan_grid_cell *cell = &grid->cells[grid->row_count++ * grid->column_count];
    const struct af_catalog_torch_variant *build = af_tables_next_build(platform, NULL);
    for (; build != NULL; build = af_tables_next_build(platform, build))
        *cell++ = (struct af_plan_grid_cell){
            .torch = af_arena_text(arena, release->latest),
            .build = af_arena_text(arena, build->cuda),
            .is_published = af_tables_variant(release, platform, build->cuda) != NULL};
}

void af_plan_grid_outline(const struct af_machine *machine, struct af_arena *arena,
                          struct af_plan_grid *grid)
{
    const char *platform = platform_of(machine);
    struct af_plan_grid made = {.column_count = 0};
    if (platform != NULL)
        made.column_count = count_builds(platform);
    made.cells = af_arena_array(arena, af_tables.torch_count * made.column_count + 1,
                                sizeof *made.cells);
    for (size_t i = af_tables.torch_count; i > 0; i--)
        if (made.column_count > 0 && has_cuda_build(&af_tables.torch[i - 1], platform))
            add_row(&made, &af_tables.torch[i - 1], platform, arena);
    *grid = made;
}

/* The machine with another torch. Borrows the rest, so it must be released first. */
static enum anyflash_status copy_with_torch(const struct af_machine *machine, const char *word,
                                            struct af_machine *copy, struct anyflash_error *err)
{
    struct af_machine blank;
    const char *remark;
    af_machine_init(&blank, machine->name, "not given");
    *copy = *machine;
    copy->arena = blank.arena;
    copy->torch = blank.torch;
    return af_machine_given(copy, word, &remark, err);
}

static const char *label_of(enum af_plan_way way, const char *version, struct af_arena *arena)
{
    const struct af_plan_way_row *row = &af_plan_ways[way];
    if (version != NULL)
        return af_arena_format(arena, "%s%s", version, way == AF_PLAN_WAY_PROVE ? "?" : "");
    return row->label != NULL ? row->label : row->title;
}

static void fill(struct af_plan_grid_cell *cell, const struct af_plan_answer *answer,
                 struct af_arena *arena)
{
    const struct af_rung *rung = &answer->decision.rungs[AF_RUNG_WHEEL];
    cell->way = af_plan_answer_way(answer);
    bool is_wheel = cell->way == AF_PLAN_WAY_OFFICIAL || cell->way == AF_PLAN_WAY_COMMUNITY ||
                    cell->way == AF_PLAN_WAY_PROVE;
    cell->version = is_wheel && rung->wheel != NULL && rung->wheel->version != NULL
                        ? af_arena_text(arena, rung->wheel->version)
                        : NULL;
    cell->label = label_of(cell->way, cell->version, arena);
    cell->headline = af_arena_text(arena, answer->headline);
}

enum anyflash_status af_plan_grid_decide(const struct af_plan_request *request,
                                         struct af_arena *arena, struct af_plan_grid_cell *cell,
                                         struct anyflash_error *err)
{
    struct af_arena own;
    struct af_plan_request asked = *request;
    struct af_plan_answer answer = {0};
    enum anyflash_status status = ANYFLASH_OK;
    size_t count = 0;
    af_arena_init(&own);
    struct af_machine *copies =
        af_arena_array(&own, request->machine_count + 1, sizeof *copies);
    const struct af_machine **pointers =
        af_arena_array(&own, request->machine_count + 1, sizeof *pointers);
    const char *word = af_arena_format(&own, "torch=%s+%s", cell->torch, cell->build);
    while (status == ANYFLASH_OK && count < request->machine_count) {
        pointers[count] = &copies[count];
        status = copy_with_torch(request->machines[count], word, &copies[count], err);
        count++;
    }
    asked.machines = pointers;
    if (status == ANYFLASH_OK)
        status = af_plan_answer_make(&asked, &answer, err);
    if (status == ANYFLASH_OK)
        fill(cell, &answer, arena);
    af_plan_answer_release(&answer);
    for (size_t i = 0; i < count; i++)
        af_machine_release(&copies[i]);
    af_arena_release(&own);
    return status;
}

json_t *af_plan_grid_cell_json(const struct af_plan_grid_cell *cell)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "torch", cell->torch, "build",
                     cell->build, "way", af_plan_ways[cell->way].name, "version",
                     af_json_text(cell->version), "label", cell->label, "headline",
                     cell->headline);
}

json_t *af_plan_ways_json(void)
{
    json_t *list = json_array();
    for (int way = 0; way < AF_PLAN_WAY_COUNT; way++) {
        const struct af_plan_way_row *row = &af_plan_ways[way];
        list = af_json_append(list, json_pack("{s:s, s:s, s:o}", "name", row->name, "title",
                                              row->title, "label", af_json_text(row->label)));
    }
    return list;
}
