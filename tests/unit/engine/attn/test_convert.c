/*
 * test_convert.c: conversion to and from 16 and 8 bits for all bit patterns,
 * and Philox against its authors' known answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/oracle/dropout.h"

#include "sample.h"

static void test_f16__all_numbers_survive_the_way_there_and_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float number = af_f32_of_f16((uint16_t)bits);
        bool nan = (bits & 0x7fffu) > 0x7c00u;
        assert_int_equal(isnan(number) != 0, nan);
        assert_int_equal(af_f16_of_f32(number), nan ? bits | 0x200u : bits);
    }
}

static void test_f16__known_values(void **state)
{
    (void)state;
    assert_true(af_f32_of_f16(0x3c00) == 1.0f);
    assert_true(af_f32_of_f16(0xc000) == -2.0f);
    assert_true(af_f32_of_f16(0x7bff) == 65504.0f);
    assert_true(af_f32_of_f16(0x0001) == 0x1p-24f);
    assert_true(af_f32_of_f16(0x0400) == 0x1p-14f);
    assert_true(af_f32_of_f16(0xfc00) == -INFINITY);
}

/* A float halfway between two neighbours is rounded to the even one, others to the nearest. */
static void test_f16__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t bits = 0; bits < 0x7c00; bits++) {
        float low = af_f32_of_f16(bits);
        float high = bits == 0x7bff ? 65536.0f : af_f32_of_f16((uint16_t)(bits + 1));
        float middle = low + (high - low) / 2;
        uint16_t even = bits % 2 == 0 ? bits : (uint16_t)(bits + 1);
        assert_int_equal(af_f16_of_f32(middle), even);
        assert_int_equal(af_f16_of_f32(nextafterf(middle, 0)), bits);
        assert_int_equal(af_f16_of_f32(nextafterf(middle, INFINITY)), bits + 1);
        assert_int_equal(af_f16_of_f32(-middle), even | 0x8000);
    }
    assert_int_equal(af_f16_of_f32(3e38f), 0x7c00);
    assert_int_equal(af_f16_of_f32(1e-30f), 0);
}

static void test_bf16__all_numbers_survive_the_way_there_and_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float number = af_f32_of_bf16((uint16_t)bits);
        bool nan = (bits & 0x7fffu) > 0x7f80u;
        assert_int_equal(isnan(number) != 0, nan);
        assert_int_equal(af_bf16_of_f32(number), nan ? bits | 0x40u : bits);
    }
}

static void test_bf16__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x7f80u; bits++) {
        uint32_t middle = bits << 16 | 0x8000u;
        assert_int_equal(af_bf16_of_f32(af_f32_of_bits(middle)), bits + bits % 2);
        assert_int_equal(af_bf16_of_f32(af_f32_of_bits(middle - 1)), bits);
        assert_int_equal(af_bf16_of_f32(af_f32_of_bits(middle + 1)), bits + 1);
    }
    /* A NaN whose payload lies in the lower half stays a NaN. */
    assert_int_equal(af_bf16_of_f32(af_f32_of_bits(0x7f800001u)), 0x7fc0);
}

static const int32_t f8s[] = {ANYFLASH_F8_E4M3, ANYFLASH_F8_E5M2};

static void test_f8__all_numbers_survive_the_way_there_and_back(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 512; n++) {
        const uint8_t bits = (uint8_t)n;
        const float number = af_f32_of_f8(f8s[n / 256], bits);
        const bool nan = (bits & 0x7fu) > (n < 256 ? 0x7eu : 0x7cu);
        assert_int_equal(isnan(number) != 0, nan);
        assert_int_equal(af_f8_of_f32(f8s[n / 256], number), nan ? bits | 0x7f : bits);
    }
}

static void test_f8__known_values(void **state)
{
    (void)state;
    assert_true(af_f32_of_f8(ANYFLASH_F8_E4M3, 0x38) == 1.0f);
    assert_true(af_f32_of_f8(ANYFLASH_F8_E4M3, 0x7e) == 448.0f);
    assert_true(af_f32_of_f8(ANYFLASH_F8_E4M3, 0x81) == -0x1p-9f);
    assert_true(af_f32_of_f8(ANYFLASH_F8_E5M2, 0x3c) == 1.0f);
    assert_true(af_f32_of_f8(ANYFLASH_F8_E5M2, 0xfb) == -57344.0f);
    assert_true(af_f32_of_f8(ANYFLASH_F8_E5M2, 0xfc) == -INFINITY);
    assert_int_equal(af_f8_of_f32(ANYFLASH_F8_E4M3, 1e9f), 0x7e);
    assert_int_equal(af_f8_of_f32(ANYFLASH_F8_E4M3, -INFINITY), 0xff);
    assert_int_equal(af_f8_of_f32(ANYFLASH_F8_E5M2, 1e9f), 0x7b);
    assert_int_equal(af_f8_of_f32(ANYFLASH_F8_E5M2, INFINITY), 0x7c);
}

