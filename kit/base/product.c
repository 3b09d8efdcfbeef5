/*
 * product.c: what the build says about the package index.
 */
#include "kit/base/product.h"

bool af_product_is_published(void)
{
#ifdef AF_PUBLISHED
    return true;
#else
    return false;
#endif
}
