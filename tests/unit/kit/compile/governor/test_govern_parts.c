/*
 * test_govern_parts.c: stalls, memory as the kernel reports it, how the end of a compiler is
 * classified and how often it may end that way, and the messages about groups and scopes.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/compile/governor/jobs.h"

#include "tests/unit/own_folder.h"

#define MIB (UINT64_C(1) << 20)

static char folder[OWN_FOLDER_BYTES];

static int enter_folder(void **state)
{
    (void)state;
    return !own_folder_make(folder) || chdir(folder) != 0;
}

/* Makes the folders of `path`, which is within the test's folder, and the file. */
static void put(const char *path, const char *text)
{
    char part[256];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdir(part, 0700);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void test_little_work_at_the_limit_is_a_standstill(void **state)
{
    struct af_stall stall = {0};
    struct af_stall_sample look = {.interval = 1, .running = 2, .at_limit = true};
    (void)state;
    for (int second = 1; second < 15; second++) {
        look.now = second;
        look.user_seconds = 0.1;
        assert_false(af_stall_check(&stall, &look));
    }
    look.now = 15;
    assert_true(af_stall_check(&stall, &look));
    look.now = 16; /* it starts again */
    assert_false(af_stall_check(&stall, &look));
}

static void test_work_or_room_is_no_standstill(void **state)
{
    struct af_stall stall = {0};
    (void)state;
    for (int second = 1; second < 60; second++) {
        struct af_stall_sample look = {.now = second, .interval = 1, .running = 1};
        look.at_limit = second % 10 != 0;                /* free memory from time to time */
        look.user_seconds = second % 7 == 0 ? 0.9 : 0.1; /* or progress */
        assert_false(af_stall_check(&stall, &look));
    }
}

static void test_tightest_level_counts_without_page_cache(void **state)
{
    struct af_headroom_previous before = {0};
    struct af_headroom headroom;
    (void)state;
    put("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n");
    put("proc/pressure/memory", "some avg10=9.00 avg60=0 avg300=0 total=1\n"
                                "full avg10=4.50 avg60=0 avg300=0 total=1\n");
    put("proc/stat", "cpu  100 5 7 9\n");
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_int_equal(headroom.left_bytes, 8192 * MIB);
    assert_int_equal(headroom.limit_bytes, 16384 * MIB);
    assert_true(headroom.stalled > 0.0449 && headroom.stalled < 0.0451);

    put("proc/self/cgroup", "4:memory:/a/b\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
    put("sys/fs/cgroup/memory/a/memory.stat", "cache 99\ntotal_rss 1073741824\n");
    put("sys/fs/cgroup/memory/a/memory.failcnt", "7\n");
    put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4294967296\n");
    put("sys/fs/cgroup/memory/a/b/memory.stat", "cache 99\ntotal_rss 1024\n");
    put("sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\noom_kill 3\n");
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_int_equal(headroom.left_bytes, 1024 * MIB);
    assert_int_equal(headroom.limit_bytes, 2048 * MIB);
    assert_int_equal(headroom.kills, 3);
    assert_int_equal(headroom.limit_hits, 7);
}

static void test_groups_of_version_2_are_read(void **state)
{
    struct af_headroom_previous before = {0};
    struct af_headroom headroom;
    (void)state;
    put("proc/self/cgroup", "0::/user\n");
    put("sys/fs/cgroup/user/memory.max", "3221225472\n");
    put("sys/fs/cgroup/user/memory.stat", "anon 1073741824\nfile 55\nshmem 1048576\n");
    put("sys/fs/cgroup/user/memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\n");
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_int_equal(headroom.left_bytes, 2047 * MIB);
    assert_int_equal(headroom.kills, 2);
    assert_int_equal(headroom.limit_hits, 12);
}

static void test_slow_above_high_counts_as_a_limit(void **state)
{
    struct af_headroom_previous before = {0};
    struct af_headroom headroom;
    (void)state;
    put("proc/self/cgroup", "0::/user\n");
    put("sys/fs/cgroup/user/memory.high", "2147483648\n");
    put("sys/fs/cgroup/user/memory.events", "low 0\nhigh 30\nmax 12\noom 1\noom_kill 2\n");
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_int_equal(headroom.left_bytes, 1023 * MIB);
    assert_int_equal(headroom.limit_hits, 42);
    unlink("sys/fs/cgroup/user/memory.high");
}

static void test_kills_of_the_whole_system_and_waiting_groups_are_seen(void **state)
{
    struct af_headroom_previous before = {0};
    struct af_headroom headroom;
    (void)state;
    put("proc/self/cgroup", "4:memory:/a\n");
    put("proc/vmstat", "nr_free_pages 7\noom_kill 5\n");
    put("sys/fs/cgroup/memory/a/memory.oom_control",
        "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n");
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_int_equal(headroom.kills, 5);
    assert_true(headroom.waits);
    unlink("proc/vmstat");
    unlink("sys/fs/cgroup/memory/a/memory.oom_control");
}

static void test_others_are_seen_on_our_processors_only(void **state)
{
    struct af_headroom_previous before = {0};
    struct af_headroom headroom;
    char text[256];
    cpu_set_t set;
    unsigned ours = 0;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(ours, &set))
        ours++;
    put("proc/stat", "cpu  900000 5 7 9\ncpu1023 800000 0 0\n");
    af_headroom_read(folder, NULL, &before, &headroom);
    snprintf(text, sizeof text, "cpu  900000 5 7 9\ncpu%u 1000 4 4\ncpu1023 800000 0 0\n",
             ours);
    put("proc/stat", text);
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_int_equal(before.busy_ticks, 1000);
}

static void test_unreadable_is_unlimited(void **state)
{
    struct af_headroom_previous before = {0};
    struct af_headroom headroom;
    (void)state;
    put("proc/meminfo", "MemTotal: many\n");
    unlink("proc/self/cgroup");
    af_headroom_read(folder, NULL, &before, &headroom);
    assert_true(headroom.left_bytes == AF_HEADROOM_UNLIMITED);
}

static void test_a_kill_from_outside_is_no_want_of_memory(void **state)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
    struct af_end end = {.need_bytes = 100 * MIB, .peak_bytes = 102 * MIB};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(signals); i++) {
        end.code = 128 + signals[i];
        assert_int_equal(af_end_cause(&end), AF_END_SIGNALLED);
    }
    end.code = 128 + SIGKILL;
    end.at_limit = true; /* normal: memory is well used */
    assert_int_equal(af_end_cause(&end), AF_END_SIGNALLED);
}

