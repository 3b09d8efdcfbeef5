/*
 * run_offer.h: what `anyflash run` gives to the installer: one checked wheel, as the address of
 * a file with its hash, so that no index and no option of the command can give another one.
 */
#ifndef AF_KIT_CLI_RUN_OFFER_H
#define AF_KIT_CLI_RUN_OFFER_H

#include "kit/cli/run_choice.h"

/* Makes the private folder, wanted->folder, unless it is there. Fails with IO. */
enum anyflash_status af_cli_offer_begin(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err);

/*
 * Gets the wheel that was chosen, or writes the stand-in, checks and proves it in a folder of
 * its own, and writes the constraints beside it; or refuses. Fails as af_checked_wheel_make().
 */
enum anyflash_status af_cli_offer_make(struct af_cli_wanted *wanted,
                                       struct anyflash_error *err);

/* The words of the command, with the constraints as an option of the installer, and NULL. */
const char **af_cli_offer_words(struct af_cli_wanted *wanted);

/*
 * Compares flash-attn in the environment with the wheel: *difference_out is what differs first,
 * or NULL. Without a difference, writes where the wheel came from.
 */
enum anyflash_status af_cli_offer_compare(struct af_cli_wanted *wanted,
                                          const struct af_observed *observed,
                                          const char **difference_out,
                                          struct anyflash_error *err);

/* Removes the folder. */
void af_cli_offer_end(struct af_cli_wanted *wanted);

#endif
