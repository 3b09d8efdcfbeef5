/*
 * marker.h: environment markers: the systems to which a requirement applies.
 *
 * Source: "Dependency specifiers" (PEP 508) of the Python packaging user guide.
 */
#ifndef AF_KIT_FORMATS_MARKER_H
#define AF_KIT_FORMATS_MARKER_H

#include "engine/base/base.h"

/* Values of the marker variables; NULL: unknown. */
struct af_marker_environment {
    const char *python_full_version; /* "3.12.4"; python_version is derived from it */
    const char *os_name;             /* "posix" */
    const char *sys_platform;        /* "linux" */
    const char *platform_system;     /* "Linux" */
    const char *platform_machine;    /* "x86_64" */
    const char *implementation_name; /* "cpython" */
    const char *platform_python_implementation; /* "CPython" */
    const char *extra;                          /* "" outside of extras */
};

/*
 * Whether a requirement with this marker applies; an empty marker always does.
 * UNKNOWN if it depends on an unknown value or cannot be parsed. Depth and
 * length are bounded; nothing is allocated.
 */
enum af_answer af_marker_holds(struct af_span marker,
                               const struct af_marker_environment *environment);

#endif
