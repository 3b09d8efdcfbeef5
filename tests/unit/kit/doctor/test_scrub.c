/*
 * test_scrub.c: what a bug report must not contain is removed, and the rest stays as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kit/doctor/scrub.h"

static struct af_arena arena;

static const struct af_scrub_names names = {"anna", "node17", "/data/people/anna"};

static const char *scrubbed(const char *text)
{
    return af_scrub_text(&arena, (struct af_span){text, strlen(text)}, &names);
}

static void test_scrub__removes_private_words(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"https://bob:pa55@pip.example/simple", "https://[credentials]@pip.example/simple"},
        {"https://ghp_abcdefghij0123456789@github.example/x",
         "https://[credentials]@github.example/x"},
        {"HF_TOKEN=hf_abcdEFGHijkl0123456789", "HF_TOKEN=[token]"},
        {"HF_TOKEN=abc", "HF_TOKEN=[secret]"},
        {"\"password\": \"hunter2\", x", "\"password\": \"[secret]\", x"},
        {"Authorization: Bearer abcdefghijklmnop0", "Authorization: Bearer [secret]"},
        {"/home/bob.smith/x/y.py", "/home/[user]/x/y.py"},
        {"C:\\Users\\Bob\\AppData", "C:\\Users\\[user]\\AppData"},
        {"/data/people/anna/venv", "[home]/venv"},
        {"anna's file on node17.", "[user]'s file on [host]."},
        {"(base) bob@gpu-3:~/x$ pip", "(base) [user]@[host]:~/x$ pip"},
        {"mail bob.smith@example.org now", "mail [e-mail] now"},
        {"proxy http://10.1.2.3:3128/", "proxy http://[address]:3128/"},
        {"http://pypi.team.internal/simple", "http://[host]/simple"},
        {"http://wheels:8080/", "http://[host]:8080/"},
        {"GPU-12345678-abcd-ef01-2345-6789abcdef01", "GPU-[uuid]"},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++)
        assert_string_equal(scrubbed(cases[i][0]), cases[i][1]);
}

static void test_scrub__leaves_facts(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        "nvidia-cublas-cu12==12.8.4.1 nvidia-curand-cu12 10.3.9.90",
        "git clone git@github.com:Dao-AILab/flash-attention",
        "flash-attn @ https://github.com/x/y.whl#sha256=0123456789abcdef0123456789abcdef",
        "connect to 127.0.0.1:3128 and http://localhost:8080/ failed",
        "undefined symbol: _ZN3c104cuda9SetDeviceEi",
        "max_tokens=4096 tokenizer: fast, numpy@1.26, annabel, 2026-11-22 17:08:27",
        "ImportError: /usr/lib/x.so: version `GLIBC_2.32' not found (required by /opt/y.so)",
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++)
        assert_string_equal(scrubbed(cases[i]), cases[i]);
}

static void test_scrub__long_runs_take_linear_time(void **state)
{
    (void)state;
    static const char *const parts[] = {"=", "a.", "://", "token=", "x@", "-", "\"", "/home/"};
    size_t size_bytes = 1u << 18;
    char *text = af_arena_alloc(&arena, size_bytes);
    for (size_t i = 0; i < AF_COUNT(parts); i++) {
        size_t len = strlen(parts[i]);
        for (size_t at = 0; at + len <= size_bytes; at += len)
            memcpy(text + at, parts[i], len);
        assert_non_null(af_scrub_text(&arena, (struct af_span){text, size_bytes}, &names));
    }
}

static int release(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_scrub__removes_private_words, release),
        cmocka_unit_test_teardown(test_scrub__leaves_facts, release),
        cmocka_unit_test_teardown(test_scrub__long_runs_take_linear_time, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
