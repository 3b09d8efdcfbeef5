/*
 * test_faults_probe.c: makes each allocation fail in turn while this machine is
 * probed, with a small environment of files so that every reader has work. Its
 * Python is a made-up file, so that the installed one does not matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/machine/machine.h"
#include "kit/probe/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/every_allocation.h"
#include "tests/unit/own_folder.h"

#define PYTHON_MADE AF_TEST_DATA "/unit/kit/probe/elf/python-3.13"
#define SITE "env/lib/python3.13/site-packages"
#define INFO SITE "/flash_attn-2.8.3.dist-info"

static const char *const folders[] = {
    "base", "base/bin", "base/lib",    "base/lib/python3.13",
    "env",  "env/bin",  "env/lib",     "env/lib/python3.13",
    SITE,   INFO,       SITE "/torch", SITE "/torch/lib",
};

static const char *const contents[][2] = {
    {"base/lib/python3.13/os.py", "\n"},
    {"env/pyvenv.cfg", "home = base/bin\nversion = 3.13.7\n"},
    {SITE "/torch/version.py", "__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\n"},
    {INFO "/METADATA", "Metadata-Version: 2.4\nName: flash_attn\nVersion: 2.8.3\n"
                       "Requires-Dist: torch\n"},
    {INFO "/RECORD", "flash_attn_2_cuda.so,sha256=AAAA,1\ngone.py,,\n"},
    {INFO "/direct_url.json", "{\"url\": \"https://host/flash_attn-2.8.3.whl\"}"},
    {"pyproject.toml", "[tool.uv]\nno-build-package = [\"flash-attn\"]\n"},
    {"uv.lock", "version = 1\n"},
};

static char folder[OWN_FOLDER_BYTES];

static void fill(const char *name, const char *content)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void copy(const char *from, const char *to)
{
    char bytes[1 << 12];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    size_t count = fread(bytes, 1, sizeof bytes, in);
    assert_true(count > 0 && feof(in) && fwrite(bytes, 1, count, out) == count);
    assert_int_equal(fclose(in) | fclose(out) | chmod(to, 0700), 0);
}

static int make_environment(void **state)
{
    (void)state;
    if (!own_folder_make(folder) || chdir(folder) != 0)
        return -1;
    for (size_t i = 0; i < AF_COUNT(folders); i++)
        assert_int_equal(mkdir(folders[i], 0700), 0);
    for (size_t i = 0; i < AF_COUNT(contents); i++)
        fill(contents[i][0], contents[i][1]);
    copy(PYTHON_MADE, "base/bin/python3.13");
    return symlink("../../base/bin/python3.13", "env/bin/python");
}

static int remove_environment(void **state)
{
    (void)state;
    unlink("env/bin/python");
    unlink("base/bin/python3.13");
    for (size_t i = 0; i < AF_COUNT(contents); i++)
        unlink(contents[i][0]);
    for (size_t i = AF_COUNT(folders); i-- > 0;)
        rmdir(folders[i]);
    return chdir("/") != 0 || rmdir(folder) != 0 ? -1 : 0;
}

static enum anyflash_status probe(struct af_machine *machine, struct anyflash_error *err)
{
    static char words[][40] = {"PATH=/usr/bin:/bin", "UV_OFFLINE=1", "HOME=/nonexistent"};
    char *const environment[] = {words[0], words[1], words[2], NULL};
    const struct af_probe_options options = {
        .python = "env", .folder = folder, .environment = environment, .gpu_limit_ms = 500};
    return af_probe_machine(machine, &options, err);
}

static void fail_everywhere(bool all_after)
{
    struct every_allocation each = {.all_after = all_after};
    while (every_allocation_next(&each)) {
        struct anyflash_error problem = {0};
        struct af_machine machine;
        af_machine_init(&machine, "test", "not looked at");
        every_allocation_begin(&each);
        enum anyflash_status status = probe(&machine, &problem);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &problem);
        assert_true(each.failed || af_fact_is(&machine.torch.version, "2.8.0+cu128"));
        af_machine_release(&machine);
    }
}

static void test_probe__survives_every_lack_of_memory(void **state)
{
    (void)state;
    fail_everywhere(false);
    fail_everywhere(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, make_environment, remove_environment);
}
