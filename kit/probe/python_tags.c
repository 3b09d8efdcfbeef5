/*
 * python_tags.c: the platform tags of wheels that an interpreter loads, from
 * its binary's machine and C library.
 */
#include "kit/machine/platform_tags.h"
#include "kit/probe/elf_file.h"
#include "kit/probe/environment.h"
#include "kit/probe/libc.h"

static const char *machine_of(const struct af_probe *probe, const char *program,
                              struct anyflash_error *err)
{
    struct af_probe_elf elf;
    if (af_probe_elf_open(probe, program, &elf, err) != ANYFLASH_OK)
        return NULL;
    const char *name = af_elf_machine_name(&elf.dynamic.elf);
    af_probe_elf_close(&elf);
    if (name == NULL)
        af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' is for another kind of machine", program);
    return name;
}

void af_probe_platform_tags_probe(const struct af_probe *probe, const char *program)
{
    struct af_fact *fact = &probe->machine->python.platform_tags;
    struct anyflash_error err = {0};
    struct af_libc libc;
    int major;
    int minor;
    const char *arch = machine_of(probe, program, &err);
    if (arch == NULL) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        return;
    }
    af_libc_of_program(probe, program, &libc);
    if (!af_machine_libc_version_parse(libc.version, &major, &minor)) {
        af_fact_unknown(probe->arena, fact, "%s",
                        libc.problem == NULL ? "the C library's version is odd" : libc.problem);
        return;
    }
    af_platform_tags_linux(probe->arena, fact, arch, libc.kind, libc.version, libc.source);
}
