/*
 * test_version.c: version.h against tests/data/versions.tsv, which the
 * packaging library wrote, and against our own limits.
 */
#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIELD_MAX 4
#define ROWS_MAX 512
#define ORDER_MAX 256
#define AGAINST_MAX 32

struct row {
    char *fields[FIELD_MAX];
    int count;
};

struct table {
    struct af_arena arena;
    struct row *rows;
    size_t count;
};

/* Undoes backslash t, n, s and backslash in place. */
static char *unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        char c = *from;
        if (c == '\\') {
            from++;
            c = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from == 's' ? ' ' : '\\';
        }
        *to++ = c;
    }
    *to = '\0';
    return text;
}

static struct row split(struct af_arena *arena, struct af_span line)
{
    struct row row = {{0}, 0};
    char *at = af_arena_text_n(arena, line.data, line.len);
    while (at != NULL && row.count < FIELD_MAX) {
        char *tab = strchr(at, '\t');
        if (tab != NULL)
            *tab++ = '\0';
        row.fields[row.count++] = unescape(at);
        at = tab;
    }
    return row;
}

static int load(void **state)
{
    static struct table table;
    struct af_span rest, line;
    af_arena_init(&table.arena);
    if (af_file_read(&table.arena, AF_TEST_DATA "/data/versions.tsv", 1 << 20, &rest, NULL) !=
        ANYFLASH_OK)
        return -1;
    table.rows = af_arena_array(&table.arena, ROWS_MAX, sizeof *table.rows);
    while (af_text_line(&rest, &line) && table.count < ROWS_MAX)
        if (line.data[0] != '#')
            table.rows[table.count++] = split(&table.arena, line);
    *state = &table;
    return table.count < 300 ? -1 : 0;
}

static int unload(void **state)
{
    af_arena_release(&((struct table *)*state)->arena);
    return 0;
}

static struct af_version parsed(const char *text)
{
    struct af_version version;
    if (!af_version_parse(text, strlen(text), &version))
        fail_msg("'%s' was not taken", text);
    return version;
}

static void test_version__normal_form_is_that_of_packaging(void **state)
{
    const struct table *table = *state;
    for (size_t i = 0; i < table->count; i++) {
        char *const *fields = table->rows[i].fields;
        if (strcmp(fields[0], "valid") != 0)
            continue;
        char shown[256];
        struct af_version version = parsed(fields[1]);
        assert_string_equal(af_version_format(&version, true, shown, sizeof shown), fields[2]);
        assert_int_equal(af_version_is_prerelease(&version), fields[3][0] == '1');
    }
}

static void test_version__refuses_what_packaging_refuses(void **state)
{
    const struct table *table = *state;
    for (size_t i = 0; i < table->count; i++) {
        struct af_version version;
        char *const *fields = table->rows[i].fields;
        if (strcmp(fields[0], "invalid") == 0 &&
            af_version_parse(fields[1], strlen(fields[1]), &version))
            fail_msg("'%s' was taken", fields[1]);
    }
}

static void test_version__order_is_that_of_packaging(void **state)
{
    const struct table *table = *state;
    static struct af_version versions[ORDER_MAX];
    static int ranks[ORDER_MAX];
    size_t count = 0;
    for (size_t i = 0; i < table->count && count < ORDER_MAX; i++) {
        if (strcmp(table->rows[i].fields[0], "order") != 0)
            continue;
        ranks[count] = (int)strtol(table->rows[i].fields[1], NULL, 10);
        versions[count++] = parsed(table->rows[i].fields[2]);
    }
    assert_true(count > 60);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            int order = af_version_compare(&versions[i], &versions[k]);
            assert_int_equal((order > 0) - (order < 0),
                             (ranks[i] > ranks[k]) - (ranks[i] < ranks[k]));
        }
    }
}

static char letter_of(enum af_answer answer)
{
    return answer == AF_YES ? 'y' : answer == AF_NO ? 'n' : '?';
}

static void test_specifier__answers_are_those_of_packaging(void **state)
{
    const struct table *table = *state;
    static struct af_version versions[AGAINST_MAX];
    char answers[AGAINST_MAX + 1] = "";
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        char *const *fields = table->rows[i].fields;
        if (strcmp(fields[0], "against") == 0 && count < AGAINST_MAX)
            versions[count++] = parsed(fields[1]);
        if (strcmp(fields[0], "specifier") != 0)
            continue;
        for (size_t k = 0; k < count; k++)
            answers[k] = letter_of(af_specifier_contains(fields[1], &versions[k]));
        if (strcmp(answers, fields[2]) != 0)
            fail_msg("'%s': %s, packaging: %s", fields[1], answers, fields[2]);
    }
    assert_int_equal(count, AGAINST_MAX);
}

static void test_version__refuses_numbers_and_texts_without_end(void **state)
{
    struct af_version version;
    char text[400];
    (void)state;
    memset(text, '9', sizeof text);
    assert_false(af_version_parse(text, sizeof text, &version));
    memcpy(text, "1.0+", 4);
    assert_false(af_version_parse(text, sizeof text, &version));
    assert_false(af_version_parse("1.2.3.4.5.6.7.8.9", 17, &version));
}

static void test_version__reads_no_further_than_its_length(void **state)
{
    struct af_version version;
    (void)state;
    assert_true(af_version_parse("2.8.31", 5, &version));
    assert_int_equal(version.release[2], 3);
    assert_false(af_version_parse("2.8\0003", 5, &version));
    assert_false(af_version_parse("", 0, &version));
}

static void test_version__format_cuts_at_the_end_of_the_buffer(void **state)
{
    char shown[6];
    (void)state;
    struct af_version version = parsed("2.8.3+cu12");
    assert_string_equal(af_version_format(&version, true, shown, sizeof shown), "2.8.3");
    assert_string_equal(af_version_format(&version, false, shown, 3), "2.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version__normal_form_is_that_of_packaging),
        cmocka_unit_test(test_version__refuses_what_packaging_refuses),
        cmocka_unit_test(test_version__order_is_that_of_packaging),
        cmocka_unit_test(test_specifier__answers_are_those_of_packaging),
        cmocka_unit_test(test_version__refuses_numbers_and_texts_without_end),
        cmocka_unit_test(test_version__reads_no_further_than_its_length),
        cmocka_unit_test(test_version__format_cuts_at_the_end_of_the_buffer),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
