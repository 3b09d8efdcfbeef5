/*
 * product.h: whether the Python package anyflash can be installed by its name.
 */
#ifndef AF_KIT_BASE_PRODUCT_H
#define AF_KIT_BASE_PRODUCT_H

#include <stdbool.h>

/*
 * Whether the package index has anyflash, under the name that is ours. Until then nobody may be
 * told to install, require or import it by name: whoever registers the name there could run
 * code at everybody who does. Set by the CMake option ANYFLASH_PUBLISHED.
 */
bool af_product_is_published(void);

#endif
