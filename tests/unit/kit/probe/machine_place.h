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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/own_folder.h"

#define PLACE_VARIABLES_MAX 16

struct place {
    char root[OWN_FOLDER_BYTES];
    struct af_arena arena;
    struct af_machine machine;
    struct af_probe_options options;
    char *environment[PLACE_VARIABLES_MAX + 1];
    size_t environment_count;
    struct af_probe probe;
};

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (!own_folder_make(place->root))
        return -1;
    af_arena_init(&place->arena);
    af_machine_init(&place->machine, "place", "not looked at");
    place->options = (struct af_probe_options){.folder = place->root,
                                               .root = place->root,
                                               .environment = place->environment,
                                               .gpu_limit_ms = 20000};
    place->probe = (struct af_probe){&place->machine, &place->machine.arena, &place->options};
    *state = place;
    return 0;
}

static int place_remove_one(const char *path, const struct stat *facts, int type,
                            struct FTW *place)
{
    (void)facts;
    (void)type;
    (void)place;
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

#endif
