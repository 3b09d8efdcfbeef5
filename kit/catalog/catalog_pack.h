/*
 * catalog_pack.h: the packed form of a catalog: each distinct text once, then
 * one column of numbers per member. It is made and compressed when the program
 * is built; unpacking makes two allocations and copies no text.
 *
 * Layout, all numbers little-endian: "AFC2"; u32 count of wheels, count of
 * texts, bytes of the texts, bytes of the file names and URLs; the texts, each
 * ending in NUL (the first is the date); file names and URLs, row by row (an
 * empty URL means none); then the columns in the order of wheel_fields.inc:
 * texts as u16 (0 none, else index + 1), numbers as i16 or i32, answers and
 * flags as u8; hashes as u8 (0 none), followed by the 32 bytes of each that there
 * is, because they do not compress.
 */
#ifndef AF_KIT_CATALOG_CATALOG_PACK_H
#define AF_KIT_CATALOG_CATALOG_PACK_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"

/*
 * Appends the packed form to `packed`. Fails with LIMIT when there are more
 * than 65,535 distinct texts.
 */
enum anyflash_status af_catalog_pack(const struct af_catalog_wheel *wheels, size_t count,
                                     const char *date, struct af_text *packed,
                                     struct anyflash_error *err);

/*
 * Reads the packed wheels in `bytes`. The wheels point into `bytes`, which must
 * outlive them. Fails with DATA when the bytes are inconsistent.
 */
enum anyflash_status af_catalog_unpack(struct af_span bytes, struct af_arena *arena,
                                       const struct af_catalog_wheel **wheels_out,
                                       size_t *count_out, const char **date_out,
                                       struct anyflash_error *err);

/*
 * Each distinct text once, with a number; used while catalog rows are read and packed.
 *
 * Distinct texts in the order in which they were added. A zero-initialised one
 * is empty; release with af_intern_release(). The texts are in the caller's
 * arena.
 */
struct af_intern {
    const char **texts;
    size_t count;
    size_t text_capacity;
    uint32_t *slots; /* number + 1 of a text, 0 free; slot_count is a power of two */
    size_t slot_count;
};

/* The number of `text`; a new text is copied into `arena`. */
size_t af_intern_add(struct af_intern *intern, struct af_arena *arena, const char *text,
                     size_t len);
void af_intern_release(struct af_intern *intern);

#endif
