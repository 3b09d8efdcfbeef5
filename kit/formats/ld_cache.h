/*
 * ld_cache.h: lookups in /etc/ld.so.cache: which file the loader finds for a
 * library name. Bytes in, borrowed texts out; no I/O.
 *
 * Source: glibc, sysdeps/generic/dl-cache.h (struct cache_file_new), preceded by
 * the old format if an old ldconfig wrote the file.
 */
#ifndef AF_KIT_FORMATS_LD_CACHE_H
#define AF_KIT_FORMATS_LD_CACHE_H

#include "engine/base/base.h"

/*
 * The path that `cache` has for the library `name` and ELF machine `machine`
 * (enum af_elf_machine). Baseline builds come before those for newer processors.
 * NULL when there is none or the cache is damaged.
 */
const char *af_ld_cache_find(struct af_span cache, unsigned machine, const char *name);

#endif
