/*
 * test_rules.c: each rule of the doctor on a small machine, and that it reports
 * nothing if the fact is fine or unknown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/doctor/doctor.h"

struct patient {
    struct af_machine machine;
    struct af_catalog catalog;
    struct af_decision decision;
    struct af_arena arena;
    const struct af_finding *findings;
    size_t count;
};

static struct patient patient;

static int release(void **state)
{
    (void)state;
    af_machine_release(&patient.machine);
    af_arena_release(&patient.arena);
    return 0;
}

/* The ids found on the machine of these groups, worst first, joined by blanks. */
static const char *found(const char *groups)
{
    struct af_text ids = {0};
    af_machine_init(&patient.machine, "test", "not given");
    af_arena_init(&patient.arena);
    const char *text =
        af_arena_format(&patient.arena, "{\"schema\": \"%s\", %s}", AF_MACHINE_SCHEMA, groups);
    struct anyflash_error err = {0};
    if (af_machine_parse(&patient.machine, (struct af_span){text, strlen(text)}, "test",
                         &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(af_doctor_examine(&patient.catalog, &patient.machine, &patient.decision,
                                       &patient.arena, &patient.findings, &patient.count, &err),
                     ANYFLASH_OK);
    for (size_t i = 0; i < patient.count; i++)
        af_text_format(&ids, "%s%s", i > 0 ? " " : "",
                       af_reasons[patient.findings[i].cause].text_id);
    const char *copy = af_arena_text(&patient.arena, af_text_get(&ids));
    af_text_release(&ids);
    return copy;
}

#define FLASH(rest) "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"2.8.3\"" rest "}]"
#define GPU(rest) "\"gpus\": [{\"vendor\": \"nvidia\", \"name\": \"A\"" rest "}]"
#define VARIABLE(name, value)                                                                  \
    "\"variables\": [{\"name\": \"" name "\", \"value\": \"" value "\"}]"
#define EXTENSION ", \"extensions\": [\"flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so\"]"

/* One row: a test's name ends in what it says. */
struct row {
    const char *what;
    const char *groups;
    const char *ids;
};

static const struct row rows[] = {
    {"nothing known is nothing found", "\"platform\": {}", ""},
    {"a source tree in the working folder", "\"python\": {\"shadowed_by\": \"/w/flash_attn\"}",
     "source-tree-shadows"},
    {"a library of our own build, which fits every torch",
     FLASH(", \"extensions\": [\"flash_attn_2_cuda/libanyflash_cuda.so\"]") ", \"torch\": "
                                                                            "{\"version\": "
                                                                            "\"2.15.0\"}",
     ""},
    {"missing files of RECORD", FLASH(EXTENSION ", \"missing_files\": [\"a.py\"]"),
     "installer-damage"},
    {"a module that is cut short",
     FLASH(EXTENSION ", \"changed_files\": [\"x.so\"], \"broken_files\": [\"x.so\"]"),
     "installer-damage"},
    {"a file of another size, which may work",
     FLASH(EXTENSION ", \"changed_files\": [\"flash_attn/__init__.py\"]"), "files-changed"},
    {"a library of the module is gone",
     FLASH(EXTENSION ", \"missing_libraries\": [\"libcudart.so.13\"]"), "library-missing"},
    {"torch's own library is gone, and so for the module",
     "\"torch\": {\"missing_files\": [\"torch/lib/libtorch_cpu.so\"]}, " FLASH(
         EXTENSION ", \"missing_libraries\": [\"libtorch_cpu.so\"]"),
     "torch-damaged"},
    {"torch without its CUDA runtime",
     "\"torch\": {\"missing_libraries\": [\"libcudart.so.12\"]}", "torch-damaged"},
    {"a torch that is complete",
     "\"torch\": {\"missing_files\": [], \"changed_files\": [], \"broken_files\": [], "
     "\"missing_libraries\": []}",
     ""},
    {"a pure package is an empty build", FLASH(", \"purelib\": true"), "extension-missing"},
    {"no extension in RECORD", FLASH(", \"extensions\": []"), "extension-missing"},
    {"an extension is there", FLASH(EXTENSION), ""},
    {"ROCm's flash-attn needs no CUDA extension",
     "\"torch\": {\"version\": \"2.9.1\", \"hip\": \"6.4\"}, " FLASH(
         ", \"extensions\": [], \"built_for_torch\": \"torch==2.9.1\""),
     "rocm"},
    {"version 1 has other modules, and other names in them",
     "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"1.0.9\", \"extensions\": []}]",
     "flash-attn-too-old"},
    {"FlashAttention 3 under the name of 2",
     "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"3.0.0b1\", \"extensions\": []}]",
     "fa3-module-name"},
    {"the one uv that refuses match-runtime",
     "\"tools\": [{\"name\": \"uv\", \"version\": \"0.11.0\"}]", "uv-match-runtime-metadata"},
    {"the uv after it", "\"tools\": [{\"name\": \"uv\", \"version\": \"0.11.1\"}]", ""},
    {"a module of another Python",
     "\"python\": {\"ext_suffix\": \".cpython-311-x86_64-linux-gnu.so\"}, " FLASH(EXTENSION),
     "wheel-tag-wrong-python"},
    {"a module of this Python",
     "\"python\": {\"ext_suffix\": \".cpython-312-x86_64-linux-gnu.so\"}, " FLASH(EXTENSION),
     ""},
    {"built by uv with another torch",
     "\"torch\": {\"version\": \"2.9.1+cu128\"}, " FLASH(
         EXTENSION ", \"built_for_torch\": \"torch==2.8.0\""),
     "stale-after-torch-upgrade"},
    {"built by uv with another patch release",
     "\"torch\": {\"version\": \"2.9.1+cu128\"}, " FLASH(
         EXTENSION ", \"built_for_torch\": \"torch==2.9.0\""),
     ""},
    {"its own metadata wants another torch",
     "\"torch\": {\"version\": \"2.9.1\"}, " FLASH(
         EXTENSION ", \"needs_torch\": \"==2.11.*\", \"built_for_torch\": \"torch\""),
     "torch-minor-mismatch"},
    {"only FlashAttention 3",
     "\"packages\": [{\"name\": \"flash-attn-3\", \"version\": \"3.0.0\"}]", "fa3-module-name"},
    {"only FlashAttention 4",
     "\"packages\": [{\"name\": \"flash-attn-4\", \"version\": \"4.0.0b1\"}]", "fa4-namespace"},
    {"the shim's package is reported but not judged",
     FLASH(", \"installer\": \"anyflash\", \"extensions\": [\"anyflash/libanyflash.so\"]"),
     "shim"},
    {"the shim's package without anyflash is broken",
     FLASH(", \"installer\": \"anyflash\", \"extensions\": []"), "shim-alone"},
    {"a peer's window ends below",
     "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"2.8.3\"" EXTENSION "},"
     "{\"name\": \"xformers\", \"version\": \"0.0.32\", \"flash_attn_min\": \"2.7.1\", "
     "\"flash_attn_max\": \"2.8.2\"}]",
     "peer-version-window"},
    {"a peer's window holds it",
     "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"2.8.2\"" EXTENSION "},"
     "{\"name\": \"xformers\", \"version\": \"0.0.32\", \"flash_attn_max\": \"2.8.2\"}]",
     ""},
    {"a peer's metadata refuses it",
     "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"2.8.3\"" EXTENSION "},"
     "{\"name\": \"te\", \"version\": \"1\", \"needs_flash_attn\": \"<2.8\"}]",
     "peer-version-window"},
    {"a peer wants another torch",
     "\"torch\": {\"version\": \"2.9.1\"}, \"packages\": [{\"name\": \"vllm\", "
     "\"version\": \"0.11\", \"needs_torch\": \"==2.8.0\"}]",
     "torch-forced-by-peer"},
    {"torch in two folders",
     "\"packages\": [{\"name\": \"torch\", \"version\": \"2.8.0\", \"folder\": \"/a\"},"
     "{\"name\": \"torch\", \"version\": \"2.9.0\", \"folder\": \"/b\"}]",
     "two-torch-installs"},
    {"flash-attn in two folders",
     "\"packages\": [{\"name\": \"flash-attn\", \"version\": \"2.8.3\"" EXTENSION "},"
     "{\"name\": \"flash-attn\", \"version\": \"2.7.4\"" EXTENSION "}]",
     "two-installs"},
    {"no torch", "\"torch\": {\"version\": null}", "torch-missing"},
    {"a nightly", "\"torch\": {\"version\": \"2.10.0.dev1\", \"build\": \"prerelease\"}",
     "torch-nightly"},
    {"a vendor's torch", "\"torch\": {\"version\": \"2.9.0a0\", \"build\": \"vendor\"}",
     "ngc-prerelease-torch"},
    {"a distribution's torch",
     "\"torch\": {\"version\": \"2.6.0\", \"build\": \"distribution\"}", "torch-distribution"},
    {"conda's torch",
     "\"python\": {\"kind\": \"conda\"}, \"torch\": {\"version\": \"2.8.0\", "
     "\"build\": \"distribution\"}",
     "torch-from-conda"},
    {"a CPU torch beside a GPU",
     "\"torch\": {\"version\": \"2.9.1+cpu\", \"cuda\": null}, " GPU(""), "torch-cpu-build"},
    {"a CPU torch without a GPU",
     "\"torch\": {\"version\": \"2.9.1+cpu\", \"cuda\": null}, \"gpus\": []", ""},
    {"torch without code for the GPU",
     "\"torch\": {\"version\": \"2.6.0\", \"gpu_targets\": [\"sm_80\", \"sm_90\"]}, " GPU(
         ", \"sm\": \"12.0\""),
     "torch-lacks-gpu"},
    {"torch's code of the same major version serves",
     "\"torch\": {\"version\": \"2.6.0\", \"gpu_targets\": [\"sm_80\"]}, " GPU(
         ", \"sm\": \"8.9\""),
     ""},
    {"torch's PTX serves a newer GPU",
     "\"torch\": {\"version\": \"2.6.0\", \"gpu_targets\": [\"sm_80\", \"compute_90\"]}, " GPU(
         ", \"sm\": \"12.0\""),
     ""},
    {"a GPU without a driver", "\"driver\": {\"kernel_version\": null}, " GPU(""),
     "driver-missing"},
    {"WSL has no kernel module",
     "\"platform\": {\"wsl\": true}, \"driver\": {\"kernel_version\": null}, " GPU(""), ""},
    {"kernel module and library differ",
     "\"driver\": {\"kernel_version\": \"580.95.05\", \"user_version\": \"575.1\"}",
     "driver-mismatch"},
    {"a driver of an older CUDA",
     "\"driver\": {\"cuda_api\": \"12.2\"}, \"torch\": {\"version\": \"2.11.0\", "
     "\"cuda\": \"13.0\"}",
     "driver-too-old"},
    {"minor versions of CUDA are compatible",
     "\"driver\": {\"cuda_api\": \"12.2\"}, \"torch\": {\"version\": \"2.8.0\", "
     "\"cuda\": \"12.8\"}",
     ""},
    {"CUDA_VISIBLE_DEVICES hides all",
     "\"driver\": {\"visible_devices\": \"-1\"}, " GPU(", \"visible\": false"),
     "wrong-device-visible"},
    {"a ROCm torch beside an NVIDIA GPU",
     "\"torch\": {\"version\": \"2.8.0+rocm6.4\", \"hip\": \"6.4\", \"cuda\": null}, " GPU(""),
     "torch-cpu-build"},
    {"a GPU before Ampere", GPU(", \"sm\": \"7.5\""), "sm-unsupported"},
    {"an empty build is asked for", VARIABLE("FLASH_ATTENTION_SKIP_CUDA_BUILD", "TRUE"),
     "skip-cuda-build-set"},
    {"a build is asked for", VARIABLE("FLASH_ATTENTION_FORCE_BUILD", "TRUE"),
     "force-build-set"},
    {"a switch that says 1", VARIABLE("FLASH_ATTENTION_FORCE_BUILD", "1"), "switch-ignored"},
    {"a list that nobody reads", VARIABLE("TORCH_CUDA_ARCH_LIST", "8.9"), "arch-list-ignored"},
    {"an architecture that adds nothing", VARIABLE("FLASH_ATTN_CUDA_ARCHS", "80;89"),
     "archs-unknown"},
    {"architectures that are known", VARIABLE("FLASH_ATTN_CUDA_ARCHS", "80;120;"), ""},
    {"an inverted switch", VARIABLE("PIP_NO_BUILD_ISOLATION", "0"),
     "pip-no-build-isolation-inverted"},
    {"uv offline", VARIABLE("UV_OFFLINE", "true"), "offline-node"},
    {"uv not offline", VARIABLE("UV_OFFLINE", "0"), ""},
    {"wheels refused by name", VARIABLE("PIP_NO_BINARY", "numpy,flash-attn"), "wheels-refused"},
    {"wheels refused of others", VARIABLE("PIP_NO_BINARY", "numpy"), ""},
    {"uv's eyes on the system",
     "\"python\": {\"kind\": \"venv\"}, " VARIABLE("UV_SYSTEM_PYTHON", "1"),
     "system-python-forced"},
    {"uv.toml beside pyproject.toml",
     "\"project_files\": [{\"path\": \"/p/pyproject.toml\"}, {\"path\": \"/p/uv.toml\"}]",
     "uv-toml-shadows"},
    {"uv.toml elsewhere",
     "\"project_files\": [{\"path\": \"/p/pyproject.toml\"}, {\"path\": \"/q/uv.toml\"}]", ""},
    {"a lock without it",
     "\"project_files\": [{\"path\": \"/p/uv.lock\", \"names_flash_attn\": false}], " FLASH(
         EXTENSION),
     "uv-sync-removes"},
    {"no Python at all", "\"python\": {\"prefix\": null, \"writable\": null}",
     "python-not-found"},
    {"an interpreter that is gone", "\"python\": {\"problem\": \"broken link to '/gone'\"}",
     "environment-broken"},
    {"a variable that names nothing",
     VARIABLE("VIRTUAL_ENV", "/gone") ", \"python\": {\"chosen_by\": \"PATH\"}",
     "virtual-env-gone"},
    {"a variable that names the environment",
     VARIABLE("VIRTUAL_ENV", "/v") ", \"python\": {\"chosen_by\": \"VIRTUAL_ENV\"}", ""},
    {"the system's Python", "\"python\": {\"externally_managed\": true, \"writable\": false}",
     "externally-managed"},
    {"an environment of another user", "\"python\": {\"writable\": false}",
     "environment-read-only"},
    {"a toolkit of another major version",
     "\"torch\": {\"version\": \"2.11.0\", \"cuda\": \"13.0\"}, \"toolkits\": "
     "[{\"version\": \"12.4\", \"torch_takes_it\": true}]",
     "toolkit-major-mismatch"},
    {"another nvcc first",
     "\"toolkits\": [{\"version\": \"12.4\", \"torch_takes_it\": true}, "
     "{\"version\": \"11.8\", \"first_on_path\": true}]",
     "wrong-nvcc-first"},
    {"gcc beyond the toolkit",
     "\"toolkits\": [{\"version\": \"12.4\", \"torch_takes_it\": true, \"gcc_max\": 13}], "
     "\"compilers\": [{\"family\": \"gcc\", \"version\": \"14.2.0\"}]",
     "gcc-too-new"},
    {"a temporary folder in memory",
     "\"disks\": [{\"use\": \"temporary\", \"in_memory\": true}]", "temporary-in-memory"},
    {"the worst comes first",
     VARIABLE("TORCH_CUDA_ARCH_LIST",
              "8.9") ", " FLASH(", \"purelib\": true") ", " GPU(", \"sm\": \"7.5\""),
     "extension-missing sm-unsupported arch-list-ignored"},
};

static void test_rules__find_what_they_are_for_and_nothing_else(void **state)
{
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const char *ids = found(rows[i].groups);
        if (strcmp(ids, rows[i].ids) != 0)
            fail_msg("%s: found '%s', expected '%s'", rows[i].what, ids, rows[i].ids);
        release(state);
    }
}

static void test_rules__say_where_they_read(void **state)
{
    (void)state;
    found("\"python\": {\"writable\": {\"value\": false, \"source\": \"access(2)\"}, "
          "\"prefix\": \"/usr/local\"}");
    assert_int_equal(patient.count, 1);
    assert_non_null(strstr(patient.findings[0].detail, "/usr/local"));
}

static void test_next__a_broken_driver_comes_before_the_plan(void **state)
{
    (void)state;
    patient.decision.possible = true;
    found("\"driver\": {\"kernel_version\": null}, " GPU(""));
    struct af_next next =
        af_doctor_next(&patient.machine, &patient.decision, patient.findings, patient.count);
    patient.decision.possible = false;
    assert_int_equal(next.kind, AF_NEXT_FINDING);
    assert_int_equal(next.finding->cause, AF_REASON_DRIVER_MISSING);
}

static void test_next__a_good_install_needs_nothing(void **state)
{
    (void)state;
    found("\"torch\": {\"version\": \"2.8.0\"}, " FLASH(
        EXTENSION ", \"built_for_torch\": \"torch==2.8.0\""));
    struct af_next next =
        af_doctor_next(&patient.machine, &patient.decision, patient.findings, patient.count);
    assert_int_equal(next.kind, AF_NEXT_NOTHING);
}

static void test_next__a_bad_install_leads_to_the_plan(void **state)
{
    (void)state;
    patient.decision.possible = true;
    found("\"torch\": {\"version\": \"2.9.0\"}, " FLASH(
        EXTENSION ", \"built_for_torch\": \"torch==2.8.0\""));
    struct af_next next =
        af_doctor_next(&patient.machine, &patient.decision, patient.findings, patient.count);
    patient.decision.possible = false;
    assert_int_equal(next.kind, AF_NEXT_PLAN);
}

static void test_causes__have_unique_ids_and_texts(void **state)
{
    (void)state;
    for (int i = 0; i < AF_REASON_COUNT; i++) {
        enum af_reason_id cause = AF_REASON_COUNT;
        assert_true(af_reason_parse(af_reasons[i].text_id, &cause));
        assert_int_equal((int)cause, i);
        assert_true(strlen(af_reason_finding((enum af_reason_id)i)) > 10);
    }
}

static void test_caches__a_wheel_built_for_this_python_is_reported(void **state)
{
    (void)state;
    const char *const here =
        "\"python\": {\"version\": \"3.12.4\"}, \"cached_wheels\": [{\"tool\": \"uv\", "
        "\"path\": \"/c/flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl\"}]";
    assert_string_equal(found(here), "stale-cached-wheel");
    release(NULL);
    assert_string_equal(
        found("\"python\": {\"version\": \"3.12.4\"}, \"cached_wheels\": [{\"tool\": \"uv\", "
              "\"path\": \"/c/flash_attn-2.8.3-cp311-cp311-linux_x86_64.whl\"}]"),
        "");
}

static void test_rocm__flash_kernels_of_rdna_need_a_variable(void **state)
{
    (void)state;
#define RDNA(sm)                                                                               \
    "\"torch\": {\"version\": \"2.8.0+rocm6.4\", \"hip\": \"6.4\"}, "                          \
    "\"gpus\": [{\"vendor\": \"amd\", \"sm\": \"" sm "\"}]"
    assert_non_null(strstr(found(RDNA("gfx1100")), "rocm-experimental-off"));
    release(NULL);
    assert_null(strstr(found(RDNA("gfx942")), "rocm-experimental-off"));
    release(NULL);
    assert_null(strstr(
        found(RDNA("gfx1201") ", " VARIABLE("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1")),
        "rocm-experimental-off"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules__find_what_they_are_for_and_nothing_else),
        cmocka_unit_test_teardown(test_rules__say_where_they_read, release),
        cmocka_unit_test_teardown(test_next__a_broken_driver_comes_before_the_plan, release),
        cmocka_unit_test_teardown(test_next__a_good_install_needs_nothing, release),
        cmocka_unit_test_teardown(test_next__a_bad_install_leads_to_the_plan, release),
        cmocka_unit_test_teardown(test_caches__a_wheel_built_for_this_python_is_reported,
                                  release),
        cmocka_unit_test_teardown(test_rocm__flash_kernels_of_rdna_need_a_variable, release),
        cmocka_unit_test(test_causes__have_unique_ids_and_texts),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
