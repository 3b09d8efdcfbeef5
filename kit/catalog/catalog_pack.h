/*
 * catalog_pack.h: the packed form of a catalog: every distinct text once, then
 * one column of numbers per member. Made when the program is built, and
 * compressed; unpacking allocates twice and copies no text.
 *
 * Layout, all numbers little-endian: "AFC1"; u32 wheels, texts, bytes of the
 * texts, bytes of the file names and addresses; the texts, each ending in NUL
 * (the first is the date); file names and addresses, row by row (an empty
 * address is none); then the columns of wheel_fields.inc in its order: texts as
 * u16 (0 none, else place + 1), numbers as i16 or i32, answers and flags as u8.
 */
#ifndef AF_KIT_CATALOG_CATALOG_PACK_H
#define AF_KIT_CATALOG_CATALOG_PACK_H

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"

/*
 * Appends the packed form to `packed`. Fails with NO_MEMORY, or LIMIT when
 * there are more than 65,535 distinct texts.
 */
enum anyflash_status af_catalog_pack(const struct af_catalog_wheel *wheels, size_t count,
                                     const char *date, struct af_text *packed,
                                     struct anyflash_error *err);

/*
 * The wheels in `bytes`, which they point into and which must outlive them.
 * Fails with DATA when the bytes contradict themselves.
 */
enum anyflash_status af_catalog_unpack(struct af_span bytes, struct af_arena *arena,
                                       const struct af_catalog_wheel **wheels_out,
                                       size_t *count_out, const char **date_out,
                                       struct anyflash_error *err);

#endif
