/*
 * platform_tags.h: names of processors, and the platform tags that a Linux interpreter
 * accepts.
 */
#ifndef AF_KIT_FORMATS_PLATFORM_TAGS_H
#define AF_KIT_FORMATS_PLATFORM_TAGS_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/*
 * The tags of a Linux interpreter on `arch` ("x86_64") linked to `libc` ("glibc" or
 * "musl") of `libc_version` ("2.36"), best first, in the order of the packaging library
 * (PEP 600, PEP 656, legacy manylinux names). A version that is not "MAJOR.MINOR" gives
 * only "linux_ARCH", as packaging does for an unknown libc. NULL when memory runs out.
 */
const char *const *af_platform_tags_linux(struct af_arena *arena, const char *arch,
                                          const char *libc, const char *libc_version,
                                          size_t *count_out);

/*
 * Bytes of the name of a processor at the start of `text`, in any case; 0: none. *arch_out is
 * Linux's name for it, a constant: "x86_64" for "AMD64".
 */
size_t af_platform_arch_at(const char *text, const char **arch_out);

/* Parses the first two numbers of "2.36" or "2.36.1"; false for anything else. */
bool af_platform_libc_parse(const char *text, int *major_out, int *minor_out);

#endif
