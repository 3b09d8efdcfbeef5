/*
 * cmd_pending.c: commands whose modules are not there; each says so.
 */
#include "cli/commands.h"

#define PENDING(name)                                                                          \
    enum anyflash_status af_cmd_##name(struct af_cli *cli, enum af_exit *exit_out,             \
                                       struct anyflash_error *err)                             \
    {                                                                                          \
        (void)cli;                                                                             \
        (void)exit_out;                                                                        \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' is not in this build", #name);       \
    }

PENDING(doctor)
PENDING(plan)
PENDING(find)
