/*
 * fit_assume.h: everything that a short description of a machine leaves open. The one
 * place that assumes, for all that decide about described machines.
 */
#ifndef AF_KIT_FIT_FIT_ASSUME_H
#define AF_KIT_FIT_FIT_ASSUME_H

#include "kit/catalog/tables.h"
#include "kit/machine/machine.h"

/*
 * States the usual system, processor and Python of a machine, of which at least a GPU, or torch
 * and a system or a Python are known, where they are unknown: linux, x86_64 (aarch64 on macOS)
 * and 3.12 (3.11 for torch before 2.2, the first for 3.12). The source of these facts is
 * "assumed". For a torch whose version names no CUDA, such as "2.9.1", it assumes the CUDA
 * build that `pip install torch` gets: "torch_cuda=cu128". If pasted text names a CUDA, such as
 * "CUDA 12.4", and torch has a build for it, that one is assumed. Where pip gets a build
 * without CUDA, as on Windows, nothing is assumed: whoever names a GPU rarely has that one. Nor
 * is anything for GPUs of other vendors alone. The machine's name then says what was assumed:
 * "NAME, assuming os=linux, ...". Fails with NO_MEMORY; facts assumed until then remain.
 */
enum anyflash_status af_fit_assume(struct af_machine *machine, struct anyflash_error *err);

/*
 * Makes the Python and the CUDA of torch unknown where they were assumed, in a copy of a
 * machine: what is installed there is not wrong because of them.
 */
void af_fit_forget_assumed(struct af_machine *copy);

#endif
