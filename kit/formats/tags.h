/*
 * tags.h: which wheel tags an interpreter accepts, in installer order; names of processors, and
 * the platform tags that a Linux interpreter accepts.
 *
 * Source: the packaging library's tags module, release 26.3 (PEP 425, PEP 600,
 * PEP 656, PEP 803), for CPython with platform tags of Linux, macOS and Windows
 * given by the caller. Tags are compared without case; every function is pure
 * and thread-safe.
 */
#ifndef AF_KIT_FORMATS_TAGS_H
#define AF_KIT_FORMATS_TAGS_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/* The inputs that decide the tags. Texts and lists are borrowed. */
struct af_interpreter {
    int major;
    int minor;
    bool free_threaded; /* 3.13t: abi cp313t; abi3t instead of abi3 */
    bool debug;
    const char *const *platform_tags; /* best first, as python.platform_tags */
    size_t platform_count;
};

/*
 * Whether the interpreter accepts any pair of the Python and ABI tags, or any of the
 * platform tags: two functions, so that messages can say which field is wrong. Each
 * may be a compressed set ("py2.py3"). The platform "any" is always accepted.
 */
bool af_tags_python_accepted(const struct af_interpreter *interpreter, const char *python_tags,
                             const char *abi_tags);
bool af_tags_platform_accepted(const struct af_interpreter *interpreter,
                               const char *platform_tags);

/* All tags "cp312-cp312-linux_x86_64" in order, in the arena. */
enum anyflash_status af_tags_list(const struct af_interpreter *interpreter,
                                  struct af_arena *arena, const char ***tags_out,
                                  size_t *count_out, struct anyflash_error *err);

/*
 * The tags of a Linux interpreter on `arch` ("x86_64") linked to `libc` ("glibc" or
 * "musl") of `libc_version` ("2.36"), best first, in the order of the packaging library
 * (PEP 600, PEP 656, legacy manylinux names). A version that is not "MAJOR.MINOR" gives
 * only "linux_ARCH", as packaging does for an unknown libc.
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
