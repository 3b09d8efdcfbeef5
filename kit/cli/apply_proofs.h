/*
 * apply_proofs.h: a decision made anew with what is known of wheels' bytes.
 */
#ifndef AF_KIT_CLI_APPLY_PROOFS_H
#define AF_KIT_CLI_APPLY_PROOFS_H

#include "kit/cli/load.h"

/*
 * Looks for proofs for the decision of `question`, which is made, and where
 * there are some makes it again with them. Proofs are of the environment that
 * is here: nothing is done where a record or a stated torch, Python or system
 * is decided for. A state that cannot be used is a remark with -v.
 */
enum anyflash_status af_cli_apply_proofs(struct af_cli *cli, struct af_question *question,
                                         struct anyflash_error *err);

#endif
