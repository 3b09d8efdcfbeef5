/*
 * inspect_view.h: one `anyflash inspect`: the target, the libraries around it,
 * and the proof of each of its extensions. cmd_inspect.c fills it;
 * inspect_next.c says what to do now, inspect_view.c prints it, and
 * gpu_code_view.c the GPU code.
 */
#ifndef AF_KIT_CLI_INSPECT_VIEW_H
#define AF_KIT_CLI_INSPECT_VIEW_H

#include "kit/cli/machine_inputs.h"
#include "kit/cli/screen.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"
#include "kit/proof/prover.h"
#include "kit/proof/wheel_content.h"

/* All data of one inspection. Empty when zero-initialised. */
struct af_inspection {
    struct af_machines machines;
    const struct af_machine *machine; /* that the proofs are for */
    struct af_prover prover;
    struct af_inspect_target target;
    struct af_content content; /* if the target is a wheel */
    const char *publisher;     /* of the file at the address; NULL: not known */
    bool is_far;               /* the target is at an address */
    struct af_proof *proofs;   /* one per extension; check_count 0: it could not be read */
    const struct af_proof *deciding; /* the first that says no, else the first unknown one */
    enum af_answer answer;           /* for all extensions together */
    const char *torch; /* the version that the proofs were made against; NULL: none */
    const char *next;  /* what the user does now; NULL: nothing */
    bool is_pure;      /* a wheel of Python code only: for every platform, with no extension */
    bool is_refused;   /* `install` would refuse the wheel for what else is in it */
};

/* What the user does now, in the arena; NULL: nothing. The inspection is otherwise complete. */
const char *af_cli_inspect_next(struct af_cli *cli, const struct af_inspection *inspection);

/* Writes the screen to cli->out. */
void af_cli_inspect_view(struct af_cli *cli, const struct af_inspection *inspection);

/* Writes "anyflash-inspect/1" (docs/reference/json.md). */
enum anyflash_status af_cli_inspect_json(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err);

/* Prints the GPU code; nothing if there is none. `kernels` may be NULL. */
void af_cli_gpu_code_show(struct af_screen *screen, int indent, const struct af_gpu_code *code,
                          const struct af_flash_kernels *kernels);

/* A new object; docs/reference/json.md, "gpu_code". `kernels` may be NULL. */
json_t *af_cli_gpu_code_json(const struct af_gpu_code *code,
                             const struct af_flash_kernels *kernels);

#endif
