/* libc.h: which C library a program is linked to. Private to this module. */
#ifndef AF_KIT_PROBE_LIBC_H
#define AF_KIT_PROBE_LIBC_H

#include "kit/probe/probes.h"

/* Texts are in the probe's arena. */
struct af_libc {
    const char *kind;    /* "glibc" or "musl", or NULL */
    const char *version; /* "2.36", "1.2.4", or NULL */
    const char *source;  /* the file it was read from; never NULL */
    const char *problem; /* why kind or version is NULL; NULL if both are known */
};

/* Follows PT_INTERP of `program` to its C library and reads its version. */
void af_libc_of_program(const struct af_probe *probe, const char *program,
                        struct af_libc *libc_out);

#endif
