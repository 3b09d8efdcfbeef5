/*
 * project_wheels.h: which published wheels serve what a project pins, on usual machines: a
 * recent driver, a GPU of compute capability 8.0, and glibc 2.35 on Linux.
 */
#ifndef AF_KIT_PROJECT_PROJECT_WHEELS_H
#define AF_KIT_PROJECT_PROJECT_WHEELS_H

#include "kit/catalog/catalog.h"

#define AF_PROJECT_PYTHONS_MAX 16

/* Where a project runs. macOS is one: no processor of it has wheels. */
enum af_project_platform {
    AF_PROJECT_LINUX_X86_64,
    AF_PROJECT_LINUX_AARCH64,
    AF_PROJECT_WINDOWS,
    AF_PROJECT_MACOS,
    AF_PROJECT_PLATFORM_COUNT
};

/* "Linux on x86_64". */
const char *af_project_platform_name(enum af_project_platform platform);

/* Whether a requirement with this marker can apply on it. */
bool af_project_platform_admits(enum af_project_platform platform, const char *marker);

/* Whether `text` is pixi's name for it ("linux-64"), or a classifier of PyPI names it. */
bool af_project_platform_is_pixi(enum af_project_platform platform, const char *text);
bool af_project_platform_is_classified(enum af_project_platform platform, const char *text);

/* Whether a wheel with this platform tag can be installed on it. */
bool af_project_platform_takes(enum af_project_platform platform, const char *tag);

/* Versions that install together. */
struct af_project_pins {
    const char *flash;  /* "2.8.3"; NULL: any */
    const char *torch;  /* "2.9.1" or "2.9.1+cu128" */
    unsigned platforms; /* bits 1 << enum af_project_platform, on which they install */
    bool is_built; /* by flash-attn's setup.py, which downloads flash-attn's own wheels alone */
};

#define AF_PROJECT_ON(platform) (1u << (platform))

/* Minor versions of Python 3, ascending. */
struct af_project_pythons {
    int minors[AF_PROJECT_PYTHONS_MAX];
    size_t count;
};

/*
 * The Pythons for which this torch is published and which satisfy `range`, as requires-python
 * writes it ("": any). None if the release is unknown.
 */
void af_project_pythons_of(const char *torch, const char *range,
                           struct af_project_pythons *pythons_out);

/*
 * The newest release of torch that satisfies `specifier` and came out before the wheels of the
 * catalog were listed; NULL: none.
 */
const char *af_project_newest_torch(const struct af_catalog *catalog, const char *specifier);

/* The build that `torch` names ("2.6.0+cu118") or that pip gets on Linux; NULL: unknown. */
const struct af_catalog_torch_variant *af_project_usual_build(const char *torch);

#define AF_PROJECT_LOOKUPS_MAX 1000u
#define AF_PROJECT_BUCKETS 1024u

/*
 * The answers of the functions below, which are kept: a lookup takes about a millisecond. Set
 * catalog and arena first.
 */
struct af_project_wheels {
    const struct af_catalog *catalog;
    struct af_arena *arena;
    struct af_project_wheel_answer *buckets[AF_PROJECT_BUCKETS];
    size_t lookup_count;
    bool is_full; /* AF_PROJECT_LOOKUPS_MAX was reached, and an answer below is not right */
};

/* The best wheel for these versions and this Python on Linux with x86_64; NULL: none. */
const struct af_catalog_wheel *af_project_wheel(struct af_project_wheels *wheels,
                                                const struct af_project_pins *pins,
                                                int python_minor);

/*
 * Whether the catalog can know all wheels for these pins: neither release is newer than it.
 */
bool af_project_pins_are_known(const struct af_catalog *catalog,
                               const struct af_project_pins *pins);

/* Reduces `pythons` to those for which there is a wheel on each of the platforms. */
void af_project_pythons_with_wheel(struct af_project_wheels *wheels,
                                   const struct af_project_pins *pins,
                                   struct af_project_pythons *pythons);

/* Whether there are wheels for every Python in `range`; if it is "", for at least one. */
bool af_project_have_wheels(struct af_project_wheels *wheels,
                            const struct af_project_pins *pins, const char *range);

/*
 * Changes the pins to the nearest ones that have wheels, and that the Python index has. They
 * must have one for every Python that is in `range` and for which torch is published; if
 * `range` is "", for at least one.
 * With a `torch_range` only torch changes, within that range. Without one (NULL) torch is
 * pinned: first other releases of flash-attn are tried, newer ones before older ones, then
 * other releases of torch. False if there are none.
 */
bool af_project_nearest_pins(struct af_project_wheels *wheels, const char *torch_range,
                             const char *range, struct af_project_pins *pins);

#endif
