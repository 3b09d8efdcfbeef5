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
        {"HF_TOKEN=hf_abcdEFGHijkl0123456789", "HF_TOKEN=[secret]"},
        {"HF_TOKEN=abc", "HF_TOKEN=[secret]"},
        {"\"password\": \"hunter2\", x", "\"password\": \"[secret]\", x"},
        {"Authorization: Bearer abcdefghijklmnop0", "Authorization: [secret]"},
        {"/home/bob.smith/x/y.py", "/home/[user]/x/y.py"},
        {"C:\\Users\\Bob\\AppData", "C:\\Users\\[user]\\AppData"},
        {"/data/people/anna/venv", "[home]/venv"},
        {"anna's file on node17.", "[user]'s file on [host]."},
        {"(base) bob@gpu-3:~/x$ pip", "(base) [user]@[host]:~/x$ pip"},
        {"mail bob.smith@example.org now", "mail [e-mail] now"},
        {"proxy http://10.1.2.3:3128/", "proxy http://[address]:3128/"},
        {"http://pypi.team.internal/simple", "http://[host]/simple"},
        {"http://wheels:8080/", "http://[host]:8080/"},
        {"--token hf_abcdefghijKLMNOPqrst x", "--token [secret] x"},
        {"token is hf_abcdefghijKLMNOPqrst.", "token is [token]"},
        {"SECRET_KEY=abc", "SECRET_KEY=[secret]"},
        {"AccountKey=a+b/c==;x", "AccountKey=[secret]"},
        {"run --password x y", "run --password [secret] y"},
        {"machine h login bob password x", "machine h login bob password [secret]"},
        {"Authorization: Basic YTpi", "Authorization: [secret]"},
        {"curl -H 'Cookie: a=1; b=2' x", "curl -H 'Cookie: [secret]' x"},
        {"password=a;b c", "password=[secret] c"},
        {"password = \"a b\" c", "password = \"[secret]\" c"},
        {"{\"apiKey\": \"a\\\"b\"}", "{\"apiKey\": \"[secret]\"}"},
        {"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx",
         "[secret]\nx"},
        {"AIzaSyAbcdefghijklmnopqrstuvw", "[token]"},
        {"sk_live_abcdefghijklmnopqrst", "[token]"},
        {"xapp-1-A0000000000-abcdefghij", "[token]"},
        {"ghr_abcdefghijklmnopqrstuvwx", "[token]"},
        {"https://h.example/x.whl?X-Amz-Signature=0a&sig=b#sha256=1",
         "https://h.example/x.whl?[query]#sha256=1"},
        {"inet 10.1.2.3 up", "inet [address] up"},
        {"host=192.168.7.9", "host=[address]"},
        {"fe80::1ff:fe23:4567:890a and 2001:db8::1", "[address] and [address]"},
        {"ether 0a:1b:2c:3d:4e:5f", "ether [address]"},
        {"node17.cluster.example.org said", "[host] said"},
        {"/scratch/bob/x", "/scratch/[user]/x"},
        {"/lustre/users/bob/x", "/lustre/users/[user]/x"},
        {"USER=bob", "USER=[user]"},
        {"C:\\Users\\Ana Maria\\x y", "C:\\Users\\[user]\\x y"},
        {"C:\\\\Users\\\\u\\\\x", "C:\\\\Users\\\\[user]\\\\x"},
        {"/home/\xc3\xbcnal/x /home/jos\xc3\xa9/x", "/home/[user]/x /home/[user]/x"},
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
        "key: 3, KeyError: 'x', pass: 3, sort by user: yes, pip install --user x",
        "c10::cuda::x at::a 17:08:27 0000:3b:00.0 580.95.05 (3.12.4)",
        "{\"version\": \"12.8.4.1\"} expected signature: f(int)",
        "import hf_transfer_of_something_long sk-learn-contrib-package-x",
        "what? no query: https://h.example/x and then?",
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
