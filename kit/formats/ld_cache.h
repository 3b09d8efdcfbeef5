/*
 * ld_cache.h: lookups in /etc/ld.so.cache: which file the loader takes for the
 * name of a library. Pure: bytes in, borrowed texts out.
 *
 * Source: glibc, sysdeps/generic/dl-cache.h (struct cache_file_new), with the
 * old format in front of it where an old ldconfig wrote the file.
 */
#ifndef AF_KIT_FORMATS_LD_CACHE_H
#define AF_KIT_FORMATS_LD_CACHE_H

#include "engine/base/base.h"

/*
 * The path that `cache` holds for the library `name` of ELF machine `machine`
 * (enum af_elf_machine), plain builds before those for newer processors; NULL when
 * there is none or the cache is damaged.
 */
const char *af_ld_cache_find(struct af_span cache, unsigned machine, const char *name);

#endif
