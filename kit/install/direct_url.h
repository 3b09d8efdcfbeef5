/*
 * direct_url.h: where an installed package came from. Private to this room.
 */
#ifndef AF_KIT_INSTALL_DIRECT_URL_H
#define AF_KIT_INSTALL_DIRECT_URL_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/*
 * Records in the dist-info of `package` in the folder of packages `site` that it came from
 * `url`, as pip does (PEP 610); installers record the path of our copy, which is removed. `url`
 * NULL: records nothing. Does nothing if the package is not there.
 */
enum anyflash_status af_installed_origin_write(struct af_arena *arena, const char *site,
                                               const char *package, const char *url,
                                               const char *sha256, struct anyflash_error *err);

#endif
