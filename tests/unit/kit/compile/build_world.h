/*
 * build_world.h: a folder, a machine with a system toolkit, and a build there.
 */
#ifndef BUILD_WORLD_H
#define BUILD_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/compile/build_steps.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "tests/unit/every_allocation.h"
#include "tests/unit/own_folder.h"

struct world {
    char folder[OWN_FOLDER_BYTES]; /* also the cache */
    struct af_machine machine;
    struct af_arena arena;
    struct af_build build;
    struct af_build_place place;
    struct anyflash_error err;
};

static inline void world_set(struct world *world, struct af_fact *fact, const char *text)
{
    af_fact_text(&world->machine.arena, fact, text, "test");
}

static inline void world_rows(struct world *world)
{
    struct af_machine *machine = &world->machine;
    struct af_toolkit *toolkit =
        af_machine_row_add(machine, offsetof(struct af_machine, toolkits), "not said");
    world_set(world, &toolkit->version, "13.0");
    world_set(world, &toolkit->root, "/usr/local/cuda-13.0");
    world_set(world, &toolkit->nvcc, "/usr/local/cuda-13.0/bin/nvcc");
    af_fact_bool(&machine->arena, &toolkit->torch_takes_it, true, "test");
    struct af_compiler *compiler =
        af_machine_row_add(machine, offsetof(struct af_machine, compilers), "not said");
    world_set(world, &compiler->path, "/usr/bin/g++");
    world_set(world, &compiler->version, "12.2.0");
}

static inline void world_begin(struct world *world)
{
    struct af_machine *machine = &world->machine;
    memset(world, 0, sizeof *world);
    assert_true(own_folder_make(world->folder));
    assert_int_equal(setenv("ANYFLASH_CACHE", world->folder, 1), 0);
    af_machine_init(machine, "test", "not said");
    af_arena_init(&world->arena);
    world_set(world, &machine->platform.os, "linux");
    world_set(world, &machine->platform.arch, "x86_64");
    world_rows(world);
    world->build =
        (struct af_build){.machine = machine, .arena = &world->arena, .version = "2.8.3.post2"};
    af_selection_all(&world->build.selection);
    af_selection_add_arch(&world->build.selection, 90);
    assert_int_equal(af_build_find_place(&world->build, &world->place, &world->err),
                     ANYFLASH_OK);
}

static inline void world_end(struct world *world)
{
    assert_int_equal(af_folder_remove(world->folder, NULL), ANYFLASH_OK);
    af_arena_release(&world->arena);
    af_machine_release(&world->machine);
}

/* A file below the world's folder, with the folders above it. */
static inline const char *world_put(struct world *world, const char *name, const char *text)
{
    char *path = af_arena_format(&world->arena, "%s/%s", world->folder, name);
    char *slash = path == NULL ? NULL : strrchr(path, '/');
    assert_non_null(slash);
    *slash = '\0';
    assert_int_equal(af_folder_make(path, 0755, NULL), ANYFLASH_OK);
    *slash = '/';
    assert_int_equal(af_file_write_text(&world->arena, path, text, NULL), ANYFLASH_OK);
    return path;
}

static inline const char *world_text(struct world *world, const char *path)
{
    struct af_span text;
    if (af_file_read(&world->arena, path, 1u << 20, &text, NULL) != ANYFLASH_OK)
        return NULL;
    return af_arena_text_n(&world->arena, text.data, text.len);
}

/*
 * Runs `step` with each of its allocations failing in turn: it must return
 * NO_MEMORY each time, and succeed when none fails.
 */
static inline void world_starve(struct world *world,
                                enum anyflash_status (*step)(struct world *world))
{
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        struct af_arena own;
        af_arena_init(&own);
        world->build.arena = &own;
        every_allocation_begin(&each);
        enum anyflash_status status = step(world);
        every_allocation_end(&each);
        world->build.arena = &world->arena;
        af_arena_release(&own);
        every_allocation_check(&each, status, &world->err);
    }
}

#endif
