/*
 * manual.h: the man page and the shells' completions, generated from the
 * tables of commands and options.
 */
#ifndef AF_KIT_CLI_MANUAL_H
#define AF_KIT_CLI_MANUAL_H

#include "kit/cli/options.h"

/* Appends the source of anyflash(1) in man(7) macros. */
void af_manual_page(struct af_text *out);

/* Appends the completion script for "bash", "zsh" or "fish"; false for another. */
bool af_manual_completion(struct af_text *out, const char *shell);

#endif
