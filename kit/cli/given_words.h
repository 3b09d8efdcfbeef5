/*
 * given_words.h: the --given options of the command line, applied to a machine.
 */
#ifndef AF_KIT_CLI_GIVEN_WORDS_H
#define AF_KIT_CLI_GIVEN_WORDS_H

#include "kit/cli/commands.h"
#include "kit/machine/machine.h"

/*
 * Applies every --given, in order. A key that does not exist or a value that cannot be read
 * fails with ARGUMENT and sets cli->hint. With `with_remarks`, notes are printed: on a product
 * that is not known, and on a key that is given more than once.
 */
enum anyflash_status af_cli_given_apply(struct af_cli *cli, struct af_machine *machine,
                                        bool with_remarks, struct anyflash_error *err);

#endif
