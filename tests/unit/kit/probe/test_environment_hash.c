/*
 * test_environment_hash.c: what a stored proof depends on changes one of the hashes; what it
 * does not depend on leaves both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <utime.h>

#include "kit/probe/probe.h"
#include "tests/unit/kit/probe/machine_place.h"

#define TORCH "torch/lib/libtorch_cpu.so"

/* Which hash a change must change. */
enum expected { NEITHER, SURROUNDINGS, LOADING };

static void text(struct place *place, struct af_fact *fact, const char *value)
{
    af_fact_text(&place->machine.arena, fact, value, "test");
}

/* A machine whose torch has one library, which lies in the place. */
static void set_up(struct place *place)
{
    struct af_machine *machine = &place->machine;
    const char *site = place_path(place, "/site");
    place_put(place, "/site/" TORCH, "one");
    text(place, &machine->platform.libc_version, "2.36");
    text(place, &machine->python.version, "3.12.4");
    text(place, &machine->torch.version, "2.8.0+cu128");
    text(place, &machine->torch.path, place_path(place, "/site/torch"));
    af_fact_list(&machine->arena, &machine->python.site_packages, &site, 1, "test");
    struct af_gpu *gpu = af_machine_row_add(machine, offsetof(struct af_machine, gpus), "test");
    text(place, &gpu->sm, "8.9");
}

static void change_torch(struct place *place)
{
    text(place, &place->machine.torch.version, "2.9.0+cu128");
}

static void change_torch_file(struct place *place)
{
    place_put(place, "/site/" TORCH, "another");
}

static void change_python(struct place *place)
{
    text(place, &place->machine.python.version, "3.13.0");
}

static void change_libc(struct place *place)
{
    text(place, &place->machine.platform.libc_version, "2.41");
}

static void change_gpu(struct place *place)
{
    text(place, &place->machine.gpus.rows[0].sm, "9.0");
}

static void change_site_packages(struct place *place)
{
    const struct utimbuf times = {1, 1}; /* as after an installation at another time */
    assert_int_equal(utime(place_path(place, "/site"), &times), 0);
}

static void change_choice(struct place *place)
{
    text(place, &place->machine.python.chosen_by, "--python");
    text(place, &place->machine.python.prefix, "/another/name");
}

static void test_environment_hash__changes_with_what_proofs_depend_on(void **state)
{
    static const struct {
        const char *what;
        void (*change)(struct place *place);
        enum expected expected;
    } rows[] = {
        {"torch", change_torch, LOADING},
        {"file of torch", change_torch_file, LOADING},
        {"Python", change_python, LOADING},
        {"C library", change_libc, LOADING},
        {"GPU", change_gpu, SURROUNDINGS},
        {"site-packages", change_site_packages, SURROUNDINGS},
        {"how it was chosen", change_choice, NEITHER},
    };
    struct place *place = *state;
    struct af_environment_hash before;
    struct af_environment_hash after;
    set_up(place);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        af_probe_environment_hash(&place->machine, &before);
        rows[i].change(place);
        af_probe_environment_hash(&place->machine, &after);
        if ((strcmp(before.loading, after.loading) != 0) != (rows[i].expected == LOADING))
            fail_msg("loading: %s", rows[i].what);
        if ((strcmp(before.surroundings, after.surroundings) != 0) !=
            (rows[i].expected == SURROUNDINGS))
            fail_msg("surroundings: %s", rows[i].what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_environment_hash__changes_with_what_proofs_depend_on, place_make,
            place_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
