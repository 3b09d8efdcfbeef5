/*
 * machine_place.h: a folder that serves as the root of a machine, and a probe
 * that reads it. For the tests of the probes.
 */
#ifndef AF_TEST_MACHINE_PLACE_H
#define AF_TEST_MACHINE_PLACE_H

#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "tests/unit/own_folder.h"

#define PLACE_VARIABLES_MAX 16
#define PLACE_ELF AF_TEST_DATA "/unit/kit/probe/elf/"
#define PLACE_SITE "/venv/lib/python3.12/site-packages"
#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)

struct place {
    char root[OWN_FOLDER_BYTES];
    struct af_arena arena;
    struct af_machine machine;
    struct af_probe_options options;
    char *environment[PLACE_VARIABLES_MAX + 1];
    size_t environment_count;
    struct af_probe probe;
};

/* Forgets all facts. */
static void place_reset(struct place *place)
{
    af_machine_release(&place->machine);
    af_machine_init(&place->machine, "place", "not looked at");
    place->probe = (struct af_probe){&place->machine, &place->machine.arena, &place->options};
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (!own_folder_make(place->root))
        return -1;
    af_arena_init(&place->arena);
    place->options = (struct af_probe_options){.folder = place->root,
                                               .root = place->root,
                                               .environment = place->environment,
                                               .gpu_limit_ms = 20000};
    af_json_start();
    place_reset(place);
    *state = place;
    return 0;
}

static int place_remove_one(const char *path, const struct stat *facts, int type,
                            struct FTW *place)
{
    (void)facts;
    (void)place;
    if (type == FTW_DNR)
        chmod(path, 0700);
    return remove(path);
}

static int place_remove(void **state)
{
    struct place *place = *state;
    nftw(place->root, place_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    af_machine_release(&place->machine);
    af_arena_release(&place->arena);
    free(place);
    return 0;
}

/* The path under the root; creates its folders. */
static const char *place_path(struct place *place, const char *path)
{
    char *full = af_arena_format(&place->arena, "%s%s", place->root, path);
    for (char *at = full + strlen(place->root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        if (mkdir(full, 0755) != 0 && errno != EEXIST)
            abort();
        *at = '/';
    }
    return full;
}

static inline const char *place_put_n(struct place *place, const char *path,
                                      const char *content, size_t len)
{
    const char *full = place_path(place, path);
    FILE *file = fopen(full, "w");
    if (file == NULL || fwrite(content, 1, len, file) != len)
        abort();
    fclose(file);
    return full;
}

static inline const char *place_put(struct place *place, const char *path, const char *content)
{
    return place_put_n(place, path, content, strlen(content));
}

static inline void place_put_program(struct place *place, const char *path, const char *content)
{
    chmod(place_put(place, path, content), 0755);
}

/* "NAME=value" into the probe's environment; the text is borrowed. */
static inline void place_set(struct place *place, const char *text)
{
    if (place->environment_count == PLACE_VARIABLES_MAX)
        abort();
    place->environment[place->environment_count++] = af_arena_text(&place->arena, text);
}

/* A copy of the ELF file `name` of tests/unit/kit/probe/elf. */
static inline void place_elf(struct place *place, const char *path, const char *name)
{
    struct af_span content;
    const char *source = af_arena_format(&place->arena, PLACE_ELF "%s", name);
    assert_int_equal(af_file_read(&place->arena, source, 1u << 20, &content, NULL),
                     ANYFLASH_OK);
    chmod(place_put_n(place, path, content.data, content.len), 0755);
}

/* A link; absolute targets are paths under the root. */
static inline void place_link(struct place *place, const char *path, const char *target)
{
    const char *full =
        af_arena_format(&place->arena, "%s%s", target[0] == '/' ? place->root : "", target);
    assert_int_equal(symlink(full, place_path(place, path)), 0);
}

/* Sets the environment and its package folder, as the Python probe would. */
static inline void place_site(struct place *place)
{
    struct af_arena *arena = &place->machine.arena;
    const char *site = place_path(place, PLACE_SITE);
    af_fact_list(arena, &place->machine.python.site_packages, &site, 1, "test");
    af_fact_text(arena, &place->machine.python.prefix, place_path(place, "/venv"), "test");
}

static inline void assert_fact(const struct af_fact *fact, const char *text)
{
    if (fact->state != AF_FACT_KNOWN)
        fail_msg("not known: %s", fact->source);
    assert_string_equal(fact->value.text, text);
}

/* Known, and the text ends in `end` (so that the root does not matter). */
static inline void assert_fact_ends(const struct af_fact *fact, const char *end)
{
    assert_int_equal(fact->state, AF_FACT_KNOWN);
    if (!af_ends_with(fact->value.text, end))
        assert_string_equal(fact->value.text, end);
}

/* Unknown, and the reason names `what`. */
static inline void assert_unknown(const struct af_fact *fact, const char *what)
{
    assert_int_equal(fact->state, AF_FACT_UNKNOWN);
    if (strstr(fact->source, what) == NULL)
        assert_string_equal(fact->source, what);
}

#endif
