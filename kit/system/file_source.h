/*
 * file_source.h: random access to a file as a source.
 */
#ifndef AF_KIT_SYSTEM_FILE_SOURCE_H
#define AF_KIT_SYSTEM_FILE_SOURCE_H

#include "kit/base/source.h"

/*
 * Opens a regular file. Fails with NOT_FOUND, IO (also if it is not a regular file) or
 * NO_MEMORY. Reading fails with DATA if the file has shrunk since it was opened. Release with
 * af_source_close().
 */
enum anyflash_status af_file_source_open(const char *path, struct af_source *source_out,
                                         struct anyflash_error *err);

#endif
