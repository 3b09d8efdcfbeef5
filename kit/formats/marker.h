/*
 * marker.h: environment markers: for which systems a requirement is meant.
 *
 * Source: "Dependency specifiers" (PEP 508) of the Python packaging user guide.
 */
#ifndef AF_KIT_FORMATS_MARKER_H
#define AF_KIT_FORMATS_MARKER_H

#include "engine/base/base.h"

/* What markers ask about; NULL is not known. */
struct af_marker_environment {
    const char *python_full_version;            /* "3.12.4"; python_version follows from it */
    const char *os_name;                        /* "posix" */
    const char *sys_platform;                   /* "linux" */
    const char *platform_system;                /* "Linux" */
    const char *platform_machine;               /* "x86_64" */
    const char *implementation_name;            /* "cpython" */
    const char *platform_python_implementation; /* "CPython" */
    const char *extra;                          /* "" outside of extras */
};

/*
 * Whether the requirement of this marker is meant there; "" always is. UNKNOWN
 * where it asks for what is not known, or is no marker. Depth and length are
 * bounded; nothing is allocated.
 */
enum af_answer af_marker_holds(struct af_span marker,
                               const struct af_marker_environment *environment);

#endif
