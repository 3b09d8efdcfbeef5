/*
 * args.h: structs of arguments that begin with their size, so that a program and a library
 * of different versions understand each other: members are only ever added at the end, and 0
 * is off.
 */
#ifndef AF_ENGINE_BASE_ARGS_H
#define AF_ENGINE_BASE_ARGS_H

#include "engine/base/base.h"

/* The size of a struct whose last member is `last`: that of its first version. */
#define AF_ARGS_UP_TO(type, last) (offsetof(type, last) + sizeof(((type *)NULL)->last))

/* Sizes of the first versions. */
#define AF_ARGS_ATTEND_BYTES AF_ARGS_UP_TO(struct anyflash_attend_args, dropout_offset)
#define AF_ARGS_BACKWARD_BYTES AF_ARGS_UP_TO(struct anyflash_attend_backward_args, dlse)

/*
 * Copies the struct `args`. Members missing from an older header become zero; extra members
 * of a newer one must be zero. Fails with ARGUMENT if args is NULL, if struct_size is smaller
 * than the first version or larger than 4096, or if a member is set that this library does not
 * know.
 */
enum anyflash_status af_args_copy(void *copy, size_t copy_bytes, const void *args,
                                  size_t first_version_bytes, struct anyflash_error *err);

#endif
