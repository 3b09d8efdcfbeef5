/*
 * publishers.h: the lists of publishers that limit the choice of a wheel. Each list that
 * exists must allow a wheel, so that a project cannot widen what its user trusts:
 *
 *     --publishers NAME,...                     the command line
 *     [tool.anyflash] publishers = [...]        pyproject.toml, in --project or the nearest one
 *     publishers = [...]                        $XDG_CONFIG_HOME/anyflash/config.toml
 */
#ifndef AF_KIT_CLI_PUBLISHERS_H
#define AF_KIT_CLI_PUBLISHERS_H

#include "kit/cli/commands.h"
#include "kit/fit/fit.h"

/*
 * Reads the lists, in cli->arena, and says on stderr which of them limit the choice. Fails
 * with ARGUMENT or DATA if a list is malformed or empty, or names a publisher that the catalog
 * does not have (cli->hint: the nearest name), and as reading a file fails.
 */
enum anyflash_status af_cli_publishers_load(struct af_cli *cli,
                                            const struct af_catalog *catalog,
                                            const struct af_fit_publishers **lists_out,
                                            size_t *count_out, struct anyflash_error *err);

#endif
