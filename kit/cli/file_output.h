/*
 * file_output.h: writing arrays to files.
 */
#ifndef AF_KIT_CLI_FILE_OUTPUT_H
#define AF_KIT_CLI_FILE_OUTPUT_H

#include "kit/formats/npy.h"
#include "kit/system/output.h"

/* af_file_write() of `array` as a .npy file. */
enum anyflash_status af_cli_npy_write(struct af_arena *arena, const char *path,
                                      const struct af_npy_array *array,
                                      struct anyflash_error *err);

#endif