static void test_f8__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 256; n++) {
        const int32_t dtype = f8s[n / 128];
        const uint8_t bits = n % 128, largest = n < 128 ? 0x7e : 0x7b;
        if (bits >= largest)
            continue;
        const float low = af_f32_of_f8(dtype, bits), high = af_f32_of_f8(dtype, bits + 1);
        const float middle = low + (high - low) / 2;
        assert_int_equal(af_f8_of_f32(dtype, middle), bits + bits % 2);
        assert_int_equal(af_f8_of_f32(dtype, nextafterf(middle, 0)), bits);
        assert_int_equal(af_f8_of_f32(dtype, nextafterf(middle, INFINITY)), bits + 1);
        assert_int_equal(af_f8_of_f32(dtype, -middle), (bits + bits % 2) | 0x80);
    }
}

/* From the known-answer file of the authors' library, Random123. */
static void test_philox__known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t n = 0; n < AF_COUNT(rows); n++) {
        uint32_t counter[4];
        memcpy(counter, rows[n].counter, sizeof counter);
        af_philox(counter, rows[n].key[0], rows[n].key[1]);
        assert_memory_equal(counter, rows[n].words, sizeof counter);
    }
}

static void test_dropout__threshold_is_the_probability_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(af_dropout_threshold(0.5f), 0x80000000u);
    assert_int_equal(af_dropout_threshold(0x1p-32f), 1);
    assert_int_equal(af_dropout_threshold(0x1p-33f), 1);
    assert_int_equal(af_dropout_threshold(1 - 0x1p-24f), 0xffffff00u);
}

static void test_dropout__factors_are_those_of_single_elements(void **state)
{
    (void)state;
    static struct sample s;
    sample_init(&s, 2, 3, 1, 2, 2, 1, 1);
    s.a.dropout = 0.25f;
    s.a.dropout_seed = (uint64_t)5 << 40 | 7;
    s.a.dropout_offset = (uint64_t)3 << 35 | 9;
    struct af_problem problem = sample_problem(&s.a);
    struct af_sequence sequence = af_problem_sequence(&problem, 1);
    for (int64_t begin = 0; begin < 9; begin++) {
        float factors[200];
        af_dropout_factors(&problem, &sequence, 2, 1, begin, AF_COUNT(factors), factors);
        for (int64_t n = 0; n < (int64_t)AF_COUNT(factors); n++) {
            bool keeps = af_dropout_keeps(&problem, &sequence, 2, 1, begin + n);
            assert_true(factors[n] == (keeps ? 1 / (1 - s.a.dropout) : 0));
        }
    }
}

static void test_dropout__depends_on_all_of_position_seed_and_offset(void **state)
{
    (void)state;
    static struct sample s;
    sample_init(&s, 2, 3, 1, 2, 2, 1, 1);
    s.a.dropout = 0.5f;
    s.a.dropout_seed = 11;
    struct af_problem problem = sample_problem(&s.a), other = problem;
    struct af_sequence first = af_problem_sequence(&problem, 0);
    struct af_sequence second = af_problem_sequence(&problem, 1);
    uint64_t bits[7] = {0};
    for (int64_t j = 0; j < 64; j++) {
        other = problem;
        bits[0] = bits[0] << 1 | af_dropout_keeps(&problem, &first, 0, 0, j);
        bits[1] = bits[1] << 1 | af_dropout_keeps(&problem, &second, 0, 0, j);
        bits[2] = bits[2] << 1 | af_dropout_keeps(&problem, &first, 1, 0, j);
        bits[3] = bits[3] << 1 | af_dropout_keeps(&problem, &first, 0, 1, j);
        other.a.dropout_seed = (uint64_t)11 | (uint64_t)1 << 32;
        bits[4] = bits[4] << 1 | af_dropout_keeps(&other, &first, 0, 0, j);
        other.a.dropout_seed = 11;
        other.a.dropout_offset = 1;
        bits[5] = bits[5] << 1 | af_dropout_keeps(&other, &first, 0, 0, j);
        other.a.dropout_offset = (uint64_t)2 << 32;
        bits[6] = bits[6] << 1 | af_dropout_keeps(&other, &first, 0, 0, j);
    }
    for (size_t m = 0; m < AF_COUNT(bits); m++) {
        for (size_t n = 0; n < m; n++)
            assert_true(bits[m] != bits[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16__all_numbers_survive_the_way_there_and_back),
        cmocka_unit_test(test_f16__known_values),
        cmocka_unit_test(test_f16__rounds_to_nearest_even),
        cmocka_unit_test(test_bf16__all_numbers_survive_the_way_there_and_back),
        cmocka_unit_test(test_bf16__rounds_to_nearest_even),
        cmocka_unit_test(test_f8__all_numbers_survive_the_way_there_and_back),
        cmocka_unit_test(test_f8__known_values),
        cmocka_unit_test(test_f8__rounds_to_nearest_even),
        cmocka_unit_test(test_philox__known_answers),
        cmocka_unit_test(test_dropout__threshold_is_the_probability_rounded_up),
        cmocka_unit_test(test_dropout__factors_are_those_of_single_elements),
        cmocka_unit_test(test_dropout__depends_on_all_of_position_seed_and_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
