/*
 * test_gpu.c: the GPU probe with a fake driver library (fake_cuda.c) and with
 * /proc and /sys trees: runs the real code without a GPU.
 */
#include "machine_place.h"

#include <time.h>

static struct af_machine *look(struct place *place)
{
    struct af_child child = {0};
    af_probe_gpu_start(&place->probe, &child);
    af_probe_gpu_finish(&place->probe, &child);
    assert_int_equal(child.pid, 0);
    return &place->machine;
}

static struct af_machine *look_with(struct place *place, const char *fake)
{
    const char *library = af_arena_format(&place->arena, "LD_LIBRARY_PATH=%s", "/cuda");
    const char *link = place_path(place, "/cuda/libcuda.so.1");
    if (symlink(AF_FAKE_CUDA "/libcuda.so.1", link) != 0)
        abort();
    place_set(place, library);
    setenv("FAKE_CUDA", fake, 1);
    return look(place);
}

static void put_pci(struct place *place, const char *address, const char *vendor,
                    const char *class)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
    place_put(place, path, vendor);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", address);
    place_put(place, path, class);
}

static void test_gpu__two_devices_are_read_from_the_driver_library(void **state)
{
    struct af_machine *machine = look_with(*state, "two");
    assert_int_equal(machine->gpus.count, 2);
    assert_fact(&machine->gpus.rows[0].name, "NVIDIA H100");
    assert_fact(&machine->gpus.rows[0].sm, "9.0");
    assert_fact(&machine->gpus.rows[0].uuid, "GPU-0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a");
    assert_int_equal(af_fact_int_or(&machine->gpus.rows[0].memory_bytes, 0), INT64_C(80) << 30);
    assert_fact(&machine->gpus.rows[1].sm, "7.5");
    assert_fact(&machine->driver.cuda_api, "13.0");
    assert_int_equal(af_fact_truth(&machine->gpus.rows[1].visible), AF_YES);
    assert_int_equal(machine->driver.user_version.state, AF_FACT_UNKNOWN);
}

static void assert_visible(struct place *place, const char *value, bool first, bool second)
{
    place_set(place, value);
    struct af_machine *machine = look_with(place, "two");
    assert_int_equal(machine->gpus.count, 2);
    assert_int_equal(af_fact_truth(&machine->gpus.rows[0].visible), first ? AF_YES : AF_NO);
    assert_int_equal(af_fact_truth(&machine->gpus.rows[1].visible), second ? AF_YES : AF_NO);
}

static void test_gpu__visible_devices_by_index_hide_the_others(void **state)
{
    setenv("CUDA_VISIBLE_DEVICES", "7", 1); /* in our own process; the child removes it */
    assert_visible(*state, "CUDA_VISIBLE_DEVICES=1", false, true);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_gpu__visible_devices_by_uuid_beginning(void **state)
{
    assert_visible(*state, "CUDA_VISIBLE_DEVICES=GPU-0b", false, true);
}

static void test_gpu__an_empty_variable_hides_all(void **state)
{
    assert_visible(*state, "CUDA_VISIBLE_DEVICES=", false, false);
}

static void test_gpu__entries_after_an_invalid_one_do_not_count(void **state)
{
    assert_visible(*state, "CUDA_VISIBLE_DEVICES=0,-1,1", true, false);
}

static void test_gpu__mig_names_leave_visibility_unknown(void **state)
{
    struct place *place = *state;
    place_set(place, "CUDA_VISIBLE_DEVICES=MIG-1234");
    struct af_machine *machine = look_with(place, "two");
    assert_int_equal(machine->gpus.rows[0].visible.state, AF_FACT_UNKNOWN);
}

static void test_gpu__a_driver_without_devices_is_a_known_none(void **state)
{
    struct af_machine *machine = look_with(*state, "none");
    assert_int_equal(machine->gpus.state, AF_FACT_KNOWN);
    assert_int_equal(machine->gpus.count, 0);
}

static void test_gpu__mismatched_driver_is_told_and_the_device_is_listed(void **state)
{
    struct place *place = *state;
    put_pci(place, "0000:01:00.0", "0x10de\n", "0x030000\n");
    put_pci(place, "0000:01:00.1", "0x10de\n", "0x040300\n");
    place_put(place, "/sys/module/nvidia/version", "580.95.05\n");
    place_put(place, "/proc/driver/nvidia/gpus/0000:01:00.0/information",
              "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ: 1\nGPU UUID: \t GPU-1\n");
    struct af_machine *machine = look_with(place, "803");
    assert_fact(&machine->driver.kernel_version, "580.95.05");
    assert_int_equal(machine->gpus.count, 1);
    assert_fact(&machine->gpus.rows[0].name, "NVIDIA GeForce RTX 4090");
    assert_int_equal(machine->gpus.rows[0].sm.state, AF_FACT_UNKNOWN);
    assert_non_null(strstr(machine->gpus.rows[0].sm.source, "803"));
    assert_int_equal(af_fact_truth(&machine->gpus.rows[0].visible), AF_NO);
}

static void test_gpu__a_hanging_driver_ends_at_the_limit(void **state)
{
    struct place *place = *state;
    time_t from = time(NULL);
    place->options.gpu_limit_ms = 200;
    put_pci(place, "0000:01:00.0", "0x10de\n", "0x030000\n");
    struct af_machine *machine = look_with(place, "hang");
    assert_true(time(NULL) - from < 10);
    assert_int_equal(machine->gpus.count, 1);
    assert_non_null(strstr(machine->gpus.rows[0].sm.source, "no answer within 200 ms"));
    assert_int_equal(machine->gpus.rows[0].visible.state, AF_FACT_UNKNOWN);
}

static void test_gpu__a_crashing_driver_is_told(void **state)
{
    struct place *place = *state;
    put_pci(place, "0000:01:00.0", "0x10de\n", "0x030200\n");
    struct af_machine *machine = look_with(place, "crash");
    assert_non_null(strstr(machine->gpus.rows[0].sm.source, "signal 9"));
}

static void test_gpu__nvidia_smi_is_asked_where_the_library_fails(void **state)
{
    struct place *place = *state;
    place_put(place, "/sys/module/nvidia/version", "535.129.03");
    place_put_program(place, "/bin/nvidia-smi",
                      "#!/bin/sh\necho 'Tesla V100, 7.0, GPU-9, 16384'\n");
    place_set(place, "PATH=/bin");
    struct af_machine *machine = look(place);
    assert_int_equal(machine->gpus.count, 1);
    assert_fact(&machine->gpus.rows[0].sm, "7.0");
    assert_fact(&machine->driver.cuda_api, "12.2");
    assert_int_equal(af_fact_int_or(&machine->gpus.rows[0].memory_bytes, 0), INT64_C(16) << 30);
}

static void test_gpu__a_device_without_driver_differs_from_no_device(void **state)
{
    struct place *place = *state;
    put_pci(place, "0000:01:00.0", "0x10de\n", "0x030000\n");
    struct af_machine *machine = look(place);
    assert_int_equal(machine->gpus.count, 1);
    assert_int_equal(machine->driver.kernel_version.state, AF_FACT_ABSENT);
    assert_int_equal(machine->driver.user_version.state, AF_FACT_ABSENT);
    assert_int_equal(machine->gpus.rows[0].sm.state, AF_FACT_UNKNOWN);
}

static void test_gpu__a_bus_without_nvidia_is_a_known_none(void **state)
{
    struct place *place = *state;
    put_pci(place, "0000:00:02.0", "0x8086\n", "0x030000\n");
    struct af_machine *machine = look(place);
    assert_int_equal(machine->gpus.state, AF_FACT_KNOWN);
    assert_int_equal(machine->gpus.count, 0);
}

static void test_gpu__nothing_to_look_at_is_unknown(void **state)
{
    struct af_machine *machine = look(*state);
    assert_int_equal(machine->gpus.state, AF_FACT_UNKNOWN);
}

static void test_gpu__the_open_kernel_modules_banner_is_read(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release "
              "Build  (dvs-builder@U22)\nGCC version: gcc version 12.3.0\n");
    assert_fact(&look(place)->driver.kernel_version, "580.95.05");
}

