/*
 * fake.h: a machine in a temporary folder for tests of the probes: files,
 * links, variables, and a probe that sees nothing else. Paths are absolute
 * paths on that machine ("/usr/bin/python3").
 */
#ifndef AF_TESTS_FAKE_H
#define AF_TESTS_FAKE_H

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/own_folder.h"

#define FAKE_ELF AF_TEST_DATA "/unit/kit/probe/elf/"
#define FAKE_SITE "/venv/lib/python3.12/site-packages"
#define FAKE_VARIABLES 8

struct fake {
    char root[OWN_FOLDER_BYTES];
    char folder[OWN_FOLDER_BYTES + 32];
    char texts[FAKE_VARIABLES][256];
    char *environment[FAKE_VARIABLES + 1];
    size_t variable_count;
    struct af_machine machine;
    struct af_probe_options options;
    struct af_probe probe;
};

#define FAKE_HELPER static __attribute__((unused))

FAKE_HELPER void fake_probe_reset(struct fake *fake)
{
    af_machine_release(&fake->machine);
    af_machine_init(&fake->machine, "fake", "not looked at");
    fake->probe = (struct af_probe){&fake->machine, &fake->machine.arena, &fake->options};
}

FAKE_HELPER void fake_start(struct fake *fake)
{
    memset(fake, 0, sizeof *fake);
    assert_true(own_folder_make(fake->root));
    snprintf(fake->folder, sizeof fake->folder, "%s/u/me/project", fake->root);
    fake->options = (struct af_probe_options){
        .root = fake->root, .folder = fake->folder, .environment = fake->environment};
    af_json_start();
    fake_probe_reset(fake);
}

FAKE_HELPER int fake_remove(const char *path, const struct stat *facts, int kind,
                            struct FTW *place)
{
    (void)facts;
    (void)place;
    if (kind == FTW_DNR)
        chmod(path, 0700);
    return remove(path);
}

FAKE_HELPER void fake_end(struct fake *fake)
{
    af_machine_release(&fake->machine);
    nftw(fake->root, fake_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* The real path of `path`, with its parent folders made. */
FAKE_HELPER const char *fake_place(struct fake *fake, const char *path, char buffer[1024])
{
    snprintf(buffer, 1024, "%s%s", fake->root, path);
    for (char *slash = buffer + strlen(fake->root) + 1; (slash = strchr(slash, '/')) != NULL;) {
        *slash = '\0';
        mkdir(buffer, 0755);
        *slash++ = '/';
    }
    return buffer;
}

FAKE_HELPER void fake_bytes(struct fake *fake, const char *path, const void *bytes, size_t len)
{
    char place[1024];
    FILE *file = fopen(fake_place(fake, path, place), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
    chmod(place, 0755);
}

FAKE_HELPER void fake_file(struct fake *fake, const char *path, const char *text)
{
    fake_bytes(fake, path, text, strlen(text));
}

/* A copy of the ELF file `name` of tests/unit/kit/probe/elf. */
FAKE_HELPER void fake_elf(struct fake *fake, const char *path, const char *name)
{
    struct af_arena arena;
    struct af_span content;
    char source[1024];
    af_arena_init(&arena);
    snprintf(source, sizeof source, FAKE_ELF "%s", name);
    assert_int_equal(af_file_read(&arena, source, 1u << 20, &content, NULL), ANYFLASH_OK);
    fake_bytes(fake, path, content.data, content.len);
    af_arena_release(&arena);
}

/* A link; absolute targets are paths on the fake machine. */
FAKE_HELPER void fake_link(struct fake *fake, const char *path, const char *target)
{
    char place[1024];
    char full[1024];
    snprintf(full, sizeof full, "%s%s", target[0] == '/' ? fake->root : "", target);
    assert_int_equal(symlink(full, fake_place(fake, path, place)), 0);
}

FAKE_HELPER void fake_variable(struct fake *fake, const char *text)
{
    char *place = fake->texts[fake->variable_count];
    snprintf(place, sizeof fake->texts[0], "%s", text);
    fake->environment[fake->variable_count++] = place;
}

/* Sets the environment and its package folder, as the Python probe would. */
FAKE_HELPER void fake_site(struct fake *fake)
{
    char path[1024];
    snprintf(path, sizeof path, "%s%s", fake->root, FAKE_SITE);
    const char *items[] = {path};
    af_fact_list(&fake->machine.arena, &fake->machine.python.site_packages, items, 1, "test");
    snprintf(path, sizeof path, "%s/venv", fake->root);
    af_fact_text(&fake->machine.arena, &fake->machine.python.prefix, path, "test");
}

/* Known, and the text ends in `end` (so that the fake root does not matter). */
#define assert_fact_ends(fact, end)                                                            \
    do {                                                                                       \
        assert_int_equal((fact).state, AF_FACT_KNOWN);                                         \
        if (!af_ends_with((fact).value.text, end))                                             \
            assert_string_equal((fact).value.text, end);                                       \
    } while (0)

#define assert_fact(fact, expected)                                                            \
    do {                                                                                       \
        assert_int_equal((fact).state, AF_FACT_KNOWN);                                         \
        assert_string_equal((fact).value.text, expected);                                      \
    } while (0)

/* Unknown, and the reason names `what`. */
#define assert_unknown(fact, what)                                                             \
    do {                                                                                       \
        assert_int_equal((fact).state, AF_FACT_UNKNOWN);                                       \
        if (strstr((fact).source, what) == NULL)                                               \
            assert_string_equal((fact).source, what);                                          \
    } while (0)

#endif
