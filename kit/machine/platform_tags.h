/*
 * platform_tags.h: names of processors, and the platform tags that a Linux interpreter
 * accepts.
 */
#ifndef AF_KIT_MACHINE_PLATFORM_TAGS_H
#define AF_KIT_MACHINE_PLATFORM_TAGS_H

#include "kit/machine/machine.h"

/*
 * Sets *fact to the tags of a Linux interpreter on `arch` ("x86_64") linked to
 * `libc` ("glibc" or "musl") of `libc_version` ("2.36"), best first, in the
 * order of the packaging library (PEP 600, PEP 656, legacy manylinux names). A
 * version that is not "MAJOR.MINOR" gives only "linux_ARCH", as packaging does
 * for an unknown libc. `source` as in af_fact_list().
 */
void af_platform_tags_linux(struct af_arena *arena, struct af_fact *fact, const char *arch,
                            const char *libc, const char *libc_version, const char *source);

/*
 * Bytes of the name of a processor at the start of `text`, in any case; 0: none. *arch_out is
 * Linux's name for it, a constant: "x86_64" for "AMD64".
 */
size_t af_machine_arch_at(const char *text, const char **arch_out);

/* Parses the first two numbers of "2.36" or "2.36.1"; false for anything else. */
bool af_machine_libc_version_parse(const char *text, int *major_out, int *minor_out);

#endif
