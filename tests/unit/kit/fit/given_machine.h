/*
 * given_machine.h: makes machines from key=value words, and loads the embedded
 * catalog, for tests of decisions.
 */
#ifndef AF_TEST_GIVEN_MACHINE_H
#define AF_TEST_GIVEN_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/fit/fit.h"

#include <string.h>

/* The embedded catalog, between load_catalog() and release_catalog(). */
static struct af_catalog catalog;

/* Set-up of a group of tests. */
static inline int load_catalog(void **state)
{
    (void)state;
    return af_catalog_load_embedded(&catalog, NULL) == ANYFLASH_OK ? 0 : -1;
}

static inline int release_catalog(void **state)
{
    (void)state;
    af_catalog_release(&catalog);
    return 0;
}

/* Applies words separated by blanks; fails the test if one is not understood. */
static inline void machine_of(struct af_machine *machine, const char *words)
{
    struct anyflash_error err;
    const char *remark;
    af_machine_init(machine, "test", "not said");
    while (*words != '\0') {
        char word[128];
        size_t len = strcspn(words, " ");
        assert_true(len < sizeof word);
        memcpy(word, words, len);
        word[len] = '\0';
        if (af_machine_given(machine, word, &remark, &err) != ANYFLASH_OK)
            fail_msg("%s: %s", word, err.message);
        words += len + strspn(words + len, " ");
    }
}

static inline const struct af_catalog_wheel *wheel_named(const char *filename)
{
    for (size_t i = 0; i < catalog.count; i++) {
        if (strcmp(catalog.wheels[i].filename, filename) == 0)
            return &catalog.wheels[i];
    }
    fail_msg("the catalog has no %s", filename);
    return NULL;
}

static inline bool rung_has(const struct af_rung *rung, enum af_reason_id id)
{
    for (size_t i = 0; i < rung->reason_count; i++) {
        if (rung->reasons[i].id == id)
            return true;
    }
    return false;
}

#endif
