/*
 * gpu_code_view.h: prints the GPU code of one binary as lines of text and as
 * JSON; for `inspect`.
 */
#ifndef AF_KIT_CLI_GPU_CODE_VIEW_H
#define AF_KIT_CLI_GPU_CODE_VIEW_H

#include "kit/base/json.h"
#include "kit/cli/screen.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"

/* Prints the GPU code; nothing if there is none. `kernels` may be NULL. */
void af_cli_gpu_code_show(struct af_screen *screen, int indent, const struct af_gpu_code *code,
                          const struct af_flash_kernels *kernels);

/*
 * A new object, or NULL if memory runs out; docs/reference/json.md, "gpu_code".
 * `kernels` may be NULL.
 */
json_t *af_cli_gpu_code_json(const struct af_gpu_code *code,
                             const struct af_flash_kernels *kernels);

#endif
