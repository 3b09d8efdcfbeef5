/*
 * project_wheels.h: which published wheels serve what a project pins, on a usual machine: Linux
 * on x86_64 with glibc 2.35, a recent driver and a GPU of compute capability 8.0.
 */
#ifndef AF_KIT_PROJECT_PROJECT_WHEELS_H
#define AF_KIT_PROJECT_PROJECT_WHEELS_H

#include "kit/catalog/catalog.h"

#define AF_PROJECT_PYTHONS_MAX 16

/* Versions that install together. */
struct af_project_pins {
    const char *flash; /* "2.8.3"; NULL: any */
    const char *torch; /* "2.9.1" or "2.9.1+cu128" */
};

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

/*
 * The best wheel for these versions and this Python; *wheel_out is NULL if there is none. Fails
 * with NO_MEMORY.
 */
enum anyflash_status af_project_wheel(const struct af_catalog *catalog,
                                      const struct af_project_pins *pins, int python_minor,
                                      const struct af_catalog_wheel **wheel_out,
                                      struct anyflash_error *err);

/*
 * Whether the catalog can know all wheels for these pins: neither release is newer than it.
 */
bool af_project_pins_are_known(const struct af_catalog *catalog,
                               const struct af_project_pins *pins);

/*
 * Reduces `pythons` to those for which there is a wheel. Fails with NO_MEMORY.
 */
enum anyflash_status af_project_pythons_with_wheel(const struct af_catalog *catalog,
                                                   const struct af_project_pins *pins,
                                                   struct af_project_pythons *pythons,
                                                   struct anyflash_error *err);

/*
 * The nearest pins that have wheels for all Pythons of `range` that torch is for, or for any of
 * them if `range` is "". If `torch_range` is NULL, torch is pinned: another flash-attn, newer
 * ones first, else another torch. If not, another torch of that range for the same flash-attn.
 * Members are NULL if there are none. Fails with NO_MEMORY.
 */
enum anyflash_status af_project_nearest_pins(const struct af_catalog *catalog,
                                             const struct af_project_pins *pins,
                                             const char *torch_range, const char *range,
                                             struct af_project_pins *nearest_out,
                                             struct anyflash_error *err);

#endif
