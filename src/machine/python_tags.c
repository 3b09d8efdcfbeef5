/*
 * python_tags.c: the platform tags of wheels that an interpreter loads, from
 * its binary's machine and C library.
 *
 * Source: _linux_platforms() of packaging 26.3 with its modules _manylinux
 * (PEP 600) and _musllinux (PEP 656): linux_ first, then one tag for every
 * minor version down to the oldest, old names after the minor they stand for.
 */
#include "base/text.h"
#include "formats/elf.h"
#include "machine/environment.h"
#include "machine/libc.h"

#include <stdio.h>
#include <string.h>

#define TAGS_MAX 256u

struct tags {
    struct af_arena *arena;
    const char *items[TAGS_MAX];
    size_t count;
};

static void add(struct tags *tags, const char *tag)
{
    if (tag != NULL && tags->count < TAGS_MAX)
        tags->items[tags->count++] = tag;
}

static const char *legacy_name(int minor)
{
    return minor == 17 ? "manylinux2014" : minor == 12 ? "manylinux2010" : "manylinux1";
}

static bool is_x86(const char *arch)
{
    return strcmp(arch, "x86_64") == 0 || strcmp(arch, "i686") == 0;
}

static void add_manylinux(struct tags *tags, int minor, const char *arch)
{
    int oldest = is_x86(arch) ? 5 : 17;
    for (int m = minor; m >= oldest; m--) {
        add(tags, af_arena_format(tags->arena, "manylinux_2_%d_%s", m, arch));
        if (m == 17 || m == 12 || m == 5)
            add(tags, af_arena_format(tags->arena, "%s_%s", legacy_name(m), arch));
    }
}

static const char *machine_of(const char *program, struct anyflash_error *err)
{
    struct af_elf elf;
    if (af_elf_open(program, &elf, err) != ANYFLASH_OK)
        return NULL;
    const char *name = af_elf_machine_name(&elf);
    af_elf_close(&elf);
    if (name == NULL)
        af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' is for another kind of machine", program);
    return name;
}

void af_platform_tags_probe(const struct af_probe *probe, const char *program)
{
    struct af_fact *fact = &probe->machine->python.platform_tags;
    struct anyflash_error err = {0};
    struct tags tags = {.arena = probe->arena};
    struct af_libc libc;
    int major = 0;
    int minor = 0;
    const char *arch = machine_of(program, &err);
    if (arch == NULL) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        return;
    }
    af_libc_of_program(probe, program, &libc);
    if (libc.version == NULL || sscanf(libc.version, "%3d.%3d", &major, &minor) != 2) {
        af_fact_unknown(probe->arena, fact, "%s",
                        libc.problem == NULL ? "the C library's version is odd" : libc.problem);
        return;
    }
    add(&tags, af_arena_format(probe->arena, "linux_%s", arch));
    if (strcmp(libc.kind, "musl") == 0) {
        for (int m = minor; m >= 0 && m <= 100; m--)
            add(&tags, af_arena_format(probe->arena, "musllinux_%d_%d_%s", major, m, arch));
    } else if (major == 2) {
        add_manylinux(&tags, minor, arch);
    }
    af_fact_list(probe->arena, fact, tags.items, tags.count, libc.source);
}
