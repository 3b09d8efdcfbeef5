/*
 * test_record.c: machine records: what is accepted, what is rejected with which
 * message, and that writing and reading agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/machine/machine.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <string.h>

#define ROWS_MANY 5000

static struct anyflash_error problem;
static struct af_machine machine;

/* Forgets all facts. */
static void start(void)
{
    af_machine_release(&machine);
    af_machine_init(&machine, "test", "not said");
}

static struct af_arena files;
static struct af_span example; /* a record, in `files` */

static int read_example(void **state)
{
    (void)state;
    af_json_start();
    af_arena_init(&files);
    return (int)af_file_read(&files, AF_TEST_DATA "/../examples/machines/h100-ngc.json",
                             AF_MACHINE_BYTES_MAX, &example, NULL);
}

static int stop(void **state)
{
    (void)state;
    af_machine_release(&machine);
    af_arena_release(&files);
    return 0;
}

static enum anyflash_status parse(struct af_machine *into, const char *text)
{
    struct af_span bytes = {text, strlen(text)};
    return af_machine_parse(into, bytes, "m.json", &problem);
}

static void assert_refused(const char *text, const char *part)
{
    start();
    assert_int_not_equal(parse(&machine, text), ANYFLASH_OK);
    if (strstr(problem.message, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, problem.message);
    assert_non_null(strstr(problem.message, "'m.json'"));
}

/* Writes, reads and writes again; the two texts must be the same. */
static void assert_round_trip(void)
{
    struct af_text first = {0};
    struct af_text second = {0};
    struct af_machine again;
    af_machine_write(&machine, &first);
    af_machine_init(&again, "again", "other words");
    assert_int_equal(parse(&again, first.data), ANYFLASH_OK);
    af_machine_write(&again, &second);
    assert_string_equal(first.data, second.data);
    af_machine_release(&again);
    af_text_release(&second);
    af_text_release(&first);
}

static void test_record__reads_every_form_of_a_fact(void **state)
{
    (void)state;
    start();
    assert_int_equal(
        parse(&machine,
              "{\"schema\":\"anyflash-machine/1\",\"remark\":\"mine\",\"platform\":{"
              "\"os\":\"linux\",\"arch\":{\"value\":\"x86_64\",\"source\":\"uname\"},"
              "\"kernel\":{\"unknown\":\"forgot\"},\"container\":null,\"wsl\":false,"
              "\"distribution\":{\"value\":null,\"source\":\"looked\"}},"
              "\"resources\":{\"cores\":8},\"torch\":{\"gpu_targets\":[\"sm_80\",\"sm_90\"]}}"),
        ANYFLASH_OK);
    assert_string_equal(machine.remark, "mine");
    assert_true(af_fact_is(&machine.platform.os, "linux"));
    assert_string_equal(machine.platform.os.source, "m.json");
    assert_string_equal(machine.platform.arch.source, "uname");
    assert_int_equal(machine.platform.kernel.state, AF_FACT_UNKNOWN);
    assert_string_equal(machine.platform.kernel.source, "forgot");
    assert_int_equal(machine.platform.container.state, AF_FACT_ABSENT);
    assert_string_equal(machine.platform.distribution.source, "looked");
    assert_int_equal(af_fact_truth(&machine.platform.wsl), AF_NO);
    assert_string_equal(machine.platform.libc.source, "not said in 'm.json'");
    assert_int_equal(af_fact_int_or(&machine.resources.cores, 0), 8);
    assert_int_equal(machine.torch.gpu_targets.value.list.count, 2);
    assert_string_equal(machine.python.version.source, "not said");
    assert_round_trip();
}

static void test_record__reads_every_form_of_a_list_and_record(void **state)
{
    (void)state;
    start();
    assert_int_equal(parse(&machine, "{\"gpus\":[{\"sm\":\"8.9\"},{}],\"toolkits\":null,"
                                     "\"disks\":{\"unknown\":\"asked nobody\"},"
                                     "\"tools\":{\"value\":[],\"source\":\"PATH\"},"
                                     "\"torch\":null,\"driver\":{\"unknown\":\"no right\"}}"),
                     ANYFLASH_OK);
    assert_int_equal(machine.gpus.count, 2);
    assert_true(af_fact_is(&machine.gpus.rows[0].sm, "8.9"));
    assert_int_equal(machine.gpus.rows[1].sm.state, AF_FACT_UNKNOWN);
    assert_int_equal(machine.toolkits.state, AF_FACT_KNOWN);
    assert_int_equal(machine.toolkits.count, 0);
    assert_int_equal(machine.disks.state, AF_FACT_UNKNOWN);
    assert_string_equal(machine.disks.source, "asked nobody");
    assert_string_equal(machine.tools.source, "PATH");
    assert_int_equal(machine.torch.version.state, AF_FACT_ABSENT);
    assert_string_equal(machine.driver.cuda_api.source, "no right");
    assert_round_trip();
}

static void test_record__a_later_record_replaces_only_its_groups(void **state)
{
    (void)state;
    start();
    assert_int_equal(parse(&machine, "{\"gpus\":[{}, {}],\"torch\":{\"version\":\"2.8.0\","
                                     "\"cuda\":\"12.8\"},\"python\":{\"version\":\"3.12\"}}"),
                     ANYFLASH_OK);
    assert_int_equal(parse(&machine, "{\"gpus\":[{}],\"torch\":{\"version\":\"2.9.0\"}}"),
                     ANYFLASH_OK);
    assert_int_equal(machine.gpus.count, 1);
    assert_true(af_fact_is(&machine.torch.version, "2.9.0"));
    assert_int_equal(machine.torch.cuda.state, AF_FACT_UNKNOWN);
    assert_true(af_fact_is(&machine.python.version, "3.12"));
}

static void test_record__facts_of_earlier_records_are_read_over(void **state)
{
    static const char text[] = "{\"network\": {\"releases_reachable\": true},"
                               " \"torch\": {\"version\": \"2.9.0\"}}";
    (void)state;
    start();
    assert_int_equal(parse(&machine, text), ANYFLASH_OK);
    assert_true(af_fact_is(&machine.torch.version, "2.9.0"));
}

static void test_record__refusals_name_the_place(void **state)
{
    (void)state;
    assert_refused("{\"gpus\":[{},{},{\"sm\":89}]}",
                   "gpus[2].sm: expected text, found a number");
    assert_refused("{\"gpus\":[{},{\"smm\":\"8.9\"}]}",
                   "gpus[1].smm: unknown key; there are: name, vendor, sm");
    assert_refused("{\"gpu\":[]}", "gpu: unknown key; there are: schema, remark, platform");
    assert_refused("{\"resources\":{\"cores\":\"8\"}}",
                   "resources.cores: expected a whole number of at least 0, found text");
    assert_refused("{\"resources\":{\"cores\":-1}}", "resources.cores: expected a whole number "
                                                     "of at least 0, found a negative number");
    assert_refused("{\"resources\":{\"cores\":1.5}}", "found a fraction");
    assert_refused("{\"platform\":{\"wsl\":1}}", "platform.wsl: expected true or false");
    assert_refused("{\"platform\":[]}", "platform: expected an object, found an array");
    assert_refused("{\"gpus\":{\"sm\":\"8.9\"}}", "gpus.sm: unknown key; there are: value");
    assert_refused("{\"gpus\":7}", "gpus: expected an array of objects, found a number");
    assert_refused("{\"gpus\":[7]}", "gpus[0]: expected an object, found a number");
    assert_refused("{\"torch\":{\"gpu_targets\":[1]}}", "torch.gpu_targets: expected a list");
    assert_refused("{\"torch\":{\"gpu_targets\":\"sm_80\"}}",
                   "torch.gpu_targets: expected a l");
    assert_refused("[]", "expected an object, found an array");
}

static void test_record__refuses_half_and_double_wrappers(void **state)
{
    (void)state;
    assert_refused("{\"platform\":{\"os\":{}}}", "platform.os: expected either");
    assert_refused("{\"platform\":{\"os\":{\"source\":\"x\"}}}",
                   "platform.os: expected either");
    assert_refused("{\"platform\":{\"os\":{\"value\":\"x\",\"unknown\":\"y\"}}}",
                   "platform.os: expected either");
    assert_refused("{\"platform\":{\"os\":{\"value\":\"x\",\"source\":1}}}",
                   "platform.os: expected text as source");
    assert_refused("{\"platform\":{\"os\":{\"valeu\":\"x\"}}}",
                   "platform.os.valeu: unknown key");
    assert_refused("{\"platform\":{\"os\":{\"value\":{\"value\":\"x\"}}}}",
                   "platform.os: expected text, found an object");
}

static void test_record__refuses_another_schema(void **state)
{
    (void)state;
    assert_refused("{\"schema\":\"anyflash-machine/2\"}",
                   "schema: 'anyflash-machine/2' is not one that this program reads");
    assert_refused("{\"schema\":1}", "schema: expected text, found a number");
}

static void test_record__refuses_hostile_text_with_a_position(void **state)
{
    (void)state;
    char deep[5000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_refused("", "line 1");
    assert_refused(deep, "line 1");
    assert_refused("{\"gpus\":[],\n\"gpus\":[]}", "line 2 column");
    assert_refused("{\"remark\":\"\xff\xfe\"}", "line 1");
    assert_refused("{\"remark\":\"\\u0000\"}", "line 1");
    assert_refused("{\"resources\":{\"cores\":99999999999999999999}}", "line 1");
    assert_refused("{\"\\u001b[31m\":1}", "\\x1b[31m: unknown key");
}

static void test_record__refuses_too_many_rows(void **state)
{
    (void)state;
    struct af_text text = {0};
    af_text_add(&text, "{\"gpus\":[{}");
    for (int i = 0; i < ROWS_MANY; i++)
        af_text_add(&text, ",{}");
    af_text_add(&text, "]}");
    assert_refused(text.data, "gpus: more than 4096 entries");
    af_text_release(&text);
}

static void test_record__failure_leaves_the_machine_as_it_was(void **state)
{
    (void)state;
    struct af_text before = {0};
    struct af_text after = {0};
    start();
    assert_int_equal(parse(&machine, "{\"torch\":{\"version\":\"2.8.0\"},\"gpus\":[{}]}"),
                     ANYFLASH_OK);
    af_machine_write(&machine, &before);
    assert_int_equal(parse(&machine, "{\"torch\":{\"version\":\"9\"},\"gpus\":[{\"sm\":1}]}"),
                     ANYFLASH_E_DATA);
    af_machine_write(&machine, &after);
    assert_string_equal(before.data, after.data);
    af_text_release(&after);
    af_text_release(&before);
}

static void test_record__scrubbed_and_cut_text_survives_the_round_trip(void **state)
{
    (void)state;
    struct af_text text = {0};
    af_text_add(&text, "{\"platform\":{\"os\":\"\\u001b[0m \\\"quoted\\\" back\\\\slash\","
                       "\"arch\":{\"unknown\":\"");
    for (int i = 0; i < 3000; i++)
        af_text_add(&text, "\\u001b\xc3\xa9");
    af_text_add(&text, "\"}}}");
    start();
    assert_int_equal(parse(&machine, text.data), ANYFLASH_OK);
    assert_string_equal(machine.platform.os.value.text, "\\x1b[0m \"quoted\" back\\slash");
    assert_round_trip();
    af_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record__reads_every_form_of_a_fact),
        cmocka_unit_test(test_record__reads_every_form_of_a_list_and_record),
        cmocka_unit_test(test_record__a_later_record_replaces_only_its_groups),
        cmocka_unit_test(test_record__facts_of_earlier_records_are_read_over),
        cmocka_unit_test(test_record__refusals_name_the_place),
        cmocka_unit_test(test_record__refuses_half_and_double_wrappers),
        cmocka_unit_test(test_record__refuses_another_schema),
        cmocka_unit_test(test_record__refuses_hostile_text_with_a_position),
        cmocka_unit_test(test_record__refuses_too_many_rows),
        cmocka_unit_test(test_record__failure_leaves_the_machine_as_it_was),
        cmocka_unit_test(test_record__scrubbed_and_cut_text_survives_the_round_trip),
    };
    return cmocka_run_group_tests(tests, read_example, stop);
}