static void test_gpu__rocm_devices_are_read_from_the_topology(void **state)
{
    struct place *place = *state;
    place_put(place, "/opt/rocm/.info/version", "6.3.0-39\n");
    place_put(place, "/sys/class/kfd/kfd/topology/nodes/0/properties",
              "cpu_cores_count 8\ngfx_target_version 0\n");
    place_put(place, "/sys/class/kfd/kfd/topology/nodes/1/properties",
              "simd_count 304\ngfx_target_version 90402\n");
    place_put(place, "/sys/class/kfd/kfd/topology/nodes/2/properties",
              "gfx_target_version 90010\n");
    place_put(place, "/sys/class/kfd/kfd/topology/nodes/3/properties",
              "gfx_target_version 110000\n");
    struct af_machine *machine = look(place);
    assert_int_equal(machine->gpus.count, 3);
    assert_fact(&machine->driver.rocm, "6.3.0-39");
    assert_fact(&machine->gpus.rows[0].sm, "gfx942");
    assert_fact(&machine->gpus.rows[1].sm, "gfx90a");
    assert_fact(&machine->gpus.rows[2].sm, "gfx1100");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_gpu__two_devices_are_read_from_the_driver_library),
        PLACE_TEST(test_gpu__visible_devices_by_index_hide_the_others),
        PLACE_TEST(test_gpu__visible_devices_by_uuid_beginning),
        PLACE_TEST(test_gpu__an_empty_variable_hides_all),
        PLACE_TEST(test_gpu__entries_after_an_invalid_one_do_not_count),
        PLACE_TEST(test_gpu__mig_names_leave_visibility_unknown),
        PLACE_TEST(test_gpu__a_driver_without_devices_is_a_known_none),
        PLACE_TEST(test_gpu__mismatched_driver_is_told_and_the_device_is_listed),
        PLACE_TEST(test_gpu__a_hanging_driver_ends_at_the_limit),
        PLACE_TEST(test_gpu__a_crashing_driver_is_told),
        PLACE_TEST(test_gpu__nvidia_smi_is_asked_where_the_library_fails),
        PLACE_TEST(test_gpu__a_device_without_driver_differs_from_no_device),
        PLACE_TEST(test_gpu__a_bus_without_nvidia_is_a_known_none),
        PLACE_TEST(test_gpu__nothing_to_look_at_is_unknown),
        PLACE_TEST(test_gpu__the_open_kernel_modules_banner_is_read),
        PLACE_TEST(test_gpu__rocm_devices_are_read_from_the_topology),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
