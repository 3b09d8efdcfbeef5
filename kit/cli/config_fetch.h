/*
 * config_fetch.h: gets the wheels that `config uv --write` puts into the
 * project: downloaded, hashed and proved before anything in the project changes.
 */
#ifndef AF_KIT_CLI_CONFIG_FETCH_H
#define AF_KIT_CLI_CONFIG_FETCH_H

#include "kit/cli/config_job.h"

/*
 * Gets the file of every pin that needs one and has none, into the cache, and
 * sets the pin's facts from it; asks the package index of a pin whether it has the
 * pin's file. Fails with DATA if a file is not what the catalog
 * or its name says, UNSUPPORTED if it does not load on the pin's machine, or as
 * af_fetch(); cli->hint then says what to do.
 */
enum anyflash_status af_cli_config_fetch(struct af_cli *cli, struct af_cli_config_job *job,
                                         struct anyflash_error *err);

/* Removes from the cache what was fetched. */
void af_cli_config_fetch_end(struct af_cli_config_job *job);

#endif
