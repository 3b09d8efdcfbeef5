/*
 * test_safetensors.c: tensors found by name, and what is refused.
 */
#include "kit/formats/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define FILE_BYTES 1024

static struct af_span make(char *file, const char *head, size_t data_len)
{
    size_t len = strlen(head);
    memset(file, 0, FILE_BYTES);
    file[0] = (char)(len & 0xff);
    file[1] = (char)(len >> 8);
    memcpy(file + 8, head, len);
    return (struct af_span){file, 8 + len + data_len};
}

#define TWO                                                                                    \
    "{\"__metadata__\": {\"format\": \"pt\"},"                                                 \
    "\"q\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]},"               \
    "\"k\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [24, 32]}}"

static void test_safetensors__finds_a_tensor_by_name(void **state)
{
    (void)state;
    char file[FILE_BYTES];
    struct af_npy_array array;
    struct af_span bytes = make(file, TWO, 32);
    assert_true(af_safetensors_is(bytes));
    assert_int_equal(af_safetensors_read(bytes, "x", "k", &array, NULL), ANYFLASH_OK);
    assert_int_equal(array.element, AF_ELEMENT_BF16);
    assert_int_equal(array.dim_count, 1);
    assert_int_equal(array.dims[0], 4);
    assert_int_equal(array.len, 8);
    assert_ptr_equal(array.data, bytes.data + bytes.len - 8);
}

static void test_safetensors__says_which_tensors_are_there(void **state)
{
    (void)state;
    char file[FILE_BYTES];
    struct af_npy_array array;
    struct anyflash_error err = {0};
    struct af_span bytes = make(file, TWO, 32);
    assert_int_equal(af_safetensors_read(bytes, "x", "v", &array, &err), ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no tensor 'v'; it has q, k"));
}

static void refuse(const char *entry, enum anyflash_status expected)
{
    char file[FILE_BYTES], head[512];
    struct af_npy_array array;
    snprintf(head, sizeof head, "{\"q\": %s}", entry);
    assert_int_equal(af_safetensors_read(make(file, head, 24), "x", "q", &array, NULL),
                     expected);
}

static void test_safetensors__refuses_entries_that_do_not_agree(void **state)
{
    (void)state;
    refuse("{\"dtype\": \"F64\", \"shape\": [3], \"data_offsets\": [0, 24]}",
           ANYFLASH_E_UNSUPPORTED);
    refuse("{\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 20]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [4, 28]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [24, 0]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [-24, 0]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": \"F32\", \"shape\": [-2, -3], \"data_offsets\": [0, 24]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": \"F32\", \"shape\": [1152921504606846976, 4], "
           "\"data_offsets\": [0, 0]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": \"F32\", \"shape\": [2.5], \"data_offsets\": [0, 24]}",
           ANYFLASH_E_DATA);
    refuse("{\"dtype\": 3, \"shape\": [6], \"data_offsets\": [0, 24]}", ANYFLASH_E_DATA);
    refuse("[]", ANYFLASH_E_DATA);
    refuse("null", ANYFLASH_E_DATA);
}

static void test_safetensors__refuses_broken_heads(void **state)
{
    char file[FILE_BYTES];
    struct af_npy_array array;
    (void)state;
    assert_int_equal(af_safetensors_read(make(file, "[1]", 0), "x", "q", &array, NULL),
                     ANYFLASH_E_DATA);
    assert_int_equal(af_safetensors_read(make(file, "{", 0), "x", "q", &array, NULL),
                     ANYFLASH_E_DATA);
    memset(file, 0xff, 8);
    assert_int_equal(
        af_safetensors_read((struct af_span){file, FILE_BYTES}, "x", "q", &array, NULL),
        ANYFLASH_E_DATA);
}

static void test_safetensors__is_cut_short_at_every_length_but_its_own(void **state)
{
    (void)state;
    char file[FILE_BYTES];
    struct af_span whole = make(file, TWO, 32);
    for (size_t len = 0; len < whole.len; len++) {
        struct af_npy_array array;
        assert_int_equal(
            af_safetensors_read((struct af_span){file, len}, "x", "k", &array, NULL),
            ANYFLASH_E_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors__finds_a_tensor_by_name),
        cmocka_unit_test(test_safetensors__says_which_tensors_are_there),
        cmocka_unit_test(test_safetensors__refuses_entries_that_do_not_agree),
        cmocka_unit_test(test_safetensors__refuses_broken_heads),
        cmocka_unit_test(test_safetensors__is_cut_short_at_every_length_but_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
