/*
 * test_npy.c: headers of .npy files as NumPy writes them, and what is rejected.
 */
#include "kit/formats/npy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define FILE_BYTES 1024

/* A file of `version` with the dictionary `head` and `data_len` bytes of data. */
static struct af_span make(char *file, int version, const char *head, size_t data_len)
{
    size_t len = strlen(head), length_bytes = version == 1 ? 2 : 4;
    memset(file, 0, FILE_BYTES);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)version;
    file[8] = (char)(len & 0xff);
    file[9] = (char)(len >> 8);
    memcpy(file + 8 + length_bytes, head, len);
    return (struct af_span){file, 8 + length_bytes + len + data_len};
}

static enum anyflash_status read_head(const char *head, size_t data_len,
                                      struct af_npy_array *array)
{
    char file[FILE_BYTES];
    return af_npy_read(make(file, 1, head, data_len), "x.npy", array, NULL);
}

#define HEAD(descr, shape)                                                                     \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }   \n"

static void test_npy__reads_versions_1_to_3(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++) {
        char file[FILE_BYTES];
        struct af_npy_array array;
        struct af_span bytes = make(file, version, HEAD("<f4", "(2, 3)"), 24);
        assert_int_equal(af_npy_read(bytes, "x.npy", &array, NULL), ANYFLASH_OK);
        assert_int_equal(array.element, AF_NPY_F32);
        assert_int_equal(array.dim_count, 2);
        assert_int_equal(array.dims[0], 2);
        assert_int_equal(array.dims[1], 3);
        assert_int_equal(array.len, 24);
        assert_ptr_equal(array.data, bytes.data + bytes.len - 24);
    }
}

static void test_npy__reads_16_bit_types(void **state)
{
    (void)state;
    struct af_npy_array array;
    assert_int_equal(read_head(HEAD("<f2", "(4,)"), 8, &array), ANYFLASH_OK);
    assert_int_equal(array.element, AF_NPY_F16);
    assert_int_equal(read_head(HEAD("<V2", "(4,)"), 8, &array), ANYFLASH_OK);
    assert_int_equal(array.element, AF_NPY_RAW16);
    assert_int_equal(read_head(HEAD("<u2", "()"), 2, &array), ANYFLASH_OK);
    assert_int_equal(array.element, AF_NPY_RAW16);
    assert_int_equal(array.dim_count, 0);
}

static void test_npy__refuses_other_types_orders_and_versions(void **state)
{
    (void)state;
    struct af_npy_array array;
    char file[FILE_BYTES];
    assert_int_equal(read_head(HEAD("<f8", "(1,)"), 8, &array), ANYFLASH_E_UNSUPPORTED);
    assert_int_equal(read_head(HEAD(">f4", "(1,)"), 8, &array), ANYFLASH_E_UNSUPPORTED);
    assert_int_equal(
        read_head("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16, &array),
        ANYFLASH_E_UNSUPPORTED);
    assert_int_equal(af_npy_read(make(file, 4, HEAD("<f4", "(1,)"), 4), "x", &array, NULL),
                     ANYFLASH_E_UNSUPPORTED);
}

static void test_npy__refuses_what_numpy_does_not_write(void **state)
{
    static const char *const heads[] = {
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000, 4000000000000)}",
    };
    struct af_npy_array array;
    (void)state;
    for (size_t i = 0; i < AF_COUNT(heads); i++)
        assert_int_equal(read_head(heads[i], 64, &array), ANYFLASH_E_DATA);
}

static void test_npy__is_cut_short_at_every_length_but_its_own(void **state)
{
    (void)state;
    char file[FILE_BYTES];
    struct af_span whole = make(file, 1, HEAD("<f4", "(2, 3)"), 24);
    for (size_t len = 0; len < whole.len; len++) {
        struct af_npy_array array;
        assert_int_equal(af_npy_read((struct af_span){file, len}, "x", &array, NULL),
                         ANYFLASH_E_DATA);
    }
}

static void test_npy__an_array_without_elements_needs_no_bytes(void **state)
{
    (void)state;
    struct af_npy_array array;
    assert_int_equal(read_head(HEAD("<f4", "(4000000000000, 0, 4000000000000)"), 0, &array),
                     ANYFLASH_OK);
    assert_int_equal(array.len, 0);
}

static void test_npy__reads_the_head_that_it_writes(void **state)
{
    (void)state;
    char file[FILE_BYTES] = {0};
    struct af_npy_array array = {.element = AF_NPY_BF16, .dim_count = 4, .dims = {1, 2, 3, 4}};
    struct af_npy_array back;
    size_t len = af_npy_head(&array, file);
    assert_int_equal(len % 64, 0);
    assert_int_equal(af_npy_read((struct af_span){file, len + 48}, "x", &back, NULL),
                     ANYFLASH_OK);
    assert_int_equal(back.element, AF_NPY_RAW16);
    assert_memory_equal(back.dims, array.dims, sizeof array.dims);
    for (size_t i = 0; i < AF_NPY_DIMS_MAX; i++)
        array.dims[i] = INT64_MAX;
    array.dim_count = AF_NPY_DIMS_MAX;
    assert_true(af_npy_head(&array, file) <= AF_NPY_WRITTEN_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy__reads_versions_1_to_3),
        cmocka_unit_test(test_npy__reads_16_bit_types),
        cmocka_unit_test(test_npy__refuses_other_types_orders_and_versions),
        cmocka_unit_test(test_npy__refuses_what_numpy_does_not_write),
        cmocka_unit_test(test_npy__is_cut_short_at_every_length_but_its_own),
        cmocka_unit_test(test_npy__an_array_without_elements_needs_no_bytes),
        cmocka_unit_test(test_npy__reads_the_head_that_it_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
