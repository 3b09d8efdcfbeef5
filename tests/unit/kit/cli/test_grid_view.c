/*
 * test_grid_view.c: the HTML and the SVG of a grid: hostile texts are escaped, and a failed
 * allocation is noticed. tests/cli/test_find_html.py looks at whole documents.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include "kit/cli/grid_view.h"
#include "tests/unit/every_allocation.h"

typedef void write_document(const struct af_plan_grid *grid,
                            const struct af_plan_request *request, struct af_arena *arena,
                            struct af_text *out);

static struct af_plan_grid_cell cells[] = {
    {"2.8.0", "cu128", true, AF_PLAN_WAY_OFFICIAL, "2.8.3", "2.8.3", "A wheel fits"},
    {.torch = "2.8.0", .build = "cu126"}};
static const struct af_plan_grid grid = {cells, 1, 2};
static const struct af_catalog small = {.name = "test", .date = "2026-11-20", .count = 7};

static void survive(write_document *write)
{
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        struct af_machine machine;
        const struct af_machine *machines[] = {&machine};
        struct af_arena arena;
        struct af_text out = {0};
        machine_of(&machine, "os=linux arch=x86_64 python=3.12 gpu=8xA100");
        const struct af_plan_request request = {
            .catalog = &small, .machines = machines, .machine_count = 1};
        af_arena_init(&arena);
        every_allocation_begin(&each);
        write(&grid, &request, &arena, &out);
        every_allocation_end(&each);
        assert_int_equal(arena.failed || out.failed, each.failed);
        af_text_release(&out);
        af_arena_release(&arena);
        af_machine_release(&machine);
    }
}

static void test_documents__notice_each_failed_allocation(void **state)
{
    (void)state;
    survive(af_cli_grid_html);
    survive(af_cli_grid_svg);
}

static void test_escape__leaves_no_markup_and_no_noncharacter(void **state)
{
    struct af_text out = {0};
    (void)state;
    af_cli_grid_escape(&out, "<a b='c' d=\"&\">\xef\xbf\xbf\xef\xbf\xbd");
    assert_string_equal(af_text_get(&out), "&#60;a b=&#39;c&#39; d=&#34;&#38;&#34;&#62;"
                                           "\xef\xbf\xbd\xef\xbf\xbd");
    af_text_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents__notice_each_failed_allocation),
        cmocka_unit_test(test_escape__leaves_no_markup_and_no_noncharacter),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
