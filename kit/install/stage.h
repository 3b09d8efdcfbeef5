/*
 * stage.h: lets uv or pip unpack packages into a folder of ours, in the layout of
 * the environment, without touching anything else. Private to install.c and fetch.c.
 */
#ifndef AF_KIT_INSTALL_STAGE_H
#define AF_KIT_INSTALL_STAGE_H

#include "kit/answer/plan.h"
#include "kit/install/install.h"

struct af_stage {
    struct af_run *run;
    const char *python; /* of the environment */
    bool uv;
    const char *root;  /* a folder of ours; must exist */
    const char *fresh; /* the site folder in it; set once something was unpacked */
};

/*
 * Unpacks the wheel of `package` at `path`, whose SHA-256 uv and pip compare, without
 * dependencies, network or configuration files. `cache` is an empty folder for uv's own copies.
 * Fails with NOT_FOUND (no uv, no pip), DATA (uv or pip failed; `progress` reports the last
 * lines of its output), TIMEOUT (interrupted), IO.
 */
enum anyflash_status af_stage_file(struct af_stage *stage, const char *package,
                                   const char *path, const char *sha256, const char *cache,
                                   struct anyflash_error *err);

/*
 * Unpacks requirements without their dependencies: through the user's own index
 * configuration, or with `from` only from files in that folder.
 */
enum anyflash_status af_stage_requirements(struct af_stage *stage,
                                           const char *const *requirements, size_t count,
                                           const char *torch_backend, const char *from,
                                           struct anyflash_error *err);

/*
 * The packages that uv or pip would install for the requirements and their dependencies, given
 * what is installed: "name==version" each.
 */
enum anyflash_status af_stage_resolve(struct af_stage *stage, const char *const *requirements,
                                      size_t count, const char *torch_backend,
                                      const char *const **found_out, size_t *found_count_out,
                                      struct anyflash_error *err);

/*
 * The address and hash of the wheel that uv or pip would choose for one requirement;
 * only pure Python wheels ("-none-any.whl") are accepted.
 */
enum anyflash_status af_stage_locate(struct af_stage *stage, const char *requirement,
                                     struct af_step_wheel *wheel_out,
                                     struct anyflash_error *err);

/*
 * Finds the site folder (stage->fresh) and compares every distribution in it with
 * its RECORD. Fails with DATA. In stage_check.c.
 */
enum anyflash_status af_stage_check(struct af_stage *stage, struct anyflash_error *err);

#endif
