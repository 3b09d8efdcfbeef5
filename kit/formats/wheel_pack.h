/*
 * wheel_pack.h: makes a wheel: its members, their RECORD, and the archive.
 *
 * The same members give the same bytes: they are sorted and have no time. Sources: APPNOTE.TXT
 * 6.3 (zip), the binary distribution format of packaging.python.org.
 */
#ifndef AF_KIT_FORMATS_WHEEL_PACK_H
#define AF_KIT_FORMATS_WHEEL_PACK_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_WHEEL_PACK_MEMBERS_MAX 1024

struct af_wheel_member {
    const char *name;
    struct af_span bytes;
    unsigned mode; /* 0644, or 0755 for a program or library */
};

/*
 * A wheel that is being made. Set the arena and `information` first. Names and bytes are
 * borrowed. If memory runs out, or a text or name is NULL, the arena has failed.
 */
struct af_wheel_pack {
    struct af_arena *arena;
    const char *information; /* the name of its dist-info folder */
    struct af_wheel_member members[AF_WHEEL_PACK_MEMBERS_MAX];
    size_t count; /* may be larger: then the last ones were left out */
};

void af_wheel_pack_add(struct af_wheel_pack *pack, const char *name, struct af_span bytes,
                       unsigned mode);
void af_wheel_pack_text(struct af_wheel_pack *pack, const char *name, const char *text);

/* A text of the dist-info folder. */
void af_wheel_pack_information(struct af_wheel_pack *pack, const char *name, const char *text);

/*
 * Sorts the members, adds RECORD as the last one, and gives the file in pieces, in the arena.
 * Fails with LIMIT for too many members or beyond 4 GiB, or with NO_MEMORY.
 */
enum anyflash_status af_wheel_pack_archive(struct af_wheel_pack *pack,
                                           const struct af_span **pieces_out, size_t *count_out,
                                           struct anyflash_error *err);

#endif
