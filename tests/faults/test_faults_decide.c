/*
 * test_faults_decide.c: makes each allocation fail in turn while the program
 * decides, plans, examines and prints, for a machine that needs every part of
 * it (a source build is evaluated, an installed flash-attn is examined).
 */
#include "kit/answer/plan.h"
#include "kit/doctor/doctor.h"
#include "kit/fit/fit.h"
#include "kit/probe/probe.h"
#include "tests/unit/every_allocation.h"
#include "tests/unit/kit/fit/given_machine.h"

#include <string.h>

static struct af_machine machine;

/* What decide() and explain() are asked. */
static const struct af_fit_options *asked;

static enum anyflash_status decide(struct anyflash_error *err)
{
    const struct af_machine *machines[] = {&machine};
    struct af_decision decision;
    enum anyflash_status status = af_fit_decide(&catalog, machines, 1, asked, &decision, err);
    if (status == ANYFLASH_OK)
        af_decision_release(&decision);
    return status;
}

static enum anyflash_status explain(struct anyflash_error *err)
{
    struct af_arena arena;
    const struct af_reason *reasons;
    size_t count;
    af_arena_init(&arena);
    enum anyflash_status status =
        af_fit_explain(&catalog, &machine, asked, &catalog.wheels[catalog.count / 2], &arena,
                       &reasons, &count, err);
    af_arena_release(&arena);
    return status;
}

/* Planning and examining, with a decision that was made without failures. */
static struct af_decision settled;

static enum anyflash_status plan(struct anyflash_error *err)
{
    const struct af_machine *machines[] = {&machine};
    struct af_plan made;
    enum anyflash_status status = af_plan_make(&settled, machines, 1, &made, err);
    if (status == ANYFLASH_OK)
        af_plan_release(&made);
    return status;
}

static enum anyflash_status examine(struct anyflash_error *err)
{
    struct af_arena arena;
    const struct af_finding *findings;
    size_t count;
    af_arena_init(&arena);
    enum anyflash_status status =
        af_doctor_examine(&catalog, &machine, &settled, &arena, &findings, &count, err);
    af_arena_release(&arena);
    return status;
}

static void with_machine(const char *path,
                         enum anyflash_status operation(struct anyflash_error *),
                         const struct af_fit_options *options)
{
    const struct af_machine *machines[] = {&machine};
    af_machine_init(&machine, "test", "not said");
    assert_int_equal(af_probe_record(&machine, path, NULL), ANYFLASH_OK);
    assert_int_equal(af_fit_decide(&catalog, machines, 1, options, &settled, NULL),
                     ANYFLASH_OK);
    asked = options;
    every_allocation_of(operation, false);
    every_allocation_of(operation, true);
    af_decision_release(&settled);
    af_machine_release(&machine);
}

#define MACHINE(name) AF_TEST_DATA "/cases/machines/" name ".json"
#define EXAMPLE(name) AF_TEST_DATA "/../examples/machines/" name ".json"

static void test_decide__survives_every_lack_of_memory_where_a_wheel_fits(void **state)
{
    (void)state;
    const struct af_fit_options options = {0};
    with_machine(MACHINE("stale-after-torch-upgrade"), decide, &options);
}

static void test_decide__survives_every_lack_of_memory_down_the_ladder(void **state)
{
    (void)state;
    const struct af_fit_options options = {.version = "2.8.3", .arch = "9.0"};
    with_machine(EXAMPLE("h100-ngc"), decide, &options);
}

static void test_explain__survives_every_lack_of_memory(void **state)
{
    (void)state;
    const struct af_fit_options options = {0};
    with_machine(MACHINE("container-2gb"), explain, &options);
}

static void test_plan__survives_every_lack_of_memory_on_every_rung(void **state)
{
    (void)state;
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_fit_options options = {.has_preference = true,
                                               .preference = (enum af_rung_kind)kind};
        with_machine(EXAMPLE("rtx4090-torch2.8"), plan, &options);
    }
}

static void test_doctor__survives_every_lack_of_memory(void **state)
{
    (void)state;
    const struct af_fit_options options = {0};
    with_machine(MACHINE("cu12-wheel-on-cu130"), examine, &options);
    with_machine(MACHINE("skip-cuda-build"), examine, &options);
    with_machine(EXAMPLE("h100-ngc"), examine, &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decide__survives_every_lack_of_memory_where_a_wheel_fits),
        cmocka_unit_test(test_decide__survives_every_lack_of_memory_down_the_ladder),
        cmocka_unit_test(test_explain__survives_every_lack_of_memory),
        cmocka_unit_test(test_plan__survives_every_lack_of_memory_on_every_rung),
        cmocka_unit_test(test_doctor__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
