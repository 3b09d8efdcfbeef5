/*
 * test_faults_machine.c: makes each allocation fail in turn while a machine is
 * read, written and probed. Each run must end as NO_MEMORY, leak nothing
 * (checked by the sanitize preset) and leave the machine unchanged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/machine/machine.h"
#include "kit/system/file.h"
#include "tests/unit/every_allocation.h"

#include <stdio.h>
#include <string.h>

static struct af_arena files; /* the record; kept after every failure */
static struct af_span record;

static int read_record(void **state)
{
    (void)state;
    const char *path = AF_TEST_DATA "/../examples/machines/h100-ngc.json";
    af_arena_init(&files);
    return (int)af_file_read(&files, path, AF_MACHINE_BYTES_MAX, &record, NULL);
}

static int release_record(void **state)
{
    (void)state;
    af_arena_release(&files);
    return 0;
}

/* The operation under test; the machine is initialised and empty. */
typedef enum anyflash_status attempt(struct af_machine *machine, struct anyflash_error *err);

static enum anyflash_status parse(struct af_machine *machine, struct anyflash_error *err)
{
    return af_machine_parse(machine, record, "record.json", err);
}

static enum anyflash_status parse_and_write(struct af_machine *machine,
                                            struct anyflash_error *err)
{
    struct af_text out = {0};
    enum anyflash_status status = parse(machine, err);
    if (status == ANYFLASH_OK)
        status = af_machine_write(machine, &out, err);
    af_text_release(&out);
    return status;
}

static enum anyflash_status state_by_hand(struct af_machine *machine,
                                          struct anyflash_error *err)
{
    static const char *const words[] = {
        "os=Debian 11",     "torch=2.8.0+cu128",   "python=3.12.4",   "gpu=RTX 4090",
        "flash_attn=2.8.3", "installer=uv 0.11.0", "gcc=what is this"};
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < AF_COUNT(words) && status == ANYFLASH_OK; i++) {
        const char *remark;
        status = af_machine_given(machine, words[i], &remark, err);
    }
    return status;
}

/* Makes one request after the other fail, until an attempt needs fewer. */
static void fail_everywhere(attempt *try, bool all_after)
{
    struct every_allocation each = {.all_after = all_after};
    while (every_allocation_next(&each)) {
        struct anyflash_error problem = {0};
        struct af_machine machine;
        af_machine_init(&machine, "test", "not said");
        every_allocation_begin(&each);
        enum anyflash_status status = try(&machine, &problem);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &problem);
        af_machine_release(&machine);
    }
}

static void test_machine__survives_every_lack_of_memory_while_parsing(void **state)
{
    (void)state;
    fail_everywhere(parse, false);
    fail_everywhere(parse, true);
}

static void test_machine__survives_every_lack_of_memory_while_writing(void **state)
{
    (void)state;
    fail_everywhere(parse_and_write, false);
}

static void test_machine__survives_every_lack_of_memory_while_facts_are_stated(void **state)
{
    (void)state;
    fail_everywhere(state_by_hand, false);
    fail_everywhere(state_by_hand, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine__survives_every_lack_of_memory_while_parsing),
        cmocka_unit_test(test_machine__survives_every_lack_of_memory_while_writing),
        cmocka_unit_test(test_machine__survives_every_lack_of_memory_while_facts_are_stated),
    };
    return cmocka_run_group_tests(tests, read_record, release_record);
}
