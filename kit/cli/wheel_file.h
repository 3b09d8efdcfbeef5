/*
 * wheel_file.h: what `config` needs to know of a wheel that lies here.
 */
#ifndef AF_KIT_CLI_WHEEL_FILE_H
#define AF_KIT_CLI_WHEEL_FILE_H

#include "kit/plan/config.h"

/*
 * Its SHA-256, the version of its dist-info folder and its Requires-Dist lines,
 * in `arena`. Fails as af_file_sha256() and af_zip_open() do, or with DATA when
 * it is no wheel.
 */
enum anyflash_status af_cli_wheel_file_facts(struct af_arena *arena, const char *path,
                                             struct af_plan_wheel_facts *facts_out,
                                             struct anyflash_error *err);

#endif
