/*
 * text_file.h: a small file written whole or not at all. Private to this module.
 */
#ifndef AF_RUN_TEXT_FILE_H
#define AF_RUN_TEXT_FILE_H

#include "base/base.h"
#include "base/mem.h"

/*
 * Writes `text` to a new file beside `path`, which then takes its name: other
 * links to an old file keep what they had. Fails with IO or NO_MEMORY.
 */
enum anyflash_status af_text_file_write(struct af_arena *arena, const char *path,
                                        const char *text, struct anyflash_error *err);

#endif
