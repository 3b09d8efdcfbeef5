/*
 * test_system.c: the probes of system, memory, cores, disks, toolkits,
 * compilers, tools, project files, variables and what hides packages, in made-up machines.
 */
#include "machine_place.h"

#define GIB (INT64_C(1) << 30)

static void put_meminfo(struct place *place)
{
    place_put(place, "/proc/meminfo",
              "MemTotal:       67108864 kB\nMemFree: 1 kB\nMemAvailable:   33554432 kB\n"
              "SwapFree:        1048576 kB\n");
}

static const struct af_resources *resources(struct place *place)
{
    put_meminfo(place);
    af_probe_resources(&place->probe);
    return &place->machine.resources;
}

static void test_resources__without_groups_meminfo_counts(void **state)
{
    const struct af_resources *found = resources(*state);
    assert_int_equal(af_fact_int_or(&found->memory_total_bytes, 0), 64 * GIB);
    assert_int_equal(af_fact_int_or(&found->memory_available_bytes, 0), 32 * GIB);
    assert_int_equal(found->memory_limit_bytes.state, AF_FACT_ABSENT);
    assert_true(af_fact_int_or(&found->cores, 0) > 0);
}

static void test_resources__v2_takes_the_smallest_limit_on_the_way_up(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/self/cgroup", "0::/user.slice/job/step\n");
    place_put(place, "/sys/fs/cgroup/user.slice/job/step/memory.max", "max\n");
    place_put(place, "/sys/fs/cgroup/user.slice/job/step/cpu.max", "max 100000\n");
    place_put(place, "/sys/fs/cgroup/user.slice/job/memory.max", "8589934592\n");
    place_put(place, "/sys/fs/cgroup/user.slice/job/memory.current", "5368709120\n");
    place_put(place, "/sys/fs/cgroup/user.slice/job/memory.stat",
              "anon 1\ninactive_file 1073741824\n");
    place_put(place, "/sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
    place_put(place, "/sys/fs/cgroup/user.slice/memory.max", "17179869184\n");
    const struct af_resources *found = resources(place);
    assert_int_equal(af_fact_int_or(&found->memory_limit_bytes, 0), 8 * GIB);
    assert_int_equal(af_fact_int_or(&found->memory_available_bytes, 0), 4 * GIB);
    assert_int_equal(af_fact_int_or(&found->cores, 0), 1);
}

static void test_resources__v2_memory_high_is_a_limit(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/self/cgroup", "0::/a\n");
    place_put(place, "/sys/fs/cgroup/a/memory.max", "8589934592\n");
    place_put(place, "/sys/fs/cgroup/a/memory.high", "4294967296\n");
    assert_int_equal(af_fact_int_or(&resources(place)->memory_limit_bytes, 0), 4 * GIB);
}

static void test_resources__in_a_container_the_mounts_root_counts(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/self/cgroup", "0::/../../docker/0123\n");
    place_put(place, "/sys/fs/cgroup/memory.max", "2147483648\n");
    assert_int_equal(af_fact_int_or(&resources(place)->memory_limit_bytes, 0), 2 * GIB);
}

static void test_resources__v1_knows_its_number_for_none(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/self/cgroup", "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n");
    place_put(place, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    place_put(place, "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "6442450944\n");
    place_put(place, "/sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "3221225472\n");
    place_put(place, "/sys/fs/cgroup/memory/docker/1/memory.stat",
              "total_inactive_file 1073741824\n");
    place_put(place, "/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
    place_put(place, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    place_put(place, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    const struct af_resources *found = resources(place);
    assert_int_equal(af_fact_int_or(&found->memory_limit_bytes, 0), 6 * GIB);
    assert_int_equal(af_fact_int_or(&found->memory_available_bytes, 0), 4 * GIB);
    assert_int_equal(af_fact_int_or(&found->cores, 0), 1);
}

static void test_resources__a_mixed_host_has_its_limits_in_v1(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/self/cgroup", "4:memory:/job\n0::/\n");
    place_put(place, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
    place_put(place, "/sys/fs/cgroup/unified/cgroup.procs", "1\n");
    const struct af_resources *found = resources(place);
    assert_int_equal(af_fact_int_or(&found->memory_limit_bytes, 0), GIB);
}

static void test_resources__hostile_files_are_survived(void **state)
{
    struct place *place = *state;
    char many[70000];
    memset(many, ':', sizeof many);
    place_put(place, "/proc/self/cgroup",
              ":::\n0:\n\n4:memory\n0::relative\n0::/\xff\x1b[31m\n");
    place_put(place, "/sys/fs/cgroup/memory.max", "-5 99999999999999999999999\n");
    place_put(place, "/sys/fs/cgroup/cpu.max", "0 0\n");
    const struct af_resources *found = resources(place);
    assert_int_equal(found->memory_limit_bytes.state, AF_FACT_ABSENT);
    assert_true(af_fact_int_or(&found->cores, 0) > 0);
    place_put_n(place, "/proc/self/cgroup", many, sizeof many);
    af_probe_resources(&place->probe);
}

static const struct af_platform *platform(struct place *place)
{
    af_probe_platform(&place->probe);
    return &place->machine.platform;
}

static void test_platform__wsl_and_distribution(void **state)
{
    struct place *place = *state;
    place_put(place, "/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n");
    place_put(place, "/usr/lib/os-release", "NAME=\"U\"\nID=ubuntu\nVERSION_ID=\"22.04\"\n");
    const struct af_platform *found = platform(place);
    assert_int_equal(af_fact_truth(&found->wsl), AF_YES);
    assert_fact(&found->distribution, "ubuntu 22.04");
    assert_fact(&found->kernel, "5.15.153.1-microsoft-standard-WSL2");
    assert_int_equal(found->container.state, AF_FACT_ABSENT);
    assert_int_equal(found->libc_version.state, AF_FACT_UNKNOWN);
}

static void test_platform__container_marks(void **state)
{
    struct place *place = *state;
    place_put(place, "/.dockerenv", "");
    assert_fact(&platform(place)->container, "docker");
    place_put(place, "/run/.containerenv", "");
    assert_fact(&platform(place)->container, "podman");
    place_set(place, "KUBERNETES_SERVICE_HOST=10.0.0.1");
    assert_fact(&platform(place)->container, "kubernetes");
    place_set(place, "APPTAINER_CONTAINER=/x.sif");
    assert_fact(&platform(place)->container, "apptainer");
}

static void test_disks__nearest_existing_folder_is_measured(void **state)
{
    struct place *place = *state;
    place_path(place, "/users/me/");
    place_set(place, "HOME=/users/me");
    place_set(place, "TMPDIR=/no/such/tmp");
    af_probe_disks(&place->probe);
    const struct af_disk *disks = place->machine.disks.rows;
    assert_int_equal(place->machine.disks.count, 4);
    assert_fact(&disks[0].use, "temporary");
    assert_fact(&disks[0].path, place->root);
    assert_true(af_fact_int_or(&disks[1].free_bytes, 0) > 0);
    assert_fact(&disks[2].use, "builds");
    assert_fact(&disks[3].use, "home");
}

static void put_toolkit(struct place *place, const char *root, const char *cuda_h)
{
    char path[200];
    snprintf(path, sizeof path, "%s/bin/nvcc", root);
    place_put_program(place, path, "");
    snprintf(path, sizeof path, "%s/include/cuda.h", root);
    place_put(place, path, cuda_h);
}

static void test_toolkits__cuda_home_comes_before_path(void **state)
{
    struct place *place = *state;
    put_toolkit(place, "/usr/local/cuda-12.8", "x\n#define CUDA_VERSION 12080\n");
    place_put(place, "/usr/local/cuda-12.8/include/cuda_runtime.h", "");
    place_put(place, "/usr/local/cuda-12.8/include/cuda/std/utility", "");
    place_put(place, "/usr/local/cuda-12.8/include/crt/host_config.h",
              "#if __GNUC__ > 14\n#error\n#if (__clang_major__ >= 20)\n#error\n");
    put_toolkit(place, "/opt/nv", "");
    place_put(place, "/opt/nv/version.json", "{\"cuda\": {\"version\": \"13.0.1\"}}");
    place_set(place, "CUDA_HOME=/usr/local/cuda-12.8");
    place_set(place, "PATH=/opt/nv/bin");
    af_probe_toolkits(&place->probe);
    const struct af_toolkit *toolkits = place->machine.toolkits.rows;
    assert_int_equal(place->machine.toolkits.count, 2);
    assert_fact(&toolkits[0].version, "12.8");
    assert_int_equal(af_fact_int_or(&toolkits[0].gcc_max, 0), 14);
    assert_int_equal(af_fact_int_or(&toolkits[0].clang_max, 0), 19);
    assert_int_equal(af_fact_truth(&toolkits[0].headers), AF_YES);
    assert_int_equal(af_fact_truth(&toolkits[0].torch_takes_it), AF_YES);
    assert_int_equal(af_fact_truth(&toolkits[0].first_on_path), AF_NO);
    assert_fact(&toolkits[1].version, "13.0.1");
    assert_int_equal(af_fact_truth(&toolkits[1].first_on_path), AF_YES);
    assert_int_equal(af_fact_truth(&toolkits[1].torch_takes_it), AF_NO);
    assert_int_equal(af_fact_truth(&toolkits[1].headers), AF_NO);
}

static void test_toolkits__a_cuda_home_that_is_not_there_is_still_taken(void **state)
{
    struct place *place = *state;
    put_toolkit(place, "/usr/local/cuda", "#define CUDA_VERSION 11080\n");
    place_set(place, "CUDA_HOME=/gone");
    af_probe_toolkits(&place->probe);
    const struct af_toolkit *toolkits = place->machine.toolkits.rows;
    assert_int_equal(place->machine.toolkits.count, 2);
    assert_int_equal(af_fact_truth(&toolkits[0].torch_takes_it), AF_YES);
    assert_int_equal(toolkits[0].nvcc.state, AF_FACT_ABSENT);
    assert_int_equal(toolkits[0].version.state, AF_FACT_UNKNOWN);
    assert_int_equal(af_fact_truth(&toolkits[1].torch_takes_it), AF_NO);
}

static void test_toolkits__pips_cuda_13_tree_is_found_and_torch_does_not_look_there(
    void **state)
{
    struct place *place = *state;
    const char *site = "/venv/lib/python3.12/site-packages";
    put_toolkit(place, "/venv/lib/python3.12/site-packages/nvidia/cu13",
                "#define CUDA_VERSION 13000\n");
    const char *full = place_path(place, site);
    af_fact_list(&place->machine.arena, &place->machine.python.site_packages, &full, 1, "test");
    af_probe_toolkits(&place->probe);
    assert_int_equal(place->machine.toolkits.count, 1);
    assert_fact(&place->machine.toolkits.rows[0].found_by, "environment");
    assert_int_equal(af_fact_truth(&place->machine.toolkits.rows[0].torch_takes_it), AF_NO);
}

static void test_toolkits__links_to_one_folder_are_one_toolkit(void **state)
{
    struct place *place = *state;
    put_toolkit(place, "/usr/local/cuda-12.4", "#define CUDA_VERSION 12040\n");
    if (symlink("cuda-12.4", place_path(place, "/usr/local/cuda")) != 0)
        abort();
    af_probe_toolkits(&place->probe);
    assert_int_equal(place->machine.toolkits.count, 1);
    assert_int_equal(af_fact_truth(&place->machine.toolkits.rows[0].torch_takes_it), AF_YES);
}

static void test_compilers__version_by_library_folder_and_binary(void **state)
{
    static const char binary[] = "ELF\0GCC 12.9\0"
                                 "12.2.0\0rest";
    struct place *place = *state;
    place_put_n(place, "/usr/bin/x86_64-linux-gnu-g++-12", binary, sizeof binary);
    chmod(place_path(place, "/usr/bin/x86_64-linux-gnu-g++-12"), 0755);
    place_path(place, "/usr/lib/gcc/x86_64-linux-gnu/12/");
    if (symlink("x86_64-linux-gnu-g++-12", place_path(place, "/usr/bin/g++")) != 0)
        abort();
    place_put_program(place, "/usr/bin/ccache", "");
    place_set(place, "PATH=/usr/bin");
    place_set(place, "CXX=ccache g++");
    af_probe_compilers(&place->probe);
    const struct af_compiler *compilers = place->machine.compilers.rows;
    assert_int_equal(place->machine.compilers.count, 2);
    assert_fact(&compilers[0].command, "$CXX");
    assert_int_equal(compilers[0].family.state, AF_FACT_UNKNOWN);
    assert_fact(&compilers[1].command, "g++");
    assert_fact(&compilers[1].family, "gcc");
    assert_fact(&compilers[1].version, "12.2.0");
}

static void test_tools__uv_toml_hides_the_table_of_pyproject(void **state)
{
    struct place *place = *state;
    place_put_program(place, "/users/me/.local/bin/uv", "");
    place_put(place, "/users/me/.config/uv/uv-receipt.json", "{\"version\":\"0.13.8\"}");
    place_put(place, "/users/me/.config/uv/uv.toml", "");
    place_put(place, "/p/pyproject.toml", "[project]\n[[tool.uv.index]]\nname = \"x\"\n");
    place_set(place, "PATH=/users/me/.local/bin");
    place_set(place, "HOME=/users/me");
    place->options.folder = place_path(place, "/p");
    af_probe_tools(&place->probe);
    const struct af_tool *uv = &place->machine.tools.rows[0];
    assert_int_equal(place->machine.tools.count, 1);
    assert_fact(&uv->version, "0.13.8");
    assert_int_equal(uv->config_files.value.list.count, 2);
    assert_true(af_ends_with(uv->config_files.value.list.items[0], "/p/pyproject.toml"));
    place_put(place, "/p/uv.toml", "");
    place->machine.tools.count = 0;
    af_probe_tools(&place->probe);
    assert_true(af_ends_with(place->machine.tools.rows[0].config_files.value.list.items[0],
                             "/p/uv.toml"));
}

static void test_tools__pip_is_a_package_of_the_environment(void **state)
{
    struct place *place = *state;
    place_path(place, "/venv/site/pip-25.3.dist-info/");
    const char *site = place_path(place, "/venv/site");
    struct af_python *python = &place->machine.python;
    af_fact_list(&place->machine.arena, &python->site_packages, &site, 1, "test");
    af_fact_text(&place->machine.arena, &python->prefix, place_path(place, "/venv"), "test");
    af_probe_tools(&place->probe);
    const struct af_tool *pip = &place->machine.tools.rows[0];
    assert_fact(&pip->name, "pip");
    assert_fact(&pip->version, "25.3");
}

static void test_project_files__nearest_folder_and_mention(void **state)
{
    struct place *place = *state;
    place_put(place, "/p/pyproject.toml", "[tool.uv]\ndependencies = [\"Flash_Attn>=2\"]\n");
    place_put(place, "/p/requirements-dev.txt", "torch\n");
    place_put(place, "/p/uv.lock", "name = \"flash-attn\"\n");
    place_put(place, "/poetry.lock", "");
    place_path(place, "/p/src/");
    place->options.folder = place_path(place, "/p/src");
    af_probe_project_files(&place->probe);
    const struct af_project_file *files = place->machine.project_files.rows;
    assert_int_equal(place->machine.project_files.count, 3);
    assert_fact(&files[0].tool, "uv");
    assert_int_equal(af_fact_truth(&files[0].names_flash_attn), AF_YES);
    assert_fact(&files[1].tool, "pip");
    assert_int_equal(af_fact_truth(&files[1].names_flash_attn), AF_NO);
    assert_int_equal(af_fact_truth(&files[2].names_flash_attn), AF_YES);
}

static void test_variables__secrets_never_appear(void **state)
{
    struct place *place = *state;
    place_set(place, "UV_INDEX=https://me:s3cret@one/simple ssh://git:t0ken@two "
                     "http://three?token=s3cret x?y");
    place_set(place, "UV_INDEX_MINE_PASSWORD=s3cret");
    place_set(place, "UV_PUBLISH_TOKEN=t0ken");
    place_set(place, "PIP_INDEX_URL=https://t0ken@host/simple/@x");
    place_set(place, "MAX_JOBS=2");
    place_set(place, "PIP_PROXY=me:s3cret@proxy:8080");
    place_set(place, "UV_FIND_LINKS=https://me:pa/s3cret@four/x https://five:443/@x");
    place_set(place, "SSH_AUTH_SOCK=/x");
    af_probe_variables(&place->probe);
    struct af_text text = {0};
    af_machine_write(&place->machine, &text);
    assert_null(strstr(text.data, "s3cret"));
    assert_null(strstr(text.data, "t0ken"));
    af_text_release(&text);
    const struct af_variable *variables = place->machine.variables.rows;
    assert_int_equal(place->machine.variables.count, 7);
    assert_fact(&variables[0].name, "MAX_JOBS");
    assert_fact(&variables[1].value, "https://***@host/simple/@x");
    assert_fact(&variables[2].value, "***@proxy:8080");
    assert_fact(&variables[3].value, "https://***@four/x https://five:443/@x");
    assert_fact(&variables[4].value,
                "https://***@one/simple ssh://***@two http://three?*** x?y");
    assert_fact(&variables[5].value, "(removed)");
}

static enum af_fact_state shadow(struct place *place)
{
    af_probe_shadow(&place->probe);
    return place->machine.python.shadowed_by.state;
}

static void test_shadow__finds_a_source_tree(void **state)
{
    place_put(*state, "/flash_attn/__init__.py", "");
    assert_int_equal(shadow(*state), AF_FACT_KNOWN);
}

static void test_shadow__finds_a_file(void **state)
{
    place_put(*state, "/torch.py", "");
    assert_int_equal(shadow(*state), AF_FACT_KNOWN);
}

static void test_shadow__a_folder_without_a_module_is_none(void **state)
{
    assert_int_equal(mkdir(place_path(*state, "/flash_attn"), 0755), 0);
    assert_int_equal(shadow(*state), AF_FACT_ABSENT);
}

static void test_shadow__a_tree_built_in_place_is_none(void **state)
{
    place_put(*state, "/flash_attn/__init__.py", "");
    place_put(*state, "/flash_attn_2_cuda.cpython-312.so", "");
    assert_int_equal(shadow(*state), AF_FACT_ABSENT);
}

static void test_shadow__a_safe_path_hides_the_folder(void **state)
{
    place_set(*state, "PYTHONSAFEPATH=1");
    place_put(*state, "/flash_attn/__init__.py", "");
    assert_int_equal(shadow(*state), AF_FACT_ABSENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_resources__without_groups_meminfo_counts),
        PLACE_TEST(test_resources__v2_takes_the_smallest_limit_on_the_way_up),
        PLACE_TEST(test_resources__v2_memory_high_is_a_limit),
        PLACE_TEST(test_resources__in_a_container_the_mounts_root_counts),
        PLACE_TEST(test_resources__v1_knows_its_number_for_none),
        PLACE_TEST(test_resources__a_mixed_host_has_its_limits_in_v1),
        PLACE_TEST(test_resources__hostile_files_are_survived),
        PLACE_TEST(test_platform__wsl_and_distribution),
        PLACE_TEST(test_platform__container_marks),
        PLACE_TEST(test_disks__nearest_existing_folder_is_measured),
        PLACE_TEST(test_toolkits__cuda_home_comes_before_path),
        PLACE_TEST(test_toolkits__a_cuda_home_that_is_not_there_is_still_taken),
        PLACE_TEST(test_toolkits__pips_cuda_13_tree_is_found_and_torch_does_not_look_there),
        PLACE_TEST(test_toolkits__links_to_one_folder_are_one_toolkit),
        PLACE_TEST(test_compilers__version_by_library_folder_and_binary),
        PLACE_TEST(test_tools__uv_toml_hides_the_table_of_pyproject),
        PLACE_TEST(test_tools__pip_is_a_package_of_the_environment),
        PLACE_TEST(test_project_files__nearest_folder_and_mention),
        PLACE_TEST(test_variables__secrets_never_appear),
        PLACE_TEST(test_shadow__finds_a_source_tree),
        PLACE_TEST(test_shadow__finds_a_file),
        PLACE_TEST(test_shadow__a_folder_without_a_module_is_none),
        PLACE_TEST(test_shadow__a_tree_built_in_place_is_none),
        PLACE_TEST(test_shadow__a_safe_path_hides_the_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