static void test_the_kernels_count_tells_of_memory(void **state)
{
    const struct af_end end = {.code = 128 + SIGKILL, .kernel_killed = true};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
}

static void test_without_a_count_a_surprise_at_the_limit_tells(void **state)
{
    struct af_end end = {.code = 128 + SIGKILL,
                         .at_limit = true,
                         .need_bytes = 100 * MIB,
                         .peak_bytes = 130 * MIB};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
    end.at_limit = false;
    assert_int_equal(af_end_cause(&end), AF_END_SIGNALLED);
}

static void test_a_hidden_kill_is_believed_once(void **state)
{
    struct af_end end = {.code = 1, .kernel_killed = true};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
    end.alone = true;
    assert_int_equal(af_end_cause(&end), AF_END_FAILED);
}

static void test_what_we_stopped_is_not_its_fault(void **state)
{
    struct af_end end = {.code = 128 + SIGKILL, .stopped = true};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
    end.stopped = false;
    end.hung = true;
    assert_int_equal(af_end_cause(&end), AF_END_HUNG);
    end.code = 0; /* it succeeded before the signal arrived */
    assert_int_equal(af_end_cause(&end), AF_END_SUCCESS);
}

static void test_crashes_and_failures_are_the_compilers_own(void **state)
{
    struct af_end end = {.code = 128 + SIGSEGV};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_CRASHED);
    end.code = 128 + SIGBUS;
    assert_int_equal(af_end_cause(&end), AF_END_CRASHED);
    end.code = 1;
    assert_int_equal(af_end_cause(&end), AF_END_FAILED);
    end.code = 255;
    assert_int_equal(af_end_cause(&end), AF_END_FAILED);
}

static void test_strikes_are_repeated_three_times_and_crashes_once(void **state)
{
    (void)state;
    assert_int_equal(af_end_retry_limit(AF_END_SIGNALLED), 4);
    assert_int_equal(af_end_retry_limit(AF_END_MEMORY), 4);
    assert_int_equal(af_end_retry_limit(AF_END_CRASHED), 2);
    assert_int_equal(af_end_retry_limit(AF_END_HUNG), 2);
}

static void expect(const struct af_govern_build_cgroup *cgroup, uint64_t limit,
                   const char *expected)
{
    char text[512];
    af_govern_build_cgroup_text(cgroup, limit, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_what_systemd_refused_is_told(void **state)
{
    const struct af_govern_build_cgroup cgroup = {.scope_reason = "Failed to connect to bus"};
    (void)state;
    expect(&cgroup, 1,
           "the build has no control group of its own (this system has no control groups; "
           "systemd-run: Failed to connect to bus)");
}

static void test_scope_that_limits_nothing_is_not_said_to_limit(void **state)
{
    struct af_govern_build_cgroup cgroup = {.scope = true};
    (void)state;
    expect(&cgroup, UINT64_C(1) << 30,
           "the build runs in a systemd scope, which does not limit its memory");
    cgroup.limits = true;
    expect(&cgroup, UINT64_C(1) << 30, "the build runs in a systemd scope, limited to 1.0 GiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_work_at_the_limit_is_a_standstill),
        cmocka_unit_test(test_work_or_room_is_no_standstill),
        cmocka_unit_test(test_tightest_level_counts_without_page_cache),
        cmocka_unit_test(test_groups_of_version_2_are_read),
        cmocka_unit_test(test_slow_above_high_counts_as_a_limit),
        cmocka_unit_test(test_kills_of_the_whole_system_and_waiting_groups_are_seen),
        cmocka_unit_test(test_others_are_seen_on_our_processors_only),
        cmocka_unit_test(test_unreadable_is_unlimited),
        cmocka_unit_test(test_a_kill_from_outside_is_no_want_of_memory),
        cmocka_unit_test(test_the_kernels_count_tells_of_memory),
        cmocka_unit_test(test_without_a_count_a_surprise_at_the_limit_tells),
        cmocka_unit_test(test_a_hidden_kill_is_believed_once),
        cmocka_unit_test(test_what_we_stopped_is_not_its_fault),
        cmocka_unit_test(test_crashes_and_failures_are_the_compilers_own),
        cmocka_unit_test(test_strikes_are_repeated_three_times_and_crashes_once),
        cmocka_unit_test(test_what_systemd_refused_is_told),
        cmocka_unit_test(test_scope_that_limits_nothing_is_not_said_to_limit),
    };
    return cmocka_run_group_tests(tests, enter_folder, NULL);
}
