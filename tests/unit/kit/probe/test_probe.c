/*
 * test_probe.c: runs the whole probe on the machine that runs the test. What a stored proof
 * depends on changes one of the hashes; what it does not depend on leaves both.
 */
#include "machine_place.h"

#include <time.h>
#include <utime.h>

static struct anyflash_error problem;

static void test_probe__knows_this_machine_and_its_record_round_trips(void **state)
{
    (void)state;
    struct af_probe_options options = {.gpu_limit_ms = 20000};
    struct af_machine machine;
    struct af_machine again;
    struct af_text first = {0};
    struct af_text second = {0};
    struct timespec from;
    struct timespec to;
    af_machine_init(&machine, "this machine", "not looked at");
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (af_probe_machine(&machine, &options, &problem) != ANYFLASH_OK)
        fail_msg("%s", problem.message);
    clock_gettime(CLOCK_MONOTONIC, &to);
    print_message("probed in %.1f ms\n", (double)(to.tv_sec - from.tv_sec) * 1e3 +
                                             (double)(to.tv_nsec - from.tv_nsec) / 1e6);
    assert_true(af_fact_is(&machine.platform.os, "linux"));
    assert_true(af_fact_int_or(&machine.resources.cores, 0) > 0);
    assert_true(af_fact_int_or(&machine.resources.memory_available_bytes, 0) > 0);
    assert_true(machine.disks.count > 0);
    af_machine_write(&machine, &first);
    if (getenv("SHOW_RECORD") != NULL)
        print_message("%s", first.data);
    af_machine_init(&again, "again", "not looked at");
    if (af_machine_parse(&again, (struct af_span){first.data, first.len}, "record", &problem) !=
        ANYFLASH_OK)
        fail_msg("%s", problem.message);
    af_machine_write(&again, &second);
    assert_string_equal(first.data, second.data);
    af_text_release(&second);
    af_text_release(&first);
    af_machine_release(&again);
    af_machine_release(&machine);
}

#define PYTHON_SITE "/env/lib/python3.13/site-packages"
#define PYTHON_INFO PYTHON_SITE "/flash_attn-2.8.3.dist-info"

/* An environment with a Python of its own, so that the installed one does not matter. */
static void test_record__a_missing_file_is_named(void **state)
{
    (void)state;
    struct af_machine machine;
    af_machine_init(&machine, "test", "not said");
    assert_int_equal(af_probe_record(&machine, "no/such.json", &problem), ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(problem.message, "no/such.json"));
    af_machine_release(&machine);
}

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
    af_json_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record__a_missing_file_is_named),
        cmocka_unit_test(test_probe__knows_this_machine_and_its_record_round_trips),
        PLACE_TEST(test_environment_hash__changes_with_what_proofs_depend_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
