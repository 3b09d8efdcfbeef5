/*
 * test_grid.c: the best way for every torch and CUDA build: which builds there are, that
 * each cell is what a plan for that torch says, and what happens when allocations fail.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include "kit/answer/grid.h"

#define RTX4090 "os=linux arch=x86_64 glibc=2.35 python=3.12 gpu=RTX4090 driver=580"

struct world {
    struct af_machine machine;
    const struct af_machine *machines[1];
    struct af_plan_request request;
    struct af_arena arena;
};

static void open_world(struct world *world, const char *words)
{
    machine_of(&world->machine, words);
    af_arena_init(&world->arena);
    world->machines[0] = &world->machine;
    world->request = (struct af_plan_request){
        .catalog = &catalog, .machines = world->machines, .machine_count = 1};
    af_selection_usual(&world->request.selection);
}

static void close_world(struct world *world)
{
    af_arena_release(&world->arena);
    af_machine_release(&world->machine);
}

static struct af_plan_grid outline_of(struct world *world)
{
    struct af_plan_grid grid;
    af_plan_grid_outline(&world->machine, &world->arena, &grid);
    return grid;
}

static void test_outline__has_the_builds_of_the_platform_newest_first(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, RTX4090);
    struct af_plan_grid grid = outline_of(&world);
    assert_true(grid.row_count > 10 && grid.column_count > 5);
    assert_string_equal(grid.cells[0].torch, "2.15.0");
    size_t published = 0;
    for (size_t i = 0; i < grid.row_count * grid.column_count; i++)
        published += grid.cells[i].is_published;
    assert_true(published > 40 && published < grid.row_count * grid.column_count);
    assert_true(grid.cells[0].is_published);
    close_world(&world);
}

static void test_outline__is_empty_on_macos(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, "os=macos arch=aarch64 python=3.12");
    assert_int_equal(outline_of(&world).row_count, 0);
    close_world(&world);
}

static void test_decide__replaces_the_torch_of_the_machine(void **state)
{
    struct world world;
    struct anyflash_error err;
    (void)state;
    open_world(&world, RTX4090 " torch=2.15.0+cu132 torch_cuda=cu126 cxx11abi=false");
    struct af_plan_grid_cell cell = {.torch = "2.8.0", .build = "cu128"};
    assert_int_equal(af_plan_grid_decide(&world.request, &world.arena, &cell, &err),
                     ANYFLASH_OK);
    assert_int_equal(cell.way, AF_PLAN_WAY_OFFICIAL);
    assert_string_equal(cell.label, cell.version);
    assert_true(af_fact_is(&world.machine.torch.version, "2.15.0+cu132"));
    close_world(&world);
}

static void test_decide__says_when_a_fact_is_missing(void **state)
{
    struct world world;
    struct anyflash_error err;
    (void)state;
    open_world(&world, "gpu=RTX4090");
    struct af_plan_grid_cell cell = {.torch = "2.8.0", .build = "cu128"};
    assert_int_equal(af_plan_grid_decide(&world.request, &world.arena, &cell, &err),
                     ANYFLASH_OK);
    assert_int_equal(cell.way, AF_PLAN_WAY_UNDECIDED);
    assert_string_equal(cell.label, "?");
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outline__has_the_builds_of_the_platform_newest_first),
        cmocka_unit_test(test_outline__is_empty_on_macos),
        cmocka_unit_test(test_decide__replaces_the_torch_of_the_machine),
        cmocka_unit_test(test_decide__says_when_a_fact_is_missing),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
