/*
 * test_embedded.c: damaged embedded data.
 */
#include "kit/formats/embedded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

static unsigned char packed[1024];

static struct af_embedded pack(const char *text)
{
    size_t len = ZSTD_compress(packed, sizeof packed, text, strlen(text), 1);
    assert_false(ZSTD_isError(len));
    return (struct af_embedded){packed, len};
}

static void test_embedded__damaged_bytes_are_an_internal_error(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_span bytes;
    struct af_embedded table =
        pack("some text that is long enough to be compressed, text text text");
    af_arena_init(&arena);
    table.len--;
    assert_int_equal(af_embedded_open(&table, &arena, &bytes, NULL), ANYFLASH_E_INTERNAL);
    table.len = 3;
    assert_int_equal(af_embedded_open(&table, &arena, &bytes, NULL), ANYFLASH_E_INTERNAL);
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedded__damaged_bytes_are_an_internal_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
