/*
 * assume.h: what a short description of a machine leaves open, such as "a T4 with
 * torch 2.9.1".
 */
#ifndef AF_KIT_MACHINE_ASSUME_H
#define AF_KIT_MACHINE_ASSUME_H

#include "kit/machine/machine.h"

/*
 * Whether enough is known to assume the rest: a GPU, or torch with a system or a Python where
 * nothing is said of GPUs.
 */
bool af_machine_is_described(const struct af_machine *machine);

/*
 * States the usual system, processor and Python of a described machine where
 * they are unknown: linux, x86_64 (aarch64 on macOS) and 3.12 (3.11 for torch
 * before 2.2, the first for 3.12). The source of these facts is "assumed".
 * *what_out becomes
 * "os=linux, arch=x86_64, python=3.12", in the machine's arena; NULL: nothing was
 * assumed. Fails with NO_MEMORY; facts assumed until then remain.
 */
enum anyflash_status af_machine_assume(struct af_machine *machine, const char **what_out,
                                       struct anyflash_error *err);

/*
 * Gives `fact` by a word of --given if it is unknown, with the source "assumed", and adds
 * the word to *what, arena text or NULL. Fails with NO_MEMORY.
 */
enum anyflash_status af_machine_assume_fact(struct af_machine *machine, struct af_fact *fact,
                                            const char *word, const char **what,
                                            struct anyflash_error *err);

#endif
