/*
 * cmocka.h: the part of cmocka that the engine's tests use, for builds for
 * other architectures, where the library is missing. The first failure ends the
 * program.
 */
#ifndef AF_TEST_CROSS_CMOCKA_H
#define AF_TEST_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
};

#define cmocka_unit_test(test)                                                                 \
    {                                                                                          \
#test, test                                                                            \
    }

#define fail_msg(...)                                                                          \
    (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__),             \
     fputc('\n', stderr), exit(1))

#define print_message printf
static jmp_buf cross_skipped;
#define skip() longjmp(cross_skipped, 1)

#define assert_true(condition)                                                                 \
    do {                                                                                       \
        if (!(condition))                                                                      \
            fail_msg("not true: %s", #condition);                                              \
    } while (0)

#define assert_false(condition) assert_true(!(condition))
#define assert_null(pointer) assert_true((pointer) == NULL)
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_ptr_equal(a, b) assert_true((a) == (b))
#define assert_string_equal(a, b) assert_true(strcmp((a), (b)) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp((a), (b), (bytes)) == 0)

#define assert_int_equal(a, b)                                                                 \
    do {                                                                                       \
        long long cross_a = (long long)(a), cross_b = (long long)(b);                          \
        if (cross_a != cross_b)                                                                \
            fail_msg("%s is %lld, not %lld", #a, cross_a, cross_b);                            \
    } while (0)

static inline const char *cross_run_one(void (*test)(void **state), void **state)
{
    if (setjmp(cross_skipped) != 0)
        return "skipped";
    test(state);
    return "ok";
}

/* Runs the tests in order. Returns 0; a failure exits the program before that. */
static inline int cross_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **),
                            int (*teardown)(void **))
{
    void *state = NULL;
    if (setup != NULL && setup(&state) != 0)
        fail_msg("set-up");
    for (size_t n = 0; n < count; n++) {
        printf("%s: %s\n", cross_run_one(tests[n].test, &state), tests[n].name);
        fflush(stdout);
    }
    return teardown != NULL ? teardown(&state) : 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                         \
    cross_run(tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)

#endif
