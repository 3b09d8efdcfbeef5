/*
 * json_file.h: JSON documents from files.
 */
#ifndef AF_KIT_SYSTEM_JSON_FILE_H
#define AF_KIT_SYSTEM_JSON_FILE_H

#include "kit/base/json.h"

/* af_file_read() and af_json_parse(); "-" reads stdin. */
enum anyflash_status af_file_read_json(const char *path, size_t max_bytes, json_t **json_out,
                                       struct anyflash_error *err);

#endif
